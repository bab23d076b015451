"""A diagnosis as one page that needs no network and no other file."""

import base64
import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dann.diagnostics.check import Diagnosis
from dann.diagnostics.healthy_ranges import Evidence, evidence
from dann.diagnostics.report.figures import Picture
from dann.diagnostics.report.style import STYLE
from dann.diagnostics.verdict import VERDICTS

_GOOD = ("aligned",)
_OPEN = ("under-adapted", "undetermined")


def page(diagnosis: Diagnosis, pictures: Sequence[Picture]) -> str:
    """Returns the report as HTML.

    It opens with the verdict and its reasons. Then come the measurements that have a healthy range,
    those outside it first, then the figures, and then all numbers.
    The pictures are those that `dann.diagnostics.report.figures.draw` made of the measurements.
    """
    title = f"Diagnosis: {_subject(diagnosis.about)}"
    body = "\n".join(
        [
            _opening(diagnosis),
            _evidence(evidence(diagnosis.measurements)),
            _figures(pictures),
            _left_out(diagnosis.left_out),
            _numbers(diagnosis.measurements),
        ]
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{_text(title)}</title>\n'
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _subject(about):
    pair = " → ".join(str(about[key]) for key in ("source", "target") if key in about)
    return ", ".join(part for part in (str(about.get("method", "")), pair) if part) or "a model"


def _opening(diagnosis):
    name = diagnosis.verdict.name
    kind = "good" if name in _GOOD else "open" if name in _OPEN else "bad"
    mark = {"good": "✓", "open": "!", "bad": "✗"}[kind]
    reasons = "".join(f"<li>{_text(reason)}</li>" for reason in diagnosis.verdict.reasons)
    facts = "".join(
        f"<div><dt>{_text(key)}</dt><dd>{_text(_number(value))}</dd></div>"
        for key, value in diagnosis.about.items()
    )
    return (
        f"<header>\n<p class='subject'>{_text(_subject(diagnosis.about))}</p>\n"
        f"<section class='verdict {kind}'>\n"
        f"<h1><span class='mark' aria-hidden='true'>{mark}</span> {_text(name.capitalize())}</h1>\n"
        f"<p>{_text(VERDICTS.get(name, ''))}</p>\n<ul>{reasons}</ul>\n</section>\n"
        f"<dl class='facts'>{facts}</dl>\n</header>"
    )


def _evidence(found: Sequence[Evidence]):
    if not found:
        return ""
    off = sum(not one.is_healthy for one in found)
    told = f"{off} of {len(found)} out of the healthy range" if off else "All in the healthy range"
    cards = "\n".join(_card(one) for one in found)
    inner = f"<p>{told}.</p>\n<div class='cards'>\n{cards}\n</div>"
    return f"<section>\n<h2>Evidence</h2>\n{inner}\n</section>"


def _card(one):
    state, mark = ("healthy", "✓") if one.is_healthy else ("off", "✗")
    word = "in the healthy range" if one.is_healthy else "out of the healthy range"
    return (
        f"<article class='{state}'>\n<h3>{_text(one.title)}</h3>\n"
        f"<p class='value'>{_text(_number(one.value))} "
        f"<span class='state'>{mark} {word}</span></p>\n"
        f"<p class='range'>healthy: {_text(_range(one.low, one.high))}</p>\n"
        f"<p>{_text(one.text)}</p>\n<p class='name'><code>{_text(one.name)}</code></p>\n</article>"
    )


def _figures(pictures):
    if not pictures:
        return ""
    parts = []
    for picture in pictures:
        data = base64.b64encode(picture.svg).decode("ascii")
        parts.append(
            f"<figure>\n<img alt='{_text(picture.caption)}' "
            f"src='data:image/svg+xml;base64,{data}'>\n"
            f"<figcaption>{_text(picture.caption)}</figcaption>\n</figure>"
        )
    joined = "\n".join(parts)
    return f"<section>\n<h2>Figures</h2>\n<div class='figures'>\n{joined}\n</div>\n</section>"


def _left_out(left_out: Mapping[str, str]):
    if not left_out:
        return ""
    rows = "".join(
        f"<li><strong>{_text(name)}</strong>: {_text(why)}</li>" for name, why in left_out.items()
    )
    return f"<section>\n<h2>Not measured</h2>\n<ul>{rows}</ul>\n</section>"


def _numbers(measurements):
    rows = "".join(
        f"<tr><td><code>{_broken(name)}</code></td><td>{_text(_number(value))}</td></tr>\n"
        for name, value in measurements.items()
        if np.ndim(value) == 0
    )
    return (
        "<section>\n<h2>All numbers</h2>\n<details>\n<summary>Show them; arrays are in "
        f"diagnosis.json</summary>\n<table>\n{rows}</table>\n</details>\n</section>"
    )


def _range(low, high):
    if math.isinf(low):
        return f"at most {_number(high)}"
    if math.isinf(high):
        return f"at least {_number(low)}"
    return f"{_number(low)} to {_number(high)}"


def _number(value: Any) -> str:
    if isinstance(value, bool | int | np.integer | str):
        return str(value)
    if value is None or math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite" if value > 0 else "−infinite"
    return f"{value:.3g}".replace("-", "−")


def _text(value):
    return html.escape(str(value), quote=True)


def _broken(name):
    """Returns a name that a browser may break after each slash."""
    return _text(name).replace("/", "/<wbr>")
