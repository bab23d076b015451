"""Refuses arguments as the text of their constructor does, without importing it.

`if momentum < 0: raise ValueError(...)` in a constructor of Keras or of this package needs neither
its class nor a backend: both the test and the error follow from the arguments.
"""

import ast
from typing import Any

from dann.checks import is_integer
from dann.config.constructor_text import constructors_of, defaults_in, names_in

_FUNCTIONS: dict[str, Any] = {
    known.__name__: known
    for known in (
        *(all, any, callable, isinstance, len, max, min, repr, set, sorted, type),
        *(bool, dict, float, int, list, str, tuple, TypeError, ValueError),
    )
}
_UNKNOWN = object()


def refusal(target: str, given: dict[str, Any], *, more_later: bool = False) -> Exception | None:
    """Returns the error that a constructor raises for its arguments, as far as its text tells.

    It follows `if ...: raise ...` in the constructor and, with the arguments that `super()` gets,
    in those of its bases. It leaves out what depends on anything but plain arguments.

    Args:
        target: Full name of a class or function, such as `"keras.optimizers.SGD"`.
        given: Arguments by name. One that has a `_target_`, an object yet to be built, is not
            looked at.
        more_later: Whether other arguments follow when it is called. Defaults to `False`: they have
            their defaults.

    Example:

    >>> from dann.config.refused_arguments import refusal
    >>> refusal("keras.optimizers.SGD", {"momentum": -1.0})
    ValueError('`momentum` must be a float between [0, 1].')
    """
    passed: dict[str, Any] | None = {
        name: value if _is_plain(value) else _UNKNOWN for name, value in given.items()
    }
    definitions = [definition for definition, _ in constructors_of(target)]
    for definition, base in zip(definitions, [*definitions[1:], None], strict=True):
        defaults, own = defaults_in(definition), names_in(definition)
        passed = {name: as_default(value, defaults.get(name)) for name, value in passed.items()}
        known = passed if more_later else {**defaults, **passed}
        known = {name: known[name] for name in own & known.keys() if known[name] is not _UNKNOWN}
        rest = {name: value for name, value in passed.items() if name not in own}
        passed = None
        for statement in definition.body:
            error, goes_on = _follow(statement, known)
            if not goes_on:
                return error
            call = _super_call(statement)
            if call is not None and base is not None and _passes_on(call, definition):
                passed = _arguments(call, base, known, rest)
        if passed is None:  # nothing is known of what a base gets
            return None
    return None


def as_default(value: Any, default: Any) -> Any:
    """Returns a whole number as a float where the default is one, on which Keras insists."""
    return float(value) if isinstance(default, float) and is_integer(value) else value


def _is_plain(value):
    if isinstance(value, dict):
        return "_target_" not in value and all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if isinstance(value, list) else True


def _follow(statement: ast.stmt, known: dict[str, Any]) -> tuple[Exception | None, bool]:
    """Follows a statement, and takes the names that it changes from those that are known.

    Returns:
        The error that it raises, and whether what comes after it can be followed.
    """
    if isinstance(statement, ast.Raise):
        _, error = _value(statement.exc, known)
        return (error if isinstance(error, Exception) else None), False
    if isinstance(statement, ast.If):
        tells, holds = _value(statement.test, known)
        for inner in (statement.body if holds else statement.orelse) if tells else ():
            error, goes_on = _follow(inner, known)
            if not goes_on:
                return error, False
        if tells:
            return None, True
    if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
        return None, False
    for node in _names(statement):
        if not isinstance(node.ctx, ast.Load):
            known.pop(node.id, None)
    return None, True


def _names(node) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def _super_call(statement) -> ast.Call | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
        return call
    return None


def _passes_on(call, definition):
    """Whether the call gives a base its further arguments, if there are any, as they came."""
    further = [part.value for part in call.keywords if part.arg is None]
    if not further:
        return True
    name = definition.args.kwarg.arg if definition.args.kwarg else None
    touched = [node for node in _names(definition) if node.id == name]
    return len(further) == len(touched) == 1 and touched[0] is further[0]


def _arguments(
    call: ast.Call, base: ast.FunctionDef, known: dict[str, Any], rest: dict[str, Any]
) -> dict[str, Any]:
    """The arguments that a call gives a base; those that cannot be computed are unknown."""
    takes = [each.arg for each in base.args.args if each.arg != "self"]
    given: list[Any] = list(zip(takes, call.args, strict=False))
    given += [(part.arg, part.value) for part in call.keywords if part.arg is not None]
    passed = dict(rest) if len(given) < len(call.args) + len(call.keywords) else {}
    for name, node in given:
        tells, value = _value(node, known)
        passed[name] = value if tells else _UNKNOWN
    return passed


def _value(node: ast.expr | None, known: dict[str, Any]) -> tuple[bool, Any]:
    """Returns whether an expression can be computed from what is known, and its value."""
    if node is None or not {each.id for each in _names(node)} <= known.keys() | _FUNCTIONS.keys():
        return False, None
    code = compile(ast.Expression(node), "<constructor>", "eval")
    try:
        return True, eval(code, {"__builtins__": _FUNCTIONS}, known)
    except Exception:
        return False, None
