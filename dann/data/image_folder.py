"""The reader of image folders and list files."""

import os
import pathlib
from collections.abc import Sequence

import numpy as np

from dann.checks import check_choice, check_flag, check_number
from dann.data.cache import CACHES, check_memory, in_gigabytes
from dann.data.domain_pair import DomainPair
from dann.data.image_files import MAX_PIXELS, ImageFiles, check_image_size
from dann.data.labelled_paths import LabelledPaths, read_folder, read_lists, shared_files, some
from dann.data.lazy_arrays import Rows
from dann.data.memory_cache import MemoryCache
from dann.data.readers import READERS
from dann.data.splits import hold_out

CLASSES = ("same", "shared", "source")
ON_ERROR = ("raise", "skip")


@READERS.register(
    "image_folder",
    summary="Two folders of images, `root/<domain>/<class>/...`, or list files.",
    reads="folders or list files of images",
    command="data=image_folder data.root=office31 data.source=amazon data.target=webcam",
    config="image_folder",
)
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
    on_error: str = "raise",
    cache: str | bool = "none",
    cache_dir: str = "~/.cache/dann",
    max_pixels: int = MAX_PIXELS,
    outside_root: bool = False,
) -> DomainPair:
    """Pairs two domains of colour images in folders, `root/domain/class/...`.

    This is the layout of Office-31 (with its extra level `images/`), Office-Home, VisDA and
    DomainNet. Images are bmp, gif, jpg, png, ppm, tiff or webp, at any depth below their class;
    other files are counted and ignored, and links to one file are one image. List files with lines
    `path label` can replace a domain's folder; see `dann.data.labelled_paths.read_lists`.

    Nothing is decoded beforehand unless `cache="disk"` or `on_error="skip"` asks for it, but every
    file's header is read. An image that is broken behind its header stops the training where its
    batch is read. How images are resized: see `dann.data.ImageFiles`. The target's labels are for
    the test and oracles only, and its split does not depend on them.

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
        on_error: `"raise"` (default), or `"skip"` to leave out images that cannot be read, for
            which every image is decoded once beforehand.
        cache: Where decoded images are kept, `height * width * 3` bytes each. `"none"` (default):
            nowhere, each batch decodes its own. `"memory"`: in memory from their first use on.
            `"disk"`: in a file for each domain, which is written beforehand and read by later runs
            too. A printed line tells the size. All give the same batches. `True` and `False` mean
            `"disk"` and `"none"`.
        cache_dir: Folder of that file.
        max_pixels: The most pixels, height times width, of an image file; see
            `dann.data.ImageFiles`. Defaults to 89,478,485.
        outside_root: Whether list files may name images outside `root` and outside their own
            folder, by absolute paths or by `../`. Defaults to `False`.

    Returns:
        A pair with images uint8 `(n, height, width, 3)`, read from the cache or decoded batch by
        batch.

    Raises:
        OSError: If a folder or list file does not exist, `cache_dir` is a file, or there is no room
            for the cache.
        TypeError: If `image_size` is not of integers.
        ValueError: If the images are larger than the available memory for `cache="memory"`, or if
            there are no images, a class has none, there is only one class, the domains'
            classes differ, images are in two classes or in both domains or cannot be read, a list
            is faulty or leads outside, or an argument is out of range.
    """
    size = check_image_size(image_size)
    check_choice("classes", classes, CLASSES)
    check_choice("on_error", on_error, ON_ERROR)
    check_number("test_share", test_share, 0, 1, above=True, below=True)
    check_flag("outside_root", outside_root)
    if isinstance(cache, bool):
        cache = "disk" if cache else "none"
    check_choice("cache", cache, CACHES)
    folder = pathlib.Path(os.path.abspath(pathlib.Path(root).expanduser()))
    if not folder.is_dir():
        raise FileNotFoundError(f"Expected a folder of domains. Received: {root}, not a folder")
    both = (
        _find(folder, source, "source", source_list, source_test_list, outside_root),
        _find(folder, target, "target", target_list, target_test_list, outside_root),
    )
    _name_alike(*both)
    _check_disjoint(*both)
    class_names = _common_classes(*both, classes)
    chosen = [_of_classes(domain, class_names) for domain in both]
    files = [ImageFiles(paths, size, max_pixels=max_pixels) for paths, *_ in chosen]
    if cache == "memory":
        _tell_memory(files, source, target)
    cache_folder = pathlib.Path(cache_dir) / "images" if cache == "disk" else None
    parts = {}
    for role, name, its_files, (_, labels, tests) in zip(
        ("source", "target"), (source, target), files, chosen, strict=True
    ):
        images, readable = _load(its_files, name, folder, cache_folder, on_error)
        images = MemoryCache(images) if cache == "memory" else images
        labels = labels[readable]
        if tests is None:
            stratify = labels if role == "source" else None
            split = hold_out(len(labels), test_share, seed, stratify)
        else:
            split = np.flatnonzero(~tests[readable]), np.flatnonzero(tests[readable])
        for part, rows in zip(("train", "test"), split, strict=True):
            parts[f"{role}_{part}"] = Rows(images, readable[rows]), labels[rows]
    _check_every_class(source, parts["source_train"][1], class_names)
    parts["target_train"], target_labels = parts["target_train"]
    return DomainPair(
        source=source,
        target=target,
        num_classes=len(class_names),
        class_names=tuple(class_names),
        target_train_labels=target_labels,
        **parts,
    )


def _find(root, domain, role, path, test_path, outside_root):
    if path is not None:
        return read_lists(root, domain, path, test_path, outside_root)
    if test_path is not None:
        raise ValueError(
            f"`{role}_test_list` needs a `{role}_list` of the images to train on. "
            f"Received: {test_path} alone"
        )
    return read_folder(root, domain)


def _name_alike(*domains):
    """Names the classes of both lists by numbers if the folders of one do not name them."""
    if any(domain.numbers is None for domain in domains):
        return
    if any(domain.names == list(map(str, domain.numbers)) for domain in domains):
        for domain in domains:
            domain.names = list(map(str, domain.numbers))
            domain.classes = list(map(str, sorted(set(domain.numbers))))


def _check_disjoint(source, target):
    both = shared_files(source.paths, target.paths)
    if both:
        raise ValueError(
            f"The source and the target must be different images. Received: {len(both)} that are "
            f"in both: {some(both)}"
        )


def _common_classes(source, target, classes):
    """The classes to tell apart, in the source's order."""
    extra = [name for name in source.classes if name not in target.classes]
    strange = [name for name in target.classes if name not in source.classes]
    shared = [name for name in source.classes if name in target.classes]
    fault = {
        "same": (extra or strange)
        and "Both domains must have the same classes, unless `classes` is 'shared' or 'source'",
        "source": strange and "The target must have no other classes than the source",
        "shared": len(shared) < 2 and "The domains must share 2 classes or more",
    }[classes]
    if fault:
        received = [
            f"{len(names)} missing in {domain}: {some(names)}"
            for domain, names in ((source.domain, strange), (target.domain, extra))
            if names
        ]
        folded = {name.casefold(): name for name in strange}
        received += [
            f"{name} and {folded[name.casefold()]} differ in their case only"
            for name in extra
            if name.casefold() in folded
        ]
        raise ValueError(f"{fault}. Received: {len(shared)} shared; {'; '.join(received)}")
    if len(source.classes) < 2:
        raise ValueError(
            "There must be at least 2 classes. "
            f"Received: {len(source.classes)} in {source.domain}: {some(source.classes)}"
        )
    return shared if classes == "shared" else source.classes


def _of_classes(domain: LabelledPaths, class_names):
    """Paths and labels of the images of the classes, and whether a test list holds each."""
    indices = {name: index for index, name in enumerate(class_names)}
    chosen = [i for i, name in enumerate(domain.names) if name in indices]
    paths = [domain.paths[i] for i in chosen]
    labels = np.array([indices[domain.names[i]] for i in chosen], dtype=np.int64)
    tests = None if domain.tests is None else np.array([path in domain.tests for path in paths])
    return paths, labels, tests


def _check_every_class(source, labels, class_names):
    absent = [class_names[label] for label in np.setdiff1d(np.arange(len(class_names)), labels)]
    if absent:
        raise ValueError(
            f"Every class must have readable images of {source} to train on. "
            f"Received: none of {some(absent)}"
        )


def _tell_memory(files, *names):
    """Tells how much memory the images of both domains take; raises an error if it is too much."""
    total = sum(int(np.prod(images.shape)) for images in files)
    check_memory(total)
    print(
        f"Images of {' and '.join(names)} stay in memory once they are decoded: up to "
        f"{in_gigabytes(total)}",
        flush=True,
    )


def _load(files, domain, root, cache_folder, on_error):
    """The images, from the cache or to be decoded, and the indices of the readable ones."""
    if cache_folder is not None:
        images, unreadable = files.cached(cache_folder, root)
    elif on_error == "skip":
        print(f"Decoding {len(files)} images of {domain}, to check them", flush=True)
        images, unreadable = files, files.unreadable()
    else:
        images, unreadable = files, files.without_header()
    if unreadable:
        names = some(os.path.relpath(files.paths[row], root) for row in unreadable)
        if on_error == "raise":
            raise ValueError(
                "Every image must be readable; repair or remove those that are not, or leave them "
                f"out with on_error='skip'. Received: {len(unreadable)} of {len(files)} images of "
                f"{domain} that are not: {names}"
            ) from files.error_of(unreadable[0])
        print(f"Skipped {len(unreadable)} of {len(files)} images of {domain}, unreadable: {names}")
    return images, np.setdiff1d(np.arange(len(files)), unreadable)
