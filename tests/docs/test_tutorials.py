"""The notebooks run from top to bottom, and come to what their words say."""

import re

import nbformat
import pages
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.tensorflow


def outputs(name, folder, shorter=()):
    """What the cells of a notebook print and show as text, run in an empty folder."""
    notebook = nbformat.read(pages.ROOT / "docs" / "tutorials" / name, as_version=4)
    for cell in notebook.cells:
        for text, other in shorter:
            cell.source = cell.source.replace(text, other)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    said = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    texts = [
        output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
        for output in said
        if output.get("name") != "stderr"
    ]
    return "\n".join(texts)


def test_a_reversal_in_a_custom_model_helps_on_turned_moons(tmp_path):
    off, on = re.findall(r"target accuracy ([\d.]+)%", outputs("custom-model.ipynb", tmp_path))
    assert float(on) > float(off) + 10


def test_the_first_adaptation_adapts(tmp_path):
    shorter = [("steps = 1000", "steps = 300"), ("500", "100")]  # points of the picture
    said = outputs("first-adaptation.ipynb", tmp_path, shorter)
    source_only, adapted = re.findall(r"^0\.\d+$", said, re.MULTILINE)
    assert float(adapted) > float(source_only) + 0.1
    assert (tmp_path / "classifier.keras").exists()
