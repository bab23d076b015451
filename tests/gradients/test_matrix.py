"""Every way of every function in every context: the right gradient, or an error that says why not.

The results make the table in `docs/gradients.md`. `DANN_UPDATE_DOCS=1` writes it anew.
"""

import os
import re
from pathlib import Path

import keras
import pytest

pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("the contexts are TensorFlow's", allow_module_level=True)

from support.constructions import CONSTRUCTIONS, NAIVE_CONSTRUCTIONS  # noqa: E402
from support.contexts import CONTEXTS  # noqa: E402
from support.deployments import DEPLOYED_CONTEXTS, WAYS, Deployments  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
ALL_CONTEXTS = {**CONTEXTS, **DEPLOYED_CONTEXTS}

LOST = (
    LookupError,
    "TensorFlow lost an overridden gradient: a tape outside `tf.vectorized_map` watches its "
    "inputs. Open the tape inside the mapped function, or use `way='stop_gradient'`.",
)
# The cells that raise: (context, way, function).
REFUSALS = {
    (context, way, function): LOST
    for context in (
        "`vectorized_map`, tape outside",
        "`vectorized_map`, tape outside, in `tf.function`",
    )
    for way, function in (
        ("override", "reverse_gradient"),
        ("override", "binary_sign"),
        ("op_override", "reverse_gradient"),
    )
}
# What the converter to ONNX does on NumPy 2.
TF2ONNX_ON_NUMPY = pytest.mark.filterwarnings(
    "ignore:In the future `np.object` will be defined as the corresponding NumPy scalar"
    ":FutureWarning"
)


@pytest.fixture(scope="session")
def deployments(tmp_path_factory):
    return Deployments(tmp_path_factory.mktemp("deployments"))


@pytest.fixture(scope="session")
def results():
    """What each cell gave: "right", "wrong", or the name of the error that it raised."""
    return {}


@pytest.mark.parametrize("function", CONSTRUCTIONS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "description",
    [
        pytest.param(
            description,
            marks=[TF2ONNX_ON_NUMPY] if description.startswith("ONNX") else [],
        )
        for description in ALL_CONTEXTS
    ],
)
def test_construction_is_right_in_context(description, way, function, results, request):
    check = ALL_CONTEXTS[description]
    arguments = [CONSTRUCTIONS[function](way)]
    if description in DEPLOYED_CONTEXTS:
        arguments += [f"{function}-{way}", request.getfixturevalue("deployments")]
    refusal = REFUSALS.get((description, way, function))

    results[description, way, function] = "wrong"
    if refusal is None:
        check(*arguments)
        results[description, way, function] = "right"
    else:
        error, message = refusal
        with pytest.raises(error, match=f"^{re.escape(message)}$"):
            check(*arguments)
        results[description, way, function] = f"`{error.__name__}` [1]"


@pytest.mark.parametrize("function", CONSTRUCTIONS)
@pytest.mark.parametrize(
    "context",
    [
        "eager",
        "`tf.function`, tape inside",
        "XLA, tape inside",
        "Keras `fit`",
        "Keras `fit`, `jit_compile=True`",
        "Keras `fit`, `run_eagerly=True`",
    ],
)
def test_the_same_checks_find_the_naive_construction_wrong(context, function):
    """The checks can fail: `gradient_override_map` alone does not hold here."""
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        CONTEXTS[context](NAIVE_CONSTRUCTIONS[function])


@pytest.mark.parametrize("function", CONSTRUCTIONS)
@pytest.mark.parametrize(
    "context",
    [
        "`tf.function`, tape outside",
        "`tf.gradients` in `tf.function`",
        "`tf.compat.v1` graph and `tf.gradients`",
    ],
)
def test_the_same_checks_find_the_naive_construction_right_where_it_holds(context, function):
    CONTEXTS[context](NAIVE_CONSTRUCTIONS[function])


def row(description, results):
    """A row of the table, or `None` unless all its cells ran."""
    cells = []
    for way in WAYS:
        found = [results.get((description, way, function)) for function in CONSTRUCTIONS]
        if None in found:
            return None
        named = [f"{cell} for `{name}`" for cell, name in zip(found, CONSTRUCTIONS, strict=True)]
        cells.append(found[0] if len(set(found)) == 1 else ", ".join(named))
    return f"| {' | '.join([description, *cells])} |"


def table(rows):
    header = f"| | {' | '.join(f'`{way}`' for way in WAYS)} |"
    lines = [header, "|---" * (len(WAYS) + 1) + "|", *rows, "", f"[1] {LOST[1]}"]
    return "\n".join(lines)


def test_the_page_shows_the_results_of_the_cells(results):
    if not results:
        pytest.skip("no cell of the matrix ran")
    rows = [row(description, results) for description in ALL_CONTEXTS]
    before, shown, after = re.split(f"{BEGIN}\n|\n{END}", PAGE.read_text())
    if os.environ.get("DANN_UPDATE_DOCS") == "1":
        assert None not in rows, "Run the whole matrix to update the page."
        assert "wrong" not in results.values(), "Mend the wrong cells before updating the page."
        shown = table(rows)
        PAGE.write_text(f"{before}{BEGIN}\n{shown}\n{END}{after}")
    if None not in rows:
        assert shown == table(rows)
    for line in filter(None, rows):
        assert line in shown.splitlines()
