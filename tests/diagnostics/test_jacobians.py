"""Jacobians, ranks and gains: closed forms on linear maps, differences on others."""

import importlib
import itertools

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


def build_model(activation=None):
    backbone = network((3, 4), "backbone", activation)
    model = SourceOnly(backbone, label_head=network((4, 2), "label_head"))
    for variable, value in zip(model.trainable_variables, (FIRST, SECOND), strict=True):
        variable.assign(value)
    return model


MAPS = {"features": lambda x: np.tanh(x @ FIRST), "logits": lambda x: np.tanh(x @ FIRST) @ SECOND}


def test_measurements_match_central_differences():
    measurements = jacobians(build_model("tanh"), DATA, samples=3)
    norms = {}
    for (domain, inputs), name in itertools.product(DATA[0].items(), MAPS):
        matrices = [jacobian_by_differences(MAPS[name], x.astype(float)) for x in inputs[:3]]
        values, prefix = np.linalg.svd(matrices, compute_uv=False), f"jacobian/{domain}/{name}"
        norms[domain] = np.linalg.norm(values, axis=1).mean()
        assert measurements[f"{prefix}/norm"] == pytest.approx(norms[domain], rel=1e-4)
        assert measurements[f"{prefix}/top"] == pytest.approx(values[:, 0].mean(), rel=1e-4)
        expected = values.mean(axis=0)
        np.testing.assert_allclose(measurements[f"{prefix}/singular_values"], expected, rtol=1e-4)
    ratio = norms["target"] / norms["source"]
    assert measurements["jacobian/target_to_source"] == pytest.approx(ratio, rel=1e-4)


def test_large_jacobian_is_estimated(monkeypatch):
    model = build_model("tanh")
    exact = jacobians(model, DATA)
    monkeypatch.setattr(jacobians_file, "_DENSE", 1)
    estimated = jacobians(model, DATA, k=3)
    prefix = "jacobian/target/features"
    assert estimated[f"{prefix}/norm"] == pytest.approx(exact[f"{prefix}/norm"], rel=0.2)
    for key in (f"{prefix}/top", f"{prefix}/singular_values"):
        np.testing.assert_allclose(estimated[key], exact[key], rtol=1e-3)


def test_effective_rank_counts_the_used_directions():
    assert effective_rank(np.array([3.0, 3.0, 3.0, 0.0])) == pytest.approx(3)
    assert effective_rank(np.zeros(3)) == 0
    # Uncorrelated features of equal deviation use every direction equally, a line uses one.
    corners = np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]], "float32")
    line = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 0.0]).astype("float32")
    model = SourceOnly(network((3, 3), "backbone"), num_classes=2)
    model.backbone.trainable_variables[0].assign(np.eye(3))
    measurements = jacobians(model, ({"source": corners, "target": line + 7}, np.arange(4) % 2))
    assert measurements["rank/source/effective_rank"] == pytest.approx(2, abs=1e-5)
    assert measurements["rank/source/rank_share"] == pytest.approx(2 / 3, abs=1e-5)
    assert measurements["rank/target/effective_rank"] == pytest.approx(1, abs=1e-5)


def test_gains_match_the_later_layers_except_in_a_shortcut():
    inputs = keras.Input((3,))
    first = keras.layers.Dense(4, use_bias=False, name="first")(inputs)
    inner = keras.layers.Dense(4, use_bias=False, name="inner")(first)
    joined = keras.layers.Add(name="joined")([first, inner])
    outputs = keras.layers.Dense(2, "relu", use_bias=False, name="last")(joined)
    model = SourceOnly(keras.Model(inputs, outputs), num_classes=2)
    first, inner, last = (np.array(v, float) for v in model.backbone.trainable_variables)
    nodes = [len(layer._inbound_nodes) for layer in model.backbone.layers]
    measurements = signal_propagation(model, DATA)
    assert nodes == [len(layer._inbound_nodes) for layer in model.backbone.layers]
    for domain, inputs in (("source", SOURCE), ("target", TARGET)):
        prefix, joined = f"signal/{domain}", inputs @ first @ (np.eye(4) + inner)
        is_active = (joined @ last > 0).astype(float)
        gains = []
        for name, after in (("first", (np.eye(4) + inner).T), ("joined", np.eye(4))):
            matrices = [np.diag(mask) @ last.T @ after for mask in is_active]
            gains.append(np.sqrt(np.mean([np.sum(matrix**2) for matrix in matrices]) / 2))
            assert measurements[f"{prefix}/{name}/gain"] == pytest.approx(gains[-1], rel=1e-4)
        gain_range = measurements[f"{prefix}/gain_range"]
        assert gain_range == pytest.approx(max(gains) / min(gains), rel=1e-4)
        assert f"{prefix}/inner/gain" not in measurements
        assert f"{prefix}/last/gain" not in measurements
        assert measurements[f"{prefix}/last/zero"] == pytest.approx(np.mean(is_active == 0))
        deviation = measurements[f"{prefix}/first/std"]
        assert deviation == pytest.approx((inputs @ first).std(), rel=1e-4)
