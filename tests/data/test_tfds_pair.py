from typing import Any

import filelock
import numpy as np
import pytest
from support.arrays import assert_all_equal

from dann.data import tfds_pair
from dann.data.builders.load_builder import load_builder
from dann.data.tfds_pair import unify

pytest.importorskip("tensorflow")
tfds = pytest.importorskip("tensorflow_datasets")
pytestmark = pytest.mark.tensorflow


class ColoredShapes(tfds.core.GeneratorBasedBuilder):
    """Images of several sizes, with class names in two orders."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=name)
        for name in ("ab", "ba", "ac", "unlabeled", "renamed", "nested", "numbered")
    ]

    def _info(self):
        name = self.builder_config.name
        label = tfds.features.ClassLabel(names=list(name) if len(name) == 2 else ["b", "a"])
        features = {"image": tfds.features.Image(shape=(None, None, 3)), self.label_key: label}
        if name == "numbered":
            features[self.label_key] = np.int64
        keys = {"unlabeled": None, "nested": ({"image": "image"}, "label")}
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
            "unknown": self._generate_examples(4, is_labeled=False),
        }

    def _generate_examples(self, count, is_labeled=True):
        config = self.builder_config.name
        for index in range(count):
            name = "ab"[index % 2]
            image = np.full((4 + index, 5, 3), 100 * (name == "a"), "uint8")
            label = name if config in ("ba", "renamed") else index % 2
            yield index, {"image": image, self.label_key: label if is_labeled else -1}


def test_unify_converts_channels_and_antialiases():
    image = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype("uint8")
    np.testing.assert_array_equal(unify(image, (7, 5), 3), image)
    gray = np.array([[[10], [200]]], "uint8")
    np.testing.assert_array_equal(unify(gray, (1, 2), 3), [[[10] * 3, [200] * 3]])

    stripes = np.tile(np.array([0, 255], "uint8"), 8)[None, :, None].repeat(2, axis=0)
    even = unify(stripes, (2, 4), 1)[0, :, 0].astype(int)
    assert np.abs(even - 127.5).max() < 20  # without antialiasing: 0 or 255


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Returns a function that pairs two configurations of the shapes."""
    cache = str(tmp_path_factory.mktemp("cache"))

    def load(source="ab", target="ba", **arguments):
        arguments = {"image_size": 6, "cache_dir": cache, **arguments}
        return tfds_pair(f"colored_shapes/{source}", f"colored_shapes/{target}", **arguments)

    return load


@pytest.mark.parametrize("target", ["ba", "renamed"])
def test_classes_match_by_name_and_sizes_are_unified(shapes, target):
    domains = shapes(target=target)
    assert domains.name == f"colored_shapes/ab → colored_shapes/{target}"
    assert (domains.class_names, domains.input_shape) == (("a", "b"), (6, 6, 3))
    for images, labels in (domains.source_train, domains.target_test):
        np.testing.assert_array_equal(labels == 0, images[:, 0, 0, 0] == 100)
    assert [len(domains.source_train[0]), len(domains.target_test[0])] == [4, 2]


@pytest.mark.parametrize("target", ["unlabeled", "numbered"])
def test_target_may_have_no_classes(shapes, target):
    domains = shapes(target=target)
    assert domains.target_train_labels is domains.target_test[1] is None
    assert (len(domains.target_train), len(domains.target_test[0])) == (4, 2)


def test_unknown_target_classes_stay_unknown(shapes):
    labels = shapes(target_split="train+unknown").target_train_labels
    assert sorted(labels.tolist()) == [-1] * 4 + [0, 0, 1, 1]
    assert shapes(target_split="unknown").target_train_labels is None
    assert shapes(target_test_split="unknown").target_test[1] is None


REFUSALS = {
    "other class": ({"target": "ac"}, "among .'a', 'b'.. Received: .'c'"),
    "several sizes": ({"image_size": None}, "Images of several sizes need an `image_size`"),
    "unlabeled source": ({"source": "unlabeled", "target": "ab"}, "a class label per image"),
    "nested keys": ({"target": "nested"}, "to be a dataset of images"),
    "unlabeled test image": ({"target_test_split": "test+unknown"}, "Received: -1"),
    "equal splits": ({"source_test_split": "train"}, "different splits"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSALS.values(), ids=REFUSALS)
def test_unusable_data_sets_are_refused(shapes, arguments, words):
    with pytest.raises(ValueError, match=words):
        shapes(**arguments)


@pytest.mark.parametrize("kind", ["tfrecord", "array_record"])
def test_images_are_decoded_once(tmp_path, shapes, capsys, monkeypatch, kind):
    if kind == "array_record":
        monkeypatch.setattr("dann.data.builders.load_builder.has_tensorflow", lambda: False)
    domains = shapes(cache_dir=str(tmp_path))
    assert capsys.readouterr().out.count("Decoding") == 4
    records: Any = load_builder("colored_shapes/ab", str(tmp_path))
    assert records.info.file_format.value == kind
    if kind == "array_record":
        examples = records.as_data_source("train")
    else:
        examples = tfds.as_numpy(records.as_dataset(split="train"))
    expected = [unify(example["image"], (6, 6), 3) for example in examples]
    np.testing.assert_array_equal(domains.source_train[0], expected)
    # Another user may not write to the folder.
    monkeypatch.setattr(filelock.FileLock, "acquire", pytest.fail)
    monkeypatch.setattr(type(records), "as_dataset", pytest.fail)
    again = shapes(cache_dir=str(tmp_path))
    assert capsys.readouterr().out == ""
    assert not again.source_train[0].flags.writeable
    assert_all_equal(domains.source_train, again.source_train)
