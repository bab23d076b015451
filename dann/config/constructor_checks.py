"""The checks of `dann.checks` that a class or function makes, found without importing it."""

import ast
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dann import checks
from dann.config.constructor_text import (
    constant,
    constructors_of,
    defaults_in,
    names_in,
    paths_in,
)

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
_DEPTH = 3  # of calls that pass an argument on


class Arguments(NamedTuple):
    """What is known of arguments.

    Attributes:
        defaults: The defaults that are plain values, by name.
        checks: The checks of arguments.
        paths: The names of files and folders that are read.
    """

    defaults: dict[str, Any]
    checks: list["Check"]
    paths: set[str]


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
    found, seen = Arguments({}, [], set()), set()
    for definition, file in constructors_of(target):
        defaults = defaults_in(definition)
        found.defaults.update({key: defaults[key] for key in defaults.keys() - seen})
        found.checks.extend(_checks(definition, file, _DEPTH))
        found.paths.update(paths_in(definition))
        seen |= names_in(definition)
    return found


def _checks(definition, file, depth) -> Iterator[Check]:
    names = names_in(definition)
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
    bounds = [constant(part, file) for part in call.args[2:]]
    named = {part.arg: constant(part.value, file) for part in call.keywords if part.arg != "why"}
    if all(known for known, _ in (*bounds, *named.values())):
        values = [value for _, value in bounds]
        rest = {key: value for key, (_, value) in named.items()}
        check = _CHECKS[call.func.id]
        of_lists = check is checks.check_integers
        yield Check(name, lambda given: check(name, given, *values, **rest), of_lists)


def _passed_on(call, names, depth):
    """The checks that a function or class of this package makes of arguments that it gets."""
    for definition, file in constructors_of(f"dann.{call.func.id}"):
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
