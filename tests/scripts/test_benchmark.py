"""`benchmarks/run.py` as a user runs it."""

import pathlib
import re

import pytest
from support.configs import composed

from benchmarks.suites import SUITES
from benchmarks.suites.jacobian import WAYS

ROOT = pathlib.Path(__file__).parents[2]
RUN = str(ROOT / "benchmarks/run.py")


def rows_of(output):
    """The lines of the ways, by name, cut into their columns."""
    lines = [line for line in output.splitlines() if line.startswith("  ")]
    return [(line[2:44].strip(), line[44:].split(maxsplit=4)) for line in lines]


def test_every_suite_has_its_section_of_the_config_and_a_test():
    common = {"suite", "processes", "record", "paths"}
    assert set(composed(script="benchmark")) - common == set(SUITES)
    files = {path.stem for path in (ROOT / "benchmarks/suites").glob("[!_]*.py")}
    assert files == {suite.__module__.rpartition(".")[2] for suite in SUITES.values()}
    assert len(files) == len(SUITES)
    told = set(re.findall(r"suite=(\w+)", pathlib.Path(RUN).read_text().split('"""')[1]))
    assert told == {*SUITES, "all"}


def test_the_input_suite_ends_with_a_table_and_leaves_nothing(tmp_path, run_here):
    (tmp_path / "notes.txt").write_text("mine")
    small = ["images=40", "photo_size=[60,80]", "image_size=32", "batch_size=8", "rounds=1"]
    arguments = [f"input.{value}" for value in (*small, "seconds=0.1")]
    result = run_here(RUN, ["suite=input", *arguments], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    rows = rows_of(result.stdout)
    ways = ["dann, from the cache", "dann, decoding", "tf.data by hand"]
    assert [name for name, _ in rows] == [*ways, "tf.data by hand, antialiased"]
    assert all(float(cells[0]) > 0 and float(cells[4].split()[0]) > 0 for _, cells in rows)
    assert "core" in result.stdout or " x " in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_jacobian_suite_ends_with_a_line_for_every_way(tmp_path, run_here):
    small = ["batch_sizes=[2]", "rounds=1", "seconds=0", "k=3", "memory_budget=10000000"]
    arguments = [*(f"jacobian.{value}" for value in small), "~jacobian.networks.cnn"]
    result = run_here(RUN, ["suite=jacobian", *arguments], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "mlp, batch 2 " in result.stdout
    rows = rows_of(result.stdout)
    rivals = {"JAX, vmap of jacrev", "torch.func, vmap of jacrev"}  # if they are installed
    ours = [name for name in WAYS if name not in rivals]
    assert [name for name, _ in rows if name not in rivals] == ours
    assert all(float(cells[0]) > 0 for _, cells in rows)


def test_the_diagnostics_suite_counts_the_backward_passes(tmp_path, run_here):
    small = ["batch_size=4", "few=2", "rounds=1", "backbone.filters=[2]", "backbone.units=2"]
    arguments = [f"diagnostics.{value}" for value in small]
    result = run_here(RUN, ["suite=diagnostics", *arguments], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    rows = dict(rows_of(result.stdout))
    assert all(float(cells[0]) > 0 for cells in rows.values())
    notes = {name: cells[4] for name, cells in rows.items() if len(cells) > 4}
    count, _, what = notes.pop("game").partition(" ")
    assert int(count) > 0
    assert what == "products with the Jacobian"
    assert notes == {
        "certificate, eager": "2 backward passes",
        "conflict, eager": "3 backward passes",
    }
    assert set(rows) - {"game", *notes} == {
        "a step's gradient, eager",
        "a step's gradient, in a graph",
        "certificate, traced into a graph",
        "conflict, traced into a graph",
        "sharpness",
    }


def test_the_selection_suite_tells_the_memory_of_each_way(tmp_path, run_here):
    arguments = [f"selection.{value}" for value in ("examples=[24,1200]", "rounds=1")]
    result = run_here(RUN, ["suite=selection", *arguments], tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    rows = rows_of(result.stdout)
    ways = ["model.predict", "dann, 6 scores", "dann, the same without snd"]
    assert [name for name, _ in rows] == 2 * ways
    assert all(float(cells[0]) > 0 and cells[4].endswith(" MiB") for _, cells in rows)


@pytest.mark.slow
def test_the_packed_suite_reports_times_sizes_and_agreement(tmp_path, run_here):
    pytest.importorskip("ai_edge_litert")
    result = run_here(RUN, ["suite=packed", "packed.rounds=1"], tmp_path)
    assert result.returncode == 0
    rows = rows_of(result.stdout)
    ways = ["dann", "dann, NumPy", "LiteRT, float32", "LiteRT, int8"]
    assert [name for name, _ in rows] == 4 * ways
    assert all(float(cells[0]) > 0 and "of Keras" in cells[4] for _, cells in rows)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "suite=output",
            "Received: suite='output'",
        ),
        (
            "suite=packed packed.rounds=0",
            "`rounds` must be an integer of at least 1. Received: ",
        ),
        ("input.rounds=0", "`rounds`"),
        ("input.photoz=3", "Did you mean input.photo_size?"),
    ],
)
def test_a_wrong_command_ends_with_one_line(tmp_path, argument, message, run_here, check_refused):
    check_refused(run_here(RUN, argument.split(), tmp_path), message)
