"""What must stay as it was: values and gradients, batches, names, and the files of a run.

`python tests/test_golden.py` writes `tests/golden/` anew from the code as it stands. A change that
means to alter a value writes it anew too, and its commit says what changed and why.
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

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE / "golden"
TRAIN = HERE.parent / "scripts" / "train.py"
STEPS = ["trainer.steps=40", "trainer.steps_per_epoch=20", "hydra.run.dir=run"]
# As the default was when the values were written.
STEPS += ["network.label_head.hidden_units=[]", "schedule.high=0.3"]

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
    "mada": (dann.MADA, {}),
    "mcd": (dann.MCD, {}),
    "mdan": (dann.MDAN, {"num_sources": 2}),
    "mdan_hard": (dann.MDAN, {"num_sources": 2, "weighting": "hard"}),
    "mdd": (dann.MDD, {"disparity": "margin"}),
    "pada": (dann.PADA, {"momentum": 0.9}),
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
    """What a step of SGD logs and how it moves each weight: its gradient, at a rate of 1."""
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
    moved = [one - other for one, other in zip(before, after, strict=True)]
    return {"logs": [logs[name] for name in sorted(logs)], "gradient": by_shape(moved)}


def fill(variables):
    """Gives each variable values that depend on its shape and on its place among those."""
    counts = collections.Counter()
    for variable in variables:
        shape = tuple(variable.shape)
        rng = np.random.default_rng([counts[shape], *shape])
        variable.assign(0.4 * rng.normal(size=shape))
        counts[shape] += 1
    return as_arrays(variables)


def as_arrays(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def by_shape(arrays):
    """All arrays in one row, in an order that holds where a model names its weights anew."""
    return np.concatenate([sketch(array.ravel()) for array in sorted(arrays, key=np.shape)])


def sketch(values):
    """The values, or of more than 20 their sums along random directions: each of them counts."""
    if len(values) <= 20:
        return values
    directions = np.random.default_rng(len(values)).normal(size=(6, len(values)))
    return directions @ values / np.sqrt(len(values))


def of_methods():
    found = {}
    for name, (cls, settings) in METHODS.items():
        for key, value in one_step(cls, settings, name.startswith("mdan")).items():
            found[f"method/{name}/{key}"] = value
    for name, make in REGULARIZERS.items():
        for key, value in one_step(dann.DANN, {"regularizers": [make()]}).items():
            found[f"regularizer/{name}/{key}"] = value
    return found


def of_estimators():
    x = np.float32([-2, -1.2, -1, -0.6, -0.1, -0.0, 0, 0.05, 0.3, 1, 1.4, 3])
    found = {}
    for name in sorted(dann.gradients.estimators.ESTIMATORS):
        layer = dann.layers.BinarySign(estimator=name)
        value, gradient = value_and_gradient(layer, x[None])
        found[f"estimator/{name}/value"], found[f"estimator/{name}/gradient"] = value, gradient
    return found


def value_and_gradient(function, x):
    import tensorflow as tf

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        loss = tf.reduce_sum(y * tf.cast(tf.reshape(tf.range(1, tf.size(y) + 1), y.shape), y.dtype))
    return y.numpy(), tape.gradient(loss, x).numpy()


def of_scores():
    keras.utils.set_random_seed(0)
    backbone = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, activation="tanh")])
    model = dann.DANN(backbone, num_classes=3)
    fill(model.classifier.trainable_variables)
    rng = np.random.default_rng(1)
    source = rng.normal(size=(60, 5)).astype("float32"), np.arange(60) % 3
    target = rng.normal(0.5, 1.2, (50, 5)).astype("float32")
    names = sorted(dann.selection.SCORES)
    found = dann.selection.compute_scores(model, source=source, target=target, scores=names)
    agree = dann.selection.agreement([[0, 1, 2, 1], [0, 1, 2, 2], [0, 2, 2, 1]])
    return {f"score/{name}": value for name, value in {**found, "agreement": agree}.items()}


def of_batches():
    x = np.arange(50, dtype="float32")[:, None]
    y, target = np.arange(50) % 3 // 2, 100 + np.arange(37, dtype="float32")[:, None]
    settings = {
        "plain": {},
        "balanced": {"balanced": True},
        "second_of_two": {"process_id": 1, "num_processes": 2},
        "in_order": {"shuffle": False},
    }
    found = {}
    for name, given in settings.items():
        pairs = dann.data.pair((x, y), target, 8, seed=5, **given)
        pairs.start = 3
        for domain in ("source", "target"):
            drawn = [np.ravel(pairs[step][0][domain]) for step in range(6)]
            found[f"batches/{name}/{domain}"] = np.stack(drawn).astype("uint8")
    return found


def of_run(folder):
    """The weights after 40 steps of the default run, which traces no function again."""
    command = [sys.executable, TRAIN, "compare=false", *STEPS]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "retracing" not in done.stdout + done.stderr
    model = keras.models.load_model(folder / "run" / "classifier.keras")
    weights = model.get_weights()
    return {f"run/{number}": sketch(values.ravel()) for number, values in enumerate(weights)}


def names_of_run(folder):
    run = folder / "run"
    kept = [path.relative_to(run) for path in run.rglob("*") if path.is_file()]
    kept = [str(path) for path in kept if path.parts[0] != "checkpoints"]
    return {
        "summary": sorted(json.loads((run / "summary.json").read_text())),
        "files": sorted(name for name in kept if "tfevents" not in name),
        "metrics": (run / "metrics.csv").read_text().splitlines()[0].split(","),
        "dann": sorted(dann.__all__),
    }


def packable():
    """A binary network with pooling and batch normalization of both signs."""
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


def check(found, golden, kind, rtol=2e-4, atol=1e-5):
    expected = {name: value for name, value in golden.items() if name.startswith(f"{kind}/")}
    assert expected
    for name, value in expected.items():  # what has come since has tests of its own
        np.testing.assert_allclose(found[name], value, rtol, atol, err_msg=name)


def test_a_step_of_every_method_and_regularizer(golden):
    found = of_methods()
    for kind in ("method", "regularizer"):
        check({k: v for k, v in found.items() if k.startswith(f"{kind}/")}, golden, kind)


def test_estimators(golden):
    check(of_estimators(), golden, "estimator")


def test_scores(golden):
    check(of_scores(), golden, "score")


def test_batches(golden):
    check(of_batches(), golden, "batches", 0, 0)


def test_the_default_run_and_what_it_leaves(golden, run_folder):
    # Processors round differently, and 40 steps enlarge that.
    check(of_run(run_folder), golden, "run", 1e-2, 1e-3)
    found, names = names_of_run(run_folder), json.loads((GOLDEN / "names.json").read_text())
    assert set(names.pop("dann")) <= set(found.pop("dann"))  # a new name is no change
    assert found == names


def test_files_of_before_load(golden):
    x = images()
    loaded = keras.models.load_model(GOLDEN / "classifier.keras", safe_mode=True)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), golden["files/logits"], 1e-4, 1e-5)
    packed = dann.deployment.load(GOLDEN / "packed.dann")
    np.testing.assert_allclose(packed.predict(x), golden["files/logits"], 1e-4, 1e-5)


if __name__ == "__main__":
    import tempfile

    folder = pathlib.Path(tempfile.mkdtemp())
    values = {**of_methods(), **of_estimators(), **of_scores(), **of_batches(), **of_run(folder)}
    model = packable()
    values["files/logits"] = model.predict(images(), verbose=0)
    model.save(GOLDEN / "classifier.keras")
    dann.deployment.pack(model, GOLDEN / "packed.dann")
    np.savez_compressed(GOLDEN / "values.npz", **values)
    (GOLDEN / "names.json").write_text(json.dumps(names_of_run(folder), indent=1) + "\n")
