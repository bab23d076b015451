"""What a class or function says of its arguments, read from its text before Keras is imported."""

import ast
import functools
import importlib.util
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dann import checks

_CHECKS: dict[str, Callable[..., Any]] = {
    check.__name__: check
    for check in (
        checks.check_choice,
        checks.check_flag,
        checks.check_integer,
        checks.check_integers,
        checks.check_number,
    )
}
_DEFINED = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
_DEPTH = 3  # of calls that pass an argument on


class Arguments(NamedTuple):
    """What is known of arguments.

    Attributes:
        defaults: The defaults that are plain values, by name.
        checks: The checks of arguments.
    """

    defaults: dict[str, Any]
    checks: list["Check"]


class Check(NamedTuple):
    """A check of an argument.

    Attributes:
        name: Name of the argument.
        run: Raises an error if a value is wrong.
        of_lists: Whether the argument takes a list.
    """

    name: str
    run: Callable[[Any], Any]
    of_lists: bool


@functools.cache
def arguments_of(target: str) -> Arguments:
    """Returns what the text of a class or function says about its arguments.

    It knows the checks of `dann.checks` with constant bounds that the constructor makes, that of a
    base included, or that a function makes which the constructor passes the argument on to. What it
    cannot read is left out.

    Args:
        target: Full name, such as `"dann.CDAN"` or `"keras.optimizers.SGD"`.
    """
    package, *path, name = target.split(".")
    family = "src" if package == "keras" else ""
    if family and path and path[0] != "src":
        family = f"src/{path[0]}"
    found, seen = Arguments({}, []), set()
    for definition, file in _constructors(package, family, name):
        defaults = _defaults(definition)
        found.defaults.update({key: defaults[key] for key in defaults.keys() - seen})
        found.checks.extend(_checks(definition, file, _DEPTH))
        seen |= _names(definition)
    return found


def _constructors(package, family, name) -> Iterator[tuple[ast.FunctionDef, pathlib.Path]]:
    """Yields a function, or the constructors of a class and its bases, which share names."""
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
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    for base in bases:
        if base != name:  # such as `class Adam(adam.Adam)`, which would be found as its own base
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
        for name in _DEFINED.findall(file.read_text(encoding="utf-8")):
            found.setdefault(name, file)
    return found


def _names(definition):
    return {each.arg for each in (*definition.args.args, *definition.args.kwonlyargs)}


def _defaults(definition):
    given = definition.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(positional), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    found = {}
    for argument, default in pairs:
        known, value = _constant(default)
        # A flag may have other types too where the hint says so.
        hint = ast.unparse(argument.annotation) if argument.annotation else ""
        if known and not (isinstance(value, bool) and "|" in hint):
            found[argument.arg] = value
    return found


def _checks(definition, file, depth) -> Iterator[Check]:
    names = _names(definition)
    for call in _calls(definition):
        if call.func.id in _CHECKS:
            yield from _check(call, names, file)
        elif depth and any(_passed(part) & names for part in _parts(call)):
            yield from _passed_on(call, names, depth - 1)


def _calls(node) -> Iterator[Any]:
    """Yields the calls of plain names below a node, except those that an `if` may skip.

    `if name is not None` leaves nothing out that a value would be checked for.
    """
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            yield part
        if not isinstance(part, ast.If) or ast.unparse(part.test).endswith(" is not None"):
            yield from _calls(part)


def _check(call, names, file):
    name = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    if name not in names or name not in _passed(call.args[1]):
        return
    bounds = [_constant(part, file) for part in call.args[2:]]
    named = {part.arg: _constant(part.value, file) for part in call.keywords if part.arg != "why"}
    if all(known for known, _ in (*bounds, *named.values())):
        values = [value for _, value in bounds]
        rest = {key: value for key, (_, value) in named.items()}
        check = _CHECKS[call.func.id]
        of_lists = check is checks.check_integers
        yield Check(name, lambda given: check(name, given, *values, **rest), of_lists)


def _passed_on(call, names, depth):
    """The checks that a function or class of this package makes of arguments that it gets."""
    found = _definition("dann", "", call.func.id)
    for definition, file in _constructors("dann", "", call.func.id) if found else ():
        takes = [each.arg for each in definition.args.args if each.arg != "self"]
        given = dict(zip(takes, map(_passed, call.args), strict=False))
        given |= {part.arg: _passed(part.value) for part in call.keywords}
        for check in _checks(definition, file, depth):
            for mine in given.get(check.name, set()) & names:
                yield check._replace(name=mine)


def _parts(call):
    return [*call.args, *(part.value for part in call.keywords)]


def _passed(node):
    """The names that a call passes on as they are, one or the other."""
    choices = (node.body, node.orelse) if isinstance(node, ast.IfExp) else (node,)
    return {part.id for part in choices if isinstance(part, ast.Name)}


def _constant(node, file=None) -> tuple[bool, Any]:
    """Returns whether an expression is a plain value or the name of one, and which.

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
