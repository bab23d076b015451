"""Every score against its formula, on planted checkpoints and in closed form."""

import inspect
import math
import sys
import tracemalloc

import keras
import numpy as np
import pytest
from support import references
from support.checkpoints import (
    SOURCE,
    TARGET,
    TURNS,
    as_logits,
    checkpoint,
    logits,
    measured_target_accuracy,
    target_accuracy,
)

from dann import selection
from dann.adaptation import DANN
from dann.selection import SCORES, compute_scores, predictions
from dann.selection.predictions import RememberingModel

NAMES = sorted(SCORES)
OF_TARGET = ["bnm", "entropy", "info_max", "mcc", "mix_val", "snd"]


def values(name, model, target, source=SOURCE, **kwargs):
    return SCORES[name](model, source=source, target=target, **kwargs)


def test_the_planted_accuracies_are_what_the_angles_say():
    measured = [measured_target_accuracy(turn) for turn in TURNS]
    assert measured == pytest.approx([target_accuracy(turn) for turn in TURNS])
    assert np.argmax(measured) == 4
    assert measured[4] == 1.0
    assert measured[0] < 0.8


@pytest.mark.parametrize("name", NAMES)
def test_values_and_ranks_of_checkpoints_follow_the_formula(name):
    tolerance = {"dev": 1e-4}.get(name, 1e-5)  # as exactly as the domain classifier is fitted
    formula = getattr(references, name, None)
    assert formula, f"write `def {name}(turn)`, its formula, in tests/support/references.py"
    expected = [formula(turn) for turn in TURNS]
    scores = [values(name, checkpoint(turn), TARGET) for turn in TURNS]
    assert all(isinstance(score, float) for score in scores)
    assert scores == pytest.approx(expected, rel=tolerance, abs=1e-9)
    assert np.argsort(np.round(scores, 6), kind="stable").tolist() == (
        np.argsort(np.round(expected, 6), kind="stable").tolist()
    )


def test_on_a_clustered_target_its_scores_find_what_source_accuracy_misses():
    by_checkpoint = [
        compute_scores(checkpoint(turn), source=SOURCE, target=TARGET) for turn in TURNS
    ]
    scores = {name: [row[name] for row in by_checkpoint] for name in SCORES}
    oracle = [target_accuracy(turn) for turn in TURNS]
    result = selection.regret(scores, oracle)
    for name in ("entropy", "info_max", "bnm", "mcc"):
        assert result[name] == {"choice": 4, "accuracy": 1.0, "regret": 0.0}
    assert result["source_accuracy"]["regret"] > 0.2


@pytest.mark.parametrize("name", NAMES)
def test_a_score_is_registered_and_exported_with_its_needs(name):
    entry = SCORES.entry(name)
    assert getattr(selection, name) is entry.thing
    source = inspect.signature(entry.thing).parameters["source"]
    assert ("source" in entry.facts["reads"]) == (source.default is source.empty)
    assert entry.facts["cost"]


def test_all_stands_for_every_score():
    assert selection.choose(["all"]) == selection.choose(list(SCORES)) == dict(SCORES)
    assert list(selection.choose(["snd", "bnm"])) == ["snd", "bnm"]


@pytest.mark.parametrize("name", NAMES)
def test_a_score_cannot_be_given_labels_of_the_target(name):
    parameters = inspect.signature(SCORES[name]).parameters
    own = set(parameters) - {"model", "source", "target", "batch_size"}
    assert all(parameters[key].default is not inspect.Parameter.empty for key in own)
    assert not any("label" in key for key in parameters)
    assert not any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters.values())
    labelled = (TARGET, np.zeros(len(TARGET), int))
    for refused in (labelled, list(labelled), {"inputs": TARGET}):
        with pytest.raises(TypeError, match="sees no labels of the target.*Received: "):
            values(name, checkpoint(0), refused)


@pytest.mark.parametrize("name", NAMES)
def test_the_batch_size_does_not_matter(name):
    whole = values(name, checkpoint(20), TARGET)
    assert values(name, checkpoint(20), TARGET, batch_size=7) == pytest.approx(whole, rel=1e-5)
    with pytest.raises(ValueError, match="at least 1. Received: batch_size=0"):
        values(name, checkpoint(20), TARGET, batch_size=0)


@pytest.mark.parametrize("name", ["dev", "mix_val"])
def test_random_draws_depend_only_on_the_seed(name):
    model = checkpoint(60)
    assert values(name, model, TARGET, seed=3) == values(name, model, TARGET, seed=3)
    draws = {values(name, model, TARGET, seed=seed) for seed in range(4)}
    assert len(draws) > 1
    assert values(name, model, TARGET, seed=3) == pytest.approx(
        getattr(references, name)(60, seed=3), rel=2e-3
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_collapsed_model_has_a_finite_score(name):
    model = checkpoint(0)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    score = values(name, model, TARGET)
    third = {"source_accuracy": 1 / 3, "reverse_validation": 1 / 3}
    assert math.isfinite(score)
    assert score == pytest.approx(third.get(name, score))


def test_dev_is_the_source_risk_if_the_domains_look_alike():
    model = checkpoint(0)
    model.backbone.trainable_weights[0].assign(np.zeros((2, 2)))
    assert values("dev", model, TARGET) == pytest.approx(-math.log(3), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_that_are_not_finite_are_refused(name):
    model = checkpoint(0)
    model.backbone.trainable_weights[0].assign(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="must be finite numbers.*others for 63 of 63"):
        values(name, model, TARGET)


@pytest.mark.parametrize("name", NAMES)
def test_few_examples_are_enough_and_too_few_are_refused(name):
    few, source = TARGET[:2], (SOURCE[0][:4], SOURCE[1][:4])
    assert math.isfinite(values(name, checkpoint(0), few, source=source))
    with pytest.raises(ValueError, match=r"target must hold at least \d examples?. Received: 0"):
        values(name, checkpoint(0), TARGET[:0])
    if name in ("snd", "mix_val"):
        with pytest.raises(ValueError, match="target must hold at least 2 examples. Received: 1"):
            values(name, checkpoint(0), TARGET[:1])


@pytest.mark.parametrize("name", ["source_accuracy", "dev", "reverse_validation"])
def test_a_source_that_does_not_fit_is_refused(name):
    inputs, labels = SOURCE
    for source, error, message in [
        (inputs, ValueError, "must be .\\(inputs, labels\\).*Received: ndarray"),
        ((inputs[:0], labels[:0]), ValueError, "source must hold at least .*Received: 0"),
        ((inputs, labels[:5]), ValueError, "63 inputs and 5 labels"),
        ((inputs, labels + 0.5), ValueError, "one-hot. Received: float64"),
        ((inputs, labels + 1), ValueError, "source .*below 3, .*Received: 3"),
        ((inputs, np.zeros((63, 4, 4))), ValueError, "pool the maps.*Received: maps of labels"),
    ]:
        with pytest.raises(error, match=message):
            values(name, checkpoint(0), TARGET, source=source)


def test_a_model_must_give_a_logit_for_each_of_two_classes():
    one = np.zeros((4, 1), "float32")
    with pytest.raises(ValueError, match=r"at least 2 classes. Received: .*\('batch', 1\)"):
        selection.entropy(as_logits(classes=1), target=one)


def test_a_plain_model_has_scores_of_logits_but_not_of_features():
    model = checkpoint(20)
    for name in [*OF_TARGET, "source_accuracy"]:
        assert values(name, model.classifier, TARGET) == values(name, model, TARGET)
    for name in ("dev", "reverse_validation"):
        with pytest.raises(
            TypeError, match="needs the features .*`backbone`. Received: Functional"
        ):
            values(name, model.classifier, TARGET)


def test_reverse_validation_trains_the_given_classifier():
    seen = []

    def fit(inputs, labels):
        seen.append((inputs, labels))
        return lambda others: np.full(len(others), 2)

    score = values("reverse_validation", checkpoint(20).classifier, TARGET, fit=fit)
    assert score == np.mean(SOURCE[1] == 2)
    assert np.array_equal(seen[0][0], TARGET)
    assert np.array_equal(seen[0][1], logits(20, TARGET).argmax(axis=1))
    with pytest.raises(ValueError, match=r"one label for each input. Received: \(1,\) for 63"):
        values("reverse_validation", checkpoint(0), TARGET, fit=lambda x, y: lambda o: [1])


@pytest.mark.parametrize(
    ("name", "option", "wrong"),
    [("snd", "temperature", 0.01), ("mcc", "temperature", -1.0), ("mix_val", "share", 0.5)],
)
def test_options_out_of_range_are_refused(name, option, wrong):
    with pytest.raises(ValueError, match=f"(above|at least) .*Received: {option}={wrong}"):
        values(name, checkpoint(0), TARGET, **{option: wrong})


def test_options_follow_the_formula():
    model = checkpoint(20)
    for name, option in [("snd", {"temperature": 0.3}), ("mcc", {"temperature": 1.0})]:
        expected = getattr(references, name)(20, **option)
        assert values(name, model, TARGET, **option) == pytest.approx(expected, rel=1e-5)
    assert values("mix_val", model, TARGET, share=0.9) == references.mix_val(20, share=0.9)


@pytest.mark.parametrize("side", [1, 7, 24, 100])
def test_snd_is_the_same_whatever_part_of_the_matrix_is_in_memory(side, monkeypatch):
    monkeypatch.setattr(sys.modules["dann.selection.snd"], "_SIDE", side)
    assert values("snd", checkpoint(20), TARGET) == pytest.approx(references.snd(20), rel=1e-6)


@pytest.mark.parametrize("temperature", [0.02, 0.3])
def test_snd_of_certain_predictions_is_that_of_two_clusters(temperature):
    # Two of one class and two of another: each has one neighbour, and two that are far away.
    logits = np.array([[99, 0], [99, 0], [0, 99], [0, 99]], "float32")
    near, far = 1.0, math.exp(-1 / temperature)
    shares = np.array([near, far, far]) / (near + 2 * far)
    expected = -np.sum(shares * np.log(shares))
    found = selection.snd(as_logits(classes=2), target=logits, temperature=temperature)
    assert found == pytest.approx(expected, abs=1e-5)


def test_the_memory_of_snd_does_not_grow_with_the_square_of_the_examples():
    peaks = []
    for count in (3000, 6000):
        many = np.random.default_rng(0).normal(size=(count, 3)).astype("float32")
        tracemalloc.start()
        selection.snd(as_logits(), target=many)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 3000 * 3000
    assert peaks[1] < 2.1 * peaks[0]


class Counted:
    """An array that is not in memory and counts the rows that are read."""

    def __init__(self, rows):
        self.rows, self.shape, self.dtype, self.read = rows, rows.shape, rows.dtype, 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, chosen):
        self.read += len(chosen)
        return self.rows[chosen]


def test_scores_computed_together_equal_single_ones_and_read_the_data_once():
    target, model = Counted(TARGET), checkpoint(20)
    some = compute_scores(model, source=None, target=target, scores=OF_TARGET[:4])
    assert target.read == len(TARGET)
    assert some == {name: values(name, model, TARGET) for name in OF_TARGET[:4]}
    source = Counted(SOURCE[0]), SOURCE[1]
    every = compute_scores(model, source=source, target=TARGET, batch_size=10)
    assert source[0].read == len(TARGET)
    assert list(every) == list(SCORES)
    for name, value in every.items():
        assert value == pytest.approx(values(name, model, TARGET, batch_size=10), rel=1e-6)


@pytest.mark.parametrize("of_features", [False, True])
def test_logits_and_features_are_those_of_the_networks_called_one_after_the_other(of_features):
    backbone = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(3, 3)])
    backbone.add(keras.layers.BatchNormalization())
    backbone.add(keras.layers.Dropout(0.5))
    backbone.add(keras.layers.Flatten())
    model = DANN(backbone, num_classes=4)
    images = np.random.default_rng(0).normal(size=(11, 8, 8, 1)).astype("float32")
    expected = backbone(images, training=False)
    now = RememberingModel(model, of_features)
    for _ in range(2):  # the first with new functions
        logits = keras.ops.convert_to_numpy(model.label_head(expected, training=False))
        np.testing.assert_allclose(predictions.logits(now, images, 4), logits, rtol=1e-5, atol=1e-6)
        found = predictions.features(now, images, 4)
        assert found.dtype == "float64"
        expected_features = keras.ops.convert_to_numpy(expected)
        np.testing.assert_allclose(found, expected_features, rtol=1e-5, atol=1e-6)
        for weight in model.label_head.trainable_weights:
            weight.assign(weight + 0.5)
        now = RememberingModel(model, of_features)


def test_unknown_scores_are_refused():
    for wrong, error, message in [
        (["accuracy"], ValueError, "one of 'all', .*'snd'.*Received: scores='accuracy'"),
        ([], ValueError, r"must name some of .*Received: \[\]"),
        ("snd", TypeError, r"such as \('snd',\). Received: 'snd'"),
    ]:
        with pytest.raises(error, match=message):
            compute_scores(checkpoint(0), source=SOURCE, target=TARGET, scores=wrong)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("dev", "reverse_validation")])
def test_a_model_that_ends_in_a_softmax_has_the_scores_of_its_logits(name):
    network = checkpoint(TURNS[1]).classifier
    probable = keras.Model(network.input, keras.layers.Softmax()(network.output))
    found, expected = (values(name, model, TARGET) for model in (probable, network))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_model_that_ends_in_sigmoids_is_refused():
    network = checkpoint(TURNS[1]).classifier
    several = keras.Model(network.input, keras.layers.Activation("sigmoid")(network.output))
    with pytest.raises(ValueError, match="must give logits .*Received: outputs of a sigmoid"):
        compute_scores(several, source=SOURCE, target=TARGET, scores=("info_max",))


def test_inputs_may_be_several_by_name():
    one, other = keras.Input((1,), name="one"), keras.Input((1,), name="other")
    joined = keras.Model({"one": one, "other": other}, keras.layers.Concatenate()([one, other]))
    plain = checkpoint(TURNS[1])
    model = DANN(joined, label_head=plain.classifier)
    parts = [{"one": x[:, :1], "other": x[:, 1:]} for x in (SOURCE[0], TARGET)]
    scores = compute_scores(model, source=(parts[0], SOURCE[1]), target=parts[1])
    features = {"dev", "reverse_validation"}  # those of `joined` are the inputs
    for name in set(NAMES) - features:
        assert scores[name] == pytest.approx(values(name, plain, TARGET), rel=1e-5)
    assert all(math.isfinite(scores[name]) for name in features)


@pytest.mark.parametrize("form", ["column", "one_hot", "floats"])
def test_labels_of_the_source_may_have_any_form(form):
    inputs, labels = SOURCE
    given = {"column": labels[:, None], "one_hot": np.eye(3)[labels], "floats": labels * 1.0}
    model = checkpoint(TURNS[1])
    found = values("source_accuracy", model, TARGET, source=(inputs, given[form]))
    assert found == values("source_accuracy", model, TARGET)


def test_two_classes_may_be_booleans():
    inputs, labels = SOURCE
    model = checkpoint(TURNS[1])
    given = [values("source_accuracy", model, TARGET, source=(inputs, labels > 0))]
    given.append(values("source_accuracy", model, TARGET, source=(inputs, (labels > 0) * 1)))
    assert given[0] == given[1]


@pytest.mark.parametrize("compute", ["compute_scores", "score_checkpoints", "SelectionScores"])
def test_a_function_of_ones_own_gets_the_model_to_predict_with(compute):
    def first_logit(model, *, target, source=None, batch_size=256):
        assert isinstance(model, keras.Model)
        return float(model.predict(target, batch_size, verbose=0)[0, 0])

    model, own = checkpoint(TURNS[0]), {"own": first_logit, "info_max": SCORES["info_max"]}
    expected = float(keras.ops.convert_to_numpy(model(TARGET[:1]))[0, 0])
    if compute == "SelectionScores":
        scores = selection.SelectionScores(own, target=TARGET)
        scores.set_model(model)
        scores.on_train_begin()
        logs = {}
        scores.on_epoch_end(0, logs)
        assert logs["selection/own"] == pytest.approx(expected, rel=1e-5)
        return
    given = model if compute == "compute_scores" else [model]
    found = getattr(selection, compute)(given, source=SOURCE, target=TARGET, scores=own)
    assert np.ravel(found["own"]) == pytest.approx(expected, rel=1e-5)
