"""The reader of image folders and list files."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from dann.checks import check_choice
from dann.data.domain_pair import DomainPair
from dann.data.image_files import ImageFiles, some
from dann.data.image_paths import class_names, read_images
from dann.data.parts import build_pair, check_disjoint


def image_folder(
    root: str | os.PathLike,
    source: str,
    target: str,
    image_size: int | Sequence[int] = 224,
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
    """Pairs two domains of colour images in folders, `root/domain/class/...`.

    This is the layout of Office-31 (with its extra level `images/`), Office-Home, VisDA and
    DomainNet. Images are bmp, gif, jpg, png, ppm, tiff or webp, at any depth below their class;
    other files are counted and ignored. List files with lines `path label` can replace a domain's
    folder; see `dann.data.image_paths.read_images`. A target needs no labels: its folder may hold
    images and no folders, its list paths alone.

    Each batch decodes its images, unless `cache` is `True`; every file's header is read beforehand.
    An image that is broken behind its header stops the training where its batch is read. How images
    are resized: see `dann.data.ImageFiles`. The target's labels are for the test and oracles only,
    and its split does not depend on them.

    Args:
        root: Folder of the data set.
        source: Name of the source domain, a folder in `root` unless there is a list.
        target: The same for the target.
        image_size: Side, or height and width, of the images in pixels. Defaults to `224`.
        source_list: List of the source's images. Defaults to `None`: those in its folder.
        target_list: The same for the target.
        source_test_list: List of further images to test on. Defaults to `None`: a share of the
            source, in the proportions of its classes.
        target_test_list: The same for the target. Defaults to `None`: a share at random.
        classes: `"same"` (default): both domains must have the same classes, by name. `"shared"`:
            images of classes that only one domain has are left out. `"source"`: the target may lack
            some of the source's classes (partial adaptation).
        cache: Whether all images are decoded once, into a file for each domain, from which later
            runs read them too, `height * width * 3` bytes an image. A printed line tells its size.
            The batches are the same. Defaults to `False`.
        cache_dir: Folder of those files.
        target_new: Folder of further target examples, labelled or not, in the place of the target's
            test set, as `scripts/evaluate.py target=` gives it. Defaults to `None`.
        **options: `test_share` and `seed` of `dann.data.arrays`.

    Returns:
        A pair with images uint8 `(n, height, width, 3)`, read from the cache or decoded batch by
        batch.

    Raises:
        OSError: If a folder or list file does not exist, or there is no room for the cache.
        TypeError: If `image_size` is not of integers.
        ValueError: If there are no images or fewer than 2 classes, the source has no labels, the
            domains' classes differ, images are in both domains or cannot be read, or a list is
            faulty.
    """
    check_choice("classes", classes, ("same", "shared", "source"))
    folder = pathlib.Path(os.path.abspath(pathlib.Path(root).expanduser()))
    lists = {"source": source_list, "target": target_list}
    lists |= {"source test": source_test_list, "target test": target_test_list}
    domains = {"source": source, "target": target}
    found = {
        part: read_images(folder, domains[part.split()[0]], path)
        for part, path in lists.items()
        if path is not None or part in domains
    }
    if target_new is not None:
        further = pathlib.Path(os.path.abspath(pathlib.Path(target_new).expanduser()))
        found["target new"] = read_images(further.parent, further.name)
    check_disjoint(found, lambda one, other: not one.keys().isdisjoint(other), "images")
    names = class_names({name: found[name] | found.get(f"{name} test", {}) for name in domains})
    if not names["source"]:
        raise ValueError(
            f"The source needs a folder for each class, {folder / source}/<class>/<image>, or a "
            "`source_list` with labels. Received: images without classes"
        )
    chosen = _common_classes(
        list(names["source"].values()), list(names["target"].values()), classes
    )
    if target_new is not None:
        are_classes = set(found["target new"].values()) <= {*chosen}
        names["target new"] = {name: name for name in chosen} if are_classes else {}
    parts = {}
    for part, images in found.items():
        its = names.get(part, names[part.split()[0]])
        kept = [path for path, label in images.items() if not its or its[label] in chosen]
        files = ImageFiles(kept, image_size)
        files.check()
        parts[part] = {
            "inputs": files.cached(pathlib.Path(cache_dir) / "images") if cache else files,
            "labels": [its[images[path]] for path in kept] if its else None,
            "names": [os.path.relpath(path, folder) for path in kept],
        }
    return build_pair(parts, source_name=source, target_name=target, class_names=chosen, **options)


def _common_classes(source, target, classes):
    """The classes to tell apart, in the source's order."""
    extra = [name for name in source if target and name not in target]
    strange = [name for name in target if name not in source]
    chosen = [name for name in source if classes != "shared" or name not in extra]
    allowed = {"same": not (extra or strange), "source": not strange, "shared": True}[classes]
    if not allowed or len(chosen) < 2:
        raise ValueError(
            "Both domains must have the same classes, 2 or more: a folder for each, or a list with "
            "labels. `classes` may be 'shared', or 'source' where the target lacks some. Received: "
            f"only in the source: {some(extra)}; only in the target: {some(strange)}"
        )
    return chosen
