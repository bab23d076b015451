"""MDD's loss and gradients, against NumPy on a linear network."""

import functools

import numpy as np
import pytest
from support.arrays import assert_all_equal
from support.closed_forms import softmax
from support.networks import linear, linear_parts, weights_of, with_random_weights
from support.one_step import MODES, check_adversarial_step, step
from support.pair import SOURCE, STRENGTH, TARGET

from dann.adaptation import MDD
from dann.networks import label_head


def linear_mdd(**kwargs):
    """f = x A, c = f B, a = f W, without biases."""
    head = linear(4, 3, "adversarial_head")
    arguments = {"strength": STRENGTH, **kwargs}
    return with_random_weights(MDD(**linear_parts(), adversarial_head=head, **arguments))


def disparity_loss(a, w, predicted, gamma):
    """The paper's: gamma times the agreement on the source, and the disagreement on the target."""
    rows = np.arange(5)
    agree = -np.log(softmax(SOURCE @ a @ w)[rows, predicted[0]])
    disagree = -np.log(1 - softmax(TARGET @ a @ w)[rows, predicted[1]] + 1e-6)
    return gamma * agree.mean() + disagree.mean()


@pytest.mark.parametrize("gamma", [4.0, 1.5])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_every_gradient_match_the_formula(mode, gamma):
    model = linear_mdd(gamma=gamma)
    a, b, _ = weights_of(model)
    predicted = [np.argmax(inputs @ a @ b, axis=1) for inputs in (SOURCE, TARGET)]
    loss = functools.partial(disparity_loss, predicted=predicted, gamma=gamma)
    check_adversarial_step(model, mode, "disparity/loss", loss)


def test_where_the_adversarial_head_is_certain_the_loss_stays_finite():
    model = linear_mdd()
    model.adversarial_head.set_weights([1e3 * model.label_head.get_weights()[0]])
    logs, slopes = step(model, "graph")
    assert logs["disparity/loss"] == pytest.approx(-np.log(1e-6), rel=1e-3)
    assert all(np.isfinite(slope).all() for slope in slopes)


def test_an_adversarial_head_is_built_with_the_label_heads_layers_and_other_weights():
    pattern = label_head(4, 3, hidden_units=(7,), dropout=0.2)
    model = MDD(linear(3, 4, "backbone"), label_head=pattern)
    built = model.adversarial_head
    assert built.name == "adversarial_head"
    assert [type(layer) for layer in built.layers] == [type(layer) for layer in pattern.layers]
    assert [w.shape for w in built.weights] == [w.shape for w in pattern.weights]
    assert np.abs(built.get_weights()[0] - pattern.get_weights()[0]).max() > 0.01


@pytest.mark.tensorflow
def test_the_options_come_back_from_a_file(reloaded):
    model = linear_mdd(gamma=2.5)
    again = reloaded(model)
    assert (again.gamma, again.disparity) == (2.5, "margin")
    assert len(again.trainable_weights) == 3
    assert_all_equal(model.trainable_weights, again.trainable_weights)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: linear_mdd(gamma=0), ValueError, "`gamma` must be .* above 0. Received: gamma=0"),
        (
            lambda: linear_mdd(disparity="huber"),
            ValueError,
            "'margin', 'absolute_error', 'squared_error'. Received: disparity='huber'",
        ),
        (
            lambda: MDD(linear(3, 4, "f"), label_head=linear(4, 1, "c")),
            ValueError,
            "at least two classes.* Received: a label head of 1 output",
        ),
        (
            lambda: MDD(**linear_parts(), adversarial_head=linear(4, 2, "a")),
            ValueError,
            r"`adversarial_head` must .*output shape \(None, 3\). Received: .*\(None, 2\)",
        ),
        (
            lambda: MDD(**linear_parts(), adversarial_head=linear(5, 3, "a")),
            ValueError,
            r"expected shape=\(None, 5\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
