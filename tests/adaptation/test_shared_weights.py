"""Devices that share the weights descend what one device does, and each holds its part."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SUPPORT = pathlib.Path(__file__).parents[1] / "support"
METHODS = ("cdan_e", "daln", "dann", "dirt_t", "mcd", "mdd", "wdgrl")
OTHERS = ("vat (regularizer)", "batch normalization", "dropout", "averaged weights")


@pytest.fixture
def trained(tmp_path):
    def train(groups, names, **environment):
        """Weights, and logs, scores and parts of variables, by `case/devices/in a group`."""
        pytest.importorskip("jax")
        blocked = tmp_path / "blocked"  # TensorFlow takes seconds to import
        blocked.mkdir()
        (blocked / "tensorflow.py").write_text("raise ImportError('blocked')")
        folders = [blocked, SUPPORT, SUPPORT.parent, SUPPORT.parents[1]]
        environment |= {"KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(map(str, folders))}
        script = [str(SUPPORT / "share_weights.py"), str(tmp_path)]
        command = [sys.executable, *script, json.dumps(groups), json.dumps(names)]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-4000:]
        with np.load(tmp_path / "weights.npz") as weights:
            return dict(weights), json.loads((tmp_path / "found.json").read_text())

    return train


def assert_groups_agree(results, groups, names, atol=1e-5):
    weights, found = results
    for name in names:
        its, scores, _ = found[f"{name}/0/1"]
        for count, size in groups:
            case = f"{name}/{count}/{size}"
            np.testing.assert_allclose(
                weights[case], weights[f"{name}/0/1"], rtol=1e-5, atol=atol, err_msg=case
            )
            assert found[case][0] == pytest.approx(its, rel=1e-3, abs=1e-3), case
            assert found[case][1] == pytest.approx(scores, rel=1e-3, abs=1e-3), case


def parts_of(found):
    """What a device holds of variables, by the end of their path and their shape."""
    return {(path.split("/")[-1], tuple(shape)): tuple(part) for path, shape, part in found[2]}


def test_groups_of_devices_compute_what_one_does_and_each_holds_its_part(trained):
    results = trained([[4, 2]], ["convolutions"])
    assert_groups_agree(results, [[4, 2]], ["convolutions"])
    held = parts_of(results[1]["convolutions/4/2"])
    assert held["kernel", (4, 768)] == (4, 384)
    assert held["kernel", (5, 5, 3, 32)] == (5, 5, 3, 16)
    assert held["bias", (32,)] == (16,)
    assert held["kernel", (100, 3)] == (100, 3)  # three classes do not divide by two
    for kind in ("average", "momentum"):  # they lie as the weight of their shape
        slots = {key: part for key, part in held.items() if key[0].endswith(kind)}
        assert len(slots) > 10
        for (_, shape), part in slots.items():
            assert part == next(
                p for (name, its), p in held.items() if its == shape and "_" not in name
            )


@pytest.mark.slow
def test_groups_of_any_size_descend_what_one_device_does_by_every_kind_of_method(trained):
    names, groups = [*METHODS, *OTHERS], [[2, 2], [4, 2]]
    assert_groups_agree(trained(groups, names), groups, names)


@pytest.mark.slow
def test_groups_of_devices_descend_what_one_does_with_an_application(trained):
    names, groups = ["application"], [[4, 2]]
    results = trained(groups, names, KERAS_FLOATX="float64", JAX_ENABLE_X64="1")
    assert_groups_agree(results, groups, names, atol=1e-6)
    held = parts_of(results[1]["application/4/2"])
    assert held["kernel", (1, 1, 112, 1280)] == (1, 1, 112, 640)
