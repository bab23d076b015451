"""Refuses targets by their names alone, before Keras is imported.

The names come from the source text of the packages. What the text cannot tell, such as whether a
class has the right base, `dann.config.instantiation` checks once Keras is there.
"""

import ast
import functools
import importlib.util
import pathlib
from typing import Any

from dann.config.allowed_targets import GROUPS, LEFT_OUT
from dann.config.config_error import ConfigError
from dann.config.constructor_text import defined_in
from dann.config.instantiation import targets_of

_PARTS = ("layers", "initializers", "regularizers", "constraints")
_FAMILIES = {  # modules of each group, of Keras and of this package alike
    "data": ("data",),
    "network": (*_PARTS, "networks", "gradients"),
    "method": (*_PARTS, "losses", "schedules", "optimizers", "adaptation"),
    "schedule": ("schedules", "optimizers"),
    "optimizer": ("optimizers", "schedules"),
    "callbacks": ("callbacks", "diagnostics", "optimizers", "schedules"),
    "augmentation": _PARTS,
    "regularizers": ("adaptation", "schedules", "optimizers"),
}
# A name of these may be an alias of a class that is allowed: only its existence is checked.
_ANYWHERE = ("src", "legacy", "models", "saving", "quantizers", "_tf_keras")


def check_names(config: dict[str, Any]) -> None:
    """Raises `ConfigError` if a target of a plain, resolved config cannot be what its group needs.

    A target is refused if no such name is in the source text, or if it is of a module that has
    nothing for the group. It never refuses what `dann.config.allowed_targets.allowed` holds by the
    name of its public module.
    """
    for group in GROUPS:
        for place, name in targets_of(config.get(group), group):
            if not is_possible(name, group):
                raise ConfigError(
                    f"`_target_` must be one of the classes and functions that `{group}` may name, "
                    f"because what it names is run. Received: {name} of {place}"
                )


def is_possible(name: str, group: str) -> bool:
    """Returns whether a name of `dann` or `keras` may be what a group of the config needs."""
    package, *path, last = name.split(".")
    if last in LEFT_OUT:
        return False
    family = path[0] if path else ""
    if family in _ANYWHERE:
        return True
    if family and family not in _FAMILIES[group]:
        return False
    module = ".".join((package, *path))
    names = names_of_module(module)
    return names is None or last in names


def registered_names(package: str, registry: str) -> list[str]:
    """Returns the names that the files of a `dann` package register, in the registry's order.

    Args:
        package: Name of the package below `dann`.
        registry: Name of the registry in the source text, such as `SCORES`.
    """
    folder = pathlib.Path(__file__).parents[1] / package
    return [
        str(node.args[0].value)
        for file in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == f"{registry}.register"
        and isinstance(node.args[0], ast.Constant)
    ]


@functools.cache
def names_of_module(module: str) -> frozenset[str] | None:
    """Returns the names that a module's text binds, with those that its files register.

    An unknown module has none; `None` stands for a module whose text cannot be read.
    """
    package, *path = module.split(".")
    spec = importlib.util.find_spec(package)  # of a top-level package: nothing is imported
    if spec is None or not spec.submodule_search_locations:
        return None
    place = pathlib.Path(spec.submodule_search_locations[0]).joinpath(*path)
    if not place.is_dir():
        file = place.with_suffix(".py")
        return _bound(file) if file.is_file() else frozenset()
    names = _bound(place / "__init__.py")
    if package == "dann":
        offered = place if path else place / "adaptation"  # whose classes are those of `dann`, too
        names = names.union(*map(defined_in, offered.rglob("*.py")))
    return names


def _bound(file):
    """The classes, functions and imported names of a file, those under `if` included."""
    nodes = list(ast.parse(file.read_text(encoding="utf-8")).body)
    found = set()
    for node in nodes:
        if isinstance(node, ast.If):
            nodes += node.body
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
    return frozenset(found)
