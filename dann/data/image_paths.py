"""Paths and labels of the images of a domain, from folders or list files."""

import os
import pathlib
import re
from typing import Any

from dann.data.image_files import EXTENSIONS, format_names


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
        root: Folder of the data set.
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
            f"Expected {folder} to contain a folder of images ({extensions}) per class. "
            f"Received: no images in {format_names(classes)}"
        )
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
