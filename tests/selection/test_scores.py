"""Every score against its formula on planted checkpoints, and what scores are computed from."""

import functools
import inspect
import math
import sys
import warnings

import keras
import numpy as np
import pandas
import pytest
import references
from checkpoints import SOURCE, TARGET, TURNS, as_logits, checkpoint

import dann
from dann import selection
from dann.adaptation import DANN
from dann.selection import SCORES, Outputs, compute_outputs, compute_scores

NAMES = sorted(SCORES)


@functools.cache
def outputs(turn):
    return compute_outputs(checkpoint(turn), source=SOURCE, target=TARGET)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_ranks_of_checkpoints_follow_the_formula(name):
    tolerance = {"dev": 1e-4}.get(name, 1e-5)  # as exactly as the domain classifier is fitted
    formula = getattr(references, name, None)
    assert formula, f"write `def {name}(turn)`, its formula, in tests/selection/references.py"
    expected = [formula(turn) for turn in TURNS]
    scores = [SCORES[name](outputs(turn)) for turn in TURNS]
    assert all(isinstance(score, float) for score in scores)
    assert scores == pytest.approx(expected, rel=tolerance, abs=1e-9)
    assert np.argsort(np.round(scores, 6), kind="stable").tolist() == (
        np.argsort(np.round(expected, 6), kind="stable").tolist()
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_score_is_exported_and_sees_no_labels_of_the_target(name):
    facts = SCORES.facts[name]
    assert getattr(selection, name) is SCORES[name]
    assert facts["reads"] in ("target", "labelled source", "labelled source, target")
    assert "outputs" in inspect.signature(SCORES[name]).parameters
    assert [field for field in Outputs._fields if "label" in field] == ["source_labels"]
    # It reads what it says, and nothing else.
    alone = {"target": {"target": TARGET}, "labelled source": {"source": SOURCE}}
    given = alone.get(facts["reads"], {"source": SOURCE, "target": TARGET})
    some = compute_outputs(
        checkpoint(20), features="needs_features" in facts, mixed="needs_mixtures" in facts, **given
    )
    assert SCORES[name](some) == pytest.approx(SCORES[name](outputs(20)), rel=1e-5)


def test_the_draw_of_dev_depends_only_on_the_seed():
    found = outputs(60)
    draws = [selection.dev(found, seed=seed) for seed in (3, 3, 0, 1)]
    assert draws[0] == draws[1] == pytest.approx(references.dev(60, seed=3), rel=2e-3)
    assert len(set(draws)) > 1


@pytest.mark.parametrize("name", NAMES)
def test_a_collapsed_model_has_a_finite_score(name):
    model = checkpoint(0)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    score = SCORES[name](compute_outputs(model, source=SOURCE, target=TARGET))
    # `dev` is the source risk where the domains look alike.
    expected = {"source_accuracy": 1 / 3, "reverse_validation": 1 / 3, "dev": -math.log(3)}
    assert math.isfinite(score)
    assert score == pytest.approx(expected.get(name, score))


def test_dev_scores_regression_by_the_squared_error():
    classes = checkpoint(20)
    head = keras.layers.Dense(1, use_bias=len(classes.label_head.get_weights()) > 1)
    number = keras.Sequential([keras.Input((2,)), head])
    model = DANN(classes.backbone, label_head=number)
    of_classes = classes.label_head.layers[-1].get_weights()
    head.set_weights([part[..., :1] for part in of_classes])  # the first logit is the number
    ages = SOURCE[0], SOURCE[1].astype("float32")
    found = compute_scores(model, source=ages, target=TARGET, scores=["dev"])
    wanted = references.dev(20, loss=lambda values, label: (values[0] - label) ** 2)
    assert found == {"dev": pytest.approx(wanted, rel=2e-3)}
    with pytest.raises(ValueError, match="num_classes=2"):
        compute_scores(model, source=ages, target=TARGET, scores=["info_max"])


def test_options_follow_the_formula():
    found = outputs(20)
    for name, option in [("snd", {"temperature": 0.3}), ("mcc", {"temperature": 1.0})]:
        expected = getattr(references, name)(20, **option)
        assert SCORES[name](found, **option) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("side", [1, 7, 24, 100])
def test_snd_is_the_same_whatever_part_of_the_matrix_is_in_memory(side, monkeypatch):
    monkeypatch.setattr(sys.modules["dann.selection.snd"], "_ROWS", side)
    assert selection.snd(outputs(20)) == pytest.approx(references.snd(20), rel=1e-6)


ONE_HOT = 10_000 * np.tile(np.eye(3, dtype="float32"), (8, 1))
UNIFORM, ONE_CLASS = np.zeros_like(ONE_HOT), np.repeat(ONE_HOT[:1], 24, axis=0)
SURE, OTHERS = 7 * math.exp(20), 16
CLUSTERS = math.log(SURE + OTHERS) - 20 * SURE / (SURE + OTHERS)


@pytest.mark.parametrize(
    ("name", "uniform", "in_equal_parts", "of_one_class"),
    [
        ("entropy", -math.log(3), 0.0, 0.0),
        ("info_max", 0.0, math.log(3), 0.0),
        ("snd", math.log(23), CLUSTERS, math.log(23)),
        ("bnm", 1 / 3, 1.0, 1 / math.sqrt(3)),
        ("mcc", -2 / 3, 0.0, -2 / 3),
        ("mix_val", 0.5, 1.0, 0.5),
    ],
)
def test_closed_forms(name, uniform, in_equal_parts, of_one_class):
    expected = uniform, in_equal_parts, of_one_class
    for target, value in zip((UNIFORM, ONE_HOT, ONE_CLASS), expected, strict=True):
        found = SCORES[name](compute_outputs(as_logits(), target=target, features=False))
        assert found == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_batches_of_any_size_give_the_same_scores():
    found = compute_scores(checkpoint(20), source=SOURCE, target=TARGET, batch_size=10)
    assert found == pytest.approx({name: SCORES[name](outputs(20)) for name in NAMES}, rel=1e-5)


def test_logits_and_features_are_those_of_the_networks_in_inference():
    backbone = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(3, 3)])
    backbone.add(keras.layers.BatchNormalization())
    backbone.add(keras.layers.Dropout(0.5))
    backbone.add(keras.layers.Flatten())
    model = DANN(backbone, num_classes=4)
    images = np.random.default_rng(0).normal(size=(11, 8, 8, 1)).astype("float32")
    features = backbone(images, training=False)
    expected = keras.ops.convert_to_numpy(model.label_head(features, training=False))
    for with_features in (False, True):
        found = compute_outputs(model, target=images, features=with_features, batch_size=4)
        np.testing.assert_allclose(found.target_logits, expected, rtol=1e-5, atol=1e-6)
    features = keras.ops.convert_to_numpy(features)
    np.testing.assert_allclose(found.target_features, features, rtol=1e-5, atol=1e-6)


def test_a_plain_model_and_one_that_ends_in_a_softmax_have_scores_of_logits():
    network = checkpoint(20).classifier
    probable = keras.Model(network.input, keras.layers.Softmax()(network.output))
    names = [name for name in NAMES if "needs_features" not in SCORES.facts[name]]
    wanted = compute_scores(checkpoint(20), source=SOURCE, target=TARGET, scores=names)
    for model in (network, probable):
        found = compute_scores(model, source=SOURCE, target=TARGET, scores=names)
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_inputs_may_be_several_by_name():
    one, other = keras.Input((1,), name="one"), keras.Input((1,), name="other")
    joined = keras.Model({"one": one, "other": other}, keras.layers.Concatenate()([one, other]))
    plain = checkpoint(20)
    model = DANN(joined, label_head=plain.classifier)
    target = {"one": TARGET[:, :1], "other": TARGET[:, 1:]}
    for name in ("info_max", "mix_val"):
        found = compute_scores(model, source=None, target=target, scores=[name])
        assert found[name] == pytest.approx(SCORES[name](outputs(20)), rel=1e-5)


def test_labels_of_the_source_may_be_one_hot():
    found = compute_outputs(checkpoint(20), source=(SOURCE[0], np.eye(3)[SOURCE[1]]))
    np.testing.assert_array_equal(found.source_labels, SOURCE[1])


def sigmoids():
    network = checkpoint(20).classifier
    return keras.Model(network.input, keras.layers.Activation("sigmoid")(network.output))


SIGMOIDS = keras.losses.BinaryCrossentropy(from_logits=True)


@keras.saving.register_keras_serializable("tests")
def own_loss(labels, logits):
    return SIGMOIDS(labels, logits)


def of_several_labels(loss=SIGMOIDS):
    model = checkpoint(20)
    model.compile("sgd", loss)
    x = {"source": SOURCE[0][:8], "target": TARGET[:8]}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(x, np.array([[1, 1, 0]] * 8, "float32"), verbose=0)
    assert loss is SIGMOIDS or "BinaryAccuracy" in str(told[0].message)
    return model


@pytest.mark.parametrize(
    ("model", "arguments", "error"),
    [
        (checkpoint(0), {"target": (TARGET, SOURCE[1])}, TypeError),
        (checkpoint(0), {"target": TARGET[:0]}, ValueError),
        (checkpoint(0), {"target": TARGET[:1], "scores": ["snd"]}, ValueError),
        (checkpoint(0), {"target": TARGET[:1], "scores": ["mix_val"]}, ValueError),
        (checkpoint(0), {"source": None}, ValueError),
        (checkpoint(0), {"source": (SOURCE[0], SOURCE[1] + 0.5)}, ValueError),
        (checkpoint(0), {"source": (SOURCE[0], SOURCE[1] + 1)}, ValueError),
        (checkpoint(0), {"source": (SOURCE[0][:3], SOURCE[1][:3])}, ValueError),  # for `dev`
        (checkpoint(0), {"scores": ["accuracy"]}, ValueError),
        (checkpoint(0).classifier, {"scores": ["dev"]}, TypeError),
        (sigmoids(), {"scores": ["info_max"]}, ValueError),
        (of_several_labels(), {"scores": ["info_max"]}, ValueError),
        (of_several_labels(own_loss), {"scores": ["info_max"]}, ValueError),
        (as_logits(classes=1), {"target": TARGET[:, :1], "scores": ["entropy"]}, ValueError),
    ],
)
def test_what_cannot_be_scored_is_refused(model, arguments, error):
    with pytest.raises(error):
        compute_scores(model, **{"source": SOURCE, "target": TARGET, **arguments})


def test_that_labels_were_several_is_in_the_file(tmp_path):
    of_several_labels(own_loss).save(tmp_path / "a.keras")
    model = keras.models.load_model(tmp_path / "a.keras")
    with pytest.raises(ValueError, match="several labels"):
        compute_scores(model, source=SOURCE, target=TARGET, scores=["entropy"])


def test_temperatures_out_of_range_are_refused():
    for score, wrong in ((selection.snd, 0.01), (selection.mcc, -1.0)):
        with pytest.raises(ValueError, match="temperature"):
            score(outputs(0), temperature=wrong)


def test_frames_and_a_head_that_is_a_layer_are_scored_as_arrays_and_models_are():
    x, y = np.random.default_rng(0).normal(size=(12, 2)).astype("float32"), np.arange(12) % 3
    model = dann.DANN(dann.networks.mlp_backbone((2,)), label_head=keras.layers.Dense(3))
    model.compile("sgd")
    model.fit(dann.data.pair((x, y), x, 6), verbose=0)
    frame = pandas.DataFrame(x, columns=["a", "b"])
    plain = compute_scores(model, source=(x, y), target=x)
    assert compute_scores(model, source=(frame, y), target=frame) == pytest.approx(plain)


def test_numbers_of_several_outputs_are_not_taken_for_classes():
    model = dann.DANN(dann.networks.mlp_backbone((2,)), label_head=keras.layers.Dense(2))
    model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match="'mse' and 2 outputs"):
        compute_scores(model, source=None, target=np.ones((4, 2), "float32"), scores=["entropy"])
