import keras
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("compares with TensorFlow's tape", allow_module_level=True)

from benchmarks.rivals import is_installed  # noqa: E402
from benchmarks.suites.jacobian import JacobianSuite  # noqa: E402


def network(units=4):
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(units, activation="tanh")])


@pytest.mark.parametrize("units", [4, 7])  # fewer and more outputs than inputs
def test_all_ways_compute_the_same(units):
    model = network(units)
    x = tf.random.normal((3, 6))
    ways = JacobianSuite({"small": model}, [3], k=4, rounds=1).ways(model, x)
    results = {
        name: np.asarray(way()) for name, way in ways.items() if name != "dann, frobenius_norm"
    }
    blocks = np.einsum("bobi->boi", results.pop("tape.jacobian"))
    expected = np.linalg.svd(blocks, compute_uv=False)[:, :4]
    for by in ("SVD", "Gram matrix"):
        found = results.pop(f"tape.batch_jacobian and {by}")
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(results.pop("dann, singular_values"), expected, rtol=1e-4)
    assert len(results) == 3 + is_installed("jax")
    for result in results.values():
        np.testing.assert_allclose(result, blocks, rtol=1e-5)


def test_ways_that_exceed_the_budget_are_left_out():
    model = network()
    ways = JacobianSuite({"small": model}, [3], k=5, memory_budget=10).ways(
        model, tf.random.normal((3, 6))
    )
    assert list(ways) == ["dann, frobenius_norm"]


def test_some_ways_can_be_left_out():
    suite = JacobianSuite(
        {"small": network()}, [3], k=4, only=["tape.jacobian", "dann, singular_values"]
    )
    ways = suite.ways(suite.networks["small"], tf.random.normal((3, 6)))
    assert list(ways) == ["tape.jacobian", "dann, singular_values"]


def test_every_network_is_measured_at_every_size():
    suite = JacobianSuite({"small": network()}, [1, 2], k=2, rounds=1, seconds=0)
    comparisons = suite.measure()
    assert [comparison.task for comparison in comparisons] == ["small, batch 1", "small, batch 2"]
    assert all(times.cpu > 0 for of_it in comparisons for times in of_it.times.values())
    for of_it in comparisons:
        (told,) = of_it.notes.values()
        assert float(told.removeprefix("all within ").removesuffix("%")) < 0.1
