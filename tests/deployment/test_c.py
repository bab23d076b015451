"""C, NumPy and Keras compute equal outputs, for random and for fixed networks."""

import hashlib
import pathlib
import re
import shutil
import subprocess

import keras
import numpy as np
import pytest
from keras import layers
from packable_networks import NETWORKS, integer_inputs, logits, spread_statistics

from dann import layers as dann_layers
from dann.deployment import pack, to_c
from dann.deployment.c_file import C_VERSION, generate_c
from dann.deployment.packing import build_program
from dann.deployment.runtime import PackedModel, Step, load
from dann.layers import BinaryDense, BinarySign

STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
SANITIZED = ["-O1", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
# Reads inputs from the standard input and writes the outputs to the standard output.
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


def run_files(folder, command, inputs):
    """Compiles files without warnings, and returns what the program writes for inputs."""
    subprocess.run([*command, "-o", "net", "-lm"], cwd=folder, check=True)
    options = {"input": inputs.astype("<f4").tobytes(), "stdout": subprocess.PIPE}
    return np.frombuffer(subprocess.run([folder / "net"], check=True, **options).stdout, "<f4")


def run_c(steps, inputs, folder, flags=SANITIZED):
    """Returns the outputs that the C of a program computes."""
    (folder / "net.c").write_text(generate_c(steps) + MAIN)
    outputs = run_files(folder, ["cc", *flags, *STRICT, "net.c"], inputs)
    return outputs.reshape(len(inputs), *steps[-1].shape)


SHIFTS = np.log([0.2, 1.5, 0.7, 4.0])
MEAN, VARIANCE = np.array([1.0, 2.0, -1.0]), np.array([2.0, 0.0, 3.0])
NORMALIZATION = {"mean": MEAN, "variance": VARIANCE}
ACTIVATIONS = ("elu", "swish", "gelu", "hard_sigmoid", "hard_silu", "mish", "softplus")
LAYERS = {  # of inputs (5, 3)
    "normalization": layers.Normalization(**NORMALIZATION),
    "inverse normalization": layers.Normalization(**NORMALIZATION, invert=True),
    "one mean": layers.Normalization(axis=None, mean=3.0, variance=2.0),
    "x - c": lambda x: x - MEAN,
    "c - x": lambda x: 2.5 - x,
    "x / c": lambda x: x / MEAN,
    "-x": lambda x: -x,
    "x - y": lambda x: x[:, 1:] - x[:, :-1],
    "subtract": lambda x: layers.Subtract()([layers.GlobalMaxPooling1D(keepdims=True)(x), x]),
    "last": lambda x: x[:, -1],
    "range": lambda x: x[:, 1:4, None],
    "channels": lambda x: x[..., 1:],
    "steps": lambda x: x[:, ::2, ::-2],
    "slice of signs": lambda x: BinaryDense(4)(BinarySign()(x)[:, 1]),
    "permute": layers.Permute((2, 1)),
    "repeat": layers.UpSampling1D(2),
    "crop": layers.Cropping1D((1, 2)),
    "ELU": layers.ELU(0.3),
    "gelu by tanh": keras.ops.gelu,
    "hard_silu by function": keras.ops.hard_silu,
    **{name: layers.Activation(name) for name in ACTIVATIONS},
    "reversal": dann_layers.GradientReversal(),
    "random convolution": dann_layers.RandomConvolution(),
}


def test_layers_of_floats_agree_with_keras(tmp_path):
    inputs = keras.Input((5, 3))
    parts = [layers.Flatten()(layer(inputs)) for layer in LAYERS.values()]
    model = keras.Model(inputs, layers.Concatenate()(parts))
    rows = np.random.default_rng(0).normal(0, 3, (20, 5, 3)).astype("float32")
    rows[0] = 0
    expected, steps = logits(model, rows), build_program(model)
    for outputs in (PackedModel(steps).predict(rows), run_c(steps, rows, tmp_path)):
        np.testing.assert_allclose(outputs, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_packed_file_and_c_agree_bit_for_bit(name, tmp_path):
    model = spread_statistics(NETWORKS[name]())
    inputs = integer_inputs(model, 20)
    expected = logits(model, inputs)
    assert len(np.unique(expected, axis=0)) > 5
    assert pack(model, tmp_path / "model.dann") == (tmp_path / "model.dann").stat().st_size
    packed = load(tmp_path / "model.dann")
    np.testing.assert_array_equal(packed.predict(inputs), expected)
    np.testing.assert_array_equal(packed.predict(inputs[:3], batch_size=2), expected[:3])
    assert packed.predict(inputs[:0]).shape == (0, *expected.shape[1:])
    fast = ["-O3", "-march=native", "-ffp-contract=off"]
    for flags in [SANITIZED] + [fast] * (name == "residual"):
        outputs = run_c(packed.steps, inputs, tmp_path, flags)
        np.testing.assert_array_equal(outputs, expected)
    # Batch normalization between integer sums and a sign was folded into a threshold.
    for step in packed.steps:
        source = packed.steps[step.inputs[0]] if step.op == "sign" else packed.steps[0]
        assert source.op != "affine" or packed.steps[source.inputs[0]].kind != "int"


@pytest.mark.parametrize(
    "correct", [lambda x: x + SHIFTS, lambda x: x / 1.7 + SHIFTS, layers.Rescaling(0.6, [*SHIFTS])]
)
def test_corrected_logits_are_exported(correct, tmp_path):
    """A constant per class is added to the logits of a whole classifier."""
    inputs = keras.Input((14, 13, 1))
    classifier = spread_statistics(NETWORKS["lenet"]())
    model = keras.Model(inputs, correct(classifier(inputs)))
    rows = integer_inputs(model, 20)
    expected, steps = logits(model, rows), build_program(model)
    assert np.abs(expected - logits(classifier, rows)).max() > 1
    for outputs in (PackedModel(steps).predict(rows), run_c(steps, rows, tmp_path)):
        np.testing.assert_allclose(outputs, expected, rtol=1e-6)


def test_header_states_sizes(tmp_path):
    model = NETWORKS["lenet"]()
    assert to_c(model, tmp_path / "net.c") == (tmp_path / "net.c").stat().st_size
    source = (tmp_path / "net.c").read_text()
    buffers = 4 * sum(map(int, re.findall(r"(?m)^ *static \w+ \w+\[(\d+)\];", source)))
    assert buffers < 2000
    for text in ("_INPUT_SIZE (14 * 13 * 1)\n", "_OUTPUT_SIZE (4)\n", f" {buffers:,} bytes"):
        assert text in source
    headers = ["math.h", "stdint.h", "stdio.h"]  # stdio.h for the test
    assert re.findall("#include <(.*)>", source) == headers
    page = pathlib.Path(__file__).parents[2] / "docs/how-to/deploy-one-bit.md"
    main = re.findall(r"```c\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "main.c").write_text(*main)
    subprocess.run(["cc", *STRICT, "main.c", "-lm"], cwd=tmp_path, check=True)


def test_file_tests_its_own_outputs(tmp_path):
    source = generate_c(build_program(spread_statistics(NETWORKS["lenet"]())))
    wrong = source.replace("expected[] = {", "expected[] = { 1e9f,")
    for text, message in ((source, b"ok\n"), (wrong, b"output 0 is")):
        (tmp_path / "net.c").write_text(text)
        command = ["cc", *STRICT, *SANITIZED, "-DDANN_TEST", "net.c", "-lm"]
        subprocess.run(command, cwd=tmp_path, check=True)
        result = subprocess.run(["./a.out"], cwd=tmp_path, stdout=subprocess.PIPE)
        assert result.stdout.startswith(message)
        assert result.returncode == (text == wrong)


def test_c_version_identifies_the_code():
    """If this fails because the generated code has changed, increase `C_VERSION` too."""
    digest = hashlib.sha256()
    for name in ("residual", "levels"):
        source = generate_c(build_program(spread_statistics(NETWORKS[name]())))
        library = source.partition("#ifdef DANN_TEST")[0]
        # The code without constants, comments and spaces.
        code = re.sub(r"static const .*?};|/\*.*?\*/|\s", "", library, flags=re.DOTALL)
        digest.update(code.encode())
    assert (C_VERSION, digest.hexdigest()[:16]) == (6, "e4b89beda6125f22")


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
@pytest.mark.parametrize("language", [["-x", "c", "-std=c99"], ["-x", "c++", "-std=c++11"]])
def test_two_networks_compile_as_c_and_cpp(language, tmp_path):
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    models = [spread_statistics(NETWORKS["pooled"](), seed) for seed in range(2)]
    sources, main, calls = "", "", ""
    for index, (name, model) in enumerate(zip(("first", "second"), models, strict=True)):
        to_c(model, tmp_path / f"{name}.c", name)
        sources += f'#include "{name}.c"\n'
        main += f'#define {name.upper()}_HEADER\n#include "{name}.c"\n'
        calls += f"{name}_predict(input, output + {index} * FIRST_OUTPUT_SIZE);"
    (tmp_path / "both.c").write_text(sources)
    compile_networks = ["c++", *flags, *language, "-c", "both.c"]
    subprocess.run(compile_networks, cwd=tmp_path, check=True)
    main += MAIN.replace("dann_predict(input, output);", calls)
    main = main.replace("DANN_INPUT_SIZE", "FIRST_INPUT_SIZE")
    main = main.replace("DANN_OUTPUT_SIZE", "(FIRST_OUTPUT_SIZE + SECOND_OUTPUT_SIZE)")
    (tmp_path / "main.cpp").write_text(main)
    inputs = integer_inputs(models[0], 4)
    outputs = run_files(tmp_path, ["c++", *flags, "main.cpp", "both.o"], inputs)
    expected = np.concatenate([logits(model, inputs) for model in models], axis=1)
    np.testing.assert_array_equal(outputs, expected.ravel())


def test_nan_and_infinity_propagate(tmp_path):
    inputs = keras.Input((4,))
    x = layers.LeakyReLU(0.5)(layers.ReLU()(layers.Rescaling(2.0)(inputs)))
    model = keras.Model(inputs, layers.Activation("tanh")(x))
    rows = np.array([[np.nan, np.inf, -np.inf, -0.0], [1e38, 1e-40, -3, 2]], "float32")
    with np.errstate(over="ignore"):
        expected = PackedModel(build_program(model)).predict(rows)
    np.testing.assert_allclose(run_c(build_program(model), rows, tmp_path), expected, rtol=1e-6)


def test_names_in_a_file_do_not_reach_the_code():
    vectors = dict.fromkeys(("*/ evil(", "activation", "sign"), np.ones(4, "<f4"))
    arrays = {"kernel": np.ones((4, 4), "<f4"), **vectors}
    step = Step("dense", "*/ evil();", [0], [4], {"fan_in": 4, "function": "evil"}, arrays)
    assert "evil" not in generate_c([Step("input", "evil", (), (4,)), step])
