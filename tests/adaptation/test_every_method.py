"""The contract of `AdversarialModel`, which every registered method keeps."""

import functools
import inspect

import keras
import numpy as np
import pytest
from scipy import special
from support.arrays import assert_all_close, assert_all_equal
from support.networks import weights_of, with_random_weights
from support.one_step import step

import dann
import dann.adaptation
from dann.adaptation import DANN, MCC, AdversarialModel, Regularizer, SourceOnly
from dann.networks import mlp_backbone
from dann.schedules import GaninSchedule

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(0)
INPUTS = {name: RNG.normal(size=(12, 4)).astype("float32") for name in ("source", "target")}
LABELS = np.arange(12) % 3


def backbone():
    return mlp_backbone((4,), hidden_units=(6,))


def critic():
    """A critic without the last bias, which would get no gradient: it cancels in the distance."""
    entry = keras.Input((6,))
    hidden = keras.layers.Dense(5, activation="tanh")(entry)
    return keras.Model(entry, keras.layers.Dense(1, use_bias=False, dtype="float32")(hidden))


EXTRA = {
    "cdan_e": lambda: {"max_units": 11, "domain_label_smoothing": 0.1},
    "dirt_t": lambda: {"seed": 1, "teacher_weight": 0.7, "refresh_steps": 2},
    "fdal": lambda: {"divergence": "jensen_shannon"},
    "mdan": lambda: {"gamma": 2.0, "weighting": "hard"},
    "mdd": lambda: {"gamma": 2.5},
    "pada": lambda: {"momentum": 0.5},
    "wdgrl": lambda: {"seed": 1, "domain_head": critic(), "critic_steps": 2},
}


def small(name, **kwargs):
    """A small model of a registered method."""
    facts, kind = dann.adaptation.METHODS.facts[name], dann.adaptation.METHODS[name]
    arguments = {"backbone": backbone(), "num_classes": 3}
    arguments |= {**facts.get("arguments", {}), **facts.get("needs", {})}
    return kind(**{**arguments, **EXTRA.get(name, dict)(), **kwargs})


FACTS, CLASSES = dann.adaptation.METHODS.facts, dict(dann.adaptation.METHODS)
METHODS = {name: functools.partial(small, name) for name in sorted(CLASSES)}
METHODS["dann_schedule"] = functools.partial(
    small, "dann", strength=GaninSchedule(100), passes="separate"
)
VARIANTS = {name for name, facts in FACTS.items() if "arguments" in facts}
VARIANTS |= {"dann_schedule"}
BASELINES = {name for name, kind in CLASSES.items() if issubclass(kind, SourceOnly)}
SMOOTH = {n for n, facts in FACTS.items() if "task_radius" in facts.get("arguments", {})}
REGULARIZERS = dann.adaptation.REGULARIZERS
CHANGED = {
    "entropy": {"weight": 0.3},
    "mcc": {"weight": 0.5, "temperature": 3.0},
    "self_ensembling": {"weight": 0.5, "threshold": 0.2, "decay": 0.8, "balance": 0.1},
    "vat": {"weight": 0.5, "radius": 2.0, "source_weight": 0.3, "seed": 4},
}
DRAWS = {"wdgrl", "dirt_t"}  # its losses or its adversary draw at random
# One of each way to step; what all share in one place is tested with these, and with all if slow.
FEW = {"source_only", "cdan", "dann", "dirt_t", "mcd", "wdgrl"}


def parametrize(slow, names=METHODS):
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in names]
    )


each_method = parametrize(slow=VARIANTS)
few_methods = parametrize(slow=set(METHODS) - FEW)


def compiled(name, **kwargs):
    """A model whose optimizer has a state, but does not enlarge the rounding of tiny gradients."""
    model = METHODS[name]()
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-3), metrics=["accuracy"], **kwargs)
    return model


def subclasses(cls):
    """The classes of the package that derive from a class, however far."""
    found = {sub for direct in cls.__subclasses__() for sub in {direct, *subclasses(direct)}}
    return {sub for sub in found if sub.__module__.startswith("dann.adaptation.")}


def test_every_method_and_regularizer_is_registered_and_exported():
    methods, regularizers = subclasses(AdversarialModel), subclasses(Regularizer)
    assert set(dann.adaptation.METHODS.values()) == methods
    regularizers = {cls for cls in regularizers if not cls.__name__.startswith("_")}
    assert set(dann.adaptation.REGULARIZERS.values()) == regularizers
    for cls in methods | regularizers:
        assert getattr(dann, cls.__name__) is getattr(dann.adaptation, cls.__name__) is cls
    assert {(name, kind.name) for name, kind in REGULARIZERS.items()} == {
        (cls.name, cls.name) for cls in regularizers
    }


@pytest.mark.parametrize("name", [*CLASSES, *REGULARIZERS])
def test_every_argument_is_in_the_config(name):
    one = small(name) if name in CLASSES else REGULARIZERS[name](**CHANGED[name])
    arguments = inspect.signature(type(one).__init__).parameters.values()
    own = {each.name for each in arguments if each.kind is each.KEYWORD_ONLY or name in CHANGED}
    assert own - {"self"} <= set(one.get_config())


def test_a_step_is_traced_once(monkeypatch):
    traced, losses = [], DANN.method_losses
    monkeypatch.setattr(DANN, "method_losses", lambda *args: traced.append(1) or losses(*args))
    compiled("dann").fit(INPUTS, LABELS, batch_size=4, epochs=2, verbose=0)
    assert len(traced) == 1


@pytest.mark.jax
@few_methods
def test_it_fits_pairs_and_evaluates_plain_inputs(name):
    model = compiled(name)
    validation = {"validation_data": (INPUTS["source"], LABELS)}
    history = model.fit(INPUTS, LABELS, batch_size=4, verbose=0, **validation).history
    assert {"loss", "label/loss", "accuracy", "val_loss", "val_accuracy"} <= set(history)
    assert not {key for key in history if key.startswith("val_") and "/" in key}
    found = model.evaluate(INPUTS["target"], LABELS, verbose=0, return_dict=True)
    assert set(found) == {"loss", "accuracy"}
    assert model.predict(INPUTS["target"], verbose=0).shape == (12, 3)


@each_method
def test_its_losses_can_be_computed_from_features_without_changing_it(name):
    model = METHODS[name](**({} if name in BASELINES else {"regularizers": [MCC()]}))
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    before = [np.array(v) for v in (*model.variables, *model.metrics_variables)]
    inputs = model.augment(INPUTS, training=False)
    batch = model.batch_of(inputs, model.extract(inputs, training=False), training=False)
    terms = model.loss_terms(INPUTS, LABELS, batch, training=False)
    after = [np.array(v) for v in (*model.variables, *model.metrics_variables)]
    logs = model.evaluate(INPUTS, LABELS, batch_size=12, verbose=0, return_dict=True)
    if name not in DRAWS:
        assert_all_equal(before, after)
        assert float(model.total(terms)) == pytest.approx(logs["loss"], rel=1e-5)
    assert set(terms) <= set(logs)


@few_methods
def test_its_classifier_shares_the_weights_and_gives_the_same_logits(name):
    model = compiled(name, run_eagerly=True)
    model.fit(INPUTS, LABELS, batch_size=4, verbose=0)
    logits = keras.ops.convert_to_numpy(model(INPUTS["target"]))
    np.testing.assert_array_equal(model.classifier(INPUTS["target"]), logits)
    assert not any(isinstance(one, dann.layers.GradientReversal) for one in model.classifier.layers)


@parametrize(slow=VARIANTS, names=[*METHODS, *REGULARIZERS])
def test_it_comes_back_from_a_file_with_every_argument_and_trains_on_as_before(name, reloaded):
    if name in METHODS:
        model = METHODS[name]()
    else:
        model = DANN(backbone(), 3, regularizers=[REGULARIZERS[name](**CHANGED[name])])
    optimizer = keras.optimizers.Adam(0.01, epsilon=1e-3)
    model.compile(optimizer, metrics=["accuracy"], run_eagerly=True)
    model.fit(INPUTS, LABELS, batch_size=4, shuffle=False, verbose=0)
    again = reloaded(model)
    found, kept = (
        {k: v for k, v in one.get_config().items() if isinstance(v, str | int | float)}
        for one in (again, model)
    )
    assert found == kept
    found, kept = ([each.get_config() for each in one.regularizers] for one in (again, model))
    assert found == kept
    assert_all_equal(again.get_weights(), model.get_weights())
    for one in (model, again):
        one.fit(INPUTS, LABELS, batch_size=4, shuffle=False, verbose=0)
    assert_all_close(model.get_weights(), again.get_weights(), rtol=1e-5, atol=1e-7)


@few_methods
@pytest.mark.parametrize(
    "policy", ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)]
)
def test_it_trains_in_mixed_precision(name, policy):
    keras.config.set_dtype_policy(policy)
    model = compiled(name)
    before = weights_of(model)
    history = model.fit(INPUTS, LABELS, batch_size=4, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert all((new != old).any() for new, old in zip(weights_of(model), before, strict=True))


@few_methods
def test_it_trains_in_double_precision(name, double_precision):
    joining = [MCC(), dann.ConditionalEntropy(), dann.VirtualAdversarial(radius=0.5)]
    model = METHODS[name](regularizers=[MCC()] if name == "dirt_t" else joining)
    model.compile("sgd", run_eagerly=True)
    history = model.fit(INPUTS, LABELS, batch_size=12, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert model.backbone.weights[0].dtype == "float64"


HALF_HEADS = {
    "dann": (dann.DANN, 1, {}),
    "mdan": (dann.MDAN, 2, {"num_sources": 2}),
    "wdgrl": (dann.WDGRL, 1, {"critic_steps": 1}),
    "mcd": (dann.MCD, None, {}),
    "dirt_t": (dann.DIRTT, None, {"radius": 0.5}),
}


@pytest.mark.parametrize("name", HALF_HEADS)
def test_custom_heads_have_the_same_losses_in_half_as_in_single_precision(name):
    method, outputs, settings = HALF_HEADS[name]
    joining = [MCC()]
    if name != "dirt_t":  # which has the others
        joining += [dann.VirtualAdversarial(radius=0.5, seed=1), dann.ConditionalEntropy()]
    losses = []
    for policy in ("float32", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        heads = {"label_head": keras.layers.Dense(3)}
        if outputs:
            heads["domain_head"] = keras.layers.Dense(outputs)
        model = with_random_weights(method(backbone(), **heads, **settings, regularizers=joining))
        # A class that nobody predicts: half precision rounds its share to 0.
        model.label_head.bias.assign([0.0, 0.0, -100.0])
        model.compile("sgd", run_eagerly=True)
        pair = {**INPUTS, "source_domain": np.arange(12) % 2}
        history = model.fit(pair, LABELS, batch_size=12, shuffle=False, verbose=0).history
        losses.append({key: value[0] for key, value in history.items()})
    single, half = losses
    assert {"mcc/loss", "entropy/loss", "vat/loss"} <= set(single)
    assert np.isfinite(half.pop("vat/loss"))  # its direction is another
    assert half == pytest.approx({key: single[key] for key in half}, rel=2e-2, abs=2e-3)


@pytest.mark.parametrize("name", sorted(set(METHODS) - BASELINES - VARIANTS - {"dirt_t"}))
def test_sample_weights_of_zero_leave_the_adversary_alone(name):
    logs = []
    for weights in (None, np.zeros(12)):
        keras.utils.set_random_seed(3)
        found, slopes = step(METHODS[name](), "eager", INPUTS, LABELS, weights)
        terms = {key for key in found if key.endswith("/loss") and "label" not in key}
        logs.append({key: found[key] for key in terms})
    assert found["label/loss"] == 0
    assert logs[0]
    assert logs[0] == pytest.approx(logs[1], rel=1e-5)
    if name != "wdgrl":  # whose critic learns alone at first
        assert np.abs(slopes[0]).max() > 0


def test_source_only_also_fits_plain_arrays():
    model = compiled("source_only")
    before = np.array(model.trainable_weights[0])
    model.fit(INPUTS["source"], LABELS, verbose=0)
    assert np.abs(model.trainable_weights[0] - before).max() > 0


def cross_entropy(model, inputs, labels):
    logits = keras.ops.convert_to_numpy(model.classifier(inputs)).astype("float64")
    return np.mean(special.logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels])


@pytest.mark.parametrize("name", sorted(set(METHODS) - VARIANTS - {"dirt_t"}))
def test_a_labelled_target_joins_the_label_loss_alone(name):
    model = METHODS[name]()
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"], run_eagerly=True)
    extra, extra_labels = INPUTS["target"][:6] + 1, LABELS[:6]
    pair = {**INPUTS, "target_labelled": extra}
    labels = np.concatenate([LABELS, extra_labels])
    start = model.get_weights()
    logs = model.train_on_batch(pair, labels, return_dict=True)
    model.set_weights(start)  # a step may change a method's state
    inputs = np.concatenate([INPUTS["source"], extra])
    assert logs["label/loss"] == pytest.approx(cross_entropy(model, inputs, labels), rel=1e-5)
    if "domain/loss" in logs:
        without = model.evaluate(INPUTS, LABELS, verbose=0, return_dict=True)
        assert logs["domain/loss"] == pytest.approx(without["domain/loss"], rel=1e-5)


@few_methods
def test_augmentation_changes_training_alone(name):
    domain = "target" if METHODS[name]().oracle else "source"
    shift = keras.layers.Rescaling(1.0, offset=3.0)
    # A smooth task step logs the losses at weights that are moved by this.
    radius = {"task_radius": 1e-7} if name in SMOOTH else {}
    model = with_random_weights(METHODS[name](augmentation={domain: [shift]}, **radius))
    model.compile(keras.optimizers.SGD(0.0), metrics=["accuracy"], run_eagerly=True)
    plain = cross_entropy(model, INPUTS["source"], LABELS)
    shifted = cross_entropy(model, INPUTS["source"] + 3, LABELS)
    logs = model.train_on_batch(INPUTS, LABELS, return_dict=True)
    assert logs["label/loss"] == pytest.approx(shifted, rel=1e-5)
    logs = model.evaluate(INPUTS["source"], LABELS, batch_size=12, verbose=0, return_dict=True)
    assert logs["loss"] == pytest.approx(plain, rel=1e-5)
    assert abs(plain - shifted) > 0.01


class MeanSquare(Regularizer):
    """The mean square of the target's logits."""

    name = "mean_square"

    def loss(self, model, x, batch):
        return keras.ops.mean(keras.ops.square(batch.logits["target"]))


@pytest.mark.parametrize("name", sorted(FEW - BASELINES))
def test_a_regularizer_adds_its_weight_times_its_loss(name):
    model = METHODS[name](regularizers=[MeanSquare(weight=3.0)])
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    logits = keras.ops.convert_to_numpy(model.classifier(INPUTS["target"])).astype("float64")
    without = METHODS[name]()
    without.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    without.set_weights(model.get_weights())
    logs = model.train_on_batch(INPUTS, LABELS, return_dict=True)
    plain = without.train_on_batch(INPUTS, LABELS, return_dict=True)
    assert logs["mean_square/loss"] == pytest.approx(np.mean(logits**2), rel=1e-5)
    assert logs["loss"] - plain["loss"] == pytest.approx(3 * np.mean(logits**2), rel=1e-4)


def test_domains_of_different_lengths_train_in_separate_passes():
    layers = [keras.Input((None, 2)), keras.layers.Conv1D(4, 2)]
    layers.append(keras.layers.GlobalAveragePooling1D())
    lengths = {"source": 9, "target": 6}
    series = {name: RNG.normal(size=(12, n, 2)).astype("float32") for name, n in lengths.items()}
    model = dann.CDAN(keras.Sequential(layers), 3, passes="separate")
    model.compile(keras.optimizers.SGD(0.0))
    pairs = dann.data.pair((series["source"], LABELS), series["target"], batch_size=12)
    logs = model.fit(pairs, verbose=0).history
    expected = cross_entropy(model, series["source"], LABELS)
    assert logs["label/loss"] == [pytest.approx(expected, rel=1e-5)]
    joint = dann.CDAN(model.backbone, 3)
    with pytest.raises(ValueError, match='`passes="separate"`'):
        joint(series)


def test_several_labels_an_example_have_sigmoids_and_their_accuracy():
    labels = RNG.integers(0, 2, (12, 3)).astype("float32")
    model = METHODS["dann"]()
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss, metrics=["accuracy"])
    logs = model.train_on_batch(INPUTS, labels, return_dict=True)
    logits = keras.ops.convert_to_numpy(model.classifier(INPUTS["source"]))
    loss = np.mean(np.logaddexp(0, logits) - labels * logits)
    assert logs["label/loss"] == pytest.approx(loss, rel=1e-5)
    assert logs["accuracy"] == pytest.approx(np.mean((logits > 0) == labels), rel=1e-6)


@pytest.mark.jax
@pytest.mark.parametrize("radius", [0.0, 1e-7])
@pytest.mark.parametrize("passes", ["joint", "separate"])
def test_losses_of_layers_count_once_a_domain_and_under_a_task_radius(passes, radius):
    entry = keras.Input((4,))
    weight, activity = keras.regularizers.L2(0.5), keras.regularizers.L2(0.3)
    dense = keras.layers.Dense(
        6, kernel_regularizer=weight, activity_regularizer=activity, use_bias=False
    )
    model = DANN(keras.Model(entry, dense(entry)), 3, passes=passes, task_radius=radius)
    model.compile(keras.optimizers.SGD(0.0))
    kernel = dense.get_weights()[0]
    logs = model.train_on_batch(INPUTS, LABELS, return_dict=True)
    squares = [np.sum((part @ kernel) ** 2) for part in INPUTS.values()]
    of_outputs = sum(squares) / 24 if passes == "joint" else sum(s / 12 for s in squares)
    expected = 0.5 * np.sum(kernel**2) + 0.3 * of_outputs
    terms = logs["label/loss"] + logs["domain/loss"]
    assert logs["loss"] - terms == pytest.approx(expected, rel=1e-4)


@pytest.mark.jax
@few_methods
def test_weight_decay_counts_once(name):
    """Also where a method runs a head again."""
    decayed = {"kernel_regularizer": keras.regularizers.L2(0.5)}
    entry, features = keras.Input((4,)), keras.Input((6,))
    model = METHODS[name](
        backbone=keras.Model(entry, keras.layers.Dense(6, **decayed)(entry)),
        label_head=keras.Model(features, keras.layers.Dense(3, **decayed)(features)),
    )
    weights = [one for one in model.trainable_weights if one.regularizer is not None]
    decay = sum(0.5 * np.sum(np.square(weight)) for weight in weights)
    model.compile(keras.optimizers.SGD(0.0))
    logs = model.fit(INPUTS, LABELS, batch_size=12, verbose=0).history
    parts = float(model.total({k: logs[k][0] for k in logs if k.endswith("/loss")}))
    assert logs["loss"][0] - parts == pytest.approx(decay, rel=1e-4)
