"""The Python of docs/methods.md, as it stands."""

import pathlib
import re

import keras
import numpy as np
import pytest

import dann
from dann.adaptation import METHODS, REGULARIZERS

PAGE = pathlib.Path(__file__).parents[2] / "docs/methods.md"


@pytest.mark.parametrize("name", sorted({*METHODS, *REGULARIZERS}))
def test_every_method_and_regularizer_is_on_the_page(name):
    assert f"`{name}`" in PAGE.read_text()


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed, but will be ignored:UserWarning")
def test_the_example_of_regression_errs_by_less_than_a_third_of_the_best_source_fit():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names = {"keras": keras, "np": np, "dann": dann}
    exec(block, names)
    columns = [np.column_stack([names[name], np.ones(512)]) for name in ("source", "target")]
    fit = np.linalg.lstsq(columns[0], names["labels"][0])[0]
    unadapted = np.mean(np.abs(columns[1] @ fit - names["labels"][1]))
    assert unadapted > 1.1
    assert names["error"] < unadapted / 3, names["error"]
