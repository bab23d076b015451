"""Paths of a domain's images with their classes, from folders or from list files."""

import os
import pathlib
import re
from typing import Any

from dann.data.image_files import EXTENSIONS, some


def read_images(
    root: pathlib.Path, domain: str, path: str | os.PathLike | None = None
) -> dict[str, Any]:
    """Finds the images of a domain, in its folder or in a list.

    **Folder**: `root/domain/class/...`, or `root/domain/images/class/...`. One with images and no
    folders gives images without classes. Names that begin with a dot are ignored. Links are
    followed to files and to classes, not below. A printed line counts what is ignored.

    **List**: lines `path label`, or `path` alone in all of them. A path is relative to `root` or
    else to the folder of the list. Labels are integers from 0.

    Args:
        root: Folder of the data set.
        domain: Name of the domain.
        path: The list, relative to the working directory or else to `root`. Defaults to `None`: the
            folder.

    Returns:
        The class of each image by its path: a name in folders, a number in lists, or `None`.

    Raises:
        OSError: If the folder or the list does not exist.
        ValueError: If there are no images, or the list is faulty.
    """
    return _read_folder(root, domain) if path is None else _read_list(root, path)


def class_names(domains: dict[str, dict[str, Any]]) -> dict[str, dict[Any, str]]:
    """Returns the names of each domain's classes by their labels, in order.

    The numbers of a list are named after the folders of the images if, in every list, each class
    has exactly one folder of its own; else they are their own names. Without labels there are none.

    Args:
        domains: What `read_images` found of each domain.
    """
    named: dict[str, Any] = {name: _folder_names(images) for name, images in domains.items()}
    if None in named.values():
        return {
            name: {label: str(label) for label in _labels(images)}
            for name, images in domains.items()
        }
    return named


def _folder_names(images):
    """Names by label, or `None` unless every number has exactly one folder of its own."""
    labels = _labels(images)
    if not labels or isinstance(labels[0], str):
        return {label: label for label in labels}
    pairs = {(label, os.path.basename(os.path.dirname(path))) for path, label in images.items()}
    names = dict(sorted(pairs))
    return names if len(names) == len(pairs) == len(set(names.values())) else None


def _labels(images):
    return sorted(set(images.values()) - {None})


def _read_folder(root, domain):
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
    files = {path: name or None for name in classes or [""] for path in _files(folder / name)}
    found = {path: name for path, name in files.items() if path.lower().endswith(EXTENSIONS)}
    suffixes = ", ".join(EXTENSIONS)
    if not found:
        raise ValueError(
            f"{folder} must hold a folder for each class, with images ({suffixes}) in it. "
            f"Received: no images in {some(classes)}"
        )
    if len(found) < len(files):
        print(
            f"Ignored {len(files) - len(found)} files of {domain} that are no images ({suffixes})"
        )
    return found


def _folders(folder):
    inside = folder.iterdir() if folder.is_dir() else ()
    return sorted(one.name for one in inside if one.is_dir() and one.name[0] != ".")


def _files(folder):
    """The files in a folder, at any depth."""
    found = [path for path in folder.rglob("*") if path.is_file()]  # a pipe would hang
    hidden = re.compile(r"(^|/)\.")
    return sorted(str(path) for path in found if not hidden.search(str(path.relative_to(folder))))


def _read_list(root, path):
    given = pathlib.Path(os.path.expanduser(path))
    found = given if given.is_file() else root / given
    labels = {}
    lines = found.read_text(encoding="utf-8-sig").splitlines()
    for number, line in enumerate(filter(None, map(str.strip, lines)), start=1):
        name, *label = re.split(r"\s+(?=[0-9]+$)", line)
        paths = [os.path.abspath(folder / name) for folder in (root, found.parent)]
        image = next(filter(os.path.isfile, paths), None)
        label = int(label[0]) if label else None
        if image is None or labels.setdefault(image, label) != label:
            raise ValueError(
                f"{found}, image {number}: expected `path label`, an image relative to {root} or "
                f"{found.parent} and its only label. Received: {line!r}"
            )
    if not labels or len({label is None for label in labels.values()}) > 1:
        raise ValueError(
            f"{found} must have lines `path label`, or `path` in all lines. Received: others"
        )
    return labels
