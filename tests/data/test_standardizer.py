"""Standardization agrees with NumPy, per column or channel, and is saved."""

import numpy as np
import pandas
import pytest
from PIL import Image

from dann.data import DomainPair, Standardizer, arrays, image_folder, join_sources
from dann.data.lazy_array import LazyArray

RNG = np.random.default_rng(0)
SCALES = np.array([0.01, 1.0, 300.0])
SOURCE = (RNG.normal(size=(300, 4, 3)) * SCALES + 5).astype("float32")  # more than one chunk
TARGET = (RNG.normal(size=(280, 4, 3)) * 7 - SCALES).astype("float32")
TEST = TARGET[:50] + 1
LABELS = np.arange(300) % 2
EXAMPLES = {
    "source": [SOURCE] * 2,
    "each": [SOURCE, TARGET],
    "both": [np.concatenate([SOURCE, TARGET])] * 2,
}


def standardize(values, examples):
    """Returns `(values - mean) / std` of the last axis of the examples."""
    rows = examples.reshape(-1, values.shape[-1]).astype("float64")
    return (values - rows.mean(axis=0)) / rows.std(axis=0)


@pytest.mark.parametrize("mode", EXAMPLES)
@pytest.mark.parametrize("kind", ["table", "series", "images"])
def test_pair_has_statistics_of_its_training_examples(kind, mode):
    shape = {"table": (3,), "series": (4, 3), "images": (2, 2, 3)}[kind]
    source, target, test = (
        x[:, 0] if kind == "table" else x.reshape(len(x), *shape) for x in (SOURCE, TARGET, TEST)
    )
    domains = DomainPair("a", "b", (source, LABELS), (source, LABELS), target, (test, None), 2)
    result = domains.standardize(mode)
    first, second = EXAMPLES[mode]
    if kind == "table":
        first, second = first[:, 0], second[:, 0]
    parts = [result.source_train[0], result.source_test[0], result.target_train]
    values = [(source, first), (source, first), (target, second), (test, second)]
    for part, (inputs, examples) in zip([*parts, result.target_test[0]], values, strict=True):
        assert part.dtype == np.float32
        np.testing.assert_allclose(part, standardize(inputs, examples), rtol=1e-5, atol=1e-5)
    assert result.source_train[1] is LABELS


def test_saved_statistics_transform_new_examples_alike(tmp_path):
    frame = pandas.DataFrame(TARGET[:, 0], columns=["a", "b", "c"])
    standardizer = Standardizer("each").fit(frame + 1, frame)
    standardizer.save(tmp_path / "standardizer.json")
    loaded = Standardizer.load(tmp_path / "standardizer.json")
    for domain in ("source", "target"):
        expected = standardizer.transform(TEST[:, 0], domain)
        np.testing.assert_array_equal(loaded.transform(TEST[:, 0], domain), expected)
    with pytest.raises(ValueError, match=r"in the same order: \['a', 'b', 'c'\]"):
        loaded.transform(frame[["b", "a", "c"]])
    domains = arrays((SOURCE[:, 0], LABELS), TARGET[:, 0]).apply_standardizer(loaded)
    assert domains.standardizer is loaded


def test_files_are_standardized_when_they_are_read(tmp_path):
    for number in range(20):
        folder = tmp_path / "ab"[number % 2] / ("round", "square")[number // 2 % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = RNG.integers(0, 256, (6, 5, 3)).astype("uint8")
        Image.fromarray(pixels).save(folder / f"{number}.png")
    images = image_folder(tmp_path, "a", "b")
    domains = images.standardize("each")
    inputs = domains.target_train
    assert isinstance(inputs, LazyArray)
    expected = standardize(images.target_train[:], images.target_train[:])
    np.testing.assert_allclose(inputs[:], expected, rtol=1e-5, atol=1e-5)
    batch, _ = domains.batches(4, seed=0)[0]
    assert batch["target"].dtype == np.float32


def test_each_source_can_have_its_own_statistics():
    target = TARGET[:, 0]
    pairs = [arrays((SOURCE[:, 0] * scale, LABELS), target) for scale in (1, 10)]
    joined = join_sources([pair.standardize("each") for pair in pairs])
    for number in range(2):
        inputs = joined.source_train[0][joined.source_domain == number]
        np.testing.assert_allclose(inputs.std(axis=0), 1, rtol=1e-5)
