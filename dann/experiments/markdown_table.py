"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table of cells that have their text, without a line break at its end.

    Example:

    >>> from dann.experiments.markdown_table import markdown_table
    >>> print(markdown_table(["method", "accuracy"], [["DANN", "0.9"]]))
    | method | accuracy |
    |---|---|
    | DANN | 0.9 |
    """
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    lines.insert(1, "|" + "---|" * len(heads))
    return "\n".join(lines)
