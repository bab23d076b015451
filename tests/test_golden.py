"""Golden values: values and gradients, batches, names, and the files of a run.

`python tests/test_golden.py` regenerates `tests/golden/` from the current code. A change that
alters a value on purpose regenerates it, and its commit message explains what changed and why.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import dann

pytestmark = pytest.mark.tensorflow

GOLDEN = pathlib.Path(__file__).parent / "golden"
TRAIN = GOLDEN.parents[1] / "scripts/train.py"
SETTINGS = ["compare=false", "trainer.steps=4", "trainer.steps_per_epoch=2", "hydra.run.dir=run"]

METHODS = {
    "dann": (dann.DANN, {}),
    "els": (dann.DANN, {"domain_label_smoothing": 0.1}),
    "dann_stop_gradient": (dann.DANN, {"implementation": "stop_gradient"}),
    "dann_separate": (dann.DANN, {"joint_forward": False}),
    "cdan": (dann.CDAN, {}),
    "cdan_e": (dann.CDAN, {"entropy_conditioning": True}),
    "sdat": (dann.CDAN, {"task_radius": 0.05}),
    "daln": (dann.DALN, {}),
    "fdal": (dann.FDAL, {}),
    "mcd": (dann.MCD, {}),
    "mdan": (dann.MDAN, {"num_sources": 2}),
    "mdan_hard": (dann.MDAN, {"num_sources": 2, "weighting": "hard"}),
    "mdd": (dann.MDD, {"disparity": "margin"}),
    "wdgrl": (dann.WDGRL, {"critic_steps": 2, "seed": 3}),
    "dirt_t": (dann.DIRTT, {"radius": 0.5, "seed": 3}),
    "source_only": (dann.SourceOnly, {}),
}
REGULARIZERS = {
    "conditional_entropy": lambda: dann.ConditionalEntropy(0.5),
    "mcc": lambda: dann.MCC(0.5),
    "virtual_adversarial": lambda: dann.VirtualAdversarial(0.5, radius=0.3, seed=4),
    "self_ensembling": lambda: dann.SelfEnsembling(0.5, threshold=0.2),
}


def batch():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 5)).astype("float32")
    target = rng.normal(0.7, 1.5, (12, 5)).astype("float32")
    return {"source": x, "target": target}, np.arange(12) % 3


def one_step(cls, settings, source_domain=False):
    """Returns the logs of a step of SGD, and the gradient of each weight by its change."""
    keras.utils.set_random_seed(0)
    layers = [keras.Input((5,)), keras.layers.Dense(6, activation="tanh", name="features")]
    strength = {} if cls in (dann.SourceOnly, dann.DIRTT) else {"strength": 0.7}
    model = cls(keras.Sequential(layers), num_classes=3, **strength, **settings)
    model.compile(keras.optimizers.SGD(1.0), metrics=["accuracy"])
    x, y = batch()
    if source_domain:
        x["source_domain"] = np.arange(12) // 3 % 2
    before = fill(model.trainable_variables)
    logs = model.train_on_batch(x, y, return_dict=True)
    after = as_arrays(model.trainable_variables)
    gradients = [old - new for old, new in zip(before, after, strict=True)]  # a learning rate of 1
    return {"logs": [logs[name] for name in sorted(logs)], "gradient": sketch_all(gradients)}


def fill(variables):
    """Assigns values that depend on the shape of a variable and its position in that shape."""
    counts = collections.Counter()
    for variable in variables:
        shape = tuple(variable.shape)
        rng = np.random.default_rng([counts[shape], *shape])
        variable.assign(0.4 * rng.normal(size=shape))
        counts[shape] += 1
    return as_arrays(variables)


def as_arrays(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def sketch_all(arrays):
    """Returns all arrays in one row, in an order that does not depend on names of weights."""
    return np.concatenate([sketch(array.ravel()) for array in sorted(arrays, key=np.shape)])


def sketch(values):
    """Returns the values or, if there are more than 20, their products with random directions."""
    if len(values) <= 20:
        return values
    directions = np.random.default_rng(len(values)).normal(size=(6, len(values)))
    return directions @ values / np.sqrt(len(values))


def method_values():
    values = {}
    for name, (cls, settings) in METHODS.items():
        for key, value in one_step(cls, settings, name.startswith("mdan")).items():
            values[f"method/{name}/{key}"] = value
    for name, make in REGULARIZERS.items():
        for key, value in one_step(dann.DANN, {"regularizers": [make()]}).items():
            values[f"regularizer/{name}/{key}"] = value
    return values


def estimator_values():
    x = np.float32([-2, -1.2, -1, -0.6, -0.1, -0.0, 0, 0.05, 0.3, 1, 1.4, 3])
    values = {}
    for name in sorted(dann.gradients.estimators.estimator.ESTIMATORS):
        value, gradient = value_and_gradient(dann.layers.BinarySign(estimator=name), x[None])
        values[f"estimator/{name}/value"], values[f"estimator/{name}/gradient"] = value, gradient
    return values


def value_and_gradient(function, x):
    import tensorflow as tf

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        loss = tf.reduce_sum(y * tf.cast(tf.reshape(tf.range(1, tf.size(y) + 1), y.shape), y.dtype))
    return y.numpy(), tape.gradient(loss, x).numpy()


def score_values():
    keras.utils.set_random_seed(0)
    backbone = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, activation="tanh")])
    model = dann.DANN(backbone, num_classes=3)
    fill(model.classifier.trainable_variables)
    rng = np.random.default_rng(1)
    source = rng.normal(size=(60, 5)).astype("float32"), np.arange(60) % 3
    target = rng.normal(0.5, 1.2, (50, 5)).astype("float32")
    scores = dann.selection.compute_scores(model, source=source, target=target, scores="all")
    scores["agreement"] = dann.selection.agreement([[0, 1, 2, 1], [0, 1, 2, 2], [0, 2, 2, 1]])
    return {f"score/{name}": score for name, score in scores.items()}


def batch_values():
    x = np.arange(50, dtype="float32")[:, None]
    y, target = np.arange(50) % 3 // 2, 100 + np.arange(37, dtype="float32")[:, None]
    settings = {"plain": {}, "balanced": {"balanced": True}, "in_order": {"shuffle": False}}
    settings["second_of_two"] = {"process_id": 1, "num_processes": 2}
    values = {}
    for name, arguments in settings.items():
        pairs = dann.data.pair((x, y), target, 8, seed=5, **arguments)
        pairs.start = 3
        for domain in ("source", "target"):
            batches = [np.ravel(pairs[step][0][domain]) for step in range(6)]
            values[f"batches/{name}/{domain}"] = np.stack(batches).astype("uint8")
    return values


def run_values(folder):
    """Returns the weights after 4 steps of the default run, which must not retrace functions."""
    command = [sys.executable, TRAIN, *SETTINGS]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    assert "retracing" not in process.stdout + process.stderr
    model = keras.models.load_model(folder / "run" / "classifier.keras")
    return {f"run/{n}": sketch(values.ravel()) for n, values in enumerate(model.get_weights())}


def run_names(folder):
    run = folder / "run"
    paths = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
    files = [str(path) for path in paths if path.parts[0] != "checkpoints"]
    return {
        "summary": sorted(json.loads((run / "summary.json").read_text())),
        "files": sorted(name for name in files if "tfevents" not in name),
        "metrics": (run / "metrics.csv").read_text().splitlines()[0].split(","),
        "dann": sorted(name for name in dir(dann) if not name.startswith("_")),
    }


def packable():
    """Returns a binary network with pooling and batch normalization of both signs."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            dann.layers.BinaryConv2D(16, 3, padding="same"),
            keras.layers.MaxPooling2D(2),
            keras.layers.BatchNormalization(),
            keras.layers.Flatten(),
            dann.layers.BinaryDense(12),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(4),
        ]
    )
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if weight.name in ("gamma", "beta", "moving_mean"):
            weight.assign(rng.normal(size=weight.shape))
    return model


def images():
    return np.random.default_rng(2).normal(size=(16, 8, 8, 1)).astype("float32")


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "values.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("golden")


def check(values, golden, kind, rtol=2e-4, atol=1e-5):
    expected = {name: value for name, value in golden.items() if name.startswith(f"{kind}/")}
    assert expected
    for name, value in expected.items():  # newer values have tests of their own
        np.testing.assert_allclose(values[name], value, rtol, atol, err_msg=name)


def test_step_of_every_method_and_regularizer(golden):
    values = method_values()
    check(values, golden, "method")
    check(values, golden, "regularizer")


def test_estimators(golden):
    check(estimator_values(), golden, "estimator")


def test_scores(golden):
    check(score_values(), golden, "score")


def test_batches(golden):
    check(batch_values(), golden, "batches", 0, 0)


def test_default_run_and_its_files(golden, run_folder):
    # Processors round differently, and each step amplifies the differences.
    check(run_values(run_folder), golden, "run", 1e-3, 1e-4)
    names, expected = run_names(run_folder), json.loads((GOLDEN / "names.json").read_text())
    assert set(expected.pop("dann")) <= set(names.pop("dann"))  # new names are allowed
    assert names == expected


def test_earlier_files_load(golden):
    x = images()
    model = keras.models.load_model(GOLDEN / "classifier.keras", safe_mode=True)
    np.testing.assert_allclose(model.predict(x, verbose=0), golden["files/logits"], 1e-4, 1e-5)
    packed = dann.deployment.load(GOLDEN / "packed.dann")
    np.testing.assert_allclose(packed.predict(x), golden["files/logits"], 1e-4, 1e-5)


if __name__ == "__main__":
    import tempfile

    folder = pathlib.Path(tempfile.mkdtemp())
    values = method_values() | estimator_values() | score_values() | batch_values()
    values |= run_values(folder)
    model = packable()
    values["files/logits"] = model.predict(images(), verbose=0)
    model.save(GOLDEN / "classifier.keras")
    dann.deployment.pack(model, GOLDEN / "packed.dann")
    np.savez_compressed(GOLDEN / "values.npz", **values)
    (GOLDEN / "names.json").write_text(json.dumps(run_names(folder), indent=1) + "\n")
