import importlib.util
import subprocess
import sys

import filelock
import numpy as np
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
    "arguments",
    [
        {"source": "svhn_croped"},
        {"source": "chalk_digits/red"},
        {"target_test_split": "tset"},
        {"target_test_split": "train[:10%]"},
        {"source_test_split": "train"},
        {"target_split": "all"},
        {
            "target": "chalk_digits/black",
            "source_split": "test",
            "source_test_split": "train",
            "target_test_split": "test[:50%]",
        },
        {"source_split": "train+test"},
        {"channels": 2},
        {"image_size": 0},
        {"data_dir": "nowhere"},
    ],
)
def test_wrong_arguments_are_refused(cache, arguments):
    names = {"source": "chalk_digits/black", "target": "chalk_digits/photo"}
    with pytest.raises((ValueError, OSError)):
        tfds_pair(**{**names, **arguments}, cache_dir=str(cache))


class ColouredShapes(tfds.core.GeneratorBasedBuilder):
    """Images of several sizes, with classes by name, in two orders."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=name)
        for name in ("ab", "ba", "ac", "unlabelled", "renamed", "nested", "numbered")
    ]

    def _info(self):
        name = self.builder_config.name
        label = tfds.features.ClassLabel(names=list(name) if len(name) == 2 else ["b", "a"])
        features = {"image": tfds.features.Image(shape=(None, None, 3)), self.label_key: label}
        if name == "numbered":
            features[self.label_key] = np.int64
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
    ("source", "target", "arguments", "message"),
    [
        ("ab", "ac", {}, r"only in coloured_shapes/ab: \['b'\], only in .*/ac: \['c'\]"),
        ("ab", "ba", {"image_size": None}, "Images of several sizes need an `image_size`"),
        ("unlabelled", "ab", {}, "must have a class for each image"),
        ("numbered", "ab", {}, "must have a class for each image"),
        ("ab", "nested", {}, "must be a data set of images. Received: supervised keys .*'image"),
        ("ab", "ba", {"target_test_split": "test+unknown"}, "target test set .*at least 0 .*: -1"),
        ("ab", "ba", {"source_split": "unknown"}, "source train set .*at least 0 .*: -1"),
    ],
)
def test_data_sets_that_do_not_fit_are_refused(own_cache, source, target, arguments, message):
    names = f"coloured_shapes/{source}", f"coloured_shapes/{target}"
    with pytest.raises(ValueError, match=message):
        tfds_pair(*names, cache_dir=own_cache, **{"image_size": 6, **arguments})


@pytest.mark.parametrize("target", ["unlabelled", "numbered"])
def test_a_target_may_have_no_classes(own_cache, target):
    names = "coloured_shapes/ab", f"coloured_shapes/{target}"
    domains = tfds_pair(*names, cache_dir=own_cache, image_size=6)
    assert domains.target_train_labels is domains.target_test[1] is None
    assert (len(domains.target_train), len(domains.target_test[0])) == (4, 2)


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
    split = {"target_test_split": "unknown"}
    assert tfds_pair(**pair, **form, **split).target_test[1] is None


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


@pytest.mark.parametrize("kind", ["tfrecord", "array_record"])
def test_images_are_decoded_once_and_then_only_read(tmp_path, capsys, monkeypatch, kind):
    if kind == "array_record":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = photos(tmp_path)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Decoding" in line]
    counts = ["Decoding 20", "Decoding 20", "Decoding 9"]  # both domains have one test split
    assert [line.partition(" images")[0] for line in lines] == counts
    assert all(line.endswith(": 0.0 MB") for line in lines)
    records = prepared("photos", str(tmp_path))
    assert records.info.file_format.value == kind
    expected = [
        unify(example["image"], (8, 8), 3)
        for example in (
            records.as_data_source("train[:50%]")
            if kind == "array_record"
            else tfds.as_numpy(records.as_dataset(split="train[:50%]"))
        )
    ]
    np.testing.assert_array_equal(found.source_train[0], np.stack(expected))
    # As another user's, who may not write there.
    monkeypatch.setattr(filelock.FileLock, "acquire", pytest.fail)
    monkeypatch.setattr(type(records), "as_dataset", pytest.fail)
    again = photos(tmp_path)
    assert capsys.readouterr().out == ""
    for (images, labels), (others, other_labels) in (
        (found.source_train, again.source_train),
        (found.target_test, again.target_test),
    ):
        np.testing.assert_array_equal(images, others)
        np.testing.assert_array_equal(labels, other_labels)
