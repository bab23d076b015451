"""Jacobians, ranks and gains: closed forms on linear maps, differences on others."""

import importlib

import keras
import numpy as np
import pytest
from linear_models import DATA, SOURCE, TARGET
from support.closed_forms import jacobian_by_differences
from support.networks import network

from dann.adaptation import SourceOnly
from dann.diagnostics import jacobians, signal_propagation
from dann.diagnostics.jacobians import effective_rank

jacobians_file = importlib.import_module("dann.diagnostics.jacobians")
RNG = np.random.default_rng(5)
FIRST, SECOND = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))


def model_of(activation=None):
    backbone = network((3, 4), "backbone", activation)
    model = SourceOnly(backbone, label_head=network((4, 2), "label_head"))
    for variable, value in zip(model.trainable_variables, (FIRST, SECOND), strict=True):
        variable.assign(value)
    return model


def expected_of(values):
    return {"norm": np.sqrt((values**2).sum()), "top": values[0]}


def test_of_a_linear_map_they_are_those_of_its_matrix():
    found = jacobians(model_of(), DATA)
    for name, matrix in (("features", FIRST), ("logits", FIRST @ SECOND)):
        values = np.linalg.svd(matrix, compute_uv=False)
        for domain in ("source", "target"):
            for key, value in expected_of(values).items():
                of_one = found[f"jacobian/{domain}/{name}/{key}"]
                assert of_one == pytest.approx(value, rel=1e-5), (name, key)
            shown = found[f"jacobian/{domain}/{name}/singular_values"]
            np.testing.assert_allclose(shown, values, rtol=1e-5)
    assert found["jacobian/target_to_source"] == pytest.approx(1, rel=1e-6)


def test_of_another_network_they_are_those_of_central_differences_example_by_example():
    found = jacobians(model_of("tanh"), DATA, samples=3)
    norms = {}
    for domain, inputs in (("source", SOURCE), ("target", TARGET)):
        matrices = [
            jacobian_by_differences(lambda x: np.tanh(x @ FIRST) @ SECOND, x.astype(float))
            for x in inputs[:3]
        ]
        each = [expected_of(np.linalg.svd(matrix, compute_uv=False)) for matrix in matrices]
        for key in each[0]:
            mean = np.mean([one[key] for one in each])
            of_domain = found[f"jacobian/{domain}/logits/{key}"]
            assert of_domain == pytest.approx(mean, rel=1e-4), (domain, key)
        norms[domain] = np.mean([one["norm"] for one in each])
    ratio = norms["target"] / norms["source"]
    assert found["jacobian/target_to_source"] == pytest.approx(ratio, rel=1e-4)


def test_a_large_jacobian_is_estimated_with_its_error(monkeypatch):
    model = model_of("tanh")
    whole = jacobians(model, DATA)
    monkeypatch.setattr(jacobians_file, "_DENSE", 1)
    estimated = jacobians(model, DATA, k=3)
    for domain in ("source", "target"):
        prefix = f"jacobian/{domain}/features"
        assert estimated[f"{prefix}/norm"] == pytest.approx(whole[f"{prefix}/norm"], rel=0.2)
        for key in ("top", "singular_values"):
            np.testing.assert_allclose(
                estimated[f"{prefix}/{key}"], whole[f"{prefix}/{key}"], rtol=1e-3
            )


def test_images_in_bytes_are_differentiated_too():
    data = ({"source": (50 * SOURCE + 100).astype("uint8"), "target": TARGET}, DATA[1])
    found = jacobians(model_of(), data)
    assert found["jacobian/source/features/norm"] == pytest.approx(np.linalg.norm(FIRST), rel=1e-5)


def test_ranks_tell_how_many_directions_are_in_use():
    assert effective_rank(np.array([3.0, 3.0, 3.0, 0.0])) == pytest.approx(3)
    assert effective_rank(np.zeros(3)) == 0
    # Independent features of one deviation use every direction alike, and a line uses one.
    corners = np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]], "float32")
    line = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 0.0]).astype("float32")
    model = SourceOnly(network((3, 3), "backbone"), num_classes=2)
    model.backbone.trainable_variables[0].assign(np.eye(3))
    found = jacobians(model, ({"source": corners, "target": line + 7}, np.arange(4) % 2))
    assert found["rank/source/effective_rank"] == pytest.approx(2, abs=1e-5)
    assert found["rank/source/rank_share"] == pytest.approx(2 / 3, abs=1e-5)
    assert found["rank/target/effective_rank"] == pytest.approx(1, abs=1e-5)


def deep_model():
    """Two layers, a shortcut around the second, and a third."""
    inputs = keras.Input((3,))
    first = keras.layers.Dense(4, use_bias=False, name="first")(inputs)
    inner = keras.layers.Dense(4, use_bias=False, name="inner")(first)
    joined = keras.layers.Add(name="joined")([first, inner])
    outputs = keras.layers.Dense(2, "relu", use_bias=False, name="last")(joined)
    return SourceOnly(keras.Model(inputs, outputs), num_classes=2)


def test_gains_are_those_of_the_layers_that_follow_and_none_exists_within_a_shortcut():
    model = deep_model()
    first, inner, last = (np.array(v, float) for v in model.backbone.trainable_variables)
    nodes = [len(layer._inbound_nodes) for layer in model.backbone.layers]
    watching = signal_propagation(model, DATA)  # builds what it needs of the layers
    between = [len(layer._inbound_nodes) for layer in model.backbone.layers]
    found = signal_propagation(model, DATA)
    assert nodes == between == [len(layer._inbound_nodes) for layer in model.backbone.layers]
    assert found == watching
    for domain, inputs in (("source", SOURCE), ("target", TARGET)):
        joined = inputs @ first @ (np.eye(4) + inner)
        open_ = (joined @ last > 0).astype(float)
        rests = [np.diag(mask) @ last.T for mask in open_]  # of the features by `joined`
        for name, after in (("joined", np.eye(4)), ("first", (np.eye(4) + inner).T)):
            matrices = [rest @ after for rest in rests]
            gain = np.sqrt(np.mean([np.sum(m**2) for m in matrices]) / 2)
            assert found[f"signal/{domain}/{name}/gain"] == pytest.approx(gain, rel=1e-4)
        assert f"signal/{domain}/inner/gain" not in found
        assert f"signal/{domain}/last/gain" not in found
        outputs = np.maximum(joined @ last, 0)
        zeros = found[f"signal/{domain}/last/zero"]
        assert zeros == pytest.approx(np.mean(outputs == 0))
        assert found[f"signal/{domain}/first/std"] == pytest.approx(
            (inputs @ first).std(), rel=1e-4
        )
        gains = [found[f"signal/{domain}/{name}/gain"] for name in ("first", "joined")]
        whole = found[f"signal/{domain}/gain_range"]
        assert whole == pytest.approx(max(gains) / min(gains), rel=1e-6)
