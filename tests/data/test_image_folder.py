import shutil
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from dann.data import image_files, image_folder

CLASSES = ["bike", "cup", "pen"]
COUNTS = {"photo": [8, 12, 20], "sketch": [5, 6, 9]}


def draw(path, domain, label, number):
    """An image whose colour tells which one it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 5), (50 * domain, label, number)).save(path)


@pytest.fixture
def root(tmp_path):
    """Two domains of three classes."""
    for domain, (name, counts) in enumerate(COUNTS.items()):
        for label, count in enumerate(counts):
            for number in range(count):
                draw(tmp_path / name / CLASSES[label] / f"{number:02}.png", domain, label, number)
    return tmp_path


@pytest.fixture
def load(root, tmp_path_factory):
    """A function that pairs photo and sketch."""
    cache = str(tmp_path_factory.mktemp("cache"))

    def pair(source="photo", target="sketch", image_size=4, **arguments):
        arguments = {"root": root, "cache_dir": cache, **arguments}
        return image_folder(source=source, target=target, image_size=image_size, **arguments)

    return pair


def colours(images):
    """The colour of each image, as tuples."""
    return [tuple(colour) for colour in images[:][:, 0, 0].tolist()]


def parts(pair):
    return {
        "source_train": pair.source_train,
        "source_test": pair.source_test,
        "target_train": (pair.target_train, pair.target_train_labels),
        "target_test": pair.target_test,
    }


@pytest.mark.parametrize("cache", [True, False])
def test_every_image_is_in_one_part_with_its_label(load, cache):
    pair = load(cache=cache, image_size=[4, 3])
    assert (pair.name, pair.num_classes) == ("photo → sketch", 3)
    assert pair.class_names == ("bike", "cup", "pen")
    assert pair.input_shape == (4, 3, 3)
    for name, (images, labels) in parts(pair).items():
        assert labels.dtype == np.int64, name
        assert [colour[1] for colour in colours(images)] == labels.tolist()
    for domain, name in enumerate(("source", "target")):
        found = [parts(pair)[f"{name}_{part}"][0] for part in ("train", "test")]
        expected = [
            (50 * domain, label, number)
            for label, count in enumerate(COUNTS[("photo", "sketch")[domain]])
            for number in range(count)
        ]
        assert sorted(colours(found[0]) + colours(found[1])) == expected


@pytest.mark.parametrize("cache", [True, False])
def test_batches_pair_images_with_their_labels(load, cache):
    inputs, labels = next(iter(load(cache=cache).batches(16, seed=0)))
    source, target = inputs["source"], inputs["target"]
    assert source.shape == target.shape == (16, 4, 4, 3)
    np.testing.assert_array_equal(source[:, 0, 0, 1], labels)
    assert set(source[..., 0].flat) == {0}
    assert set(target[..., 0].flat) == {50}


def test_the_cache_gives_the_same_batches_and_is_read_again(load, capsys):
    expected, found, again = (load(cache=one).batches(7, seed=5) for one in (False, True, True))
    assert capsys.readouterr().out.count("Decoding") == 2
    for step in (0, 1, 30, 0):
        for other in (found, again):
            (inputs, labels), (other_inputs, other_labels) = expected[step], other[step]
            np.testing.assert_array_equal(labels, other_labels)
            for domain, images in inputs.items():
                np.testing.assert_array_equal(images, other_inputs[domain])


def test_nothing_is_decoded_before_its_batch(load, monkeypatch):
    paths, decode = [], image_files._decode_into
    monkeypatch.setattr(
        image_files,
        "_decode_into",
        lambda image, path, **form: (paths.append(path), decode(image, path, **form)),
    )
    batches = load().batches(4, seed=0)
    assert not paths
    batches[0]
    assert len(paths) == 8


def test_without_a_cache_memory_holds_a_few_batches_however_many_are_read(load):
    batches = load(image_size=200).batches(8, seed=0)
    of_a_batch = 2 * 8 * 200 * 200 * 3
    batches[0]
    tracemalloc.start()
    for step in range(25):
        batches[step]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert of_a_batch <= peak < 3 * of_a_batch


def test_an_image_that_is_broken_behind_its_header_is_named_where_its_batch_is_read(load, root):
    whole = (root / "photo/pen/00.png").read_bytes()
    for path in (root / "photo/pen").glob("*.png"):
        path.write_bytes(whole[:45])
    pair = load()
    with pytest.raises(ValueError, match=r"Expected an image. Received: .*/photo/pen/\d\d.png"):
        pair.batches(32, seed=0)[0]
    (root / "photo/pen/03.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"Expected an image. Received: .*pen/03.png"):
        load()


@pytest.mark.parametrize("kind", ["folder", "list"])
def test_a_target_may_have_no_labels(load, root, kind):
    (root / "flat").mkdir()
    paths = sorted((root / "sketch").rglob("*.png"))
    names = [f"{number:02}.png" for number in range(len(paths))]
    for path, name in zip(paths, names, strict=True):
        shutil.copy(path, root / "flat" / name)
    (root / "target.txt").write_text("\n".join(names))
    pair = load(target="flat", target_list=None if kind == "folder" else "target.txt")
    assert pair.class_names == ("bike", "cup", "pen")
    assert pair.target_train_labels is pair.target_test[1] is None
    expected = load()  # split alike
    assert colours(pair.target_train) == colours(expected.target_train)
    assert colours(pair.target_test[0]) == colours(expected.target_test[0])
    with pytest.raises(ValueError, match="2 or more"):
        load(source="flat")


def test_the_source_is_split_by_class_and_the_target_at_random(load):
    pair = load(test_share=0.25)
    assert np.bincount(pair.source_test[1]).tolist() == [2, 3, 5]
    assert len(pair.target_test[1]) == 5


def test_a_seed_sets_the_split_and_another_changes_it(load):
    splits = [colours(load(seed=seed).target_test[0]) for seed in (1, 1, 2)]
    assert splits[0] == splits[1] != splits[2]


def test_the_targets_split_does_not_depend_on_its_labels(load, root):
    paths = sorted(path.relative_to(root) for path in (root / "sketch").rglob("*.png"))
    splits = []
    for labels in (np.arange(20) % 3, np.repeat([0, 1, 2], [1, 2, 17])):
        lines = [f"{path} {label}" for path, label in zip(paths, labels, strict=True)]
        (root / "target.txt").write_text("\n".join(lines))
        write_list(root, "source.txt", "photo", range(20))
        pair = load(source_list=root / "source.txt", target_list=root / "target.txt")
        splits.append((colours(pair.target_train), colours(pair.target_test[0])))
    assert splits[0] == splits[1]


def test_without_a_cache_nothing_is_written(load, tmp_path):
    load(cache_dir=str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def write_list(root, name, domain, numbers, labels=(0, 1, 2)):
    """A list of the images of these numbers, relative to the root."""
    lines = [
        f"{domain}/{CLASSES[label]}/{number:02}.png {labels[label]}"
        for label, count in enumerate(COUNTS[domain])
        for number in numbers
        if number < count
    ]
    (root / name).write_text("\n".join(lines))


def test_official_splits_are_taken_as_they_are(load, root):
    write_list(root, "source.txt", "photo", range(20))
    write_list(root, "target.txt", "sketch", range(1, 20))
    write_list(root, "test.txt", "sketch", range(1))
    lists = {"target_list": root / "target.txt", "target_test_list": "test.txt"}
    pair = load(source_list="source.txt", **lists)
    assert colours(pair.target_test[0]) == [(50, label, 0) for label in range(3)]
    assert pair.target_test[1].tolist() == [0, 1, 2]
    assert len(pair.target_train) == 17
    assert (50, 0, 0) not in colours(pair.target_train)
    assert len(pair.source_train[1]) == 32
    assert pair.class_names == ("bike", "cup", "pen")


def test_a_source_has_its_own_test_list_too(load, root):
    write_list(root, "train.txt", "photo", range(1, 20))
    write_list(root, "test.txt", "photo", range(1))
    pair = load(source_list="train.txt", source_test_list="test.txt")
    assert colours(pair.source_test[0]) == [(0, label, 0) for label in range(3)]


def test_classes_of_lists_are_in_the_order_of_their_numbers(load, root):
    write_list(root, "source.txt", "photo", range(20), labels=(7, 0, 3))
    pair = load(source_list="source.txt")
    assert pair.class_names == ("cup", "pen", "bike")
    inks = np.array(colours(pair.target_train))[:, 1]  # by name, so in the target's folders too
    np.testing.assert_array_equal(np.array([2, 0, 1])[inks], pair.target_train_labels)


def test_classes_are_numbers_where_folders_do_not_tell_them(load, root):
    write_list(root, "source.txt", "photo", range(20))
    (root / "flat").mkdir()
    for path in (root / "sketch").rglob("*.png"):
        shutil.copy(path, root / "flat" / f"{path.parent.name}_{path.name}")
    lines = [
        f"flat/{path.name} {CLASSES.index(path.name.partition('_')[0])}"
        for path in sorted((root / "flat").iterdir())
    ]
    (root / "target.txt").write_text("\n".join(lines))
    pair = load(source_list="source.txt", target_list="target.txt")
    assert pair.class_names == ("0", "1", "2")
    assert [colour[1] for colour in colours(pair.target_train)] == pair.target_train_labels.tolist()


def test_the_domains_must_have_the_same_classes(load, root):
    (root / "sketch/pen").rename(root / "sketch/hat")
    message = "the same classes.*only in the source: pen; only in the target: hat$"
    with pytest.raises(ValueError, match=message):
        load()


def test_shared_classes_are_those_of_both(load, root):
    (root / "sketch/bike").rename(root / "sketch/hat")
    pair = load(classes="shared")
    assert pair.class_names == ("cup", "pen")
    for images, labels in parts(pair).values():
        assert [colour[1] - 1 for colour in colours(images)] == labels.tolist()
    assert len(pair.source_train[1]) + len(pair.source_test[1]) == 32
    (root / "sketch/cup").rename(root / "sketch/cap")
    with pytest.raises(ValueError, match="2 or more.*only in the source: bike, cup; only in"):
        load(classes="shared")


def test_the_target_may_lack_classes_but_not_have_others(load, root):
    shutil.rmtree(root / "sketch/cup")
    pair = load(classes="source")
    assert pair.class_names == ("bike", "cup", "pen")
    assert set(pair.target_train_labels.tolist()) == {0, 2}
    draw(root / "sketch/hat/00.png", 1, 1, 0)
    with pytest.raises(ValueError, match="only in the source: cup; only in the target: hat"):
        load(classes="source")


@pytest.mark.parametrize(
    "arguments",
    [
        {"image_size": 0},
        {"classes": "all"},
        {"test_share": 1.0},
        {"target": "photo"},
        {"target_test_list": "a.txt"},
        {"target": "nowhere"},
        {"root": "nowhere"},
        {"source": "."},
    ],
)
def test_a_wrong_argument_is_refused(load, arguments):
    with pytest.raises((ValueError, TypeError, OSError)):
        load(**arguments)


def test_a_single_class_is_refused(load, root):
    for domain in COUNTS:
        for name in ("bike", "pen"):
            shutil.rmtree(root / domain / name)
    with pytest.raises(ValueError, match="2 or more"):
        load()


def test_a_target_of_a_single_class_lacks_the_others(load, root):
    shutil.rmtree(root / "sketch/bike")
    shutil.rmtree(root / "sketch/cup")
    assert set(load(classes="source").target_train_labels.tolist()) == {2}
