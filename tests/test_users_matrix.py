"""What users combine works, or says what `docs/supported.md` says."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from support import pages

pytest.importorskip("tensorflow")
matrix = pytest.importorskip("support.users_matrix")
pytestmark = pytest.mark.tensorflow

NETWORKS = [
    (backbone, kind)
    for kind in matrix.INPUTS
    for backbone in matrix.BACKBONES
    if not matrix.impossible(backbone, kind)
]
LABELLED = [(labels, source) for labels in matrix.LABELS for source in matrix.SOURCES]


def few(rows, columns, cells, heavy=()):
    """A cell of every row and of every column, along the diagonal."""
    rows, columns = list(rows), list(columns)
    length = max(len(rows), len(columns))
    diagonal = [(rows[i % len(rows)], columns[i % len(columns)]) for i in range(length)]
    return [cell for cell in diagonal if cell in cells and cell[0] not in heavy]


def check_cells(cells, attempt, wanted, tmp_path):
    """Tries cells, and goes on with all that are saved in one new process."""
    wrong, saved = [], []
    for number, cell in enumerate(cells):
        folder = tmp_path / str(number)
        folder.mkdir()
        told = attempt(*cell, folder)
        if not matrix.agrees(told, wanted(*cell)):
            wrong.append((cell, told))
        if (folder / "expected.npz").exists():
            saved.append(folder)
    assert not wrong
    environment = {**os.environ, "PYTHONPATH": f"{pages.ROOT}{os.pathsep}{pages.ROOT / 'tests'}"}
    script = pages.ROOT / "tests/support/go_on.py"
    subprocess.run([sys.executable, script, *saved], check=True, env=environment)
    for folder in saved:
        arrays = (folder / "expected.npz", folder / "found.npz")
        with np.load(arrays[0]) as expected, np.load(arrays[1]) as found:
            assert expected.files == found.files
            for name in expected.files:
                np.testing.assert_allclose(
                    found[name],
                    expected[name],
                    rtol=1e-4,
                    atol=1e-5,
                    err_msg=cells[int(folder.name)],
                )
    return len(saved)


def test_some_of_each_backbone_and_of_each_input_work_or_say_why_not(tmp_path):
    cells = few(matrix.BACKBONES, matrix.INPUTS, NETWORKS, heavy=("keras.applications",))
    assert check_cells(cells, matrix.try_network, matrix.told_of_network, tmp_path) >= 6


def test_some_of_each_kind_of_labels_and_data_work_or_say_why_not(tmp_path):
    installed = importlib.util.find_spec("torch") is not None
    sources = [source for source in matrix.SOURCES if installed or "torch" not in source]
    cells = few(matrix.LABELS, sources, LABELLED)
    assert check_cells(cells, matrix.try_labels, matrix.told_of_labels, tmp_path) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("kind", matrix.INPUTS)
def test_every_backbone_works_with_every_input_or_says_why_not(kind, tmp_path):
    cells = [cell for cell in NETWORKS if cell[1] == kind]
    assert check_cells(cells, matrix.try_network, matrix.told_of_network, tmp_path) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("name", [method.name for method in matrix.METHODS])
def test_every_method_works_with_every_input_or_says_why_not(name, tmp_path):
    cells = [(name, kind) for kind in matrix.INPUTS]
    assert check_cells(cells, matrix.try_method, matrix.told_of_method, tmp_path) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("labels", matrix.LABELS)
def test_every_kind_of_labels_works_from_every_data_or_says_why_not(labels, tmp_path):
    pytest.importorskip("torch")
    cells = [cell for cell in LABELLED if cell[0] == labels]
    check_cells(cells, matrix.try_labels, matrix.told_of_labels, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("entry", matrix.METHODS, ids=lambda entry: entry.name)
def test_every_method_takes_a_subclassed_backbone_of_several_inputs(entry, tmp_path):
    attempt = lambda backbone, kind, folder: matrix.try_network(  # noqa: E731
        backbone, kind, folder, entry
    )
    cells = [("subclassed", "dict"), ("batch norm and dropout", "series")]
    assert check_cells(cells, attempt, lambda *cell: {}, tmp_path) == 2
