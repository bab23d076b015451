"""The reader of image folders and list files."""

import os
import pathlib
from collections.abc import Sequence

import numpy as np

from dann.checks import check_choice
from dann.data.domain_pair import DomainPair
from dann.data.image_files import ImageFiles, some
from dann.data.labelled_paths import LabelledPaths, read_folder, read_lists
from dann.data.lazy_arrays import Rows
from dann.data.readers import READERS
from dann.data.splits import check_apart, hold_out

CLASSES = ("same", "shared", "source")


@READERS.register("image_folder")
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
    test_share: float = 0.2,
    seed: int = 0,
    classes: str = "same",
    cache: bool = False,
    cache_dir: str = "~/.cache/dann",
) -> DomainPair:
    """Pairs two domains of colour images in folders, `root/domain/class/...`.

    This is the layout of Office-31 (with its extra level `images/`), Office-Home, VisDA and
    DomainNet. Images are bmp, gif, jpg, png, ppm, tiff or webp, at any depth below their class;
    other files are counted and ignored. List files with lines `path label` can replace a domain's
    folder; see `dann.data.labelled_paths.read_lists`. A target needs no labels: its folder may hold
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
        test_share: Share of the images to test on, in (0, 1). Defaults to `0.2`.
        seed: Seed of that draw.
        classes: `"same"` (default): both domains must have the same classes, by name. `"shared"`:
            images of classes that only one domain has are left out. `"source"`: the target may lack
            some of the source's classes (partial adaptation).
        cache: Whether all images are decoded once, into a file for each domain, from which later
            runs read them too, `height * width * 3` bytes an image. A printed line tells its size.
            The batches are the same. Defaults to `False`.
        cache_dir: Folder of those files.

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
    check_choice("classes", classes, CLASSES)
    folder = pathlib.Path(os.path.abspath(pathlib.Path(root).expanduser()))
    of_source = _find(folder, source, "source", source_list, source_test_list)
    of_target = _find(folder, target, "target", target_list, target_test_list)
    if of_source.names is None:
        raise ValueError(
            f"The source must have classes: a folder for each, or a list with labels. Received: "
            f"{len(of_source.paths)} images of {source} without them"
        )
    check_apart({"source": of_source, "target": of_target}, {"source": of_source}, _share, "images")
    if of_source.numbers and of_target.numbers:
        by_numbers = of_source.named_by_numbers(), of_target.named_by_numbers()
        if by_numbers[0] == of_source or by_numbers[1] == of_target:
            of_source, of_target = by_numbers
    class_names = _common_classes(of_source, of_target, classes)
    parts = {}
    for role, domain in (("source", of_source), ("target", of_target)):
        paths, labels = _of_classes(domain, class_names)
        images = ImageFiles(paths, image_size)
        images.check()
        if domain.tests is None:
            stratify = labels if role == "source" else None
            split = hold_out(len(paths), test_share, seed, stratify)
        else:
            tested = np.array([path in domain.tests for path in paths])
            split = np.flatnonzero(~tested), np.flatnonzero(tested)
        read = images.cached(pathlib.Path(cache_dir) / "images") if cache else images
        for part, rows in zip(("train", "test"), split, strict=True):
            parts[f"{role}_{part}"] = Rows(read, rows), None if labels is None else labels[rows]
    parts["target_train"], target_labels = parts["target_train"]
    return DomainPair(
        source=source,
        target=target,
        num_classes=len(class_names),
        class_names=tuple(class_names),
        target_train_labels=target_labels,
        **parts,
    )


def _find(root, domain, role, path, test_path):
    if path is not None:
        return read_lists(root, domain, path, test_path)
    if test_path is not None:
        raise ValueError(
            f"`{role}_test_list` needs a `{role}_list` of the images to train on. "
            f"Received: {test_path} alone"
        )
    return read_folder(root, domain)


def _share(one, other):
    """Whether an image is in both domains."""
    return not set(one.paths).isdisjoint(other.paths)


def _common_classes(source, target, classes):
    """The classes to tell apart, in the source's order."""
    extra = [name for name in source.classes if name not in target.classes]
    strange = [name for name in target.classes if name not in source.classes]
    if target.names is None:
        extra = []
    chosen = (
        source.classes if classes != "shared" else [n for n in source.classes if n not in extra]
    )
    allowed = {"same": not (extra or strange), "source": not strange, "shared": True}[classes]
    if not allowed or len(chosen) < 2:
        raise ValueError(
            "Both domains must have the same classes, 2 or more; `classes` may be 'shared', or "
            f"'source' where the target lacks some. Received: only in {source.domain}: "
            f"{some(extra)}; only in {target.domain}: {some(strange)}"
        )
    return chosen


def _of_classes(domain: LabelledPaths, class_names):
    """Paths and labels of the images of the classes; all paths where there are no labels."""
    if domain.names is None:
        return domain.paths, None
    indices = {name: index for index, name in enumerate(class_names)}
    pairs = zip(domain.paths, domain.names, strict=True)
    chosen = [(path, indices[name]) for path, name in pairs if name in indices]
    paths, labels = zip(*chosen, strict=True)
    return paths, np.array(labels, dtype=np.int64)
