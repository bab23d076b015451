"""Paths of a domain's images with their classes, from folders or from list files."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from dann.data.image_files import EXTENSIONS, some


@dataclasses.dataclass
class LabelledPaths:
    """Paths of a domain's images with their classes.

    Args:
        domain: Name of the domain.
        paths: The images.
        names: Class name of each image; `None` if the domain has no classes.
        classes: Names of the classes, in order.
        numbers: Class number of each image, if a list file has them. Defaults to `None`.
        tests: The paths in the test list, if there is one. Defaults to `None`.
    """

    domain: str
    paths: list[str]
    names: list[str] | None
    classes: list[str]
    numbers: list[int] | None = None
    tests: set[str] | None = None

    def named_by_numbers(self) -> "LabelledPaths":
        """Returns the same images, their classes named by the numbers of the list."""
        numbers = self.numbers or []
        names, classes = ([str(n) for n in found] for found in (numbers, sorted(set(numbers))))
        return dataclasses.replace(self, names=names, classes=classes)


def read_folder(root: pathlib.Path, domain: str) -> LabelledPaths:
    """Finds the images `root/domain/class/...`, or `root/domain/images/class/...`.

    A folder with images and no folders gives images without classes. Names that begin with a dot
    are ignored. Links are followed to files and to classes, not below. A printed line counts what
    is ignored. Errors are those of `dann.data.image_folder`.
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
    images, ignored = {}, 0
    for name in classes or [""]:
        images[name], others = _images(folder / name)
        ignored += others
    found = {name: paths for name, paths in images.items() if paths}
    if not found:
        raise ValueError(
            f"{folder} must hold a folder for each class, with images ({', '.join(EXTENSIONS)}) in "
            f"it. Received: no images in {some(classes)}"
        )
    if ignored:
        print(f"Ignored {ignored} files of {domain} that are no images ({', '.join(EXTENSIONS)})")
    return LabelledPaths(
        domain,
        paths=[path for paths in found.values() for path in paths],
        names=[name for name, paths in found.items() for _ in paths] if classes else None,
        classes=list(found) if classes else [],
    )


def read_lists(
    root: pathlib.Path,
    domain: str,
    path: str | os.PathLike,
    test_path: str | os.PathLike | None = None,
) -> LabelledPaths:
    """Reads the images of list files with lines `path label`, or `path` alone in all of them.

    A path is relative to `root`, to the folder of the list, or to `root/domain`: the first that has
    it. Labels are integers from 0. Classes are named after the folders of their images if each
    class has exactly one folder of its own; else by their numbers. Errors are those of
    `dann.data.image_folder`.

    Args:
        root: Folder of the data set.
        domain: Name of the domain.
        path: The list, relative to the working directory or else to `root`.
        test_path: A list of other images, to test on.
    """
    train = _read_list(root, domain, path)
    tests = {} if test_path is None else _read_list(root, domain, test_path)
    both = sorted(train.keys() & tests.keys())
    if both:
        raise ValueError(f"Lists of {domain} must be apart. Received: in both {some(both)}")
    listed = {**train, **tests}
    labels: list[Any] = list(listed.values())
    paths = list(listed)
    found = LabelledPaths(domain, paths, None, [], tests=set(tests) if test_path else None)
    if labels.count(None) == len(labels):
        return found
    if None in labels:
        raise ValueError(f"Every image of {domain} must have a label, or none. Received: some")
    names = _folder_names(listed) or {label: str(label) for label in sorted(set(labels))}
    of_images = [names[label] for label in labels]
    return dataclasses.replace(found, names=of_images, classes=list(names.values()), numbers=labels)


def _folders(folder):
    return sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name[0] != ".")


def _images(folder):
    """The images in a folder, at any depth, and the number of other files."""
    found, ignored = [], 0
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "."]
        for name in files:
            path = os.path.join(place, name)
            if name[0] == ".":
                continue
            if name.lower().endswith(EXTENSIONS) and os.path.isfile(path):  # a pipe would hang
                found.append(path)
            else:
                ignored += 1
    return sorted(found), ignored


def _read_list(root, domain, path) -> dict[str, int | None]:
    """The labels by path, `None` for a line without one."""
    given = pathlib.Path(os.path.expanduser(path))
    found = next((place for place in (given, root / given) if place.is_file()), None)
    if found is None:
        raise FileNotFoundError(f"Expected a list. Received: {path}, not here and not in {root}")
    folders, labels = [root, found.parent, root / domain], {}
    lines = found.read_text(encoding="utf-8-sig").splitlines()
    for number, line in enumerate(lines, start=1):
        name, label = _parsed(line)
        image = _first_file(folders, name) if name else None
        if name and (image is None or labels.setdefault(image, label) != label):
            raise ValueError(
                f"{found}, line {number}: expected `path label`, an image relative to one of "
                f"{some(list(map(str, folders)))} and its only label. Received: {line.strip()!r}"
            )
    if not labels:
        raise ValueError(f"{found} must have lines `path label`. Received: an empty file")
    return labels


def _parsed(line):
    """Path and label; a line without a number at its end has none."""
    name, _, label = line.strip().replace("\t", " ").rpartition(" ")
    if name and label.isascii() and label.isdigit():
        return name.strip(), int(label)
    return line.strip(), None


def _first_file(folders: Sequence[pathlib.Path], name: str) -> str | None:
    """The file of this name in the first folder that has one, or `None`."""
    paths = (os.path.abspath(folder / os.path.expanduser(name)) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _folder_names(labels):
    """Folder names by label, or `None` unless every label has exactly one folder of its own."""
    pairs = {(label, os.path.basename(os.path.dirname(path))) for path, label in labels.items()}
    names = dict(sorted(pairs, key=str))
    one_to_one = len(names) == len(pairs) == len(set(names.values()))
    return dict(sorted(names.items())) if one_to_one else None
