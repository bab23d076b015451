"""The README's Python, as it stands."""

import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import dann

README = pathlib.Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the examples take for granted: small arrays, and a folder to write to."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (128, 28, 28, 3)).astype("uint8")
    labels = np.arange(128) % 10
    return {
        "keras": keras,
        "np": np,
        "source_images": images,
        "source_labels": labels,
        "target_images": 255 - images[:96],
        "target_labels": labels[:96],
        "test_images": images[:32],
        "test_labels": labels[:32],
        "images": images[:32],
    }


def block_with(text):
    (found,) = [block for block in BLOCKS if text in block]
    return found


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored:UserWarning")
def test_the_first_example_trains_predicts_and_saves(names, tmp_path):
    exec(block_with("GaninSchedule("), names)
    model = names["model"]
    assert int(model.reversal.step) == 10 * (128 // 64)
    assert names["logits"].shape == (32, 10)
    again = keras.models.load_model(tmp_path / "dann.keras")
    np.testing.assert_array_equal(again.predict(names["images"], verbose=0), names["logits"])
    classifier = keras.models.load_model(tmp_path / "classifier.keras")
    np.testing.assert_array_equal(classifier.predict(names["images"], verbose=0), names["logits"])


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored:UserWarning")
def test_arrays_of_ones_own_train_and_are_tested(names):
    exec(f"import dann\n{block_with('dann.data.arrays(')}", names)
    assert int(names["model"].optimizer.iterations) == 10
    assert len(names["domains"].target_test[1]) == round(0.2 * 96)


def test_a_model_of_ones_own_trains_with_the_layer_on_plain_arrays(names):
    block = block_with("GradientReversal(")
    assert len(block.strip().splitlines()) <= 15
    exec(block, names)
    model = names["model"]
    assert sum("Reversal" in type(layer).__name__ for layer in model.layers) == 1
    # Backwards through the domain output, the features get -0.3 times what they would get.
    flatten, dense, domain_head = model.layers[1], model.layers[2], model.get_layer("domain")
    inputs = tf.constant(names["inputs_of_both"][:8], tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        reversed_output = model(inputs)["domain"]
        plain_output = domain_head(dense(flatten(inputs)))
    reversed_gradient = tape.gradient(reversed_output, dense.kernel.value)
    plain_gradient = tape.gradient(plain_output, dense.kernel.value)
    assert np.abs(plain_gradient).max() > 1e-6
    np.testing.assert_allclose(reversed_gradient, -0.3 * plain_gradient, rtol=1e-3, atol=1e-9)


def test_the_functions_example_gives_the_gradients_that_it_says(names):
    exec(block_with("reverse_gradient("), names)


def test_every_block_is_run_by_a_test_here():
    assert len(BLOCKS) == 6


def test_a_model_is_scored_without_target_labels(names):
    names["model"] = dann.DANN(dann.networks.cnn_backbone((28, 28, 3)), num_classes=10)
    names.update(dann=dann, test_images=names["test_images"], target_images=names["images"])
    (score,) = [line for line in block_with("info_max(").splitlines() if "info_max(" in line]
    exec(block_with("info_max("), names)
    assert 0 <= eval(score, names) <= np.log(10)


def test_a_model_gets_a_verdict_on_a_batch(names, capsys):
    names["model"] = dann.DANN(dann.networks.cnn_backbone((28, 28, 3)), num_classes=10)
    names["model"].compile("adam")
    source = names["source_images"], names["source_labels"]
    names.update(dann=dann, pairs=dann.data.pair(source, names["target_images"], batch_size=64))
    exec(block_with("dann.diagnostics.check("), names)
    assert "reversal/cosine" in capsys.readouterr().out
