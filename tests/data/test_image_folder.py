import os
import shutil
import tracemalloc
import types

import numpy as np
import psutil
import pytest
from PIL import Image

from dann.data import image_files, image_folder
from dann.data.cache import CACHES

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
        return image_folder(root, source, target, image_size, **{"cache_dir": cache, **arguments})

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


@pytest.mark.parametrize("cache", CACHES)
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


@pytest.mark.parametrize("cache", CACHES)
def test_batches_pair_images_with_their_labels(load, cache):
    inputs, labels = next(iter(load(cache=cache).batches(16, seed=0)))
    source, target = inputs["source"], inputs["target"]
    assert source.shape == target.shape == (16, 4, 4, 3)
    np.testing.assert_array_equal(source[:, 0, 0, 1], labels)
    assert set(source[..., 0].flat) == {0}
    assert set(target[..., 0].flat) == {50}


def test_nothing_is_in_memory_before_it_is_asked_for(load):
    kinds = {"disk": "memmap", "none": "ImageFiles", "memory": "MemoryCache"}
    for cache, kind in kinds.items():
        pair = load(cache=cache)
        for images, _ in parts(pair).values():
            assert type(images.values).__name__ == kind


@pytest.mark.parametrize("cache", ["disk", "memory", True, False])
def test_every_cache_gives_the_batches_of_none(load, cache):
    expected, found = (load(cache=one).batches(7, seed=5) for one in ("none", cache))
    for step in (0, 1, 30, 0):  # the last from what is kept
        (inputs, labels), (other_inputs, other_labels) = expected[step], found[step]
        np.testing.assert_array_equal(labels, other_labels)
        for domain, images in inputs.items():
            np.testing.assert_array_equal(images, other_inputs[domain])


@pytest.fixture
def decoded(monkeypatch):
    """The paths that are decoded from now on."""
    paths, decode = [], image_files._decoded
    monkeypatch.setattr(
        image_files, "_decoded", lambda path, *form: (paths.append(path), decode(path, *form))[1]
    )
    return paths


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_nothing_is_decoded_before_its_batch(load, decoded, cache):
    batches = load(cache=cache).batches(4, seed=0)
    assert not decoded
    batches[0]
    assert len(decoded) == 8


def test_an_image_in_memory_is_decoded_once(load, decoded):
    batches = load(cache="memory").batches(8, seed=0)
    for step in range(12):
        batches[step]
    assert len(decoded) == len(set(decoded)) == 32 + 16  # the training images of both domains


def test_a_cache_tells_its_size_first_and_is_refused_if_it_is_too_large(load, capsys, monkeypatch):
    size = (40 + 20) * 100 * 100 * 3
    load(cache="memory", image_size=100)
    assert capsys.readouterr().out == (
        "Images of photo and sketch stay in memory once they are decoded: up to 1.8 MB\n"
    )
    for available in (size, size - 1):
        memory = types.SimpleNamespace(available=available)
        monkeypatch.setattr(psutil, "virtual_memory", lambda memory=memory: memory)
        if available == size:
            load(cache="memory", image_size=100)
    with pytest.raises(ValueError, match="1.8 MB in memory; choose `cache=none`.*of memory avail"):
        load(cache="memory", image_size=100)
    load(cache="disk", image_size=100)
    assert "40 images, once, into " in (printed := capsys.readouterr().out)
    assert ".npy: 1.2 MB\n" in printed
    usage = shutil.disk_usage("/")._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match="1.2 MB in the cache; .*`cache=none`"):
        load(cache="disk", image_size=[50, 200])


def test_another_cache_is_refused(load):
    with pytest.raises(ValueError, match="`cache` must be one of 'memory', 'disk', 'none'. .*ram"):
        load(cache="ram")


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


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_an_image_that_is_broken_behind_its_header_is_named_where_its_batch_is_read(
    load, root, cache
):
    whole = (root / "photo/pen/00.png").read_bytes()
    for path in (root / "photo/pen").glob("*.png"):
        path.write_bytes(whole[:45])
    pair = load(cache=cache)
    with pytest.raises(ValueError, match=r"Expected an image. Received: .*/photo/pen/\d\d.png"):
        pair.batches(32, seed=0)[0]
    with pytest.raises(ValueError, match="Every class .*photo.*Received: none of pen"):
        load(cache=cache, on_error="skip")


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


def test_a_second_run_decodes_nothing(load, capsys):
    load(cache="disk")
    assert capsys.readouterr().out.count("Decoding") == 2
    load(cache="disk", seed=3, test_share=0.5)
    assert capsys.readouterr().out == ""


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
    message = (
        "same classes, unless `classes` is.*: 2 shared; 1 missing in photo: hat; 1 .* sketch: pen$"
    )
    with pytest.raises(ValueError, match=message):
        load()


def test_a_class_that_differs_in_case_only_is_pointed_out(load, root):
    (root / "sketch/pen").rename(root / "sketch/Pen")
    with pytest.raises(ValueError, match="pen and Pen differ in their case only"):
        load()


def test_shared_classes_are_those_of_both(load, root):
    (root / "sketch/bike").rename(root / "sketch/hat")
    pair = load(classes="shared")
    assert pair.class_names == ("cup", "pen")
    for images, labels in parts(pair).values():
        assert [colour[1] - 1 for colour in colours(images)] == labels.tolist()
    assert len(pair.source_train[1]) + len(pair.source_test[1]) == 32
    (root / "sketch/cup").rename(root / "sketch/cap")
    with pytest.raises(ValueError, match="must share 2 .* 1 shared; .* in sketch: bike, cup$"):
        load(classes="shared")


def test_the_target_may_lack_classes_but_not_have_others(load, root):
    shutil.rmtree(root / "sketch/cup")
    pair = load(classes="source")
    assert pair.class_names == ("bike", "cup", "pen")
    assert set(pair.target_train_labels.tolist()) == {0, 2}
    draw(root / "sketch/hat/00.png", 1, 1, 0)
    with pytest.raises(ValueError, match="no other classes than the source.*in photo: hat"):
        load(classes="source")


@pytest.fixture
def broken(root):
    for name in ("photo/cup/03.png", "photo/cup/04.png"):
        (root / name).write_bytes(b"no image")
    return root


@pytest.mark.parametrize("cache", CACHES)
def test_broken_images_are_counted_and_named(load, broken, cache):
    message = r"Received: 2 of 40 images of photo .*: photo/cup/03.png, photo/cup/04.png$"
    for _ in range(2):  # from the cache too
        with pytest.raises(ValueError, match=message):
            load(cache=cache)


@pytest.mark.parametrize("cache", CACHES)
def test_broken_images_can_be_left_out(load, broken, cache, capsys):
    pair = load(cache=cache, on_error="skip")
    skipped = [line for line in capsys.readouterr().out.splitlines() if "Skipped" in line]
    assert skipped == [
        "Skipped 2 of 40 images of photo, unreadable: photo/cup/03.png, photo/cup/04.png"
    ]
    found = colours(pair.source_train[0]) + colours(pair.source_test[0])
    assert len(found) == 38
    for images, labels in parts(pair).values():
        assert [colour[1] for colour in colours(images)] == labels.tolist()
    assert not {(0, 1, 3), (0, 1, 4)} & set(found)


def test_many_broken_images_are_not_all_named(load, root):
    for path in (root / "photo/pen").iterdir():
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="20 of 40 .*pen/09.png and 10 more$"):
        load()
    with pytest.raises(ValueError, match="Every class .*photo.*Received: none of pen"):
        load(on_error="skip")


def test_broken_images_of_official_splits_leave_their_own_part(load, broken):
    write_list(broken, "train.txt", "photo", range(4))
    write_list(broken, "test.txt", "photo", range(4, 6))
    arguments = {"source_list": "train.txt", "source_test_list": "test.txt", "on_error": "skip"}
    pair = load(**arguments)
    assert (len(pair.source_train[1]), len(pair.source_test[1])) == (11, 5)
    assert {number for *_, number in colours(pair.source_test[0])} == {4, 5}


@pytest.mark.parametrize("name", ["linked", "copied"])
def test_links_to_the_source_are_refused_as_target(load, root, name):
    (root / "linked").symlink_to(root / "photo")
    shutil.copytree(root / "photo", root / "copied", copy_function=os.link)
    with pytest.raises(ValueError, match="must be different images. Received: 40 that are in both"):
        load(target=name)


def test_a_linked_image_is_in_one_part(load, root):
    for number in range(9):
        link = root / f"sketch/pen/copy_{number}.png"
        link.symlink_to(f"{number:02}.png")
    (root / "sketch/cup/again").symlink_to(".")
    pair = load(test_share=0.5)
    train, test = colours(pair.target_train), colours(pair.target_test[0])
    assert not set(train) & set(test)
    assert len(train) + len(test) == 20


def test_a_test_list_of_links_to_the_train_list_is_refused(load, root):
    (root / "latest").symlink_to("sketch")
    shutil.copytree(root / "sketch", root / "copied", copy_function=os.link)
    write_list(root, "train.txt", "sketch", range(20))
    for folder in ("latest", "copied"):
        links = (root / "train.txt").read_text().replace("sketch/", f"{folder}/")
        (root / "test.txt").write_text(links)
        with pytest.raises(ValueError, match="list and in its test list. Received: 20 in both"):
            load(target_list="train.txt", target_test_list="test.txt")


@pytest.mark.parametrize("cache", CACHES)
def test_a_link_that_leads_nowhere_is_a_broken_image(load, root, cache, capsys):
    (root / "photo/cup/a.png").symlink_to("nowhere.png")
    message = r"on_error='skip'. Received: 1 of 41 images of photo .*: photo/cup/a.png$"
    with pytest.raises(ValueError, match=message):
        load(cache=cache)
    pair = load(cache=cache, on_error="skip")
    assert "Skipped 1 of 41 images of photo" in capsys.readouterr().out
    assert len(pair.source_train[1]) + len(pair.source_test[1]) == 40


@pytest.mark.parametrize("classes", ["same", "source"])
def test_a_single_class_is_refused(load, root, classes):
    for domain in COUNTS:
        for name in ("bike", "pen"):
            shutil.rmtree(root / domain / name)
    with pytest.raises(ValueError, match="at least 2 classes.* Received: 1 in photo: cup$"):
        load(classes=classes)


def test_a_target_of_a_single_class_lacks_the_others(load, root):
    shutil.rmtree(root / "sketch/bike")
    shutil.rmtree(root / "sketch/cup")
    assert set(load(classes="source").target_train_labels.tolist()) == {2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image_size": 0}, "`image_size` must be .*Received: image_size=0"),
        ({"classes": "all"}, "one of 'same', 'shared', 'source'. Received: classes='all'"),
        ({"on_error": "ignore"}, "one of 'raise', 'skip'. Received: on_error='ignore'"),
        ({"test_share": 1.0}, "Received: test_share=1.0"),
        ({"target": "photo"}, "different images. Received: 40 that are in both: .*bike/00.png"),
        ({"target_test_list": "a.txt"}, "needs a `target_list` .* Received: a.txt alone"),
    ],
)
def test_a_wrong_argument_is_refused(load, arguments, message):
    with pytest.raises(ValueError, match=message):
        load(**arguments)


def test_a_cache_dir_must_be_a_folder(load, root):
    with pytest.raises(NotADirectoryError, match="another `cache_dir`, .*00.png is a file"):
        load(cache="disk", cache_dir=root / "photo/cup/00.png")


def test_a_root_must_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="a folder of domains. Received: .*nowhere"):
        image_folder(tmp_path / "nowhere", "photo", "sketch")
