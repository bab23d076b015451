"""`scripts/benchmark.py` as a user runs it."""

import pytest

SMALL = [
    "input.images=40",
    "input.photo_size=[60,80]",
    "input.image_size=32",
    "input.batch_size=8",
    "input.rounds=1",
    "input.seconds=0.1",
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def test_the_input_suite_ends_with_a_table_and_leaves_nothing(folder, run_here):
    result = run_here("benchmark.py", ["suite=input", *SMALL], folder)
    assert (result.returncode, result.stderr) == (0, "")
    table = result.stdout.partition("40 photos, batches of 8 + 8\n")[2].splitlines()
    ways = ["dann, from the cache", "dann, decoding", "tf.data by hand", "the same, antialiased"]
    for way in ways:
        (line,) = [line for line in table if line.startswith(way)]
        speed, _, milliseconds, _ = line.removeprefix(way).split()
        assert float(speed) > 0
        assert float(milliseconds) > 0
    assert "cores" in result.stdout or " x " in result.stdout
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_the_jacobian_suite_ends_with_a_line_for_every_way(folder, run_here):
    small = ["batch_sizes=[2]", "rounds=1", "seconds=0", "k=3", "memory_budget=10000000"]
    arguments = [*(f"jacobian.{value}" for value in small), "~jacobian.networks.cnn"]
    result = run_here("benchmark.py", ["suite=jacobian", *arguments], folder)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line for line in result.stdout.splitlines() if line.startswith("mlp ")]
    assert [line[20:50].strip() for line in lines] == [
        "batch_jacobian",
        "tape.batch_jacobian, pfor",
        "tape.batch_jacobian, while",
        "tape.jacobian",
        "frobenius_norm",
        "singular_values",
        "tape.batch_jacobian and SVD",
    ]
    assert all(float(line[50:]) > 0 for line in lines)


def test_the_diagnostics_suite_tells_the_backward_passes(folder, run_here):
    small = ["batch_size=4", "few=2", "rounds=1", "backbone.filters=[2]", "backbone.units=2"]
    arguments = [f"diagnostics.{value}" for value in small]
    result = run_here("benchmark.py", ["suite=diagnostics", *arguments], folder)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.partition("what ")[2].splitlines()[1:]
    passes = {line[:34].strip(): line[55:].strip() for line in lines}
    assert int(passes.pop("game, from end to end")) > 0
    assert passes == {
        "a step's gradient, eager": "1",
        "a step's gradient, in a graph": "",
        "certificate, eager": "2",
        "certificate, traced into a graph": "",
        "conflict, eager": "3",
        "conflict, traced into a graph": "",
        "sharpness, from end to end": "",
    }
    assert all(float(line[34:46]) > 0 for line in lines)


@pytest.mark.slow
def test_the_packed_suite_tells_times_sizes_and_agreement(folder, run_here):
    pytest.importorskip("ai_edge_litert")
    small = ["rounds=1", "units=64", "batches=[1]", "channels=8", "side=6", "hidden_units=[64]"]
    arguments = [f"packed.{value}" for value in small]
    result = run_here("benchmark.py", ["suite=packed", *arguments], folder)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    rows = [line[2:44].strip() for line in lines if line.startswith("  ")]
    lite = ["LiteRT, float32", "LiteRT, int8"]
    dense = ["dann, numba", "dann, TensorFlow under XLA", "NumPy, float32"]
    assert rows == [*dense, "dann, numba", *lite, "Keras", "dann, numba", "dann, NumPy", *lite]
    cells = {line[2:44].strip(): line[44:].split(maxsplit=4) for line in lines[1:5]}
    assert [cells[way][3:] for way in dense] == [["512", "the same"]] * 2 + [["16,384", "the same"]]
    assert all(
        float(cpu) > 0 and float(wall) > 0 for cpu, wall, *_ in (cells[way] for way in dense)
    )
    floats = 4 * (784 * 64 + 4 * 64 + 64 * 10 + 10)
    assert lines[-1].startswith("binary_mlp, 64: ")
    assert "packed, " in lines[-1]
    assert f"{floats:,} in float32" in lines[-1]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("suite=output", "one of input, jacobian, packed, diagnostics. Received: output\n"),
        ("suite=packed packed.batches=5", "`batches` must be a list of numbers. Received: 5"),
        ("input.rounds=0", "`rounds`, `seconds` and `image_size` must be above 0"),
        ("input.photoz=3", "error: Could not override 'input.photoz'"),
    ],
)
def test_a_wrong_command_is_told_in_one_line(folder, argument, message, run_here, check_refused):
    check_refused(run_here("benchmark.py", argument.split(), folder), message)
