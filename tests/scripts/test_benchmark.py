"""`scripts/benchmark.py` as a user runs it."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent.parent.parent / "scripts" / "benchmark.py"
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


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], cwd=folder, capture_output=True, text=True
    )


def test_the_input_suite_ends_with_a_table_and_leaves_nothing(folder):
    result = run(folder, "suite=input", *SMALL)
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


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("suite=output", "error: suite must be one of input. Received: output\n"),
        ("input.rounds=0", "`rounds`, `seconds` and `image_size` must be above 0"),
        ("input.photoz=3", "error: Could not override 'input.photoz'"),
    ],
)
def test_a_wrong_command_is_told_in_one_line(folder, argument, message):
    result = run(folder, argument)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
