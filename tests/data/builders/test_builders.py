from typing import Any

import pytest

from dann.data.builders.image_builder import ImageBuilder
from dann.data.builders.load_builder import load_builder

tfds = pytest.importorskip("tensorflow_datasets")
pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

TINY = {"train": 12, "test": 6}
CHALK = {"train": 12, "test": 599}
SPLITS = dict.fromkeys(["chalk_digits/black", "chalk_digits/photo"], CHALK)
SPLITS |= dict.fromkeys(["mnist_files", "mnist_m", "usps"], TINY)


@pytest.mark.parametrize("name", SPLITS)
def test_builder_prepares_its_splits_once(name, raw_files, tmp_path, monkeypatch):
    monkeypatch.setattr("dann.data.builders.chalk_digits._TRAIN", 12)
    cache = str(tmp_path / "cache")
    builder: Any = load_builder(name, cache, str(raw_files))
    info = builder.info
    assert {split: part.num_examples for split, part in info.splits.items()} == SPLITS[name]
    assert info.supervised_keys == ("image", "label")
    assert info.features["label"].names == [str(digit) for digit in range(10)]
    example = next(iter(tfds.as_numpy(builder.as_dataset(split="train"))))
    assert example["image"].shape == info.features["image"].shape
    monkeypatch.setattr(type(builder), "download_and_prepare", pytest.fail)
    assert load_builder(name, cache).data_path == builder.data_path  # without raw files


def test_every_builder_is_tested():
    names = {builder.name for builder in ImageBuilder.__subclasses__()}
    assert names == {name.partition("/")[0] for name in SPLITS} | {"emoji"}  # see test_emoji.py


@pytest.mark.parametrize(("name", "part"), [("mnist", "mnist"), ("mnist_m", "bsds500")])
def test_missing_raw_files_are_not_downloaded(name, part, raw_files, tmp_path):
    (raw_files / part).rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=f"to contain {part}/ for {name}"):
        load_builder(name, str(tmp_path / "cache"), str(raw_files))
