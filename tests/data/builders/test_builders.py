import pkgutil
import sys
from typing import Any

import pytest

from dann.data import builders
from dann.data.builders import ChalkDigits, Digits, MnistFiles, MnistM, SyntheticDigits, Usps
from dann.data.builders.mnist_files import FILES

pytest.importorskip("tensorflow")
tfds = pytest.importorskip("tensorflow_datasets")
pytestmark = pytest.mark.tensorflow

BUILDERS = {
    "chalk_digits": ChalkDigits,
    "digits": Digits,
    "mnist_files": MnistFiles,
    "mnist_m": MnistM,
    "synthetic_digits": SyntheticDigits,
    "usps": Usps,
}
TINY = {"train": 12, "test": 6}


class Tiny:
    """What TFDS's battery runs on: the files of `raw_files`, and a few drawn digits."""

    DATASET_CLASS: Any = None
    EXAMPLE_DIR: Any = None
    SPLITS = TINY
    SKIP_CHECKSUMS = True  # everything lies in the manual folder

    @pytest.fixture(autouse=True)
    def examples(self, raw_files, monkeypatch):
        type(self).EXAMPLE_DIR = raw_files
        monkeypatch.setattr("dann.data.builders.chalk_digits._TRAIN", 12)
        monkeypatch.setattr(
            "dann.data.builders.synthetic_digits._SPLITS", {"small": TINY, "full": TINY}
        )


class TestChalkDigits(Tiny, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = ChalkDigits
    SPLITS = {"train": 12, "test": 599}


class TestDigits(Tiny, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = Digits
    SPLITS = {"train": 1198, "test": 599}


class TestMnistFiles(Tiny, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = MnistFiles


class TestMnistM(Tiny, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = MnistM


class TestSyntheticDigits(Tiny, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = SyntheticDigits


class TestUsps(Tiny, tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = Usps


def test_every_builder_of_the_package_is_enrolled():
    files = [f"{builders.__name__}.{file.name}" for file in pkgutil.iter_modules(builders.__path__)]
    kinds = [kind for name in files for kind in vars(sys.modules[name]).values()]
    found = {kind for kind in kinds if isinstance(kind, type)}
    found = {kind for kind in found if issubclass(kind, tfds.core.DatasetBuilder)}
    battery = {kind.DATASET_CLASS for kind in Tiny.__subclasses__()}
    assert found == battery == set(BUILDERS.values())


@pytest.mark.parametrize("name", BUILDERS)
def test_a_builder_is_known_by_its_name(name, tmp_path):
    builder: Any = tfds.builder(name, data_dir=tmp_path)
    assert type(builder) is BUILDERS[name]
    assert builder.info.supervised_keys == ("image", "label")
    assert builder.info.features["label"].names == [str(digit) for digit in range(10)]
    assert builder.info.citation
    assert builder.info.homepage.startswith("http")


def test_the_checksums_of_downloads_are_found_beside_the_builders():
    names = {url.rsplit("/", 1)[1] for url in MnistM.url_infos}
    assert names == set(FILES.values())
