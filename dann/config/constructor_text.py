"""What a class or function says of its arguments, read from its text before Keras is imported."""

import ast
import functools
import importlib.util
import pathlib
import re
from collections.abc import Iterator
from typing import Any

_FOLDERS = {"Layer": "layers", "Model": "models"}  # of what our classes build on
_DEFINED = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)


@functools.cache
def constructors_of(target: str) -> list[tuple[ast.FunctionDef, pathlib.Path]]:
    """Returns the text of a function, or of the constructors of a class and its bases.

    Each stands beside its file. There are none if the text is not found.

    Args:
        target: Full name, such as `"dann.CDAN"` or `"keras.optimizers.SGD"`.
    """
    return list(_constructors(*_place_of(target)))


def _place_of(target):
    """The package of a full name, the folder in it where its text is looked for, and the name."""
    package, *path, name = target.split(".")
    if package != "keras":
        return package, "", name
    path = path[1:] if path[:1] == ["src"] else path
    folder = path[0] if path else _FOLDERS.get(name, "")
    return package, f"src/{folder}", name


def _constructors(package, family, name) -> Iterator[tuple[ast.FunctionDef, pathlib.Path]]:
    found = _definition(package, family, name)
    if found is None:
        return
    node, file = found
    if isinstance(node, ast.FunctionDef):
        yield node, file
        return
    own = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    own = [part for part in own if part.name == "__init__"]
    yield from ((part, file) for part in own)
    for text in map(ast.unparse, node.bases):
        base = text.rpartition(".")[2]
        if text.startswith("keras."):
            yield from _constructors(*_place_of(text))
        elif base != name:  # such as `class Adam(adam.Adam)`, which would be found as its own base
            yield from _constructors(package, family, base)


def _definition(
    package, family, name
) -> tuple[ast.ClassDef | ast.FunctionDef, pathlib.Path] | None:
    file = _files(package, family).get(name)
    node = None if file is None else _definitions(file).get(name)
    return None if file is None or node is None else (node, file)


@functools.cache
def _definitions(file: pathlib.Path) -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """The classes and functions of a file by name."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    found = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return {node.name: node for node in reversed(found)}


@functools.cache
def _files(package: str, family: str) -> dict[str, pathlib.Path]:
    """The first file of a package that defines a class or function, by its name."""
    spec = importlib.util.find_spec(package)  # of a top-level package: nothing is imported
    places = spec.submodule_search_locations if spec else None
    found = {}
    for file in sorted(pathlib.Path(places[0], family).rglob("*.py")) if places else ():
        for name in defined_in(file):
            found.setdefault(name, file)
    return found


def defined_in(file: pathlib.Path) -> list[str]:
    """Returns the names of the classes and functions that a file defines, in its order."""
    return _DEFINED.findall(file.read_text(encoding="utf-8"))


def names_in(definition: ast.FunctionDef) -> set[str]:
    """Returns the names of the arguments that a function's text lists."""
    return {each.arg for each in (*definition.args.args, *definition.args.kwonlyargs)}


def paths_in(definition: ast.FunctionDef) -> set[str]:
    """Returns the names of the arguments whose hints say that they are paths."""
    arguments = (*definition.args.args, *definition.args.kwonlyargs)
    hints = [(each.arg, ast.unparse(each.annotation)) for each in arguments if each.annotation]
    return {name for name, hint in hints if "PathLike" in hint}


def defaults_in(definition: ast.FunctionDef) -> dict[str, Any]:
    """Returns the defaults of a function's text that are plain values, by name.

    It leaves out flags that may be of other types too.
    """
    given = definition.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(positional), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    found = {}
    for argument, default in pairs:
        known, value = constant(default)
        # A flag may have other types too where the hint says so.
        hint = ast.unparse(argument.annotation) if argument.annotation else ""
        if known and not (isinstance(value, bool) and "|" in hint):
            found[argument.arg] = value
    return found


def constant(node: ast.expr | None, file: pathlib.Path | None = None) -> tuple[bool, Any]:
    """Returns whether an expression is a plain value, or the name of one in `file`, and which.

    Of a dict, as of functions by name, the keys are enough.
    """
    if isinstance(node, ast.Name) and file is not None:
        node = _assigned(file).get(node.id)
    if isinstance(node, ast.Dict) and None not in node.keys:
        node = ast.Tuple(node.keys)  # pyright: ignore[reportArgumentType]
    try:
        return True, ast.literal_eval(node)  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError, SyntaxError):
        return False, None


@functools.cache
def _assigned(file):
    """The expressions of a file's constants by name, those that it imports from `dann` included."""
    found = {}
    for line in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.Assign):
            found[ast.unparse(line.targets[0])] = line.value
        elif isinstance(line, ast.ImportFrom) and (line.module or "").startswith("dann."):
            source = pathlib.Path(__file__).parents[2].joinpath(*line.module.split("."))
            constants = [alias.name for alias in line.names if alias.name.isupper()]
            if constants and source.with_suffix(".py").is_file():
                theirs = _assigned(source.with_suffix(".py"))
                found.update({name: theirs[name] for name in constants if name in theirs})
    return found
