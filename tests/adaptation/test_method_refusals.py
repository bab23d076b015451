"""Wrong arguments and data are refused by the constructor, `compile` or `fit`."""

import keras
import numpy as np
import pandas
import pytest
from support.arrays import LABELS, PAIR, SOURCE, TARGET
from support.networks import linear, two_heads

import dann
from dann import DANN, Invariant, SourceOnly
from dann.adaptation.adversarial_model import METHODS
from dann.adaptation.regularizers.regularizer import REGULARIZERS


def make(method, **kwargs):
    """Returns a method on a backbone from 3 inputs to 4 features."""
    kwargs = kwargs if "label_head" in kwargs else {"num_classes": 3, **kwargs}
    return method(linear(3, 4), **kwargs)


def share_head(method, name, outputs=3):
    head = linear(4, outputs)
    return method(linear(3, 4), label_head=head, **{name: head})


def fit(model, x, y, loss=None):
    model.compile("sgd", loss)
    model.fit(x, y, verbose=0)


def make_on_maps(method=DANN, **kwargs):
    return method(keras.Sequential([keras.Input((6, 3)), keras.layers.Dense(4)]), 3, **kwargs)


def make_masked():
    words = keras.Input((6,), dtype="int32"), keras.layers.Embedding(5, 4, mask_zero=True)
    return DANN(keras.Sequential(list(words)), 3)


def make_on_layer(layer, *shapes):
    """Returns a method on a layer with two arguments."""
    layer.build(*shapes)
    return DANN(layer, 3)


def two_labels(loss):
    make(Invariant, **NUISANCES, **TWO_LABELS).compile("sgd", loss)


def fit_sources(num_sources, sources):
    """Fits MDAN on pairs and on a dict with these numbers of sources."""
    model = make(dann.MDAN, num_sources=num_sources)
    pairs = dann.data.pair((SOURCE, LABELS), TARGET, source_domain=sources)
    with pytest.raises(ValueError, match="num_sources"):
        fit(model, pairs, None)
    fit(model, PAIR if sources is None else {**PAIR, "source_domain": sources}, LABELS)


def fit_invariant(x=SOURCE, **labels):
    site, age = LABELS % 2, LABELS / 2
    fit(make(Invariant, **NUISANCES), x, {"label": LABELS, "site": site, "age": age, **labels})


CATEGORICAL = keras.losses.CategoricalCrossentropy(from_logits=True)
SIGMOIDS = keras.losses.BinaryCrossentropy(from_logits=True)
FRAME = pandas.DataFrame(SOURCE, columns=list("abc"))
MAPS = {name: np.ones((5, size, 3)) for name, size in (("source", 6), ("target", 4))}
TEACHER = make(DANN, regularizers=[dann.SelfEnsembling()]).regularizers
MULTI_LABEL = np.array([[1.0, 1, 0]] * 5)
LABELLED = {**PAIR, "target_labeled": TARGET}
PAIRS = dann.data.pair((SOURCE, LABELS), TARGET)
WIDE_PAIRS = dann.data.pair((np.tile(SOURCE, 2), LABELS), np.tile(TARGET, 2))
DOMAINS = dann.data.arrays((SOURCE, LABELS), TARGET, (SOURCE + 1, LABELS), TARGET + 1)
OTHER = SourceOnly(linear(3, 5), 3)
FOUR = keras.Input((4,))
ATTENTION = keras.layers.MultiHeadAttention(2, 3)
NUISANCES = {"nuisances": {"site": 2, "age": "number"}}
STRENGTHS = {**NUISANCES, "strength": {"site": 1.0, "age": 1.0}}
TWO_LABELS, WITH_MCC = {"label_head": two_heads()}, {"regularizers": [dann.MCC()]}
# Methods, options of the constructor, and words of the message (regular expressions).
OPTIONS = [
    (DANN, {"num_classes": 0.5}, "`num_classes` to be an integer"),
    (DANN, {"strength": None}, "`strength` to be a finite number"),
    (DANN, {"regularizers": ["mcc"]}, "objects such as `dann.MCC\\(\\)`. Received: 'mcc'"),
    (DANN, {"num_classes": 4, "label_head": linear(4, 3)}, "3 outputs"),
    (DANN, {"label_head": keras.layers.Dense(3, "softmax")}, "return logits.*softmax"),
    (DANN, {"label_head": keras.Model(FOUR, keras.ops.sigmoid(FOUR))}, "return logits.*sigmoid"),
    (DANN, {"label_head": keras.Model(FOUR, [FOUR, FOUR])}, r"`label_head`.*one.*\[\(None, 4\), "),
    (DANN, {"label_head": keras.Model(FOUR, FOUR[:, 0])}, r"`label_head` .*shape \(None,\)"),
    (DANN, {"label_head": ATTENTION}, r"`label_head\(inputs\)` to work .*'value'.*one dict"),
    (DANN, {"domain_head": linear(4, 2)}, r"1 output.*\(None, 2\)"),
    (DANN, {"domain_head": two_heads()}, r"`domain_head` to have one output.*'size': \(None, 1\)"),
    (DANN, {"lambda_": 1.0}, "`strength`"),
    (dann.CDAN, {"strenght": 0.5}, "Received: strenght=0.5. Did you mean strength"),
    (DANN, {"discriminator": linear(4, 1)}, "`domain_head`"),
    (DANN, {"task_radius": -0.1}, "task_radius=-0.1"),
    (DANN, {"augmentation": {"both": []}}, "'blend'.*both"),
    (DANN, {"regularizers": [dann.MCC(), dann.MCC(2.0)]}, "distinct names"),
    (DANN, {"domain_label_smoothing": 0.51}, "domain_label_smoothing=0.51"),
    (dann.MDAN, {"domain_head": linear(4, 3), "num_sources": 2}, "1 or 2 output"),
    (dann.MDD, {"gamma": 0}, "gamma=0"),
    (dann.MDD, {"disparity": "huber"}, "'squared_error'"),
    (dann.MDD, {"label_head": linear(4, 1)}, "'squared_error'"),
    (dann.MCD, {"second_head": linear(4, 2)}, "`second_head`"),
    (dann.FDAL, {"divergence": "js"}, "'jensen_shannon'"),
    (dann.WDGRL, {"critic_steps": 0}, "critic_steps=0"),
    (SourceOnly, {"strength": 0.5}, "`SourceOnly` has no reversal. Received: strength=0.5"),
    (dann.DIRTT, {}, "radius"),
    (Invariant, {"nuisances": ["site"]}, "`nuisances` to be a dict"),
    (Invariant, {"nuisances": {}}, "at least one nuisance"),
    (Invariant, {"nuisances": {"label": 2}}, "name of a label"),
    (Invariant, {"nuisances": {"site": LABELS}}, r"nuisances\['site'\]"),
    (Invariant, {"nuisances": {"site": 1}}, r"nuisances\['site'\]"),
    (Invariant, {**NUISANCES, "strength": {"age": 1.0}}, "'age', 'site'"),
    (Invariant, {**NUISANCES, "heads": {"site": linear(4, 3)}}, "2 output"),
    (Invariant, {**NUISANCES, "balanced": "age"}, r"\['site'\].*age"),
    (Invariant, {**NUISANCES, **TWO_LABELS, "condition_on_label": True}, "and classes if"),
    (Invariant, {**NUISANCES, **TWO_LABELS, **WITH_MCC}, "which `MCC` require"),
]
# Method, inputs, labels and loss of `fit`, and words.
DATA = [
    (DANN, PAIR, LABELS, SIGMOIDS, "from 0 to 1"),
    (DANN, PAIR, LABELS[:, None], "mse", "3 values per example"),
    (DANN, PAIR, np.array([[1, 1, 0]] * 5), None, "CategoricalCrossentropy"),
    (DANN, PAIR, None, None, "no labels.*SelectionScores"),
    (DANN, PAIR, {"label": LABELS}, None, "one array"),
    (DANN, PAIR, LABELS.astype(str), None, "(?i)labels"),
    (DANN, PAIR, pandas.Series(LABELS + 2), None, "Received: 3, 4"),
    (DANN, PAIR, keras.ops.convert_to_tensor(LABELS + 4), None, "Received: 4, 5, 6"),
    (DANN, PAIR, MULTI_LABEL, CATEGORICAL, "sum to 1"),
    (dann.CDAN, PAIR, MULTI_LABEL, [SIGMOIDS], "which `CDAN` require"),
    (dann.CDAN, PAIR, MULTI_LABEL, lambda y, z: SIGMOIDS(y, z), "which `CDAN` require"),
    (DANN, SOURCE, LABELS, None, "pairs of source and target"),
    (DANN, {**PAIR, "target": TARGET[:, :2]}, LABELS, None, "target"),
    (DANN, {"source": FRAME, "target": FRAME[list("cba")]}, LABELS, None, "columns"),
    (DANN, {**PAIR, "target": np.full_like(TARGET, np.nan)}, LABELS, None, "target"),
    (SourceOnly, np.full_like(SOURCE, np.nan), LABELS, None, "NaN"),
]
CALLS = {
    "no backbone": (lambda: DANN(None, 3), "`backbone` to be a Keras model or layer"),
    "backbone of maps": (lambda: make_on_maps(dann.CDAN), "GlobalAveragePooling2D"),
    "two outputs": (lambda: DANN(keras.Sequential([FOUR, two_heads()]), 3), "`backbone`.* one ou"),
    "two arguments": (lambda: make_on_layer(keras.layers.GRUCell(4), (5, 3)), "'states'.*default"),
    "two shapes": (lambda: make_on_layer(ATTENTION, *[(5, 6, 3)] * 2), "one argument.*value_sh"),
    "not built": (lambda: DANN(keras.Sequential(), 3), r"`backbone.build\(\(None, 28, 28, 3\)\)"),
    "backbone with mask": (make_masked, "Pool over time first"),
    "no label head": (lambda: SourceOnly(linear(3, 4)), "`num_classes` or a `label_head`"),
    "shared": (
        lambda: fit(share_head(DANN, "domain_head", 1), PAIR, LABELS, "mse"),
        "`domain_head` to have its own weights",
    ),
    "shared second head": (lambda: share_head(dann.MDD, "adversarial_head"), "its own weights"),
    "domain head of maps": (lambda: make_on_maps(domain_head=keras.layers.Dense(2)), "1 output"),
    "regularizer of maps": (lambda: make_on_maps(**WITH_MCC), "`MCC` compares"),
    "maps of other sizes": (lambda: make_on_maps(joint_forward=False)(MAPS), "pooling layer"),
    "read strength": (lambda: make(SourceOnly).strength, "`SourceOnly` has no `strength`"),
    "set strength": (lambda: setattr(make(SourceOnly), "strength", 1), "`SourceOnly` has no"),
    "read strengths": (lambda: make(Invariant, **STRENGTHS).strength, r"reversals\['site'\]"),
    "negative weight": (lambda: dann.MCC(-1), "weight=-1"),
    "threshold": (lambda: dann.SelfEnsembling(threshold=1.0), "threshold=1.0"),
    "teacher twice": (lambda: make(DANN, regularizers=TEACHER), "a new `SelfEnsembling"),
    "no radius of VAT": (lambda: dann.VirtualAdversarial(), "`radius`"),
    "loss of numbers": (lambda: make(DANN, label_head=linear(4, 1)).compile("sgd"), "'mse'"),
    "string": (lambda: make(DANN).compile("sgd", "sparse_categorical_crossentropy"), "leave out `"),
    "sigmoids": (lambda: make(DANN).compile(loss=keras.losses.BinaryCrossentropy()), "from_logits"),
    "one loss of two labels": (lambda: two_labels("mse"), r"keys \['kind', 'size'\]"),
    "misspelt loss": (lambda: two_labels({"kind": "mse", "sice": "mse"}), "'size'"),
    "too few sources": (lambda: fit_sources(1, np.arange(5) % 3), r"\[0, 1, 2\]"),
    "too many sources": (lambda: fit_sources(5, np.arange(5) % 3), r"\[0, 1, 2\]"),
    "sources from 1": (lambda: fit_sources(3, np.arange(5) % 3 + 1), r"\[1, 2, 3\].*np.unique"),
    "pairs without sources": (lambda: fit_sources(2, None), "pairs without sources"),
    "Invariant on pairs": (lambda: fit(make(Invariant, **NUISANCES), PAIRS, None), "pairs"),
    "Invariant on a pair": (lambda: fit_invariant(PAIR), "pairs of source and target"),
    "an array": (
        lambda: fit(make(Invariant, **NUISANCES), SOURCE, LABELS),
        r"dict of labels.*\['age', 'label', 'site'\]. Received: ndarray",
    ),
    "Invariant of NaN": (lambda: fit_invariant(SOURCE * np.nan), "NaN"),
    "nuisance series": (lambda: fit_invariant(site=pandas.Series(LABELS)), "'site'.*Received: 2"),
    "text nuisance": (lambda: fit_invariant(site=list("mfmfm")), "'site' to be numbers"),
    "label series": (lambda: fit_invariant(label=pandas.Series(LABELS + 1)), "Received: 3"),
    "infinite nuisance": (lambda: fit_invariant(age=LABELS / np.inf + np.inf), "infinity"),
    "fit like scikit-learn": (lambda: make(DANN).fit(SOURCE, LABELS, TARGET), "dann.data.pair"),
    "weights": (lambda: make(DANN).fit(PAIRS, sample_weight=LABELS), r"\(inputs, labels, weights"),
    "fit a tuple": (lambda: make(DANN).fit((SOURCE, LABELS), TARGET), "dann.data.pair"),
    "fit a domain pair": (lambda: make(DANN).fit(DOMAINS), r"`fit\(domains.batches\(64\)\)`"),
    "no target": (lambda: fit(make(SourceOnly, **WITH_MCC), SOURCE, LABELS), "pairs of source and"),
    "predict pairs": (lambda: make(DANN).predict(PAIRS), r"predict\(inputs\)"),
    "width of pairs": (lambda: OTHER.fit(WIDE_PAIRS), r"\(3,\), as .* source of shape \(6,\)"),
    "width of a frame": (lambda: OTHER.fit(FRAME[["a"]], LABELS), r"inputs of shape \(1,\)"),
    "predicted width": (lambda: OTHER.predict(TARGET[:, :2]), r"shape \(3,\), as .*\(2,\)"),
    "evaluate a target": (lambda: make(DANN).evaluate(SOURCE, LABELS, TARGET), "evaluate"),
    "labeled target": (lambda: make(dann.DIRTT, radius=1.0)(LABELLED), "without a labeled target"),
    "classifier": (lambda: dann.DIRTT.from_model(OTHER.classifier), "dann.DANN.*load_first_stage"),
    "no model": (lambda: make(dann.DIRTT, radius=1).load_first_stage(None), "`model` to be a Ker"),
    "other network": (lambda: make(dann.DIRTT, radius=1.0).load_first_stage(OTHER), "shape"),
}


def check_refused(call, words):
    with pytest.raises((ValueError, TypeError, AttributeError), match=f"(?s){words}"):
        call()


def name_options(options):
    return "-".join(options) if isinstance(options, dict) else getattr(options, "__name__", None)


@pytest.mark.parametrize(("method", "options", "words"), OPTIONS, ids=name_options)
def test_wrong_options_are_refused(method, options, words):
    check_refused(lambda: make(method, **options), words)


@pytest.mark.parametrize(("method", "x", "y", "loss", "words"), DATA, ids=[row[-1] for row in DATA])
def test_wrong_data_are_refused(method, x, y, loss, words):
    check_refused(lambda: fit(make(method), x, y, loss), words)


@pytest.mark.parametrize(("call", "words"), CALLS.values(), ids=list(CALLS))
def test_wrong_calls_are_refused(call, words):
    check_refused(call, words)


def make_with(name, **head):
    """Returns a model with the registered method or regularizer of this name."""
    registry = METHODS if name in METHODS else REGULARIZERS
    metadata = registry.metadata[name]
    arguments = {**metadata.get("arguments", {}), **metadata.get("example_arguments", {})}
    if registry is METHODS:
        return make(METHODS[name], **arguments, **head)
    return make(DANN, regularizers=[REGULARIZERS[name](**arguments)], **head)


CLASS_PARTS = [n for n, part in [*METHODS.items(), *REGULARIZERS.items()] if part.needs_classes]


@pytest.mark.parametrize("name", CLASS_PARTS)
def test_class_comparison_refuses_numbers_and_multi_label(name):
    with pytest.raises(ValueError, match="one class per example"):
        make_with(name, label_head=linear(4, 1))
    with pytest.raises(ValueError, match="one class per example"):
        make_with(name).compile("sgd", SIGMOIDS)
