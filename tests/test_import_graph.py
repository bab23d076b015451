"""No module of the package imports itself by a detour, imports at run time included."""

import ast
import graphlib
import pathlib

import grimp
import pytest

import dann

ROOT = pathlib.Path(dann.__file__).parent
MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}


def imports_at_run_time(module):
    """Modules that `import_module`, `import_modules` or `lazy_exports` may import in a module."""
    for call in ast.walk(ast.parse(MODULES[module].read_text())):
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name == "import_modules":
            yield from (other for other in MODULES if other.rpartition(".")[0] == module)
        elif name == "lazy_exports":
            yield from (f"{module}.{part}" for part in ast.literal_eval(call.args[1]))
        elif name == "import_module" and module == "dann.config.instantiation":
            # What a config may name is in `allowed_targets`, and none of it is in this room.
            yield from (one for one in MODULES if one != "dann" and "dann.config" not in one)
        elif name == "import_module" and module not in ("dann.registry", "dann.lazy_exports"):
            yield from modules_named(call.args[0], module)


def modules_named(argument, module):
    """Modules that the argument of `import_module` may name."""
    try:
        start, pattern = ast.literal_eval(argument), None
    except ValueError:
        parts = argument.values if isinstance(argument, ast.JoinedStr) else []
        start = parts[0].value if parts and isinstance(parts[0], ast.Constant) else None
        pattern = start
    if start is None:
        raise AssertionError(
            f"{module} imports {ast.unparse(argument)}: say which modules it means"
        )
    if pattern is None:
        return [start] if start in MODULES else []
    return [other for other in MODULES if other.startswith(start) and other != module]


@pytest.fixture(scope="module")
def graph():
    static = grimp.build_graph("dann", exclude_type_checking_imports=True, cache_dir=None)
    return {
        module: {*static.find_modules_directly_imported_by(module), *imports_at_run_time(module)}
        for module in MODULES
    }


def test_every_module_is_in_the_graph(graph):
    assert set(graph) == set(MODULES)
    assert "dann.gradients" in set().union(*graph.values())


def test_no_module_imports_itself_by_a_detour(graph):
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
