"""Image folders and list files."""

import os
import shutil

import numpy as np
import pytest
from PIL import ExifTags, Image

from dann.data import image_folder
from dann.data.image_folder import read_images

CLASSES = ["bike", "cup", "pen"]
PHOTO_CLASSES = ["bike"] * 8 + ["cup"] * 12 + ["pen"] * 20
COUNTS = {"photo": [8, 12, 20], "sketch": [5, 6, 9]}


def draw(path, color=(0, 0, 0), height=5, width=6, orientation=1):
    """Writes an image, whose color is its domain, label and number, with a tag of EXIF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    Image.new("RGB", (width, height), color).save(path, exif=exif)


@pytest.fixture
def root(tmp_path):
    """Writes two domains of three classes."""
    for domain, (name, counts) in enumerate(COUNTS.items()):
        for label, count in enumerate(counts):
            for number in range(count):
                color = 50 * domain, label, number
                draw(tmp_path / name / CLASSES[label] / f"{number:02}.png", color)
    return tmp_path


@pytest.fixture
def load(root):
    """Returns a function that pairs photo and sketch."""

    def pair(source="photo", target="sketch", image_size=4, **arguments):
        arguments = {"root": root, "cache_dir": root / "cache", **arguments}
        return image_folder(source=source, target=target, image_size=image_size, **arguments)

    return pair


def colors(images):
    """Returns the color of each image as a tuple."""
    return [tuple(color) for color in images[:][:, 0, 0].tolist()]


def inks(images):
    """Returns the label in the color of each image."""
    return [label for _, label, _ in colors(images)]


@pytest.mark.parametrize("cache", [True, False])
def test_every_image_is_in_one_part_with_its_label(load, cache):
    pair = load(cache=cache, image_size=[4, 3])
    assert (pair.name, pair.input_shape) == ("photo → sketch", (4, 3, 3))
    assert pair.class_names == ("bike", "cup", "pen")
    target_train = pair.target_train, pair.target_train_labels
    domains = (pair.source_train, pair.source_test), (target_train, pair.target_test)
    for number, (domain, counts) in enumerate(zip(domains, COUNTS.values(), strict=True)):
        for images, labels in domain:
            assert inks(images) == labels.tolist()
        expected = [(50 * number, label, i) for label in range(3) for i in range(counts[label])]
        assert sorted(colors(domain[0][0]) + colors(domain[1][0])) == expected
    inputs, labels = pair.batches(16, seed=0)[0]
    assert inks(inputs["source"]) == labels.tolist()
    assert set(inputs["target"][..., 0].flat) == {50}


def write_list(root, name, domain, numbers, labels=(0, 1, 2)):
    """Writes a list file of the images with these numbers, relative to the root."""
    lines = [
        f"{domain}/{CLASSES[label]}/{number:02}.png {labels[label]}"
        for label, count in enumerate(COUNTS[domain])
        for number in numbers
        if number < count
    ]
    (root / name).write_text("\n".join(lines))


def test_list_files_define_splits(load, root):
    lists = {}
    for domain, name in (("source", "photo"), ("target", "sketch")):
        for part, numbers in (("list", range(1, 20)), ("test_list", range(1))):
            write_list(root, f"{name}_{part}.txt", name, numbers)
            lists[f"{domain}_{part}"] = f"{name}_{part}.txt"
    pair = load(**lists)
    for (images, labels), shade in ((pair.source_test, 0), (pair.target_test, 50)):
        assert colors(images) == [(shade, label, 0) for label in labels.tolist()]
        assert labels.tolist() == [0, 1, 2]
    assert (len(pair.source_train[1]), len(pair.target_train)) == (37, 17)
    assert (50, 0, 0) not in colors(pair.target_train)


def test_copies_and_unknown_classes_are_reported(load, root, capsys):
    for number, domain in enumerate((1, 1, 2)):  # two files equal images of sketch
        draw(root / f"new/Cup/{number}.png", (50 * domain, 2, number))
    names = load(target_new=root / "new").target_names[1]
    assert names.tolist() == ["Cup/0.png", "Cup/1.png", "Cup/2.png"]
    printed = capsys.readouterr().err
    assert "2 images of the new target are also training images" in printed
    assert "its folders ['Cup'] are not among the classes ['bike', 'cup', 'pen']" in printed
    (root / "other").mkdir()
    (root / "new/Cup/2.png").rename(root / "other/2.png")
    load(target_new=root / "other")
    assert capsys.readouterr().err == ""


def test_list_classes_are_numbers_in_order(load, root):
    for name in ("photo", "sketch"):
        write_list(root, f"{name}.txt", name, range(20), labels=(10, 0, 3))
    pair = load(source_list="photo.txt", target_list="sketch.txt")
    assert pair.class_names == ("0", "3", "10")
    expected = np.array([2, 0, 1])[inks(pair.target_train)]
    np.testing.assert_array_equal(expected, pair.target_train_labels)
    with pytest.raises(ValueError, match="only in the source: 0, 3, 10; only in the target: bike"):
        load(source_list="photo.txt")
    (root / "plain").mkdir()
    draw(root / "plain/0.png", (0, 0, 0))
    with pytest.raises(ValueError, match="labels of only the target. Swap the source and"):
        load(source="plain")


def test_shared_classes_are_kept(load, root):
    (root / "sketch/bike").rename(root / "sketch/hat")
    words = "in the source: bike, cup, pen; only in the source: bike; only in the target: hat$"
    with pytest.raises(ValueError, match=words):
        load()
    pair = load(classes="shared")
    assert pair.class_names == ("cup", "pen")
    for images, labels in (pair.source_train, pair.source_test, pair.target_test):
        assert [ink - 1 for ink in inks(images)] == labels.tolist()
    assert len(pair.source_train[1]) + len(pair.source_test[1]) == 32


def test_target_may_lack_but_not_add_classes(load, root):
    shutil.rmtree(root / "sketch/cup")
    pair = load(classes="source")
    assert pair.class_names == ("bike", "cup", "pen")
    assert set(pair.target_train_labels.tolist()) == {0, 2}
    draw(root / "sketch/hat/00.png")
    with pytest.raises(ValueError, match="only in the target: hat"):
        load(classes="source")


@pytest.mark.parametrize("kind", ["folder", "list"])
def test_target_may_have_no_labels(load, root, kind):
    expected = colors(load(cache=True).target_train)  # the split does not depend on labels
    paths = sorted((root / "sketch").rglob("*.png"))
    names = [f"{number:02}.png" for number in range(len(paths))]
    (root / "flat/.hidden").mkdir(parents=True)
    for path, name in zip(paths, names, strict=True):
        path.rename(root / "flat" / name)
    (root / "target.txt").write_text("\n".join(f"flat/{name}" for name in names))
    pair = load(target="flat", target_list=None if kind == "folder" else "target.txt")
    assert pair.class_names == ("bike", "cup", "pen")
    assert pair.target_train_labels is pair.target_test[1] is None
    assert colors(pair.target_train) == expected


def test_default_size_is_the_median_of_the_target(load, root, capsys):
    assert load(image_size=None).input_shape == (5, 6, 3)
    words = "Image size: 5 x 6 pixels, from the target's files (data.image_size)"
    assert words in capsys.readouterr().out
    for number, (height, width, orientation) in enumerate(
        [(30, 40, 1), (32, 40, 1), (50, 36, 6), (10, 9, 3), (500, 500, 1)]
    ):
        draw(root / f"flat/{number}.jpg", (0, 0, 0), height, width, orientation)
    # As displayed: heights 30, 32, 36, 10, 500 and widths 40, 40, 50, 9, 500.
    assert load(target="flat", image_size=None).input_shape == (32, 40, 3)
    assert load("sketch", "flat", None).input_shape == (32, 40, 3)  # sources can be joined
    for path in (root / "flat").iterdir():
        draw(path, (0, 0, 0), 300, 240)
    assert load(target="flat", image_size=None).input_shape == (224, 224, 3)


def relative(root, paths):
    return [os.path.relpath(path, root) for path in paths]


@pytest.mark.parametrize("level", ["", "images/"])  # the second is Office-31's layout
def test_folders_are_classes(root, capsys, level):
    if level:
        (root / "photo").rename(root / "images")
        (root / "photo").mkdir()
        (root / "images").rename(root / "photo/images")
    (root / f"photo/{level}bike/notes.txt").touch()
    for name in ("loose.JPG", ".hidden.jpg"):
        (root / f"photo/{level}{name}").touch()
    images = read_images(root, "photo")
    assert list(images.values()) == PHOTO_CLASSES
    assert relative(root, images)[:2] == [f"photo/{level}bike/0{number}.png" for number in (0, 1)]
    output = capsys.readouterr()
    assert "Ignored 1 files of photo that are not images" in output.out
    assert output.err == "warning: 1 images of photo are in no class folder\n"


def test_deep_files_and_links_are_found(root):
    for name in ("bike/left/old/a.PNG", "bike/._a.png", "bike/.old/a.png", ".trash/a.png"):
        (root / "photo" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "photo" / name).touch()
    (root / "photo/hat").symlink_to("cup")
    (root / "photo/bike/b.png").symlink_to("01.png")
    (root / "photo/bike/nowhere.png").symlink_to("nowhere")
    (root / "photo/bike/again").symlink_to(".")
    os.mkfifo(root / "photo/bike/pipe.png")
    images = read_images(root, "photo")
    assert sorted(images.values()) == sorted(["bike"] * 2 + PHOTO_CLASSES + ["hat"] * 12)
    assert relative(root / "photo/bike", images)[7:10] == ["07.png", "b.png", "left/old/a.PNG"]


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("list.txt", "photo/"), ("a/list/list.txt", "../../photo/"), ("photo/list.txt", "")],
)
def test_list_paths_are_relative_with_spaces(root, name, prefix):
    (root / "a/list").mkdir(parents=True)
    (root / "photo/bike").rename(root / "photo/my bike")
    text = f"\ufeff{prefix}cup/01.png\t3\r\n\r\n{prefix}my bike/00.png  1\r\n"
    (root / name).write_text(text, encoding="utf-8")
    images = read_images(root, "photo", name)
    assert relative(root, images) == ["photo/cup/01.png", "photo/my bike/00.png"]
    assert list(images.values()) == [3, 1]
