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
        *(all, any, callable, isinstance, len, max, min, repr, set, sorted, sum, type),
        *(bool, dict, float, int, list, str, tuple, TypeError, ValueError),
    )
}
_UNKNOWN = object()
_LAYERS = "Layer.__init__(self, *args, **kwargs)"  # how `keras.Model` calls its base


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
    passed = {name: value if _is_plain(value) else _UNKNOWN for name, value in given.items()}
    definitions = [definition for definition, _ in constructors_of(target)]
    return _refusal(definitions, passed, more_later)


def accepted(target: str) -> set[str]:
    """Returns the names of all arguments of a class or function; none if the text does not tell."""
    found = set()
    for definition, _ in constructors_of(target):
        found |= names_in(definition) - {"self"}
        if definition.args.kwarg is None:
            return found
        if _LAYERS in ast.unparse(definition):  # as `keras.Model` does
            layers = accepted("keras.layers.Layer")
            return layers and found | layers
        taken, goes_on = _further(definition)
        if taken is None:
            break
        found |= taken
        if not goes_on:
            return found
    return set()


def _further(definition: ast.FunctionDef) -> tuple[set[str] | None, bool]:
    """What a constructor takes of its further arguments, and whether the rest go to its base.

    It is `None` if the text does not tell: it must name what it takes out, and pass on or refuse
    the rest.
    """
    rest = definition.args.kwarg
    mine = [each for each in _names(definition) if rest and each.id == rest.arg]
    told, taken, refuses, passes_on = [], set(), False, False
    for node in ast.walk(definition):
        if isinstance(node, ast.If) and node.test in mine and isinstance(node.body[0], ast.Raise):
            told += _names(node)
            refuses = True
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("refuse_"):
            told += _names(node)
        elif isinstance(node, ast.Call) and (popped := _popped(node)):
            told.append(popped[0])
            taken |= {popped[1]} if popped[0] in mine else set()
    for call in filter(None, map(_super_call, definition.body)):
        given = [part.value for part in call.keywords if part.arg is None and part.value in mine]
        told += given
        passes_on = passes_on or bool(given)
    known = all(each in told for each in mine) and (refuses or passes_on)
    return (taken if known else None), passes_on


def _popped(call: ast.Call) -> tuple[ast.expr, Any] | None:
    """What a call takes an entry out of, and the entry's name, if the text has it."""
    key = call.args[0] if call.args else None
    if not (isinstance(call.func, ast.Attribute) and isinstance(key, ast.Constant)):
        return None
    return (call.func.value, key.value) if call.func.attr == "pop" else None


def as_default(value: Any, default: Any) -> Any:
    """Returns a whole number as a float where the default is one, on which Keras insists."""
    if not isinstance(default, float) or not is_integer(value):
        return value
    try:
        return float(value)
    except OverflowError:
        return value


def _refusal(definitions, passed, more_later):
    """The error of the first constructor, to which those of its bases belong, for what it gets."""
    if not definitions:
        return None
    definition, bases = definitions[0], definitions[1:]
    defaults, own = defaults_in(definition), names_in(definition)
    passed = {name: as_default(value, defaults.get(name)) for name, value in passed.items()}
    known = passed if more_later else {**defaults, **passed}
    known = {name: known[name] for name in own & known.keys() if known[name] is not _UNKNOWN}
    if definition.args.kwarg and not more_later:
        known[definition.args.kwarg.arg] = {
            name: value for name, value in passed.items() if name not in own
        }
    for statement in definition.body:
        call = _super_call(statement)
        if call is None:
            error, goes_on = _follow(statement, known)
            if not goes_on:
                return error
        elif bases:
            given = _arguments(call, bases[0], known)
            error = None if given is None else _refusal(bases, given, more_later)
            if error is not None:
                return error
    return None


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
    if isinstance(statement, ast.Assign):
        tells, value = _value(statement.value, known)
        *others, target = statement.targets
        if tells and not others and isinstance(target, ast.Name):
            known[target.id] = value
            return None, True
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
        return None, False
    if calls and isinstance(statement, ast.Expr):  # such as a check, which may raise first
        return None, False
    used = [node.id for call in calls for node in _names(call)]
    for name in [*used, *(each.id for each in _names(statement) if _is_bound(each))]:
        known.pop(name, None)
    return None, True


def _is_bound(name):
    return not isinstance(name.ctx, ast.Load)


def _names(node) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def _super_call(statement) -> ast.Call | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__":
        return call
    return None


def _arguments(call: ast.Call, base: ast.FunctionDef, known: dict[str, Any]) -> Any:
    """The arguments that a call gives a base, those that are not known marked as such.

    It is `None` if the call passes on what is not known by name.
    """
    takes = [each.arg for each in base.args.args if each.arg != "self"]
    named = [(part.arg, part.value) for part in call.keywords]
    passed: dict[str, Any] = {}
    for name, node in [*zip(takes, call.args, strict=False), *named]:
        tells, value = _value(node, known)
        if name is not None:
            passed[name] = value if tells else _UNKNOWN
        elif tells:
            passed |= value
        else:
            return None
    return passed


def _value(node: ast.expr | None, known: dict[str, Any]) -> tuple[bool, Any]:
    """Returns whether an expression can be computed from what is known, and its value."""
    if node is None:
        return False, None
    names = _names(node)
    own = {each.id for each in names if _is_bound(each)}  # of a generator within it
    if not {each.id for each in names} - own <= known.keys() | _FUNCTIONS.keys():
        return False, None
    code = compile(ast.Expression(node), "<constructor>", "eval")
    try:
        return True, eval(code, {"__builtins__": _FUNCTIONS}, known)
    except Exception:
        return False, None
