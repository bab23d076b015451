"""Wrong arguments and data are refused by the constructor, `compile` or `fit`."""

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
    Invariant,
    SelfEnsembling,
    SourceOnly,
    VirtualAdversarial,
)
from dann.adaptation.batch import Batch


def make(method, **kwargs):
    """Returns a method on a backbone from 3 inputs to 4 features."""
    head = {} if "label_head" in kwargs else {"num_classes": 3}
    return method(linear(3, 4), **head, **kwargs)


def head_with(activation):
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation)])


def share_head(method, name, outputs=3):
    head = linear(4, outputs)
    return method(linear(3, 4), label_head=head, **{name: head})


def fit(model, x, y, loss=None):
    model.compile("sgd", loss)
    model.fit(x, y, verbose=0)


def fit_dann(x, y, loss=None, **kwargs):
    fit(make(DANN, **kwargs), x, y, loss)


def join_twice():
    regularizer = SelfEnsembling()
    return [make(DANN, regularizers=[regularizer]) for _ in range(2)]


def make_on_maps(method=DANN, **kwargs):
    return method(keras.Sequential([keras.Input((6, 3)), keras.layers.Dense(4)]), 3, **kwargs)


def fit_maps(labels):
    fit(make_on_maps(), {"source": MAPS, "target": MAPS}, labels)


def make_masked():
    words = keras.Input((6,), dtype="int32"), keras.layers.Embedding(5, 4, mask_zero=True)
    return DANN(keras.Sequential(list(words)), 3)


def perturb_words():
    words = keras.Input((6,), dtype="int32"), keras.layers.Embedding(5, 4), keras.layers.Flatten()
    batch = Batch({}, {}, {}, raw_inputs={"target": np.ones((2, 6), int)})
    model = DANN(keras.Sequential(list(words)), 3)
    VirtualAdversarial(radius=1.0).losses(model, batch, None, True)


def invariant(**kwargs):
    return Invariant(linear(3, 4), 3, **{"nuisances": {"site": 2, "age": "number"}, **kwargs})


def two_labels(loss=None, **kwargs):
    """Compiles an `Invariant` with the label outputs "kind" and "size"."""
    inputs = keras.Input((4,))
    outputs = {"kind": linear(4, 3)(inputs), "size": linear(4, 1)(inputs)}
    head = keras.Model(inputs, outputs)
    Invariant(linear(3, 4), label_head=head, nuisances={"site": 2}, **kwargs).compile("sgd", loss)


CATEGORICAL = keras.losses.CategoricalCrossentropy(from_logits=True)
SIGMOIDS = keras.losses.BinaryCrossentropy(from_logits=True)
FRAME = pandas.DataFrame(SOURCE, columns=list("abc"))
MAPS = np.ones((5, 6, 3), "float32")
MULTI_LABEL = np.array([[1.0, 1, 0]] * 5)
LABELLED = {**PAIR, "target_labelled": TARGET}
STRENGTHS = {"site": 1.0, "age": 1.0}
# Calls and words of the message, which may be a regular expression.
REFUSED = {
    "backbone of None": (lambda: DANN(None, 3), "`backbone` to be a Keras model or layer"),
    "backbone missing": (lambda: DANN(num_classes=3), "backbone"),
    "backbone of maps": (lambda: make_on_maps(CDAN), "GlobalAveragePooling2D"),
    "backbone with mask": (make_masked, "Pool over time first"),
    "no label head": (lambda: SourceOnly(linear(3, 4)), "`num_classes` or a `label_head`"),
    "number of classes": (lambda: SourceOnly(linear(3, 4), 4, linear(4, 3)), "3 outputs"),
    "num_classes of 0.5": (lambda: SourceOnly(linear(3, 4), 0.5), "`num_classes`"),
    "label head inputs": (lambda: make(SourceOnly, label_head=linear(5, 3)), "shape"),
    "label head of str": (lambda: make(DANN, label_head="x"), "`label_head` to be a Keras"),
    "label head softmax": (lambda: make(DANN, label_head=head_with("softmax")), "softmax"),
    "domain head outputs": (lambda: make(DANN, domain_head=linear(4, 2)), r"1 output.*\(None, 2\)"),
    "domain head sigmoid": (lambda: make(DANN, domain_head=head_with("sigmoid")), "sigmoid"),
    "domain head shared": (
        lambda: fit(share_head(DANN, "domain_head", 1), PAIR, LABELS, "mse"),
        "`domain_head` to have its own weights",
    ),
    "domain head of CDAN": (lambda: make(CDAN, domain_head=linear(4, 1)), "shape"),
    "domain head of MDAN": (lambda: make(MDAN, domain_head=linear(4, 3), num_sources=2), "1 or 2"),
    "domain head of maps": (lambda: make_on_maps(domain_head=keras.layers.Dense(2)), "1 output"),
    "second head outputs": (lambda: make(MCD, second_head=linear(4, 2)), "`second_head`"),
    "second head shared": (lambda: share_head(MDD, "adversarial_head"), "its own weights"),
    "foreign strength": (lambda: make(DANN, lambda_=1.0), "`?strength"),
    "foreign networks": (lambda: make(DANN, discriminator=linear(4, 1)), "domain_head"),
    "unknown argument": (lambda: make(DANN, momentum=0.9), "momentum"),
    "strength of SourceOnly": (
        lambda: make(SourceOnly, strength=0.5),
        "`SourceOnly` has no reversal. Received: strength=0.5",
    ),
    "strength of DIRTT": (lambda: make(DIRTT, radius=1.0, strength=0.5), "`DIRTT` has no reversal"),
    "read strength": (lambda: make(SourceOnly).strength, "`SourceOnly` has no `strength`"),
    "read strength of DIRTT": (
        lambda: make(DIRTT, radius=1.0).strength,
        "`DIRTT` has no `strength",
    ),
    "read strengths": (lambda: invariant(strength=STRENGTHS).strength, r"reversals\['site'\]"),
    "radius without reversal": (lambda: make(SourceOnly, task_radius=0.1), "`task_radius`"),
    "radius of DIRTT": (lambda: make(DIRTT, radius=1.0, task_radius=0.1), "`task_radius`"),
    "negative radius": (lambda: make(DANN, task_radius=-0.1), "task_radius=-0.1"),
    "augmentation key": (lambda: make(DANN, augmentation={"both": []}), "'blend'.*both"),
    "regularizer twice": (lambda: make(DANN, regularizers=[MCC(), MCC(2.0)]), "distinct names"),
    "regularizer of maps": (lambda: make_on_maps(regularizers=[MCC()]), "`MCC` compares whole"),
    "smoothing": (lambda: make(DANN, domain_label_smoothing=0.51), "domain_label_smoothing=0.51"),
    "refresh steps": (lambda: make(DIRTT, radius=1.0, refresh_steps=0), "refresh_steps=0"),
    "no radius of DIRTT": (lambda: make(DIRTT), "radius"),
    "divergence": (lambda: make(FDAL, divergence="js"), "'jensen_shannon'"),
    "weighting": (lambda: make(MDAN, weighting="mean"), "'soft', 'hard'"),
    "num_sources": (lambda: make(MDAN, num_sources=0), "num_sources=0"),
    "gamma of MDAN": (lambda: make(MDAN, gamma=0.0), "gamma=0.0"),
    "gamma of MDD": (lambda: make(MDD, gamma=0), "gamma=0"),
    "disparity": (lambda: make(MDD, disparity="huber"), "'squared_error'"),
    "margin of numbers": (lambda: make(MDD, label_head=linear(4, 1)), "'squared_error'"),
    "momentum": (lambda: make(PADA, momentum=1.1), "momentum=1.1"),
    "critic steps": (lambda: make(WDGRL, critic_steps=0), "critic_steps=0"),
    "gradient penalty": (lambda: make(WDGRL, gradient_penalty=-1), "gradient_penalty=-1"),
    "weight": (lambda: MCC(-1), "weight=-1"),
    "temperature": (lambda: MCC(temperature=0), "temperature=0"),
    "threshold": (lambda: SelfEnsembling(threshold=1.0), "threshold=1.0"),
    "decay": (lambda: SelfEnsembling(decay=1.0), "decay=1.0"),
    "teacher twice": (join_twice, "a new `SelfEnsembling"),
    "radius of VAT": (lambda: VirtualAdversarial(radius=0), "radius=0"),
    "no radius of VAT": (lambda: VirtualAdversarial(), "`radius`"),
    "source weight": (lambda: VirtualAdversarial(radius=1, source_weight=-1), "source_weight=-1"),
    "VAT of words": (perturb_words, "int"),
    "loss for numbers": (lambda: make(DANN, label_head=linear(4, 1)).compile("sgd"), "'mse'"),
    "loss of probabilities": (
        lambda: make(DANN).compile(loss="categorical_crossentropy"),
        "from_logits=True",
    ),
    "sigmoid of probabilities": (
        lambda: make(DANN).compile(loss=keras.losses.BinaryCrossentropy()),
        "from_logits=True",
    ),
    "several losses": (lambda: make(DANN).compile("sgd", {"a": "mse", "b": "mse"}), "one loss"),
    "sigmoids of numbers": (lambda: fit_dann(PAIR, LABELS, SIGMOIDS), "from 0 to 1"),
    "mse of numbers": (lambda: fit_dann(PAIR, LABELS[:, None], "mse"), "3 values per example"),
    "one-hot without loss": (lambda: fit_dann(PAIR, np.array([[1, 1, 0]] * 5)), "CategoricalCross"),
    "no labels": (lambda: fit_dann(PAIR, None), "no labels"),
    "labels of dict": (lambda: fit_dann(PAIR, {"label": LABELS}), "one array"),
    "labels of list": (lambda: fit_dann(PAIR, list(LABELS)), r"np.asarray\(labels\)"),
    "labels of strings": (lambda: fit_dann(PAIR, LABELS.astype(str)), "(?i)labels"),
    "labels out of range": (lambda: fit_dann(PAIR, LABELS + 1), "3"),
    "labels not whole": (lambda: fit_dann(PAIR, LABELS / 2), "0.5"),
    "labels not shares": (lambda: fit_dann(PAIR, MULTI_LABEL, CATEGORICAL), "sum to 1"),
    "labels above 1": (
        lambda: fit_dann(PAIR, 2 * LABELS, SIGMOIDS, label_head=linear(4, 1)),
        "from 0 to 1",
    ),
    "multi-label CDAN": (lambda: fit(make(CDAN), PAIR, MULTI_LABEL, [SIGMOIDS]), "`CDAN` compare"),
    "multi-label custom loss": (
        lambda: fit(make(CDAN), PAIR, MULTI_LABEL, lambda y, z: SIGMOIDS(y, z)),
        "`CDAN` compare",
    ),
    "multi-label MCC": (
        lambda: fit_dann(PAIR, MULTI_LABEL - 0.5, "mse", regularizers=MCC()),
        "`MCC` compare",
    ),
    "one-hot PADA": (lambda: fit(make(PADA), PAIR, np.eye(3)[LABELS], CATEGORICAL), "`PADA`"),
    "pooled label head on maps": (lambda: make_on_maps(label_head=linear(4, 3)), "shape"),
    "flat labels of maps": (lambda: fit_maps(LABELS), "."),
    "map labels of other shape": (lambda: fit_maps(np.zeros((5, 3), int)), "."),
    "one-hot map labels": (lambda: fit_maps(np.eye(3)[np.zeros((5, 6), int)]), "CategoricalCross"),
    "maps of other sizes": (
        lambda: make_on_maps(joint_forward=False)({"source": MAPS, "target": MAPS[:, :4]}),
        "pooling layer",
    ),
    "one domain": (lambda: fit_dann(SOURCE, LABELS), "pairs of source and target"),
    "one domain with regularizer": (
        lambda: fit(make(SourceOnly, regularizers=[MCC()]), SOURCE, LABELS),
        "pairs of source and",
    ),
    "columns differ": (lambda: fit_dann({**PAIR, "target": TARGET[:, :2]}, LABELS), "target"),
    "columns reordered": (
        lambda: fit_dann({"source": FRAME, "target": FRAME[list("cba")]}, LABELS),
        "columns",
    ),
    "NaN": (lambda: fit_dann({**PAIR, "target": np.full_like(TARGET, np.nan)}, LABELS), "target"),
    "fit like scikit-learn": (lambda: make(DANN).fit(SOURCE, LABELS, TARGET), "dann.data.pair"),
    "fit a tuple": (lambda: make(DANN).fit((SOURCE, LABELS), TARGET), "dann.data.pair"),
    "fit a list": (lambda: make(DANN).fit([SOURCE, LABELS], TARGET), "dann.data.pair"),
    "predict pairs": (
        lambda: make(DANN).predict(dann.data.pair((SOURCE, LABELS), TARGET)),
        r"predict\(inputs\)",
    ),
    "evaluate a target": (lambda: make(DANN).evaluate(SOURCE, LABELS, TARGET), "evaluate"),
    "evaluate a tuple": (lambda: make(DANN).evaluate((SOURCE, LABELS)), "evaluate"),
    "labelled target of DIRTT": (
        lambda: make(DIRTT, radius=1.0)(LABELLED, training=True),
        "without a labelled target",
    ),
    "DIRTT from other network": (
        lambda: make(DIRTT, radius=1.0).start_from(SourceOnly(linear(3, 5), 3)),
        "shape",
    ),
    "no nuisance": (lambda: invariant(nuisances={}), "at least one nuisance"),
    "nuisance named label": (lambda: invariant(nuisances={"label": 2}), "name of a label"),
    "nuisance of one value": (lambda: invariant(nuisances={"site": 1}), r"nuisances\['site'\]"),
    "strength of one nuisance": (lambda: invariant(strength={"age": 1.0}), "'age', 'site'"),
    "head of no nuisance": (lambda: invariant(heads={"other": linear(4, 2)}), "other"),
    "nuisance head outputs": (lambda: invariant(heads={"site": linear(4, 3)}), "2 output"),
    "balanced number": (lambda: invariant(balanced="age"), r"\['site'\].*age"),
    "balanced unknown": (lambda: invariant(balanced="other"), "other"),
    "condition without classes": (lambda: two_labels(condition_on_label=True), "and classes if"),
    "MCC of two labels": (lambda: two_labels(regularizers=MCC()), "`MCC` compare"),
    "no loss of two labels": (two_labels, r"keys \['kind', 'size'\]"),
    "one loss of two labels": (lambda: two_labels("mse"), r"keys \['kind', 'size'\]"),
    "misspelt loss key": (lambda: two_labels({"kind": "mse", "sice": "mse"}), "'size'"),
    "loss key of probabilities": (
        lambda: two_labels({"kind": "sparse_categorical_crossentropy", "size": "mse"}),
        "from_logits=True",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_arguments_and_data_are_refused(case):
    call, words = REFUSED[case]
    with pytest.raises((ValueError, TypeError, AttributeError), match=f"(?s){words}"):
        call()


def test_num_classes_may_be_a_numpy_integer():
    assert DANN(linear(3, 4), num_classes=np.int64(3)).classifier.output_shape == (None, 3)


def make_with(name, **head):
    """Returns a model with the registered method or regularizer of this name."""
    registry = METHODS if name in METHODS else REGULARIZERS
    facts = registry.facts[name]
    arguments = {**facts.get("arguments", {}), **facts.get("needs", {})}
    if registry is METHODS:
        return make(METHODS[name], **arguments, **head)
    return make(DANN, regularizers=[REGULARIZERS[name](**arguments)], **head)


CLASS_PARTS = [n for n, part in [*METHODS.items(), *REGULARIZERS.items()] if part.needs_classes]


@pytest.mark.parametrize("name", CLASS_PARTS)
def test_class_comparison_refuses_numbers_and_multi_label(name):
    with pytest.raises(ValueError, match="compare classes"):
        make_with(name, label_head=linear(4, 1))
    with pytest.raises(ValueError, match="compare classes"):
        make_with(name).compile("sgd", SIGMOIDS)
