"""Calls that are refused, and the words that the user needs."""

import warnings

import keras
import numpy as np
import pytest
from references import SOURCE, TARGET, build_checkpoint, identity_model

import dann
from dann import selection
from dann.selection.outputs import Outputs

SIGMOIDS = keras.losses.BinaryCrossentropy(from_logits=True)


@keras.saving.register_keras_serializable("tests")
def custom_loss(labels, logits):
    return SIGMOIDS(labels, logits)


def estimate(**fields):
    outputs = Outputs(np.eye(2), source_logits=np.eye(2), source_labels=np.arange(2))
    return selection.estimate_shares(outputs._replace(**fields))


def expect_accuracy(model=None, **arguments):
    model = build_checkpoint(0) if model is None else model
    return selection.expected_accuracy(model, **{"source": SOURCE, "target": TARGET, **arguments})


def score(model=None, **arguments):
    model = build_checkpoint(0) if model is None else model
    return selection.compute_scores(model, **{"source": SOURCE, "target": TARGET, **arguments})


def score_target(model, **arguments):
    return score(model, source=None, scores=["entropy"], **arguments)


def sigmoid_model():
    network = build_checkpoint(20).classifier
    return keras.Model(network.input, keras.layers.Activation("sigmoid")(network.output))


def multi_label_model(loss=SIGMOIDS):
    model = build_checkpoint(20)
    model.compile("sgd", loss)
    x = {"source": SOURCE[0][:8], "target": TARGET[:8]}
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        model.fit(x, np.array([[1, 1, 0]] * 8, "float32"), verbose=0)
    assert loss is SIGMOIDS or "BinaryAccuracy" in str(messages[0].message)
    return model


def regression_model():
    model = dann.DANN(dann.networks.mlp_backbone((2,)), label_head=keras.layers.Dense(2))
    model.compile("sgd", loss="mse")
    return model


X, Y = SOURCE
REFUSALS = {
    "target with labels": (lambda: score(target=(TARGET, Y)), "without labels"),
    "source without labels": (lambda: score(source=X), r"source=\(inputs, labels\)"),
    "no source": (lambda: score(source=None), "held-out source examples"),
    "label out of range": (lambda: score(source=(X, Y + 1)), "labels of the source"),
    "fewer labels": (lambda: expect_accuracy(source=(X, Y[:-1])), "one label for each of the"),
    "path": (lambda: expect_accuracy("run"), "Keras model or layer. Received: 'run'.*load_model"),
    "accuracy of a number": (
        lambda: expect_accuracy(identity_model(classes=1), source=(X[:, :1], Y), target=X[:, :1]),
        "2 or more classes",
    ),
    "shares of an array": (lambda: selection.estimate_shares(np.eye(2)), "compute_outputs"),
    "shares without source": (lambda: estimate(source_logits=None), "without source_logits"),
    "shares of class -1": (lambda: estimate(source_labels=np.array([-1, 0])), "from 0 to 1.*: -1"),
    "shares of texts": (lambda: estimate(source_labels=np.array(["a", "b"])), "return_inverse"),
    "shares of NaN": (lambda: estimate(target_logits=np.full((2, 2), np.nan)), "finite target"),
    "shares of other classes": (lambda: estimate(target_logits=np.eye(3)), "both domains.*3, 3"),
    "features": (lambda: selection.compute_outputs(identity_model(), target=X), "dann.adaptation"),
    "sigmoid outputs": (lambda: score(sigmoid_model(), scores=["info_max"]), "num_classes=2"),
    "several labels": (lambda: score(multi_label_model(), scores=["info_max"]), "several labels"),
    "a number": (lambda: score_target(identity_model(1), target=TARGET[:, :1]), "num_classes=2"),
    "several numbers": (lambda: score_target(regression_model()), "loss='mse' and 2 outputs"),
    "callback without target": (lambda: selection.SelectionScores(), "without labels"),
    "agreement of one run": (lambda: selection.agreement([np.arange(3)]), "at least two runs"),
    "agreement of NaN": (lambda: selection.agreement([np.eye(2), np.nan * np.eye(2)]), "finite"),
    "no source only": (lambda: selection.recommend({"dann": [Outputs(np.eye(3))]}), "source_only"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_name_the_cause(case):
    call, words = REFUSALS[case]
    with pytest.raises((KeyError, TypeError, ValueError), match=words):
        call()


def test_several_labels_are_saved_with_the_model(tmp_path):
    multi_label_model(custom_loss).save(tmp_path / "a.keras")
    model = keras.models.load_model(tmp_path / "a.keras")
    with pytest.raises(ValueError, match="several labels"):
        score(model, scores=["entropy"])
