"""Emoji: their pixels, their split by concept, and missing drawings."""

import hashlib
import json

import numpy as np
import pytest
from support.archives import REAL_DATA, needs_real, pack_files
from support.arrays import collect_inputs

from dann.data import emoji
from dann.data.builders.emoji import STYLES, split_concept

pytest.importorskip("tensorflow_datasets")
pytest.importorskip("resvg_py")
pytestmark = pytest.mark.tensorflow

# SHA-256 of all pixels of the four splits, in their order, at 48 pixels with the groups as labels.
PIXELS = {
    "openmoji": "c2f0ae8533addff2865d8f60e1d427d1942274f799783052cf2f8557dab39633",
    "emojione": "1e9c9bb9bdbb7cbc11d8fea9e81170fd4cff6f6136de82d3478816a6909c03ca",
    "emojione_v1": "9b63225aa81b956db311332084da400986eadc95a23f33cceadcc4bd4f8d6bfe",
    "fluent_flat": "071c499ff52a0e6e510f55fb450a71beec0f1e7d6b65817793a45f84257585d2",
    "fluent_high_contrast": "c85f95c290a7c405b496dad5605633fd7e30f698c2923350e25b0d5e631c9d93",
}
PAIRS = {"openmoji": "emojione", "emojione_v1": "fluent_flat", "fluent_high_contrast": "openmoji"}
DRAWN = '<path fill="{color}" d="M0 0h{width}v4H0z"/>'


def write_package(folder, package, version, files):
    stem = package.removeprefix("@").replace("/", "-")
    contents = {f"package/{name}": json.dumps(file).encode() for name, file in files.items()}
    (folder / f"{stem}-{version}.tgz").write_bytes(pack_files(contents))


@pytest.fixture
def drawings(tmp_path):
    """Writes packages of two styles with 60 made concepts of two groups, and a flag."""
    folder = tmp_path / "emoji"
    folder.mkdir()
    concepts = [(f"Thing {n}", f"1F{n:03X}", 1, 3 + n % 2) for n in range(60)]
    unused = [("flag", "1F3C1", 1, 9), ("Thing 0", "1F000-200D-1F001", 1, 3)]
    unused += [("Thing 1", "1F999", 17, 3), ("not drawn", "1F998", 1, 3)]
    keys = "label", "hexcode", "version", "group"
    entries = [dict(zip(keys, values, strict=True)) for values in concepts + unused]
    groups = {"3": "animals-nature", "4": "food-drink", "9": "flags"}
    files = {"en/data.json": entries, "meta/groups.json": {"groups": groups}}
    write_package(folder, "emojibase-data", "17.0.0", files)
    for style, color in (("openmoji", "#ff0000"), ("fluent_flat", "#0000ff")):
        bodies = [DRAWN.format(color=color, width=1 + n / 100) for n in range(60)]
        icons = {f"thing-{n}": {"body": body} for n, body in enumerate(bodies)}
        icons |= {"flag": {"body": bodies[0]}}
        files = {"icons.json": {"icons": icons, "width": 4, "height": 4}}
        write_package(folder, f"@iconify-json/{STYLES[style][0]}", STYLES[style][1], files)
    return tmp_path


def test_every_concept_is_in_one_part(drawings, tmp_path):
    folders = {"cache_dir": str(tmp_path / "c"), "data_dir": str(drawings)}
    domains = emoji("openmoji", "fluent_flat", **folders)
    splits = [split_concept(f"1F{number:03X}") for number in range(60)]
    names = ["source_train", "source_test", "target_train", "target_test"]
    assert list(map(len, collect_inputs(domains))) == [splits.count(name) for name in names]
    assert np.array_equal(domains.source_train[0][0][0, 0], [255, 0, 0])
    assert np.array_equal(domains.target_train[0][0, 0], [0, 0, 255])
    assert np.array_equal(domains.target_train[0][-1, -1], [255, 255, 255])  # the background


def test_split_of_a_concept_is_frozen():
    splits = {"1F600": "target_train", "1F40E": "source_train", "26BD": "target_test"}
    assert {code: split_concept(code) for code in splits} == splits


def test_missing_drawing_names_the_command(drawings, tmp_path):
    message = r"npm pack @iconify-json/noto@[\d.]+"
    with pytest.raises(FileNotFoundError, match=message):
        emoji("noto", "openmoji", cache_dir=str(tmp_path / "c"), data_dir=str(drawings))


@needs_real("emoji")
@pytest.mark.parametrize(("style", "partner"), PAIRS.items())
def test_pixels_are_the_same_on_every_machine(style, partner, cache):
    folders = {"cache_dir": str(cache), "data_dir": str(REAL_DATA)}
    pairs = emoji(style, partner, **folders), emoji(partner, style, **folders)
    for name, (first, second) in ((style, pairs), (partner, pairs[::-1])):
        digest = hashlib.sha256()
        for part in (*collect_inputs(first)[:2], *collect_inputs(second)[2:]):
            digest.update(np.asarray(part).tobytes())
        assert digest.hexdigest() == PIXELS[name]
