"""The notebooks run from top to bottom, and come to what their words say."""

import json
import re

import pages
import pytest

pytestmark = pytest.mark.tensorflow

SHORTER = [
    ("steps = 1000", "steps = 300"),
    (":500", ":100"),
    ("True], 500", "True], 100"),
    ("total_steps=3200", "total_steps=1600"),
    ('"epochs": 100', '"epochs": 50'),
]


@pytest.mark.parametrize("name", ["custom-model", "first-adaptation"])
def test_a_reversal_helps_in_a_notebook(name, names, capsys):
    notebook = json.loads((pages.ROOT / f"docs/tutorials/{name}.ipynb").read_text())
    cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell) for cell in cells)
    for text, other in SHORTER:
        code = code.replace(text, other)
    exec(compile(code, name, "exec"), names)
    off, on = re.findall(r"target accuracy ([\d.]+)%", capsys.readouterr().out)
    assert float(on) > float(off) + 10
