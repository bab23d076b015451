"""Paths of a domain's images with their classes, from folders or from list files."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from dann.data.image_files import EXTENSIONS
from dann.data.splits import file_identity


@dataclasses.dataclass
class LabelledPaths:
    """Paths of a domain's images with their classes.

    Args:
        domain: Name of the domain.
        paths: The images.
        names: Class name of each image.
        classes: Names of the classes, in order.
        numbers: Class number of each image, if there is a list file. Defaults to `None`.
        tests: The paths in the test list, if there is one. Defaults to `None`.
    """

    domain: str
    paths: list[str]
    names: list[str]
    classes: list[str]
    numbers: list[int] | None = None
    tests: set[str] | None = None


def read_folder(root: pathlib.Path, domain: str) -> LabelledPaths:
    """Finds the images `root/domain/class/...`, or `root/domain/images/class/...`.

    Names that begin with a dot are ignored. Links are followed, and all symbolic and hard links to
    a file in a class count as one image. A printed line counts the files that are not images or lie
    beside the classes. Errors are those of `dann.data.image_folder`.
    """
    folder = root / domain
    if not folder.is_dir():
        raise FileNotFoundError(
            f"A domain must be one of the folders in {root}: {some(_folders(root))}. "
            f"Received: {domain}"
        )
    classes = _folders(folder)
    if classes == ["images"]:  # the extra level of Office-31
        folder /= "images"
        classes = _folders(folder)
    found, others = {}, _shown(entry.name for entry in folder.iterdir() if entry.is_file())
    for name in classes:
        found[name], rest = _images(folder / name)
        others += rest
    if not any(found.values()):
        raise ValueError(
            f"{folder} must hold a folder for each class, with images ({', '.join(EXTENSIONS)}) in "
            f"it. Received: no images in the folders {some(classes)}"
        )
    empty = [name for name, paths in found.items() if not paths]
    if empty:
        raise ValueError(
            f"Every folder in {folder} is a class and must hold images ({', '.join(EXTENSIONS)}). "
            f"Received: none in {some(empty)}"
        )
    _check_one_class(folder, domain, found.values())
    _report_others(domain, others)
    return LabelledPaths(
        domain,
        paths=[path for paths in found.values() for path in paths.values()],
        names=[name for name, paths in found.items() for _ in paths],
        classes=classes,
    )


def read_lists(
    root: pathlib.Path,
    domain: str,
    path: str | os.PathLike,
    test_path: str | os.PathLike | None = None,
    outside_root: bool = False,
) -> LabelledPaths:
    """Reads the images of list files with lines `path label`.

    A path is relative to `root`, to the folder of the list, or to `root/domain`: the first that has
    it. Labels are integers from 0. Links to one file are one image. Classes are named after the
    folders of their images if each class has exactly one folder of its own; else by their numbers.
    Errors are those of `dann.data.image_folder`.

    Args:
        root: Folder of the data set.
        domain: Name of the domain.
        path: The list, relative to the working directory or else to `root`.
        test_path: A list of other images, to test on.
        outside_root: Whether the lists may name files outside `root` and outside their own folder.
            Defaults to `False`: a list may be somebody else's.
    """
    train = _read_list(root, domain, path, outside_root)
    tests = {} if test_path is None else _read_list(root, domain, test_path, outside_root)
    both = shared_files(tests, train)
    if both:
        raise ValueError(
            f"No image of {domain} may be in its list and in its test list. "
            f"Received: {len(both)} in both: {some(both)}"
        )
    listed = {**train, **tests}
    names = _folder_names(listed) or {label: str(label) for label in sorted(set(listed.values()))}
    return LabelledPaths(
        domain,
        paths=list(listed),
        names=[names[label] for label in listed.values()],
        classes=list(names.values()),
        numbers=list(listed.values()),
        tests=None if test_path is None else set(tests),
    )


def some(names: Iterable[str], limit: int = 10) -> str:
    """Returns the first names in one phrase, for a message."""
    names = list(names)
    phrase = ", ".join(names[:limit]) or "(none)"
    return f"{phrase} and {len(names) - limit} more" if len(names) > limit else phrase


def shared_files(paths: Iterable[str], others: Iterable[str]) -> list[str]:
    """Returns the paths, sorted, whose file is also the file of one of the others."""
    files = set(map(file_identity, others))
    return sorted(path for path in paths if file_identity(path) in files)


def _folders(folder):
    names = (entry.name for entry in folder.iterdir() if entry.is_dir())
    return sorted(name for name in names if not name.startswith("."))


def _images(folder):
    """The images in a folder, one path for each file, and the names of other files."""
    found, others, walked = [], [], set()
    for place, folders, files in os.walk(folder, followlinks=True):
        # A link may lead back to a folder of this walk, which would never end.
        real = os.path.realpath(place)
        if real in walked:
            folders.clear()
            continue
        walked.add(real)
        folders[:] = sorted(_shown(folders))
        for name in _shown(files):
            if name.lower().endswith(EXTENSIONS):
                found.append(os.path.join(place, name))
            else:
                others.append(name)
    found.sort(reverse=True)  # so that of several paths to a file the first is kept
    by_file = {file_identity(path): path for path in found}
    return dict(sorted(by_file.items(), key=lambda item: item[1])), others


def _shown(names):
    return [name for name in names if not name.startswith(".")]


def _check_one_class(folder, domain, classes):
    paths = collections.defaultdict(list)
    for found in classes:
        for file, path in found.items():
            paths[file].append(os.path.relpath(path, folder))
    several = [_links(names) for names in paths.values() if len(names) > 1]
    if several:
        raise ValueError(
            f"A file of {domain} must be in one class; remove the links to it in the others. "
            f"Received: {len(several)} in several: {some(several)}"
        )


def _links(names, limit=3):
    more = [f"{len(names) - limit} more"] if len(names) > limit else []
    return " and ".join([*names[:limit], *more])


def _report_others(domain, names):
    suffixes = (os.path.splitext(name)[1].lower() or "without a suffix" for name in names)
    counts = collections.Counter(suffixes)
    if counts:
        phrase = some(f"{count} {suffix}" for suffix, count in counts.most_common())
        print(
            f"Ignored {counts.total()} files of {domain} that are not images in the folder of a "
            f"class: {phrase}"
        )


def _read_list(root, domain, path, outside_root) -> dict[str, int]:
    """The labels by path."""
    given = pathlib.Path(os.path.expanduser(path))
    found = next((place for place in (given, root / given) if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"Expected a file with lines `path label`. Received: {path}, which does not exist "
            f"here or in {root}"
        )
    folders = [root, found.parent, root / domain]
    numbered = enumerate(_lines(found), start=1)
    rows = [(number, *_parsed(found, number, line)) for number, line in numbered if line.strip()]
    images: list[Any] = [_first_file(folders, name) for _, name, _ in rows]
    missing = [name for image, (_, name, _) in zip(images, rows, strict=True) if image is None]
    if missing:
        raise ValueError(
            f"{found}: images must exist, relative to one of {some(map(str, folders))}. "
            f"Received: {len(missing)} that do not: {some(missing)}"
        )
    if not outside_root:
        _check_inside(found, images, (root, found.parent))
    if not rows:
        raise ValueError(f"{found} must have lines `path label`. Received: an empty file")
    labels, known = {}, {}
    for (number, name, label), image in zip(rows, images, strict=True):
        first = known.setdefault(file_identity(image), image)
        if labels.setdefault(first, label) != label:
            raise ValueError(
                f"{found}, line {number}: an image must have one label. "
                f"Received: {name} with {labels[first]} and {label}"
            )
    return labels


def _check_inside(path, images, folders):
    """Raises a `ValueError` if a path leads out of the folders; it does not follow links."""
    inside = [os.path.join(os.path.abspath(folder), "") for folder in folders]
    strange = [image for image in images if not image.startswith(tuple(inside))]
    if strange:
        raise ValueError(
            f"{path}: images must lie in {some(map(str, folders))}; allow others with "
            f"`outside_root=True`. Received: {len(strange)} elsewhere: {some(strange)}"
        )


def _lines(path):
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected a text file in UTF-8. Received: {path}") from error


def _parsed(path, number, line):
    name, _, label = line.strip().replace("\t", " ").rpartition(" ")
    if not name or not (label.isascii() and label.isdigit()):
        raise ValueError(
            f"{path}, line {number}: expected `path label`, the label an integer from 0. "
            f"Received: {line.strip()!r}"
        )
    return name.strip(), int(label)


def _first_file(folders: Sequence[pathlib.Path], name: str) -> str | None:
    """The file of this name in the first folder that has one, or `None`."""
    paths = (os.path.abspath(folder / os.path.expanduser(name)) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _folder_names(labels):
    """Folder names by label, or `None` unless every label has exactly one folder of its own."""
    pairs = {(label, os.path.basename(os.path.dirname(path))) for path, label in labels.items()}
    names = dict(sorted(pairs))
    one_to_one = len(names) == len(pairs) == len(set(names.values()))
    return names if one_to_one else None
