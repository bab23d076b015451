"""Reader of image folders and list files."""

import hashlib
import os
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dann.checks import check_choice, print_warning
from dann.data.domain_pair import DomainPair
from dann.data.image_files import EXTENSIONS, ImageFiles, choose_image_size, format_names
from dann.data.parts import build_pair, check_disjoint


def image_folder(
    root: str | os.PathLike,
    source: str,
    target: str,
    image_size: int | Sequence[int] | None = None,
    *,
    source_list: str | os.PathLike | None = None,
    target_list: str | os.PathLike | None = None,
    source_test_list: str | os.PathLike | None = None,
    target_test_list: str | os.PathLike | None = None,
    classes: str = "same",
    cache: bool = False,
    cache_dir: str = "~/.cache/dann",
    target_new: str | os.PathLike | None = None,
    **options: Any,
) -> DomainPair:
    """Pairs two domains of color images in folders, `root/domain/class/...`.

    This is the layout of Office-31 (with an extra level `images/`), Office-Home, VisDA and
    DomainNet. Images are bmp, gif, jpg, png, ppm, tiff or webp files, at any depth below their
    class; other files are counted and ignored. A list file can replace the folder of a domain. It
    contains lines `path label`, with paths relative to `root` or to the folder of the list, and
    integer labels of at least 0. A target needs no labels: its folder may contain images and no
    folders, its list file only paths.

    The header of every file is read first. Unless `cache` is `True`, each batch decodes its own
    images, so an image that is damaged after its header stops training at its batch. Each image is
    rotated by its EXIF orientation. Resizing is bilinear, antialiased when it shrinks, and does not
    preserve the aspect ratio. Only the test and oracles use the labels of the target, which do not
    affect the split. A printed warning counts the images of a separate test set whose files have
    the content of training images. Another lists class folders of the new target that are not
    training classes.

    Args:
        root: Folder of the dataset.
        source: Name of the source domain, a folder in `root` unless there is a list file.
        target: Name of the target domain, a folder in `root` unless there is a list file.
        image_size: Side, or height and width, of the images in pixels. Defaults to `None`: the
            median height and width of the target's files, each at most 224, which are printed.
        source_list: List file of the source's images. Defaults to `None`: its folder.
        target_list: List file of the target's images. Defaults to `None`: its folder.
        source_test_list: List file of further images to test on. Defaults to `None`: a share of the
            source, with its class proportions.
        target_test_list: List file of further images to test on. Defaults to `None`: a random share
            of the target.
        classes: `"same"` (default): both domains must have the same classes, by name. `"shared"`:
            images of classes that only one domain has are dropped. `"source"`: the target may lack
            some of the source's classes (partial adaptation).
        cache: Whether to decode all images once, into one file per domain of `height * width * 3`
            bytes per image, which later runs read too. Prints the size of the file. Batches do not
            change. Defaults to `False`.
        cache_dir: Folder of these files.
        target_new: Folder of new target examples, labeled or not, which replace the target's test
            set. `scripts/evaluate.py target=...` sets it. Defaults to `None`.
        **options: `test_share` and `seed` of `dann.data.arrays`.

    Returns:
        A pair with images uint8 `(n, height, width, 3)`, which are read from the cache or decoded
        batch by batch.

    Raises:
        OSError: If a folder or list file does not exist, or the disk is full.
        TypeError: If `image_size` does not consist of integers.
        ValueError: If there are no images or fewer than 2 classes; the source has no labels; the
            classes of the domains differ; both domains contain an image; an image cannot be read;
            or a list file is invalid.
    """
    check_choice("classes", classes, ("same", "shared", "source"))
    folder = new_folder = _make_absolute(root)
    lists = {"source": source_list, "target": target_list}
    lists |= {"source test": source_test_list, "target test": target_test_list}
    domains = {"source": source, "target": target}
    # "source test" and "target test" are lists of images of the domain in their first word.
    images = {
        part: read_images(folder, domains[part.split()[0]], path)
        for part, path in lists.items()
        if path is not None or part in domains
    }
    if target_new is not None:
        new_folder = _make_absolute(target_new)
        images["new target"] = read_images(new_folder.parent, new_folder.name)
    check_disjoint(images, lambda part, reference: not part.keys().isdisjoint(reference), "images")
    _warn_about_copies(images)
    classes_by_domain = {
        name: _list_classes(images[name] | images.get(f"{name} test", {})) for name in domains
    }
    common = _find_common_classes(**classes_by_domain, classes=classes)
    if image_size is None:  # by the target, which several sources share
        image_size = choose_image_size(list(images["target"]))
    parts = {}
    for part, labels in images.items():
        names = _list_classes(labels)
        # If new target examples have other classes, all of them count as unlabeled.
        unknown = {*names} - {*common} if part == "new target" else {}
        if unknown:
            print_warning(
                "all images of the new target count as unlabeled, because its folders "
                f"{sorted(unknown)} are not among the classes {common}"
            )
        is_labeled = bool(names) and not unknown
        paths = [path for path in labels if not is_labeled or str(labels[path]) in common]
        base = new_folder if part == "new target" else folder
        files = ImageFiles(paths, image_size)
        files.check()
        parts[part] = {
            "inputs": files.cached(pathlib.Path(cache_dir) / "images") if cache else files,
            "labels": [str(labels[path]) for path in paths] if is_labeled else None,
            "names": [os.path.relpath(path, base) for path in paths],
        }
    return build_pair(parts, source_name=source, target_name=target, class_names=common, **options)


def _warn_about_copies(images: Mapping[str, Collection[str]]) -> None:
    """Prints a warning if files of a separate test set have the content of training files.

    Only files that have the size of another file are read.

    Args:
        images: Paths by part: `"source"`, `"target"`, and optionally the test sets.
    """
    sizes = {path: os.path.getsize(path) for paths in images.values() for path in paths}
    train_paths = [*images["source"], *images["target"]]
    train_sizes = {sizes[path] for path in train_paths}
    tests = ["new target"] if "new target" in images else images.keys() - {"source", "target"}
    for part in tests:
        paths = [path for path in images[part] if sizes[path] in train_sizes]
        test_sizes = {sizes[path] for path in paths}
        train_digests = {_compute_digest(p) for p in train_paths if sizes[p] in test_sizes}
        copies = [os.path.basename(p) for p in paths if _compute_digest(p) in train_digests]
        if copies:
            print_warning(
                f"{len(copies)} images of the {part} are also training images, such as "
                f"{copies[0]}; accuracies on them are too high"
            )


def _compute_digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


def _make_absolute(path):
    return pathlib.Path(os.path.abspath(pathlib.Path(path).expanduser()))


def _list_classes(labels):
    """Returns the names of the classes: folder names in lexical order, or numbers in order."""
    return [str(label) for label in sorted({*labels.values()} - {None})]


def _find_common_classes(source, target, classes):
    """Returns the classes of the classifier, in the source's order."""
    source_only = [name for name in source if target and name not in target]
    target_only = [name for name in target if name not in source]
    common = [name for name in source if classes != "shared" or name not in source_only]
    differ = classes != "shared" and (target_only or (classes == "same" and source_only))
    if differ or len(common) < 2:
        if target and not source:
            raise ValueError(
                "Expected the source to have labels, as one folder per class or a list file. "
                "Received: labels of only the target. Swap the source and the target"
            )
        num_shared = len({*source} & {*target})
        advice = "; or set `classes` to 'shared' or 'source'" if num_shared > 1 else ""
        if case := [name for name in source_only if name.lower() in map(str.lower, target_only)]:
            advice += f". Write {format_names(case)} in the same case in both domains"
        raise ValueError(
            "Expected both domains to have the same classes, at least 2, as one folder per class "
            f"or a list file with labels{advice}. Received: "
            f"in the source: {format_names(source)}; only in the source: "
            f"{format_names(source_only)}; only in the target: {format_names(target_only)}"
        )
    return common


def read_images(
    root: pathlib.Path, domain: str, path: str | os.PathLike | None = None
) -> dict[str, Any]:
    """Finds the images of a domain, in its folder or in a list file.

    **Folder**: `root/domain/class/...` or `root/domain/images/class/...`. A folder that contains
    images and no folders has no classes. Names that begin with a dot are ignored. Follows symbolic
    links to files and class folders, but no deeper. Prints the number of other files.

    **List file**: lines `path label`, or only `path` in all lines. A path is relative to `root` or
    to the folder of the list file. Labels are integers of at least 0.

    Args:
        root: Folder of the dataset.
        domain: Name of the domain.
        path: The list file, relative to the working directory or to `root`. Defaults to `None`: the
            folder.

    Returns:
        A dict from the path of each image to its label: the name of the class folder, the number in
        a list file, or `None`.

    Raises:
        OSError: If the folder or the list file does not exist.
        ValueError: If there are no images, or a line of the list file is invalid.
    """
    return _read_folder(root, domain) if path is None else _read_list(root, path)


def _read_folder(root, domain):
    folder = root / domain
    if not folder.is_dir():
        raise FileNotFoundError(
            f"Expected a domain to be a folder in {root}. Received: {domain}. Existing folders: "
            f"{format_names(_list_folders(root))}"
        )
    classes = _list_folders(folder)
    if classes == ["images"]:  # the extra level of Office-31
        folder /= "images"
        classes = _list_folders(folder)
    files = {path: name or None for name in classes or [""] for path in _list_files(folder / name)}
    images = {path: name for path, name in files.items() if path.lower().endswith(EXTENSIONS)}
    extensions = ", ".join(EXTENSIONS)
    if not images:
        raise ValueError(
            f"Expected {folder} to contain images ({extensions}), for a source in one folder per "
            f"class. Received: no images in {format_names(classes) if classes else folder}"
        )
    loose = [path for path in folder.glob("[!.]*.*") if path.name.lower().endswith(EXTENSIONS)]
    if classes and loose:
        print_warning(f"{len(loose)} images of {domain} are in no class folder")
    if len(images) < len(files):
        count = len(files) - len(images)
        print(f"Ignored {count} files of {domain} that are not images ({extensions})")
    return images


def _list_folders(folder):
    return sorted(
        path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _list_files(folder):
    """Returns the paths of the files in a folder, at any depth."""
    paths = [path for path in folder.rglob("*") if path.is_file()]  # reading a pipe would hang
    hidden = re.compile(r"(^|/)\.")
    return sorted(str(path) for path in paths if not hidden.search(str(path.relative_to(folder))))


def _read_list(root, path):
    list_file = pathlib.Path(os.path.expanduser(path))
    if not list_file.is_file():
        list_file = root / list_file
    labels = {}
    lines = list_file.read_text(encoding="utf-8-sig").splitlines()
    for number, line in enumerate(filter(None, map(str.strip, lines)), start=1):
        # A label is the last number of a line, because paths may contain spaces.
        name, *label = re.split(r"\s+(?=[0-9]+$)", line)
        paths = [os.path.abspath(folder / name) for folder in (root, list_file.parent)]
        image = next(filter(os.path.isfile, paths), None)
        label = int(label[0]) if label else None
        if image is None or labels.setdefault(image, label) != label:
            raise ValueError(
                f"Expected image {number} of {list_file} to be a line `path label`, with a path "
                f"relative to {root} or {list_file.parent} and one label per image. Received: "
                f"{line!r}"
            )
    if not labels or len({label is None for label in labels.values()}) > 1:
        raise ValueError(
            f"Expected {list_file} to contain lines `path label`, or only `path` in all lines. "
            f"Received: {len(labels)} images, some without a label"
        )
    return labels
