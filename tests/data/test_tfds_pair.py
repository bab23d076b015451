import shutil
import subprocess
import sys
import types

import numpy as np
import psutil
import pytest

from dann.data import tfds_pair
from dann.data.builders.prepared import prepared
from dann.data.tfds_pair import unify

tf = pytest.importorskip("tensorflow")
tfds = pytest.importorskip("tensorflow_datasets")
pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


def chalk(cache, **arguments):
    return tfds_pair("chalk_digits/black", "chalk_digits/photo", cache_dir=str(cache), **arguments)


def test_a_pair_holds_the_examples_of_two_builders(cache):
    domains = chalk(cache)
    assert domains.name == "chalk_digits/black → chalk_digits/photo"
    assert domains.class_names == tuple("0123456789")
    for config, split, (images, labels) in (
        ("black", "train", domains.source_train),
        ("black", "test", domains.source_test),
        ("photo", "train", (domains.target_train, domains.target_train_labels)),
        ("photo", "test", domains.target_test),
    ):
        builder = prepared(f"chalk_digits/{config}", str(cache))
        examples = tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1))
        np.testing.assert_array_equal(images, examples["image"])
        np.testing.assert_array_equal(labels, examples["label"])


@pytest.mark.slow  # two processes that import TensorFlow
def test_two_processes_prepare_one_data_set_at_once(tmp_path):
    code = f"import dann; dann.data.tfds_pair('digits', 'digits', cache_dir={str(tmp_path)!r})"
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]


def test_splits_are_taken_in_tfds_notation(cache):
    splits = {"target_split": "train[:90%]", "target_test_split": "train[90%:]"}
    domains = chalk(cache, source_split="train[:100]", **splits)
    assert [len(domains.source_train[0]), len(domains.target_train)] == [100, 7200]
    assert len(domains.target_test[1]) == 800


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "svhn_croped"}, r"such as \['svhn_cropped'.*Received: svhn_croped"),
        ({"source": "zzzzzzzz"}, "Expected the name of a TFDS data set. Received: zzzzzzzz"),
        ({"source": "chalk_digits/red"}, r"configurations \['black', 'photo'\]. Received: .*/red"),
        ({"target_test_split": "tset"}, "Unknown split 'tset'"),
        (
            {"target_test_split": "train[:10%]"},
            "chalk_digits/photo/1.0.0 must not overlap.*Received: 'train' and 'train.:10%.'",
        ),
        ({"source_test_split": "train"}, "test split of chalk_digits/black/1.0.0 must not overlap"),
        ({"target_split": "all"}, "must not overlap.*Received: 'all' and 'test'"),
        (
            {
                "target": "chalk_digits/black",
                "source_split": "test",
                "source_test_split": "train",
                "target_test_split": "test[:50%]",
            },
            "must not overlap.*Received: 'test' and 'test.:50%.'",
        ),
        ({"source_split": "train+test"}, "must not overlap.*Received: 'train.test' and 'test'"),
        ({"channels": 2}, "`channels` must be one of 1, 3. Received: channels=2"),
        ({"image_size": 0}, "`image_size` must be .*Received: image_size=0"),
    ],
)
def test_wrong_arguments_are_refused(cache, arguments, message):
    names = {"source": "chalk_digits/black", "target": "chalk_digits/photo"}
    with pytest.raises(ValueError, match=message):
        tfds_pair(**{**names, **arguments}, cache_dir=str(cache))


class ColouredShapes(tfds.core.GeneratorBasedBuilder):
    """Images of several sizes, with classes by name, in two orders."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=name)
        for name in ("ab", "ba", "ac", "unlabelled", "renamed", "nested")
    ]

    def _info(self):
        name = self.builder_config.name
        label = tfds.features.ClassLabel(names=list(name) if len(name) == 2 else ["b", "a"])
        features = {"image": tfds.features.Image(shape=(None, None, 3)), self.label_key: label}
        keys = {"unlabelled": None, "nested": ({"image": "image"}, "label")}
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=keys.get(name, ("image", self.label_key)),
        )

    @property
    def label_key(self):
        return "kind" if self.builder_config.name == "renamed" else "label"

    def _split_generators(self, dl_manager):
        return {
            "train": self._generate_examples(4),
            "test": self._generate_examples(2),
            "unknown": self._generate_examples(4, known=False),
        }

    def _generate_examples(self, count, known=True):
        config = self.builder_config.name
        for index in range(count):
            name = "ab"[index % 2]
            image = np.full((4 + index, 5, 3), 100 * (name == "a"), "uint8")
            label = name if config in ("ba", "renamed") else index % 2
            yield index, {"image": image, self.label_key: label if known else -1}


@pytest.mark.parametrize("target", ["ba", "renamed"])
def test_classes_are_matched_by_name_and_sizes_brought_to_one(cache, target):
    arguments = {"image_size": 6, "cache_dir": cache}
    domains = tfds_pair("coloured_shapes/ab", f"coloured_shapes/{target}", **arguments)
    assert domains.class_names == ("a", "b")
    assert domains.input_shape == (6, 6, 3)
    for images, labels in (domains.source_train, domains.target_test):
        np.testing.assert_array_equal(labels == 0, images[:, 0, 0, 0] == 100)


@pytest.mark.parametrize(
    ("target", "arguments", "message"),
    [
        ("ac", {}, r"only in coloured_shapes/ab: \['b'\], only in .*/ac: \['c'\]"),
        ("ba", {"image_size": None}, "Images of several sizes need an `image_size`"),
        ("unlabelled", {}, "must be a data set of images with a class each"),
        ("nested", {}, "images with a class each. Received: supervised keys .*'image"),
        ("ba", {"target_test_split": "unknown"}, "target test set .*at least 0 .*: -1"),
        ("ba", {"source_split": "unknown"}, "source train set .*at least 0 .*: -1"),
    ],
)
def test_data_sets_that_do_not_fit_are_refused(own_cache, target, arguments, message):
    names = "coloured_shapes/ab", f"coloured_shapes/{target}"
    with pytest.raises(ValueError, match=message):
        tfds_pair(*names, cache_dir=own_cache, **{"image_size": 6, **arguments})


def test_an_unknown_class_of_the_target_stays_unknown(own_cache):
    pair = {"source": "coloured_shapes/ab", "target": "coloured_shapes/ba"}
    form = {"image_size": 6, "cache_dir": own_cache}
    domains = tfds_pair(**pair, **form, target_split="train+unknown")
    labels = domains.target_train_labels
    assert labels is not None
    assert sorted(labels.tolist()) == [-1] * 4 + [0, 0, 1, 1]
    known = labels >= 0
    np.testing.assert_array_equal(labels[known] == 0, domains.target_train[known, 0, 0, 0] == 100)
    drawn = domains.with_target_labelled(2).target_labelled
    assert drawn is not None
    assert sorted(drawn[1].tolist()) == [0, 0, 1, 1]
    without = tfds_pair(**pair, **form, target_split="unknown")
    assert without.target_train_labels is None
    assert len(without.target_train) == 4


def test_smallnorb_is_paired_by_the_label_that_its_supervised_keys_name(own_cache):
    with tfds.testing.mock_data(num_examples=4):
        domains = tfds_pair("smallnorb", "smallnorb", cache_dir=own_cache, image_size=8)
    assert (domains.num_classes, domains.input_shape) == (5, (8, 8, 1))


def test_an_image_that_fits_is_left_as_it_is():
    image = tf.constant(np.random.default_rng(0).integers(0, 256, (7, 5, 3)), tf.uint8)
    np.testing.assert_array_equal(unify(image, (7, 5), 3), image)


def test_grey_is_repeated_and_colour_becomes_its_luma():
    grey = np.array([[[10], [200]]], "uint8")
    np.testing.assert_array_equal(unify(grey, (1, 2), 3), [[[10] * 3, [200] * 3]])
    colour = np.array([[[200, 100, 50]]], "uint8")
    luma = 0.2989 * 200 + 0.5870 * 100 + 0.1140 * 50
    assert abs(int(unify(colour, (1, 1), 1)[0, 0, 0]) - luma) <= 1


def test_a_size_is_reached_by_antialiased_interpolation():
    columns = np.repeat(np.array([[0, 255]], "uint8"), 4, axis=0).repeat(8, axis=1)[..., None]
    small = unify(columns, (2, 4), 1)[..., 0]
    np.testing.assert_array_equal(small[:, 0], 0)
    np.testing.assert_array_equal(small[:, 3], 255)
    stripes = np.tile(np.array([0, 255], "uint8"), 8)[None, :, None].repeat(2, axis=0)
    even = unify(stripes, (2, 4), 1)[0, :, 0].astype(int)
    assert np.abs(even - 127.5).max() < 20  # without antialiasing: 0 or 255


class Photos(tfds.core.GeneratorBasedBuilder):
    """Pictures of several sizes in two classes, some in colours of their own."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        label = tfds.features.ClassLabel(names=["dark", "light"])
        image = tfds.features.Image(shape=(None, None, 3), encoding_format="png")
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict({"image": image, "label": label}),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(40), "test": self._generate_examples(9)}

    def _generate_examples(self, count):
        rng = np.random.default_rng(count)
        for index in range(count):
            side = rng.integers(9, 30)
            pixels = rng.integers(0, 128, (side, side + 3, 3)) + 127 * (index % 2)
            yield index, {"image": pixels.astype("uint8"), "label": index % 2}


def photos(folder, **arguments):
    splits = {"target_split": "train[50%:]", "source_split": "train[:50%]"}
    form = {"image_size": 8, "cache_dir": str(folder)}
    return tfds_pair("photos", "photos", **splits, **form, **arguments)


@pytest.fixture(scope="module")
def by_index(tmp_path_factory):
    """A folder with a data set whose records can be read by index."""
    folder = tmp_path_factory.mktemp("by_index")
    prepared("photos", str(folder), by_index=True)
    return folder


@pytest.mark.parametrize("cache", ["memory", "disk"])
@pytest.mark.parametrize("records", ["by_index", "own_cache"])
def test_every_cache_gives_the_same_batches(request, cache, records, by_index):
    expected = photos(by_index, cache="none")
    found = photos(request.getfixturevalue(records), cache=cache)
    assert isinstance(found.source_train[0], np.memmap) == (cache == "disk")
    for step in (3, 0):
        (inputs, labels), (other_inputs, other_labels) = (
            pair.batches(6, seed=1)[step] for pair in (expected, found)
        )
        np.testing.assert_array_equal(labels, other_labels)
        for domain, images in inputs.items():
            np.testing.assert_array_equal(images, other_inputs[domain])
    for (images, labels), (others, other_labels) in (
        (expected.source_test, found.source_test),
        (expected.target_test, found.target_test),
    ):
        assert len(labels) == 9
        np.testing.assert_array_equal(labels, other_labels)
        np.testing.assert_array_equal(images[:], others[:])


def test_without_a_cache_images_are_decoded_where_they_are_asked_for(by_index, monkeypatch):
    pair, count = photos(by_index, cache="none"), []
    images = pair.source_train[0]
    monkeypatch.setattr(
        images, "form", lambda image, form=images.form: (count.append(1), form(image))[1]
    )
    assert images[[4, 1, 4]].shape == (3, 8, 8, 3)
    assert len(count) == 3
    np.testing.assert_array_equal(images[[4, 1]][1], images[1])
    with pytest.raises(IndexError):
        images[20]


def test_records_that_cannot_be_read_by_index_need_a_cache(own_cache):
    photos(own_cache)
    message = (
        "`cache=none` needs records.*write `cache=disk` or.*Received: .*photos/1.0.0 with tfrec"
    )
    with pytest.raises(ValueError, match=message):
        photos(own_cache, cache="none")


@pytest.mark.parametrize("cache", ["memory", "disk"])
def test_a_cache_tells_its_size_once_and_too_large_ones_are_refused(
    tmp_path, cache, capsys, monkeypatch
):
    photos(tmp_path, cache=cache)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Decoding" in line]
    counts = ["Decoding 20", "Decoding 20", "Decoding 9"]  # both domains have one test split
    assert [line.partition(" images")[0] for line in lines] == counts
    assert all(line.endswith(": 0.0 MB") for line in lines)
    photos(tmp_path, cache=cache)
    assert "Decoding" not in capsys.readouterr().out
    memory = types.SimpleNamespace(available=58 * 8 * 8 * 3 - 1)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    if cache == "memory":
        with pytest.raises(ValueError, match="in memory; choose `cache=none`"):
            photos(tmp_path, cache=cache)
        memory.available += 1
    assert len(photos(tmp_path, cache=cache).target_train) == 20


def test_a_cache_that_the_disk_has_no_room_for_is_refused(tmp_path, monkeypatch):
    prepared("photos", str(tmp_path))
    usage = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    for cache in ("memory", "disk"):
        with pytest.raises(OSError, match="in the cache; .*`cache=none`"):
            photos(tmp_path, cache=cache)
