"""The names that editors and type checkers see are those that the packages give."""

import ast
import importlib
import pathlib

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

ROOT = pathlib.Path(__file__).parents[1]


def told_to_type_checkers(path):
    """The names imported under `if TYPE_CHECKING`, without those of functions defined there."""
    tree = ast.parse(path.read_text())
    blocks = [
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module for node in imports for alias in node.names}


def test_dann_tells_type_checkers_what_it_exports():
    import dann

    assert set(told_to_type_checkers(ROOT / "dann/__init__.py")) == set(dann.__all__)


def test_adaptation_tells_type_checkers_every_class_that_registers():
    from dann.adaptation import METHODS, REGULARIZERS

    registered = {cls.__name__ for cls in (*METHODS.values(), *REGULARIZERS.values())}
    assert set(told_to_type_checkers(ROOT / "dann/adaptation/__init__.py")) == registered


@pytest.mark.parametrize(
    "path",
    sorted(
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / "dann").rglob("__init__.py")
        if told_to_type_checkers(path)
    ),
)
def test_every_name_told_to_type_checkers_is_the_object_that_is_imported(path):
    package = importlib.import_module(path.replace("/", "."))
    for name, module in told_to_type_checkers(ROOT / path / "__init__.py").items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
