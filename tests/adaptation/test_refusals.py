"""What would go wrong late or in silence is refused: by the constructor, `compile` or `fit`."""

import keras
import numpy as np
import pytest
from support.networks import linear
from support.pair import LABELS, PAIR, SOURCE, TARGET

from dann.adaptation import (
    CDAN,
    DANN,
    DIRTT,
    FDAL,
    MCC,
    MCD,
    MDAN,
    MDD,
    METHODS,
    PADA,
    REGULARIZERS,
    WDGRL,
    SelfEnsembling,
    SourceOnly,
    VirtualAdversarial,
)


def of(method, **kwargs):
    """A method on a backbone from 3 inputs to 4 features."""
    head = {} if "label_head" in kwargs else {"num_classes": 3}
    return method(linear(3, 4), **head, **kwargs)


def ending(activation):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation)])


def itself(method, name):
    head = linear(4, 3)
    return method(linear(3, 4), label_head=head, **{name: head})


def fitted(model, x, y, loss=None):
    model.compile("sgd", loss)
    model.fit(x, y, verbose=0)


def joined_twice():
    regularizer = SelfEnsembling()
    return [of(DANN, regularizers=[regularizer]) for _ in range(2)]


CATEGORICAL = keras.losses.CategoricalCrossentropy(from_logits=True)
SIGMOIDS = keras.losses.BinaryCrossentropy(from_logits=True)
REFUSED = {
    ValueError: [
        lambda: SourceOnly(linear(3, 4)),
        lambda: SourceOnly(linear(3, 4), 4, label_head=linear(4, 3)),
        lambda: of(SourceOnly, label_head=linear(5, 3)),
        lambda: of(SourceOnly, task_radius=0.1),
        lambda: fitted(of(SourceOnly, regularizers=[MCC()]), SOURCE, LABELS),
        lambda: of(DANN, domain_head=linear(4, 2)),
        lambda: of(DANN, domain_head=ending("sigmoid")),
        lambda: of(DANN, label_head=ending("softmax")),
        lambda: of(DANN, passes="both"),
        lambda: of(DANN, strength=-1),
        lambda: of(DANN, way="none"),
        lambda: of(DANN, augmentation={"both": []}),
        lambda: of(DANN, regularizers=[MCC(), MCC(2.0)]),
        lambda: of(DANN, domain_label_smoothing=0.51),
        lambda: of(DANN, domain_label_smoothing=float("nan")),
        lambda: of(DANN, task_radius=-0.1),
        lambda: of(DANN, label_head=linear(4, 1)).compile("sgd"),
        lambda: of(DANN).compile(loss="categorical_crossentropy"),
        lambda: of(DANN).compile(loss=keras.losses.kl_divergence),
        lambda: of(DANN).compile(loss=keras.losses.BinaryCrossentropy()),
        lambda: fitted(of(DANN), PAIR, LABELS, SIGMOIDS),
        lambda: fitted(of(DANN), PAIR, LABELS + 1),
        lambda: fitted(of(DANN), PAIR, LABELS[:, None], "mse"),
        lambda: fitted(of(DANN), {**PAIR, "target": TARGET[:, :2]}, LABELS),
        lambda: fitted(of(DANN), SOURCE, LABELS),
        lambda: of(CDAN, max_units=0),
        lambda: of(CDAN, domain_head=linear(4, 1)),
        lambda: of(DIRTT, radius=1.0, refresh_steps=0),
        lambda: of(DIRTT, radius=1.0, teacher_weight=-1),
        lambda: of(DIRTT, radius=1.0, task_radius=0.1),
        lambda: of(DIRTT, radius=1.0)({**PAIR, "target_labelled": TARGET}, training=True),
        lambda: of(DIRTT, radius=1.0).start_from(SourceOnly(linear(3, 5), 3)),
        lambda: of(FDAL, divergence="js"),
        lambda: of(FDAL, critic=linear(4, 1)),
        lambda: itself(FDAL, "critic"),
        lambda: of(MCD, second_head=linear(4, 2)),
        lambda: itself(MCD, "second_head"),
        lambda: of(MDAN, weighting="mean"),
        lambda: of(MDAN, num_sources=0),
        lambda: of(MDAN, gamma=0.0),
        lambda: of(MDAN, domain_head=linear(4, 3), num_sources=2),
        lambda: of(MDD, gamma=0),
        lambda: of(MDD, disparity="huber"),
        lambda: of(MDD, label_head=linear(4, 1)),
        lambda: of(MDD, adversarial_head=linear(4, 2)),
        lambda: itself(MDD, "adversarial_head"),
        lambda: of(PADA, momentum=1.1),
        lambda: fitted(of(PADA), PAIR, np.eye(3)[LABELS], CATEGORICAL),
        lambda: of(WDGRL, critic_steps=0),
        lambda: of(WDGRL, gradient_penalty=-1),
        lambda: of(WDGRL, domain_head=linear(4, 2)),
        lambda: MCC(-1),
        lambda: MCC(temperature=0),
        lambda: SelfEnsembling(threshold=1.0),
        lambda: SelfEnsembling(decay=1.0),
        joined_twice,
        lambda: VirtualAdversarial(radius=0),
        lambda: VirtualAdversarial(radius=1.0, source_weight=-1),
    ],
    TypeError: [
        lambda: DANN(None, 3),
        lambda: of(DANN, label_head="x"),
        lambda: of(DANN, domain_head="x"),
        lambda: of(MCD, second_head="x"),
        lambda: of(SourceOnly, strength=1.0),
        lambda: of(DANN, lambda_=1.0),
        lambda: of(DIRTT),
        lambda: VirtualAdversarial(),
    ],
}
CALLS = [(call, error) for error, calls in REFUSED.items() for call in calls]


@pytest.mark.parametrize(("call", "error"), CALLS)
def test_what_does_not_fit_is_refused(call, error):
    with pytest.raises(error, match="."):
        call()


def test_several_labels_an_example_without_a_loss_are_told_the_loss():
    with pytest.raises(ValueError, match=r"`keras.losses.BinaryCrossentropy\(from_logits=True\)`"):
        fitted(of(DANN), PAIR, np.array([[1, 1, 0]] * 5))


NEEDS = {DIRTT: {"radius": 0.5}}
OF_CLASSES = sorted({c for c in METHODS.values() if c.needs_classes}, key=lambda c: c.__name__)


@pytest.mark.parametrize("method", OF_CLASSES)
def test_a_method_that_compares_classes_refuses_one_output_and_several_labels(method):
    settings = NEEDS.get(method, {})
    for call in (
        lambda: of(method, label_head=linear(4, 1), **settings),
        lambda: of(method, **settings).compile("sgd", SIGMOIDS),
    ):
        with pytest.raises(ValueError, match=f"`{method.__name__}`.*compare at least two classes"):
            call()


@pytest.mark.parametrize("name", [n for n, cls in REGULARIZERS.items() if cls.needs_classes])
def test_a_regularizer_that_compares_classes_refuses_one_output_and_several_labels(name):
    needs = REGULARIZERS.facts[name].get("needs", {})
    one, other = (REGULARIZERS[name](**needs) for _ in range(2))
    with pytest.raises(ValueError, match="compare at least two classes"):
        of(DANN, label_head=linear(4, 1), regularizers=[one])
    with pytest.raises(ValueError, match="compare at least two classes"):
        of(DANN, regularizers=[other]).compile("sgd", SIGMOIDS)
