"""Renders a diagnosis as one HTML page without external resources."""

import base64
import html
import math
import pathlib
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dann.diagnostics.catalogue import evidence
from dann.diagnostics.check import Diagnosis

# Verdicts that are neither healthy nor unhealthy.
_NEUTRAL = {"oracle", "source only", "label shift", "partly aligned", "reversal working"}
_NEUTRAL |= {"undetermined"}
_TEMPLATE = pathlib.Path(__file__).with_name("page.html")


def page(
    diagnosis: Diagnosis,
    accuracies: Mapping[str, Sequence[float | None]] | None = None,
    pictures: Mapping[str, bytes] | None = None,
) -> str:
    """Returns the report as HTML.

    The page begins with the verdict, its reasons and what to do. Then come the accuracies, the
    pictures, the measurements that have a healthy range with their meaning and advice (unhealthy
    ones first), and what was not measured. `diagnosis.json` contains all measurements.

    Args:
        diagnosis: The diagnosis.
        accuracies: Test accuracies on source and target by the name of a model; `None` without
            labels. Defaults to `None`: no table.
        pictures: PNG files of the run, such as its images and features, by their caption.
            Defaults to `None`: none.
    """
    measurements, metadata = diagnosis.measurements, diagnosis.metadata
    domains = " → ".join(str(metadata[key]) for key in ("source", "target") if key in metadata)
    subject = ", ".join(filter(None, (str(metadata.get("method", "")), domains))) or "a model"
    accuracy_rows = [
        [_escape(name), *("unknown" if value is None else f"{value:.1%}" for value in values)]
        for name, values in (accuracies or {}).items()
    ]
    note = "<p>The target accuracy is an oracle: it needs labels. Nothing was selected by it.</p>"
    skip_rows = [map(_escape, row) for row in diagnosis.skip_reasons.items()]
    sections = [
        f"<p>{_escape(subject)}</p>\n",
        _render_verdict(diagnosis),
        _section("Accuracy", _table(("", "source", "target (oracle)"), accuracy_rows), note),
        _section("The domains", *(_figure(*row) for row in (pictures or {}).items())),
        _section("Evidence", _render_evidence(measurements)),
        _section("Not measured", _table(("", "reason"), skip_rows)),
    ]
    template = string.Template(_TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(subject=_escape(subject), sections="".join(sections))


def _section(title: str, *blocks: str) -> str:
    """Returns a section of blocks of HTML, or `""` if the first block is empty."""
    content = "\n".join(blocks)
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>\n" if any(blocks[:1]) else ""


def _table(head: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
    """Returns a table of cells that are HTML, or `""` without rows."""
    if not rows:
        return ""
    header = "".join(f"<th>{cell}</th>" for cell in head)
    body = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join(["<table>", f"<tr>{header}</tr>", *body, "</table>"])


def _render_verdict(diagnosis):
    verdict = diagnosis.verdict
    is_healthy = all(row.is_healthy for row in evidence(diagnosis.measurements))
    css_class = "neutral" if verdict.name in _NEUTRAL else "unhealthy"
    if verdict.name == "aligned":  # not green if another value is unhealthy
        css_class = "healthy" if is_healthy else "neutral"
    reasons = "".join(f"<li>{_markup(reason)}</li>" for reason in verdict.reasons)
    metadata = "; ".join(f"{key}: {_number(value)}" for key, value in diagnosis.metadata.items())
    return (
        f"<section class='verdict {css_class}'>\n<h1>{_escape(verdict.headline)}</h1>\n"
        f"<ul>{reasons}</ul>\n<p><strong>What to do.</strong> {_markup(verdict.advice)}</p>\n"
        f"</section>\n<p>{_escape(metadata)}</p>\n"
    )


def _render_evidence(measurements):
    rows = evidence(measurements)
    if not rows:
        return ""
    count = sum(not row.is_healthy for row in rows)
    summary = f"{count} of {len(rows)} values are outside their healthy range."
    cells = [
        [
            f"{'✓' if row.is_healthy else '✗'} <code>{_escape(row.name)}</code>",
            f"<strong>{_number(row.value)}</strong>",
            _range(row.low, row.high),
            f"{_markup(row.range.meaning)} <em>If outside:</em> {_markup(row.range.advice)}",
        ]
        for row in rows
    ]
    head = ("measurement", "value", "healthy", "meaning and advice")
    return f"<p>{summary}</p>\n<div class='evidence'>{_table(head, cells)}</div>"


def _figure(caption: str, content: bytes) -> str:
    data, caption = base64.b64encode(content).decode("ascii"), _escape(caption)
    image = f"<img alt='{caption}' src='data:image/png;base64,{data}'>"
    return f"<figure>\n{image}\n<figcaption>{caption}</figcaption>\n</figure>"


def _range(low, high):
    if math.isinf(low):
        return f"at most {_number(high)}"
    if math.isinf(high):
        return f"at least {_number(low)}" if low > 1e-9 else "above 0"
    return f"{_number(low)} to {_number(high)}"


def _number(value: Any) -> str:
    return f"{value:.3g}".replace("-", "−") if isinstance(value, float) else str(value)


def _markup(text):
    """Returns a sentence as HTML, with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _escape(text))


def _escape(value):
    return html.escape(str(value), quote=True)
