"""C, NumPy and Keras give the same outputs, for networks drawn at random."""

import math
import re
import shutil
import subprocess

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keras import layers
from packable_networks import NETWORKS, logits, normalized, spread_statistics, whole_inputs

from dann.deployment import PackError, load, pack, to_c
from dann.deployment.c_file import source_of
from dann.deployment.packing import program_of
from dann.deployment.runtime import PackedModel, Step
from dann.layers import (
    BinaryConv1D,
    BinaryConv2D,
    BinaryConv3D,
    BinaryDense,
    BinaryDepthwiseConv2D,
    BinarySign,
    RPReLU,
    RSign,
)

STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
SANITIZED = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
# Reads inputs from the standard input and writes their outputs.
MAIN = """
#include <stdio.h>
int main(void)
{
    static float input[DANN_INPUT_SIZE], output[DANN_OUTPUT_SIZE];
    while (fread(input, sizeof(float), DANN_INPUT_SIZE, stdin) == DANN_INPUT_SIZE) {
        dann_predict(input, output);
        fwrite(output, sizeof(float), DANN_OUTPUT_SIZE, stdout);
    }
    return 0;
}
"""
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def run_c(steps, inputs, folder, command=("cc", "-O1", *SANITIZED), run=()):
    """Compiles a program without a warning, and runs it in a process."""
    source, program = folder / "net.c", folder / "net"
    source.write_text(source_of(steps) + MAIN)
    subprocess.run([*command, *STRICT, source, "-o", program, "-lm"], check=True)
    done = subprocess.run(
        [*run, program], input=inputs.astype("<f4").tobytes(), stdout=subprocess.PIPE, check=True
    )
    outputs = np.frombuffer(done.stdout, "<f4")
    return outputs.reshape(len(inputs), *steps[-1].shape)


def binary(draw, x, rank):
    """A binary layer with some of its settings."""
    kinds = ["conv", "depthwise"] if rank == 2 else ["conv"]
    kind = draw(st.sampled_from(kinds))
    padding = draw(st.sampled_from(["same", "valid"]))
    stride, dilation = draw(st.sampled_from([(1, 1), (2, 1), (1, 2)]))
    settings = {
        "padding": padding,
        "strides": stride,
        "dilation_rate": dilation,
        "use_bias": draw(st.booleans()),
        "kernel_estimator": draw(st.sampled_from(["htanh", "magnitude_aware"])),
        "input_estimator": draw(st.sampled_from(["htanh", "htanh", None])),
        "pad_values": draw(st.sampled_from([-1.0, 0.0, 1.0])) if padding == "same" else 0.0,
    }
    size = draw(st.integers(1, 3))
    if kind == "depthwise":
        return BinaryDepthwiseConv2D(size, depth_multiplier=draw(st.integers(1, 3)), **settings)(x)
    filters, groups = draw(st.integers(1, 70)), 1
    if x.shape[-1] % 2 == 0 and draw(st.booleans()):
        filters, groups = 2 * filters, 2
    return [BinaryConv1D, BinaryConv2D][rank - 1](filters, size, groups=groups, **settings)(x)


def after(draw, x, rank):
    """What may stand between binary layers."""
    pool = {"pool_size": 2, "padding": "same"} if min(x.shape[1:-1]) < 2 else {"pool_size": 2}
    ways = [
        lambda: x,
        lambda: normalized(x),
        lambda: normalized(x),
        lambda: getattr(layers, f"MaxPooling{rank}D")(**pool)(x),
        lambda: getattr(layers, f"MaxPooling{rank}D")(3, 1, "same")(x),
        lambda: getattr(layers, f"AveragePooling{rank}D")(2, 1, "same")(x),
        lambda: layers.ReLU()(x),
        lambda: RPReLU()(x),
        lambda: RSign()(x),
        lambda: keras.ops.relu6(x),
        lambda: layers.Add()([normalized(x), x]),
        lambda: layers.Concatenate()([x, BinarySign()(x), x]),
    ]
    return draw(st.sampled_from(ways))()


def network(draw):
    keras.utils.set_random_seed(draw(st.integers(0, 99)))
    rank = draw(st.integers(1, 2))
    places = draw(st.tuples(*[st.integers(3, 7)] * rank))
    inputs = x = keras.Input((*places, draw(st.integers(1, 5))))
    for _ in range(draw(st.integers(1, 3))):
        if min(x.shape[1:-1]) < 5:
            break
        x = after(draw, after(draw, binary(draw, x, rank), rank), rank)
    x = after(draw, x, rank)
    if draw(st.booleans()):
        x = BinarySign()(x)
    x = layers.Flatten()(x)
    for units in draw(st.lists(st.integers(1, 200), max_size=2)):
        x = normalized(BinaryDense(units, use_bias=draw(st.booleans()))(x))
    last = [BinaryDense(4), layers.Dense(4), layers.Dense(4, activation="softmax")]
    model = keras.Model(inputs, draw(st.sampled_from(last))(x))
    return spread_statistics(model, draw(st.integers(0, 99)))


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_c_numpy_and_keras_agree(data, tmp_path_factory):
    model = network(data.draw)
    steps, inputs = program_of(model), whole_inputs(model, 8)
    expected = PackedModel(steps).predict(inputs)
    given = run_c(steps, inputs, tmp_path_factory.mktemp("c"))
    scale = np.abs(expected).max() + 1
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5 * scale)
    of_keras = logits(model, inputs)
    np.testing.assert_allclose(expected, of_keras, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize(
    ("name", "command", "run"),
    [
        *((name, ("cc", "-O1", *SANITIZED), ()) for name in NETWORKS),
        ("residual", ("cc", "-O3", "-march=native", "-ffp-contract=off"), ()),
        ("residual", ("clang", "-O2"), ()),
        ("residual", ("cc", "-O2", "-m32", "-msse2", "-mfpmath=sse"), ()),
        ("residual", ("arm-linux-gnueabihf-gcc", "-O2", "-static"), ("qemu-arm",)),
    ],
)
def test_exact_networks_agree_to_the_bit(name, command, run, tmp_path):
    if not all(map(shutil.which, (command[0], *run))):
        pytest.skip(f"needs {command[0]} {run}")
    model = spread_statistics(NETWORKS[name]())
    inputs = whole_inputs(model, 20)
    expected = logits(model, inputs)
    try:
        given = run_c(program_of(model), inputs, tmp_path, command, run)
    except subprocess.CalledProcessError:
        if "-m32" not in command:
            raise
        pytest.skip("needs the 32-bit library")
    np.testing.assert_array_equal(given, expected)


def test_the_file_is_as_documented(tmp_path):
    model = NETWORKS["lenet"]()
    assert to_c(model, tmp_path / "net.c") == (tmp_path / "net.c").stat().st_size
    source = (tmp_path / "net.c").read_text()
    assert "input                14 x 13 x 1 numbers" in source
    assert "#define DANN_INPUT_SIZE 182" in source
    assert "#define DANN_OUTPUT_SIZE 4" in source
    signs = 6 * 5 * 70 * 81 + 630 * 20 + 20 * 4
    assert f"products of signs    {signs:,}\n" in source
    assert f"products of numbers  {12 * 11 * 9 * 9:,}\n" in source
    buffers = re.findall(r"^static \w+ \w+\[(\d+)\];", source, flags=re.MULTILINE)
    assert f"buffers (RAM)        {4 * sum(map(int, buffers)):,} bytes" in source
    assert 4 * sum(map(int, buffers)) < 2000
    assert "apply_softmax" not in source


def test_numbers_that_are_not_finite_stay_so(tmp_path):
    inputs = keras.Input((4,))
    x = layers.LeakyReLU(0.5)(layers.ReLU()(layers.Rescaling(2.0)(inputs)))
    model = keras.Model(inputs, layers.Activation("tanh")(x))
    rows = np.array([[np.nan, np.inf, -np.inf, -0.0], [1e38, 1e-40, -3, 2]], "float32")
    with np.errstate(over="ignore"):
        expected = PackedModel(program_of(model)).predict(rows)
    np.testing.assert_allclose(run_c(program_of(model), rows, tmp_path), expected, rtol=1e-6)


def packed(tmp_path):
    model = keras.Sequential([keras.Input((70,)), BinaryDense(3, use_bias=False)])
    pack(model, tmp_path / "model.dann")
    inputs = whole_inputs(model, 5)
    return tmp_path / "model.dann", inputs, logits(model, inputs)


def test_a_packed_file_is_compiled_once(tmp_path, monkeypatch):
    path, inputs, expected = packed(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    np.testing.assert_array_equal(load(path).predict(inputs, batch_size=2), expected)
    (library,) = (tmp_path / "cache/dann").iterdir()
    written = library.stat().st_mtime_ns
    np.testing.assert_array_equal(load(path).predict(inputs), expected)
    assert load(path).predict(inputs[:0]).shape == (0, 3)
    assert [(one, one.stat().st_mtime_ns) for one in library.parent.iterdir()] == [
        (library, written)
    ]


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_numpy_runs_where_c_cannot_be_compiled_and_says_so_once(compiler, tmp_path, monkeypatch):
    path, inputs, expected = packed(tmp_path)
    monkeypatch.setenv("CC", compiler)
    with pytest.warns(UserWarning, match=f"NumPy runs.*{compiler}") as told:
        model = load(path)
    np.testing.assert_array_equal(model.predict(inputs, batch_size=1), expected)
    assert len(told) == 1


def test_three_spatial_axes_are_refused():
    inputs = keras.Input((4, 4, 4, 2))
    with pytest.raises(PackError, match="'one'.*3 spatial axes"):
        source_of(program_of(keras.Model(inputs, BinaryConv3D(2, 2, name="one")(inputs))))


def stranger(**changes):
    """The program of a dense layer, with changes."""
    kernel = {"kernel": np.ones((4, 3), "<f4")}
    step = {"op": "dense", "layer": "one", "inputs": [0], "shape": [3], "kind": "float"}
    step |= {"attributes": {"fan_in": 4}, "arrays": kernel}
    return [Step("input", "input", (), (4,), "float"), Step(**(step | changes))]


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "_close"},
        {"inputs": [1]},
        {"inputs": [-1]},
        {"shape": [30]},
        {"shape": ["3; exit(1)"]},
        {"op": "reshape", "shape": [5]},
        {"op": "activation", "attributes": {"function": "exit"}},
        {"op": "affine", "shape": [5], "arrays": {}},
        {"op": "affine", "arrays": {"scale": np.ones(9, "<f4")}},
        {"op": "add", "inputs": [0, 0, 0], "shape": [3]},
        {"op": "concatenate", "inputs": [0, 0], "shape": [7]},
        {"attributes": {"groups": 0}},
        {"attributes": {"groups": 3}},
    ],
)
def test_a_program_that_contradicts_itself_is_not_written(changes):
    with pytest.raises((ArithmeticError, KeyError, TypeError, ValueError)):
        source_of(stranger(**changes))


def test_names_of_layers_are_no_code(tmp_path):
    names = ["*/ exit(1); /*", "1 2\n??/", "float", "values", "x$body", "é", "a/b", "a_b"]
    steps = [Step("input", "input", (), (4,), "float")]
    for number, name in enumerate(names):
        kernel = {"kernel": np.full((4, 4), number + 1, "<f4")}
        steps.append(Step("dense", name, [number], [4], "float", {"fan_in": 4}, kernel))
    given = run_c(steps, np.ones((1, 4)), tmp_path)
    np.testing.assert_array_equal(given, np.full((1, 4), 4.0**8 * math.factorial(8)))
