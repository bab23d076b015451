"""All ways of the suite `step` take the same steps."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares with a step of TensorFlow", allow_module_level=True)

from benchmarks import record  # noqa: E402
from benchmarks.bounds import work_of_jacobian, work_of_predictions, work_of_step  # noqa: E402
from benchmarks.plain_training import plain_training  # noqa: E402
from benchmarks.suites.onednn import OneDNNSuite  # noqa: E402
from benchmarks.suites.profile import ProfileSuite  # noqa: E402
from benchmarks.suites.step import StepSuite  # noqa: E402
from benchmarks.timing import Comparison, Times  # noqa: E402
from dann.networks import cnn_backbone, mnist_backbone  # noqa: E402

RATE = 0.01
OURS = {"dann", "dann, 20 steps an execution", "tf.function by hand"}


def suite(backbone, **kwargs):
    network = {"backbone": backbone, "label_units": [5], "domain_units": [4], "steps": 1}
    return StepSuite({"small": network}, num_classes=3, batch_size=6, rounds=1, seconds=0, **kwargs)


def backbones():
    plain = mnist_backbone((16, 16, 1), input_range=(0, 1))
    return {"paper": plain, "small_cnn": cnn_backbone((8, 8, 3), (4,), 5, input_range=(0, 1))}


@pytest.mark.filterwarnings("ignore:CUDA initialization")
@pytest.mark.parametrize("name", ["paper", "small_cnn"])
def test_pytorch_takes_the_step_that_is_written_by_hand(name):
    pytest.importorskip("torch")
    from benchmarks.rivals.torch_twin import torch_steps

    measured = suite(backbones()[name])
    task = measured.tasks["small"]
    source, target, labels = measured.arrays(task, 1)
    step = plain_training(measured.parts(task), RATE, strength=1.0).step
    run, last = torch_steps(measured.training(task, [source, target, labels]))
    for _ in range(3):  # whatever the order of the examples in the one batch
        expected = float(step(source, target, labels))
        run()
        assert last() == pytest.approx(expected, rel=1e-4)


def test_dann_takes_the_step_that_is_written_by_hand():
    measured = suite(backbones()["paper"])
    task = measured.tasks["small"]
    arrays = measured.arrays(task, 1)
    step = plain_training(measured.parts(task), RATE, strength=1.0).step
    expected = [float(step(*arrays)) for _ in range(3)]
    run = measured.ways(task)["dann"]
    losses = [run().history["loss"][0] for _ in range(3)]
    assert losses == pytest.approx(expected, rel=1e-4)


@pytest.mark.filterwarnings("ignore:CUDA initialization")
def test_every_network_is_measured_beside_its_rivals_and_a_bound():
    whole, alone = suite(backbones()["small_cnn"]).measure()
    assert (whole.task, alone.task) == ("small, DANN", "small, source only")
    assert {"dann", "tf.function by hand"} <= set(whole.times)
    assert set(alone.times) == {"dann, SourceOnly", "Keras"}
    for one in (whole, alone):
        assert all(times.cpu > 0 for times in one.times.values())
        assert "A step is 0.000" in one.remark


def test_the_work_of_a_step_is_that_of_its_products():
    inputs = keras.Input((4,))
    first = keras.Model(inputs, keras.layers.Dense(3, use_bias=False)(inputs))
    features = keras.Input((3,))
    second = keras.Model(features, keras.layers.Dense(2)(features))
    work = work_of_step([(first, 10), (second, 5)])
    assert work.operations == 2 * (2 * 10 * 4 * 3 + 3 * 5 * 3 * 2)
    outputs, weights = 10 * 3 + 5 * 2, 12 + 8
    assert work.bytes == 4 * (4 * outputs + 5 * weights)


def test_a_convolution_multiplies_at_every_position():
    inputs = keras.Input((6, 6, 2))
    layer = keras.layers.Conv2D(4, 3, use_bias=False)
    work = work_of_step([(keras.Model(inputs, layer(inputs)), 7)])
    assert work.operations == 2 * 2 * 7 * (4 * 4) * (3 * 3 * 2 * 4)


def test_the_work_of_a_jacobian_is_a_prediction_and_the_way_back_of_each_output():
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(4)(inputs)
    network = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.ReLU()(hidden)))
    weights = (5 * 4 + 4) + (4 * 3 + 3)
    forward = work_of_predictions([(network, 7)])
    assert forward.operations == 2 * 7 * (5 * 4 + 4 * 3)
    assert forward.bytes == 4 * (2 * 7 * (4 + 3) + weights)
    # The last kernel's rows are the gradients of the hidden layer: only the first multiplies.
    work = work_of_jacobian(network, 7)
    assert work.operations == forward.operations + 2 * 7 * 3 * (5 * 4)
    assert work.bytes == forward.bytes + 4 * (7 * 3 * (2 * 4 + 5) + weights)
    bare = keras.Model(inputs, keras.layers.ReLU()(inputs))
    assert work_of_jacobian(bare, 7) == (0, 4 * 7 * 5 * 5)  # the Jacobians are written


def test_some_ways_can_be_left_out():
    (whole,) = suite(backbones()["small_cnn"], only=["dann"]).measure()
    assert (whole.task, list(whole.times)) == ("small, DANN", ["dann"])
    with pytest.raises(ValueError, match="Received: only='us'"):
        suite(backbones()["small_cnn"], only=["us"])


@pytest.mark.filterwarnings("ignore:CUDA initialization")
def test_a_profile_has_the_kinds_of_operations_of_a_step():
    network = {"backbone": backbones()["paper"], "label_units": [5], "domain_units": [4]}
    found = ProfileSuite({"paper": {**network, "steps": 20}}, rounds=2, seconds=0).measure()
    spent = {one.task.removeprefix("paper, "): one.times for one in found}
    kinds = "convolutions", "pooling", "matrix products"
    assert list(spent) == ["a whole step, not traced", "all operations", *kinds]
    assert set(spent["all operations"]) == set(spent["a whole step, not traced"]) == OURS
    for way in OURS:
        parts = [spent[kind][way].cpu for kind in kinds]
        assert np.all(parts), way
        assert np.all(sum(parts) < spent["all operations"][way].cpu), way


def test_onednn_is_switched_in_processes_that_take_turns(monkeypatch):
    started = []

    def measured(name, count, overrides, environment):
        started.append(environment["TF_ENABLE_ONEDNN_OPTS"])
        assert (name, count, overrides[0]) == ("step", 1, "step.only=[dann]")
        seconds = np.array([float(len(started))])
        return [Comparison("small, DANN", {"dann": Times(seconds, seconds)})]

    monkeypatch.setattr(record, "in_processes", measured)
    (found,) = OneDNNSuite(rounds=2).measure()
    assert started == ["0", "1", "0", "1"]
    np.testing.assert_array_equal(found.times["dann, oneDNN off"].cpu, [1, 3])
    np.testing.assert_array_equal(found.ratios("dann, oneDNN on"), [2, 4 / 3])


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="Keras model as backbone. Received: 3 of small"):
        suite(3)
