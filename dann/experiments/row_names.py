"""What the rows of a table of results are called."""

from collections.abc import Mapping, Sequence

from dann.adaptation import METHODS
from dann.experiments.results import Result


def row_names(results: Sequence[Result], names: Mapping[str, str]) -> dict[str, str]:
    """Returns the names of rows by their methods.

    A method without a name of its own is called by its title and its arguments. A second stage is
    called after the row that taught it.

    Args:
        results: The results in the rows.
        names: Names of methods with arguments, as `{"dann schedule.high=0": "DANN, strength 0"}`.

    Example:

    >>> from dann.experiments.results import Result
    >>> from dann.experiments.row_names import row_names
    >>> runs = [Result("a", name, 0, "", "A → B", 9, "", {}) for name in ("cdan_e", "dann x=1")]
    >>> row_names(runs, {"dann x=1": "DANN with x"})
    {'cdan_e': 'CDAN+E', 'dann x=1': 'DANN with x'}
    """
    by_settings = {result.settings: result.method for result in results}
    return {
        result.method: names.get(result.method) or _name(result.method, by_settings)
        for result in results
    }


def _name(method, first_stages):
    name, *arguments = method.split()
    told = [_told(argument, first_stages) for argument in arguments]
    return ", ".join([_title(name), *told])


def _title(method):
    facts = METHODS.entry(method).facts if method in METHODS else {}  # a user's table may name any
    return facts.get("title", method.upper())


def _told(argument, first_stages):
    key, _, value = argument.partition("=")
    for part in value.split("/") if key == "method.teacher" else ():
        if part in first_stages:
            return f"after {_name(first_stages[part], {})}"
    return argument
