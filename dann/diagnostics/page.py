"""A diagnosis as one page that needs no network and no other file."""

import base64
import html
import math
import pathlib
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dann.diagnostics.catalogue import Evidence, evidence
from dann.diagnostics.check import Diagnosis
from dann.diagnostics.figures import Picture

_OPEN = ("oracle", "source only", "label shift", "partly aligned", "reversal alive", "undetermined")
_FRAME = pathlib.Path(__file__).with_name("page.html")


def page(
    diagnosis: Diagnosis,
    figures: Sequence[Picture] = (),
    accuracies: Mapping[str, Sequence[float | None]] | None = None,
    views: Sequence[Picture] = (),
) -> str:
    """Returns the report as HTML.

    It opens with the verdict, its reasons and what to do. Then come the accuracies, the
    measurements that have a healthy range, those outside it first, each with its meaning and what
    to do, then the figures, and then all numbers.

    Args:
        diagnosis: What was found.
        figures: What `dann.diagnostics.figures.draw` made of the measurements.
        accuracies: Test accuracies on the source and on the target by the name of a model; `None`
            where there are no labels. Defaults to `None`: no table.
        views: Pictures of the run, such as of its images and features.
    """
    sections = [
        _opening(diagnosis),
        _section("Accuracy", _accuracies(accuracies or {})),
        _section("The domains", *map(_figure, views)),
        _section("Evidence", _evidence(evidence(diagnosis.measurements))),
        _section("Figures", *map(_figure, figures)),
        _section("Not measured", _left_out(diagnosis.skip_reasons)),
        _section("All numbers", _numbers(diagnosis.measurements)),
    ]
    frame = string.Template(_FRAME.read_text(encoding="utf-8"))
    return frame.substitute(subject=_subject(diagnosis.metadata), sections="".join(sections))


def _subject(about: Mapping[str, Any]):
    pair = " → ".join(str(about[key]) for key in ("source", "target") if key in about)
    return _text(", ".join(filter(None, (str(about.get("method", "")), pair))) or "a model")


def _section(title: str, *parts: str) -> str:
    joined = "\n".join(parts)
    return f"<section>\n<h2>{title}</h2>\n{joined}\n</section>\n" if joined else ""


def _table(head: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    cells = "".join(f"<th>{cell}</th>" for cell in head)
    return f"<table class='{kind}'>\n<tr>{cells}</tr>\n" + "\n".join(rows) + "\n</table>"


def _row(*cells: str, kind: str = "") -> str:
    return f"<tr class='{kind}'>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _opening(diagnosis):
    verdict = diagnosis.verdict
    kind = "good" if verdict.name == "aligned" else "open" if verdict.name in _OPEN else "bad"
    if kind == "good" and not all(one.is_healthy for one in evidence(diagnosis.measurements)):
        kind = "open"  # no green over a value that is out of its range
    listed = "".join(f"<li>{_prose(reason)}</li>" for reason in verdict.reasons)
    facts = "; ".join(f"{key}: {_number(value)}" for key, value in diagnosis.metadata.items())
    return (
        f"<p>{_subject(diagnosis.metadata)}</p>\n<section class='verdict {kind}'>\n"
        f"<h1>{_text(verdict.headline)}</h1>\n<ul>{listed}</ul>\n"
        f"<p><strong>What to do.</strong> {_prose(verdict.advice)}</p>\n</section>\n"
        f"<p>{_text(facts)}</p>\n"
    )


def _accuracies(accuracies):
    rows = [
        _row(_text(name), *("unknown" if one is None else f"{one:.1%}" for one in pair))
        for name, pair in accuracies.items()
    ]
    note = "The target's column is an oracle: it needs labels, and nothing was chosen by it."
    return _table(("", "source", "target (oracle)"), rows) + f"\n<p>{note}</p>" if rows else ""


def _evidence(found: Sequence[Evidence]) -> str:
    off = sum(not one.is_healthy for one in found)
    told = f"{off} of {len(found)} outside the healthy range" if off else "All in their range"
    rows = [
        _row(
            f"{'✓' if one.is_healthy else '✗'} <code>{_text(one.name)}</code>",
            f"<strong>{_number(one.value)}</strong>",
            _range(one.low, one.high),
            f"{_prose(one.range.meaning)} <em>If outside:</em> {_prose(one.range.advice)}",
            kind="" if one.is_healthy else "off",
        )
        for one in found
    ]
    head = ("measurement", "value", "healthy", "what it is, and what to do")
    return f"<p>{told}.</p>\n{_table(head, rows, 'evidence')}" if found else ""


def _figure(picture: Picture) -> str:
    data, caption = base64.b64encode(picture.content).decode("ascii"), _text(picture.caption)
    image = f"<img alt='{caption}' src='data:image/{picture.kind};base64,{data}'>"
    return f"<figure>\n{image}\n<figcaption>{caption}</figcaption>\n</figure>"


def _left_out(skip_reasons):
    rows = [_row(_text(name), _text(why)) for name, why in skip_reasons.items()]
    return _table(("", "why"), rows) if rows else ""


def _numbers(measurements: Mapping[str, Any]) -> str:
    rows = [
        _row(f"<code>{_text(name)}</code>", _text(_number(value)))
        for name, value in measurements.items()
        if np.ndim(value) == 0
    ]
    summary = "<summary>Show them; arrays are in diagnosis.json</summary>"
    return f"<details>\n{summary}\n{_table(('', ''), rows)}\n</details>"


def _range(low, high):
    if math.isinf(low):
        return f"at most {_number(high)}"
    if math.isinf(high):
        return f"at least {_number(low)}" if low > 1e-9 else "above 0"
    return f"{_number(low)} to {_number(high)}"


def _number(value: Any) -> str:
    if isinstance(value, bool | int | np.integer | str):
        return str(value)
    if value is None or math.isnan(value):
        return "not a number"
    return "infinite" if value == math.inf else f"{value:.3g}".replace("-", "−")


def _prose(text):
    """A sentence with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _text(text))


def _text(value):
    return html.escape(str(value), quote=True)
