"""Checks that the notebooks run from top to bottom and that adaptation helps in them."""

import json
import re

import pages
import pytest

pytestmark = pytest.mark.tensorflow

REPLACEMENTS = [
    ("steps = 1000", "steps = 300"),
    (":500", ":100"),
    ("True], 500", "True], 100"),
    ("total_steps=3200", "total_steps=1600"),
    ('"epochs": 100', '"epochs": 50'),
]


@pytest.mark.parametrize("name", ["custom-model", "first-adaptation"])
def test_reversal_helps_in_notebook(name, names, capsys):
    notebook = json.loads((pages.ROOT / f"docs/tutorials/{name}.ipynb").read_text())
    cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell) for cell in cells)
    for full, short in REPLACEMENTS:
        code = code.replace(full, short)
    exec(compile(code, name, "exec"), names)
    without, adapted = re.findall(r"target accuracy ([\d.]+)%", capsys.readouterr().out)
    assert float(adapted) > float(without) + 10
