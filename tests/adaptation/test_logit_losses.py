"""What users give to `compile` and `fit`: losses and metrics of logits, labels in their forms."""

import functools

import keras
import numpy as np
import pytest
from scipy import special
from sklearn.metrics import f1_score, precision_score, recall_score

import dann
from dann.adaptation import DANN
from dann.networks import mlp_backbone

RNG = np.random.default_rng(0)
INPUTS = {name: RNG.normal(size=(6, 4)).astype("float32") for name in ("source", "target")}
LABELS = np.array([0, 1, 2, 0, 1, 2])
ONE_HOT = np.eye(3, dtype="float32")[LABELS]
losses, metrics = keras.losses, keras.metrics


def compiled(loss=None, classes=3, **kwargs):
    parts = {"num_classes": classes} if classes > 1 else {"label_head": keras.layers.Dense(1)}
    model = DANN(mlp_backbone((4,), hidden_units=(5,)), **parts)
    model.compile(keras.optimizers.SGD(0.0), loss, run_eagerly=True, **kwargs)
    return model


def label_loss(model, labels):
    return model.train_on_batch(INPUTS, labels, return_dict=True)["label/loss"]


def log_probabilities(model):
    logits = keras.ops.convert_to_numpy(model.classifier(INPUTS["source"])).astype("float64")
    return special.log_softmax(logits, axis=1)


@pytest.mark.parametrize(
    "loss",
    [
        None,
        "sparse_categorical_crossentropy",
        "SparseCategoricalCrossentropy",
        losses.sparse_categorical_crossentropy,
        losses.SparseCategoricalCrossentropy(from_logits=True),
    ],
)
@pytest.mark.parametrize("labels", [LABELS, LABELS[:, None], LABELS.astype("uint8"), LABELS * 1.0])
def test_a_cross_entropy_of_classes_is_that_of_the_logits(loss, labels):
    model = compiled(loss)
    expected = -log_probabilities(model)[np.arange(6), LABELS].mean()
    assert label_loss(model, labels) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("labels", [ONE_HOT, 0.8 * ONE_HOT + 0.2 / 3])
def test_one_hot_and_soft_labels_have_a_loss_by_name(labels):
    model = compiled("categorical_crossentropy")
    expected = -(labels * log_probabilities(model)).sum(axis=1).mean()
    assert label_loss(model, labels) == pytest.approx(expected, rel=1e-5)


def test_one_output_of_two_classes_is_a_logit_too():
    model = compiled("binary_crossentropy", classes=1, metrics=["accuracy"])
    labels = np.array([0, 1, 1, 0, 1, 1])
    logits = model.predict(INPUTS["source"], verbose=0)[:, 0].astype("float64")
    logs = model.train_on_batch(INPUTS, labels, return_dict=True)
    expected = np.logaddexp(0, logits) - labels * logits
    assert logs["label/loss"] == pytest.approx(expected.mean(), rel=1e-5)
    assert logs["accuracy"] == pytest.approx(((logits > 0) == labels).mean())


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # of Keras's IoU on JAX
def test_binary_metrics_by_name_take_outputs_above_0_for_the_class():
    names = ["binary_accuracy", "precision", "recall", "binary_io_u"]
    model = compiled("binary_crossentropy", classes=1, metrics=names)
    labels = np.array([0, 1, 1, 0, 1, 1])
    logits = model.predict(INPUTS["source"], verbose=0)[:, 0].astype("float64")
    # Moved, so that thresholds of 0 and of 0.5 give other numbers.
    shift = -np.sort(logits)[2] + 1e-3
    bias = model.label_head.bias
    bias.assign(bias + shift)
    positive = logits + shift > 0
    assert (positive != (logits + shift > 0.5)).any()
    logs = model.evaluate(INPUTS["source"], labels, verbose=0, return_dict=True)
    both, neither = (positive & (labels == 1)).sum(), (~positive & (labels == 0)).sum()
    assert logs["binary_accuracy"] == pytest.approx((positive == labels).mean())
    assert logs["precision"] == pytest.approx(both / positive.sum())
    assert logs["recall"] == pytest.approx(both / labels.sum())
    union = both / (positive | (labels == 1)).sum(), neither / (~positive | (labels == 0)).sum()
    assert logs["binary_io_u"] == pytest.approx(np.mean(union))


def test_the_area_under_the_curve_by_name_is_that_of_the_logits():
    model = compiled("binary_crossentropy", classes=1, metrics=["auc"])
    labels = np.array([0, 1, 1, 0, 1, 1])
    logits = model.predict(INPUTS["source"], verbose=0)[:, 0].astype("float64")
    bias = model.label_head.bias
    bias.assign(bias - logits.max() - 0.1)  # no logit is a probability
    logs = model.evaluate(INPUTS["source"], labels, verbose=0, return_dict=True)
    exact = (logits[labels == 1][:, None] > logits[labels == 0]).mean()
    assert logs["auc"] == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(
    ("metric", "write"),
    [
        (metrics.BinaryAccuracy(), r"BinaryAccuracy\(threshold=0.0\)"),
        (metrics.binary_accuracy, r"BinaryAccuracy\(threshold=0.0\)"),
        (metrics.BinaryIoU(), r"BinaryIoU\(threshold=0.0\)"),
        (metrics.Precision(), r"Precision\(thresholds=0.0\)"),
        (metrics.Recall(class_id=1), r"Recall\(thresholds=0.0\)"),
    ],
)
def test_a_metric_with_a_threshold_of_probabilities_is_refused(metric, write):
    with pytest.raises(ValueError, match=f"must take logits.*use `keras.metrics.{write}"):
        compiled("binary_crossentropy", classes=1, metrics=[metric])


@pytest.mark.parametrize(
    ("loss", "classes", "metric", "write"),
    [
        (None, 3, metrics.F1Score(threshold=0.5), r"F1Score\(\)`, which takes the class of"),
        (None, 3, metrics.FBetaScore(threshold=0.3), r"FBetaScore\(\)`"),
        ("binary_crossentropy", 1, metrics.F1Score(), r"Precision\(thresholds=0.0\)` and"),
        ("binary_crossentropy", 1, "f1_score", r"Precision\(thresholds=0.0\)` and"),
    ],
)
def test_an_f_score_of_probabilities_is_refused(loss, classes, metric, write):
    with pytest.raises(ValueError, match=f"must take logits.*use `keras.metrics.{write}"):
        compiled(loss, classes=classes, metrics=[metric])


@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy", "categorical_crossentropy"])
@pytest.mark.parametrize(
    ("metric", "write"),
    [
        ("precision", r"Precision\(top_k=1\)` with one-hot labels"),
        (metrics.Precision(), r"Precision\(top_k=1\)` with one-hot labels"),
        (metrics.Recall(thresholds=0.5, class_id=1), r"Recall\(top_k=1\)` with one-hot labels"),
        ("auc", "`roc_auc_score` of `keras.ops.softmax"),
        (metrics.AUC(), "`roc_auc_score` of `keras.ops.softmax"),
        ("binary_accuracy", "'accuracy'"),
        (metrics.binary_accuracy, "'accuracy'"),
        ("BinaryIoU", r"MeanIoU\(..., sparse_y_pred=False\)"),
    ],
)
def test_a_metric_of_one_class_is_refused_where_several_share_a_softmax(loss, metric, write):
    """Outputs above 0 are not probabilities above .5, as they are of one output alone."""
    with pytest.raises(ValueError, match=f"defined for several classes: use .*{write}.*Received"):
        compiled(loss, metrics=[metric])


@pytest.mark.parametrize(
    "loss",
    ["dice", losses.Dice(), losses.tversky, "Tversky", losses.CategoricalGeneralizedCrossEntropy()],
)
def test_a_loss_that_knows_no_logits_is_refused(loss):
    told = r"keras.ops.softmax\(logits\)`. Received: (?i:dice|tversky|categoricalgen).* of prob"
    with pytest.raises(ValueError, match=told):
        compiled(loss)


def dice(labels, logits):
    return keras.losses.dice(labels, keras.ops.softmax(logits))


def test_a_partial_cross_entropy_takes_logits_or_is_refused():
    loss = functools.partial(losses.sparse_categorical_crossentropy, from_logits=True)
    model = compiled(loss)
    expected = -log_probabilities(model)[np.arange(6), LABELS].mean()
    assert label_loss(model, LABELS) == pytest.approx(expected, rel=1e-5)
    loss = functools.partial(losses.categorical_crossentropy, label_smoothing=0.1)
    with pytest.raises(
        ValueError, match=r"CategoricalCrossentropy\(from_logits=True\).*partial cat"
    ):
        compiled(loss)


def test_the_dice_loss_of_probabilities_is_a_function_of_ones_own():
    model = compiled(dice)
    logits = model.predict(INPUTS["source"], verbose=0)
    labels = np.eye(3, dtype="float32")[LABELS]
    shares = special.softmax(logits.astype("float64"), axis=1)
    expected = 1 - 2 * (shares * labels).sum() / (shares.sum() + labels.sum())
    assert model.evaluate(INPUTS["source"], labels, verbose=0) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("loss", "classes"), [("binary_crossentropy", 1), (None, 3)])
@pytest.mark.parametrize(
    "metric",
    [
        *("true_positives", "FalseNegatives", metrics.TrueNegatives(), metrics.FalsePositives(0.3)),
        *(metrics.PrecisionAtRecall(0.5), metrics.SensitivityAtSpecificity(0.5)),
    ],
)
def test_a_metric_that_counts_by_probabilities_is_refused(loss, classes, metric):
    with pytest.raises(ValueError, match="use scikit-learn with .*Received: .* of probabilities"):
        compiled(loss, classes=classes, metrics=[metric])


def test_the_precision_and_recall_of_the_largest_logit_are_those_of_scikit_learn():
    model = compiled("categorical_crossentropy")
    predicted = model.predict(INPUTS["source"], verbose=0).argmax(axis=1)
    one = predicted[0]  # a class that is predicted, and labels that agree with some of it
    labels = np.where(np.arange(len(predicted)) % 3, predicted, (predicted + 1) % 3)
    kinds = {"precision": metrics.Precision, "recall": metrics.Recall}
    told = [kind(top_k=1, class_id=one, name=name) for name, kind in kinds.items()]
    model.compile("sgd", "categorical_crossentropy", metrics=told)
    logs = model.evaluate(INPUTS["source"], np.eye(3)[labels], verbose=0, return_dict=True)
    found = [
        score(labels, predicted, labels=[one], average="macro", zero_division=0)
        for score in (precision_score, recall_score)
    ]
    assert [logs["precision"], logs["recall"]] == pytest.approx(found)


def test_an_f_score_of_the_class_of_the_largest_logit_is_that_of_scikit_learn():
    model = compiled("categorical_crossentropy", metrics=[metrics.F1Score(average="macro")])
    logs = model.evaluate(INPUTS["source"], ONE_HOT, verbose=0, return_dict=True)
    predicted = log_probabilities(model).argmax(axis=1)
    expected = f1_score(LABELS, predicted, average="macro", zero_division=0)
    assert logs["f1_score"] == pytest.approx(expected)


class Probabilities(keras.Layer):
    """A head whose last activation nothing can see from outside."""

    def __init__(self, units, activation):
        super().__init__()
        self.logits, self.last = keras.layers.Dense(units), activation

    def build(self, shape):
        self.logits.build(shape)

    def call(self, features):
        return self.last(self.logits(features))

    def compute_output_shape(self, shape):
        return (*shape[:-1], self.logits.units)


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize(
    ("units", "last", "loss", "told"),
    [
        (3, keras.ops.softmax, None, "numbers from 0 to 1 whose sum is 1$"),
        (3, keras.ops.softmax, "categorical_crossentropy", "whose sum is 1$"),
        (1, keras.ops.sigmoid, "binary_crossentropy", "numbers from 0 to 1$"),
    ],
)
def test_probabilities_that_a_head_computes_within_are_refused_by_fit(
    units, last, loss, told, built
):
    layers = [keras.Input((4,))] if built else []
    backbone = keras.Sequential([*layers, keras.layers.Dense(5)])
    model = DANN(backbone, num_classes=units, label_head=Probabilities(units, last))
    model.compile("sgd", loss)
    labels = ONE_HOT if loss == "categorical_crossentropy" else LABELS % max(units, 2)
    pairs = dann.data.pair((INPUTS["source"], labels), INPUTS["target"], batch_size=4)
    with pytest.raises(ValueError, match=f"`label_head` must give logits.*Received: .*{told}"):
        model.fit(pairs, epochs=1, verbose=0)


@pytest.mark.parametrize("units", [1, 3])
def test_a_head_of_logits_and_numbers_from_0_to_1_that_are_predicted_train(units):
    loss = "mse" if units == 1 else None
    last = keras.ops.sigmoid if units == 1 else keras.ops.relu
    backbone = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5)])
    model = DANN(backbone, num_classes=units, label_head=Probabilities(units, last))
    model.compile("sgd", loss)
    pairs = dann.data.pair((INPUTS["source"], LABELS), INPUTS["target"], batch_size=4)
    assert len(model.fit(pairs, epochs=1, verbose=0).history["loss"]) == 1


def test_a_threshold_is_left_alone_where_outputs_are_no_logits():
    compiled("mse", classes=1, metrics=["binary_accuracy", metrics.BinaryAccuracy()])
    compiled(metrics=[metrics.Recall(top_k=2), metrics.Precision(thresholds=0.0)])


def test_a_metric_by_name_is_that_of_the_logits():
    model = compiled(metrics=["accuracy", "crossentropy", "sparse_categorical_crossentropy"])
    logs = model.evaluate(INPUTS["source"], LABELS, verbose=0, return_dict=True)
    for name in ("crossentropy", "sparse_categorical_crossentropy"):
        assert logs[name] == pytest.approx(logs["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "write"),
    [
        ({"loss": losses.SparseCategoricalCrossentropy()}, r"losses.Sparse.*\(from_logits=True\)"),
        ({"loss": losses.CategoricalFocalCrossentropy()}, "losses.CategoricalFocalCrossentropy"),
        ({"loss": "kl_divergence"}, "losses.CategoricalCrossentropy.*Received: kl_divergence"),
        ({"metrics": [metrics.CategoricalCrossentropy()]}, "metrics.CategoricalCrossentropy"),
        ({"loss": "binary_crossentropy", "metrics": [metrics.AUC()]}, "metrics.AUC"),
    ],
)
def test_losses_and_metrics_of_probabilities_are_refused_with_what_to_write(arguments, write):
    with pytest.raises(ValueError, match=f"must take logits.*use `keras.{write}"):
        compiled(**arguments)


@pytest.mark.parametrize("loss", [["sparse_categorical_crossentropy"], {"label": "mse"}])
def test_several_losses_are_refused(loss):
    with pytest.raises(ValueError, match="`loss` must be one loss, .*Received: a (list|dict) of 1"):
        compiled(loss)


@pytest.mark.parametrize(
    "given",
    [metrics.sparse_categorical_crossentropy, {"label": ["sparse_categorical_crossentropy"]}],
)
def test_a_cross_entropy_that_is_a_metric_is_that_of_the_logits_in_any_form(given):
    model = compiled(metrics=[given] if callable(given) else given)
    logs = model.evaluate(INPUTS["source"], LABELS, verbose=0, return_dict=True)
    assert logs["sparse_categorical_crossentropy"] == pytest.approx(logs["loss"], rel=1e-5)


def test_the_short_name_of_a_binary_cross_entropy_is_that_of_the_logits():
    model = compiled("bce", classes=1, metrics=["bce"])
    labels = (LABELS > 0)[:, None]
    logs = model.evaluate(INPUTS["source"], labels, verbose=0, return_dict=True)
    assert logs["bce"] == pytest.approx(logs["loss"], rel=1e-5)


@pytest.mark.parametrize("name", ["kl_divergence", "KLDivergence"])
def test_a_divergence_of_probabilities_is_refused_by_its_name(name):
    with pytest.raises(ValueError, match="must take logits.*metrics.CategoricalCrossentropy"):
        compiled("categorical_crossentropy", metrics=[name])


def test_numbers_of_classes_are_what_a_loss_of_embeddings_takes():
    model = compiled(losses.Circle())
    value = keras.ops.convert_to_numpy(losses.Circle()(LABELS, model(INPUTS["source"])))
    assert label_loss(model, LABELS) == pytest.approx(float(value), rel=1e-4)


@pytest.mark.parametrize("loss", ["mse", losses.binary_crossentropy, losses.MeanAbsoluteError()])
def test_numbers_of_classes_with_a_loss_of_all_outputs_are_refused(loss):
    with pytest.raises(ValueError, match=r"each of the 3 outputs; .*labels of shape \(6,\)"):
        compiled(loss).fit(INPUTS, LABELS, batch_size=6, verbose=0)


@pytest.mark.parametrize("nested", [[["binary_accuracy"]], {"label": "binary_accuracy"}])
def test_metrics_in_a_structure_are_of_logits_too(nested):
    model = compiled("binary_crossentropy", classes=1, metrics=nested)
    plain = compiled("binary_crossentropy", classes=1, metrics=["binary_accuracy"])
    plain.set_weights(model.get_weights())
    seen = [
        each.evaluate(INPUTS["source"], LABELS > 0, verbose=0, return_dict=True)
        for each in (model, plain)
    ]
    assert seen[0] == pytest.approx(seen[1])


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        (None, ONE_HOT, r"one-hot or soft.*losses.CategoricalCrossentropy\(from_logits=True\)"),
        ("categorical_crossentropy", LABELS, "SparseCategoricalCrossentropy"),
        (None, (LABELS, LABELS), "source's alone.*`validation_data=.*a tuple of 2"),
        (None, {"source": LABELS, "target": LABELS}, "source's alone.*a dict of 2"),
    ],
)
def test_labels_of_another_form_raise_an_error_that_says_what_to_write(loss, labels, message):
    with pytest.raises(ValueError, match=message):
        compiled(loss).fit(INPUTS, labels, verbose=0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS + 1, "below 3, .*as `labels - 1` are. Received: 3"),
        (LABELS - 1, "below 3, .*Received: -1"),
        (LABELS + 0.5, "not whole numbers"),
        (np.array(list("abcabc")), "return_inverse=True.*such as.*'a'"),
    ],
)
def test_labels_outside_the_models_classes_are_reported_before_training(labels, message):
    model = compiled()
    with pytest.raises(ValueError, match=message):
        model.fit(INPUTS, labels, verbose=0)
    with pytest.raises(ValueError, match=message):
        model.fit(INPUTS, LABELS, validation_data=(INPUTS["source"], labels), verbose=0)
    with pytest.raises(ValueError, match=message):
        model.evaluate(INPUTS["source"], labels, verbose=0)


def test_labels_of_pairs_are_looked_at_before_training():
    pairs = dann.data.pair((INPUTS["source"], LABELS + 1), INPUTS["target"], batch_size=3)
    with pytest.raises(ValueError, match="below 3, .*as `labels - 1` are"):
        compiled().fit(pairs, verbose=0)


@pytest.mark.tensorflow
def test_a_wrong_label_of_a_data_set_is_reported_in_one_line():
    tf = pytest.importorskip("tensorflow")
    batches = tf.data.Dataset.from_tensor_slices((INPUTS, LABELS + 1)).batch(6)
    with pytest.raises(ValueError, match="below 3, .*Received: 3$"):
        compiled().fit(batches, shuffle=False, verbose=0)


def test_labels_of_ignored_examples_may_be_any_number():
    loss = losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255)
    model = compiled(loss)
    kept = LABELS != 2
    expected = -log_probabilities(model)[np.arange(6), LABELS][kept].mean()
    logs = model.fit(INPUTS, np.where(kept, LABELS, 255), batch_size=6, verbose=0).history
    assert logs["label/loss"] == pytest.approx([expected], rel=1e-5)


def test_weights_of_the_source_come_with_the_pairs():
    model = compiled()
    weights = np.array([1.0, 0.0, 2.0, 0.0, 0.0, 0.0], "float32")
    arrays = INPUTS["source"], LABELS, weights
    pairs = dann.data.pair(arrays, INPUTS["target"], batch_size=6, shuffle=False)
    expected = -(weights * log_probabilities(model)[np.arange(6), LABELS]).sum() / 6
    logs = model.fit(pairs, verbose=0).history
    assert logs["label/loss"] == pytest.approx([expected], rel=1e-5)


def test_missing_labels_are_told_in_one_line():
    model = compiled()
    with pytest.raises(ValueError, match=r"needs labels.*validation_data=\(inputs, labels\)"):
        model.evaluate(INPUTS["source"], verbose=0)
    with pytest.raises(ValueError, match=r"needs labels.*Received: inputs without labels"):
        model.fit(INPUTS, LABELS, validation_data=INPUTS["target"], verbose=0)


def test_two_domains_that_are_no_pair_are_told_how_to_become_one():
    late = DANN(keras.Sequential([keras.layers.Dense(5)]), num_classes=3)
    late.compile("sgd")
    for model in (compiled(), late):
        for domains in (tuple(INPUTS.values()), list(INPUTS.values())):
            with pytest.raises(ValueError, match=r"come as a pair.*`dann.data.pair.* of 2 inputs"):
                model.fit(domains, LABELS, verbose=0)


def test_a_pair_of_arrays_of_different_sizes_is_told_what_to_write():
    inputs = {"source": INPUTS["source"], "target": INPUTS["target"][:4]}
    with pytest.raises(ValueError, match=r"`dann.data.pair.*6 of the source, 4 of the target"):
        compiled().fit(inputs, LABELS, verbose=0)


@pytest.mark.parametrize("positions", [(5,), (5, 5)])
def test_class_weights_of_label_maps_are_told_to_be_weights_of_positions(positions):
    backbone = keras.Sequential([keras.Input((*positions, 4)), keras.layers.Dense(2)])
    model = DANN(backbone, num_classes=3)
    model.compile("sgd")
    inputs = RNG.normal(size=(6, *positions, 4)).astype("float32")
    labels = RNG.integers(0, 3, size=(6, *positions))
    pairs = dann.data.pair((inputs, labels), inputs, batch_size=3)
    with pytest.raises(ValueError, match=r"no `class_weight` for maps.*`pair\(\(.*\[labels\]"):
        model.fit(pairs, class_weight={0: 1.0, 1: 2.0, 2: 1.0}, verbose=0)
    weighted = inputs, labels, np.array([1.0, 2.0, 1.0])[labels]
    model.fit(dann.data.pair(weighted, inputs, batch_size=3), verbose=0)
