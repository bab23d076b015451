"""What would go wrong late or in silence is refused: by the constructor, `compile` or `fit`."""

import keras
import numpy as np
import pandas
import pytest
from support.networks import linear
from support.pair import LABELS, PAIR, SOURCE, TARGET

import dann
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
from dann.adaptation.batch import Batch


def of(method, **kwargs):
    """A method on a backbone from 3 inputs to 4 features."""
    head = {} if "label_head" in kwargs else {"num_classes": 3}
    return method(linear(3, 4), **head, **kwargs)


def ending(activation):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation)])


def itself(method, name, outputs=3):
    head = linear(4, outputs)
    return method(linear(3, 4), label_head=head, **{name: head})


def fitted(model, x, y, loss=None):
    model.compile("sgd", loss)
    model.fit(x, y, verbose=0)


def joined_twice():
    regularizer = SelfEnsembling()
    return [of(DANN, regularizers=[regularizer]) for _ in range(2)]


def of_maps(method=DANN, **kwargs):
    return method(keras.Sequential([keras.Input((6, 3)), keras.layers.Dense(4)]), 3, **kwargs)


def fitted_maps(labels):
    fitted(of_maps(), {"source": MAPS, "target": MAPS}, labels)


def masked():
    words = keras.Input((6,), dtype="int32"), keras.layers.Embedding(5, 4, mask_zero=True)
    return DANN(keras.Sequential(list(words)), 3)


def perturbed_words():
    words = keras.Input((6,), dtype="int32"), keras.layers.Embedding(5, 4), keras.layers.Flatten()
    vat = VirtualAdversarial(radius=1.0)
    batch = Batch({}, {}, {}, raw_inputs={"target": np.ones((2, 6), int)})
    vat.losses(DANN(keras.Sequential(list(words)), 3), batch, None, True)


CATEGORICAL = keras.losses.CategoricalCrossentropy(from_logits=True)
SIGMOIDS = keras.losses.BinaryCrossentropy(from_logits=True)
FRAME = pandas.DataFrame(SOURCE, columns=list("abc"))
MAPS = np.ones((5, 6, 3), "float32")
SEVERAL = np.array([[1.0, 1, 0]] * 5)
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
        lambda: of(DANN, augmentation={"both": []}),
        lambda: of(DANN, regularizers=[MCC(), MCC(2.0)]),
        lambda: of(DANN, domain_label_smoothing=0.51),
        lambda: of(DANN, task_radius=-0.1),
        lambda: of(DANN, label_head=linear(4, 1)).compile("sgd"),
        lambda: of(DANN).compile(loss="categorical_crossentropy"),
        lambda: of(DANN).compile(loss=keras.losses.BinaryCrossentropy()),
        lambda: fitted(of(DANN), PAIR, LABELS, SIGMOIDS),
        lambda: fitted(of(DANN), PAIR, None),
        lambda: fitted(itself(DANN, "domain_head", outputs=1), PAIR, LABELS, "mse"),
        lambda: fitted(of(DANN), PAIR, LABELS + 1),
        lambda: fitted(of(DANN), PAIR, LABELS / 2),
        lambda: fitted(of(DANN), PAIR, LABELS.astype(str)),
        lambda: fitted(of(DANN), PAIR, SEVERAL, CATEGORICAL),
        lambda: fitted(of(CDAN), PAIR, SEVERAL, [SIGMOIDS]),
        lambda: fitted(of(CDAN), PAIR, SEVERAL, lambda y, z: SIGMOIDS(y, z)),
        lambda: fitted(of(DANN, regularizers=MCC()), PAIR, SEVERAL - 0.5, "mse"),
        lambda: fitted(of(DANN, label_head=linear(4, 1)), PAIR, 2 * LABELS, SIGMOIDS),
        lambda: of(DANN).compile("sgd", {"label": "mse", "domain": "mse"}),
        lambda: fitted(of(DANN), PAIR, np.array([[1, 1, 0]] * 5)),
        lambda: fitted(of(DANN), PAIR, LABELS[:, None], "mse"),
        lambda: fitted(of(DANN), {**PAIR, "target": TARGET[:, :2]}, LABELS),
        lambda: fitted(of(DANN), {**PAIR, "target": np.full_like(TARGET, np.nan)}, LABELS),
        lambda: fitted(of(DANN), {"source": FRAME, "target": FRAME[list("cba")]}, LABELS),
        lambda: fitted(of(DANN), SOURCE, LABELS),
        lambda: of(CDAN, domain_head=linear(4, 1)),
        lambda: of(DIRTT, radius=1.0, refresh_steps=0),
        lambda: of(DIRTT, radius=1.0, task_radius=0.1),
        lambda: of(DIRTT, radius=1.0)({**PAIR, "target_labelled": TARGET}, training=True),
        lambda: of(DIRTT, radius=1.0).start_from(SourceOnly(linear(3, 5), 3)),
        lambda: of(FDAL, divergence="js"),
        lambda: of(MCD, second_head=linear(4, 2)),
        lambda: of(MDAN, weighting="mean"),
        lambda: of(MDAN, num_sources=0),
        lambda: of(MDAN, gamma=0.0),
        lambda: of(MDAN, domain_head=linear(4, 3), num_sources=2),
        lambda: of(MDD, gamma=0),
        lambda: of(MDD, disparity="huber"),
        lambda: of(MDD, label_head=linear(4, 1)),
        lambda: itself(MDD, "adversarial_head"),
        lambda: of(PADA, momentum=1.1),
        lambda: fitted(of(PADA), PAIR, np.eye(3)[LABELS], CATEGORICAL),
        lambda: of(WDGRL, critic_steps=0),
        lambda: of(WDGRL, gradient_penalty=-1),
        lambda: MCC(-1),
        lambda: MCC(temperature=0),
        lambda: SelfEnsembling(threshold=1.0),
        lambda: SelfEnsembling(decay=1.0),
        joined_twice,
        lambda: VirtualAdversarial(radius=0),
        lambda: VirtualAdversarial(radius=1.0, source_weight=-1),
        perturbed_words,
        masked,
        lambda: of_maps(CDAN),
        lambda: of_maps(regularizers=[MCC()]),
        lambda: of_maps(domain_head=keras.layers.Dense(2)),
        lambda: of_maps(label_head=linear(4, 3)),
        lambda: of_maps(joint_forward=False)({"source": MAPS, "target": MAPS[:, :4]}),
        lambda: fitted_maps(LABELS),
        lambda: fitted_maps(np.zeros((5, 3), int)),
        lambda: fitted_maps(np.eye(3)[np.zeros((5, 6), int)]),
    ],
    TypeError: [
        lambda: DANN(None, 3),
        lambda: of(DANN, label_head="x"),
        lambda: of(SourceOnly, strength=1.0),
        lambda: of(DANN, lambda_=1.0),
        lambda: DANN(encoder=linear(3, 4), task=linear(4, 3), discriminator=linear(4, 1)),
        lambda: DANN(num_classes=3),
        lambda: fitted(of(DANN), PAIR, {"label": LABELS}),
        lambda: fitted(of(DANN), PAIR, list(LABELS)),
        lambda: of(DANN).fit(SOURCE, LABELS, TARGET),
        lambda: of(DANN).fit((SOURCE, LABELS), TARGET),
        lambda: of(DANN).fit([SOURCE, LABELS], TARGET),
        lambda: of(DANN).predict(dann.data.pair((SOURCE, LABELS), TARGET)),
        lambda: of(DANN).evaluate(SOURCE, LABELS, TARGET),
        lambda: of(DANN).evaluate((SOURCE, LABELS)),
        lambda: of(DIRTT),
        lambda: VirtualAdversarial(),
    ],
}
CALLS = [(call, error) for error, calls in REFUSED.items() for call in calls]


@pytest.mark.parametrize(("call", "error"), CALLS)
def test_what_does_not_fit_is_refused(call, error):
    with pytest.raises(error, match="."):
        call()


def with_part(name, **head):
    """A model with a method or regularizer of this name."""
    roster = METHODS if name in METHODS else REGULARIZERS
    facts = roster.facts[name]
    arguments = {**facts.get("arguments", {}), **facts.get("needs", {})}
    if roster is METHODS:
        return of(METHODS[name], **arguments, **head)
    return of(DANN, regularizers=[REGULARIZERS[name](**arguments)], **head)


PARTS = [n for n, one in [*METHODS.items(), *REGULARIZERS.items()] if one.needs_classes]


@pytest.mark.parametrize("name", PARTS)
def test_what_compares_classes_refuses_one_output_and_several_labels(name):
    with pytest.raises(ValueError, match="compare classes"):
        with_part(name, label_head=linear(4, 1))
    with pytest.raises(ValueError, match="compare classes"):
        with_part(name).compile("sgd", SIGMOIDS)
