"""What the README and docs/methods.md claim, beyond that their examples run."""

import keras
import numpy as np
import pytest
from support import pages

from dann.adaptation import METHODS, REGULARIZERS

README = (pages.ROOT / "README.md").read_text()
BLOCKS = [block for _, block in pages.blocks(README, "python")]
METHODS_PAGE = (pages.ROOT / "docs/methods.md").read_text()

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored:UserWarning"),
]


def run_block(text, names):
    (block,) = [block for block in BLOCKS if text in block]
    exec(block, names)
    return names


def test_the_first_example_trains_predicts_and_saves(names, tmp_path):
    run_block("GaninSchedule(", names)
    assert int(names["model"].reversal.step) == 10 * (128 // 64)
    assert names["logits"].shape == (32, 10)
    for file in ("dann.keras", "classifier.keras"):
        again = keras.models.load_model(tmp_path / file)
        np.testing.assert_array_equal(again.predict(names["images"], verbose=0), names["logits"])


def test_the_layer_reverses_the_gradient_of_a_model_of_ones_own(names):
    import tensorflow as tf

    model = run_block("GradientReversal(", names)["model"]
    flatten, dense, domain_head = model.layers[1], model.layers[2], model.get_layer("domain")
    inputs = tf.constant(names["inputs_of_both"][:8], tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        reversed_output = model(inputs)["domain"]
        plain_output = domain_head(dense(flatten(inputs)))
    reversed_gradient = tape.gradient(reversed_output, dense.kernel.value)
    plain_gradient = tape.gradient(plain_output, dense.kernel.value)
    assert np.abs(plain_gradient).max() > 1e-6
    np.testing.assert_allclose(reversed_gradient, -0.3 * plain_gradient, rtol=1e-3, atol=1e-9)


def test_the_readme_is_short_and_shows_before_it_lists():
    assert len(README.split()) <= 1200
    table = README.index("\n|")
    assert all(README.index(part) < table for part in ("pip install", "```python", "!["))


@pytest.mark.parametrize("name", sorted({*METHODS, *REGULARIZERS}))
def test_every_method_and_regularizer_is_on_the_page(name):
    assert f"`{name}`" in METHODS_PAGE


def test_the_example_of_regression_errs_by_less_than_a_third_of_the_best_source_fit(names):
    [(_, block)] = pages.blocks(METHODS_PAGE, "python")
    exec(block, names)
    columns = [np.column_stack([names[name], np.ones(512)]) for name in ("source", "target")]
    fit = np.linalg.lstsq(columns[0], names["labels"][0])[0]
    unadapted = np.mean(np.abs(columns[1] @ fit - names["labels"][1]))
    assert unadapted > 1.1
    assert names["error"] < unadapted / 3, names["error"]


@pytest.fixture
def page(names):
    """A function that runs a how-to guide and returns the names that it leaves."""

    def run(name):
        pages.run_page(f"docs/how-to/{name}.md", names)
        return names

    return run


def test_the_reversal_of_the_guide_hides_the_speaker_and_keeps_the_words(page):
    names = page("nuisance")
    (words, speakers), (words_kept, speakers_left) = names["without"], names["removed"]
    assert min(words, words_kept) > 0.95
    assert speakers_left < 0.5 < 0.65 < speakers


def test_several_sources_of_the_guide_help_with_a_new_person(page):
    accuracies = page("series-and-tables")["accuracies"]
    assert accuracies["MDAN"] > accuracies["SourceOnly"] + 0.2, accuracies
