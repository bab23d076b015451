"""A diagnosis as one page that needs no network and no other file."""

import base64
import fnmatch
import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dann.diagnostics.catalogue import DIAGNOSTICS
from dann.diagnostics.check import Diagnosis
from dann.diagnostics.figures import Picture
from dann.diagnostics.verdict import VERDICTS

_STYLE = """\
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
p, code { overflow-wrap: anywhere; }
.verdict, article, figure { border: 1px solid #ccd; border-radius: .5rem; padding: .75rem;
  margin: .75rem 0; break-inside: avoid; }
.good, .healthy { border-left: .4rem solid #1b6e4b; }
.open { border-left: .4rem solid #8a5a00; }
.bad, .off { border-left: .4rem solid #a32121; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
img { width: 100%; }
td:last-child { text-align: right; padding-left: 1rem; }
"""
_OPEN = ("under-adapted", "undetermined")


class Evidence(NamedTuple):
    """A measured value beside its healthy range; the bounds may be infinite."""

    name: str
    value: float
    low: float
    high: float
    advice: str

    @property
    def is_healthy(self) -> bool:
        """Whether the value lies in its range."""
        return self.low <= self.value <= self.high


def evidence(measurements: Mapping[str, Any]) -> list[Evidence]:
    """Returns the measurements that have a healthy range, those outside it first."""
    found = []
    for one in (one for each in DIAGNOSTICS.values() for one in each.healthy):
        for name in fnmatch.filter(measurements, one.name):
            try:
                low, high = one.bounds(measurements) if callable(one.bounds) else one.bounds
            except KeyError:  # it depends on what was not measured
                continue
            found.append(Evidence(name, float(measurements[name]), low, high, one.advice))
    return sorted(found, key=lambda each: each.is_healthy)


def page(diagnosis: Diagnosis, pictures: Sequence[Picture]) -> str:
    """Returns the report as HTML.

    It opens with the verdict and its reasons. Then come the measurements that have a healthy range,
    those outside it first, then the figures, and then all numbers.
    The pictures are those that `dann.diagnostics.figures.draw` made of the measurements.
    """
    found = evidence(diagnosis.measurements)
    off = sum(not one.is_healthy for one in found)
    told = f"{off} of {len(found)} out of the healthy range" if off else "All in the healthy range"
    left_out = "".join(f"<li>{_text(f'{k}: {v}')}</li>" for k, v in diagnosis.left_out.items())
    sections = [
        _opening(diagnosis),
        _section("Evidence", f"<p>{told}.</p>", *map(_card, found)) if found else "",
        _section("Figures", *map(_figure, pictures)) if pictures else "",
        _section("Not measured", f"<ul>{left_out}</ul>") if left_out else "",
        _section("All numbers", _table(diagnosis.measurements)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>Diagnosis: {_subject(diagnosis.about)}</title>\n'
        f"<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n{''.join(sections)}</main>\n</body>\n"
        "</html>\n"
    )


def _subject(about: Mapping[str, Any]):
    pair = " → ".join(str(about[key]) for key in ("source", "target") if key in about)
    return _text(", ".join(filter(None, (str(about.get("method", "")), pair))) or "a model")


def _section(title: str, *parts: str) -> str:
    joined = "\n".join(parts)
    return f"<section>\n<h2>{title}</h2>\n<div class='cards'>\n{joined}\n</div>\n</section>\n"


def _opening(diagnosis):
    name, reasons = diagnosis.verdict.name, diagnosis.verdict.reasons
    kind = "good" if name == "aligned" else "open" if name in _OPEN else "bad"
    mark = {"good": "✓", "open": "!", "bad": "✗"}[kind]
    listed = "".join(f"<li>{_text(reason)}</li>" for reason in reasons)
    facts = "; ".join(f"{key}: {_number(value)}" for key, value in diagnosis.about.items())
    return (
        f"<p>{_subject(diagnosis.about)}</p>\n<section class='verdict {kind}'>\n"
        f"<h1>{mark} {_text(name.capitalize())}</h1>\n<p>{_text(VERDICTS.get(name, ''))}</p>\n"
        f"<ul>{listed}</ul>\n</section>\n<p>{_text(facts)}</p>\n"
    )


def _card(one: Evidence) -> str:
    state, mark = ("healthy", "✓ in") if one.is_healthy else ("off", "✗ out of")
    return (
        f"<article class='{state}'>\n<h3><code>{_text(one.name)}</code></h3>\n"
        f"<p><strong>{_text(_number(one.value))}</strong> {mark} the healthy range</p>\n"
        f"<p>healthy: {_text(_range(one.low, one.high))}</p>\n"
        f"<p>{_text(one.advice)}</p>\n</article>"
    )


def _figure(picture: Picture) -> str:
    data, caption = base64.b64encode(picture.svg).decode("ascii"), _text(picture.caption)
    image = f"<img alt='{caption}' src='data:image/svg+xml;base64,{data}'>"
    return f"<figure>\n{image}\n<figcaption>{caption}</figcaption>\n</figure>"


def _table(measurements: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(_number(value))}</td></tr>\n"
        for name, value in measurements.items()
        if np.ndim(value) == 0
    )
    summary = "<summary>Show them; arrays are in diagnosis.json</summary>"
    return f"<details>\n{summary}\n<table>\n{rows}</table>\n</details>"


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
    return "infinite" if value == math.inf else f"{value:.3g}".replace("-", "−")


def _text(value):
    return html.escape(str(value), quote=True)
