"""Renders a diagnosis as figures, and as one HTML page without external resources."""

import base64
import html
import io
import math
import pathlib
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from dann.data.probes import MAX_ALIGNED_ACCURACY, MIN_SEPARATED_ACCURACY
from dann.diagnostics.check import Diagnosis
from dann.diagnostics.evidence import evidence, is_separated

# Verdicts that are neither healthy nor unhealthy.
_NEUTRAL = {"oracle", "source only", "label shift", "partly aligned", "reversal working"}
_NEUTRAL |= {"undetermined"}
_TEMPLATE = pathlib.Path(__file__).with_name("page.html")


class Picture(NamedTuple):
    """A figure with a short name for its file.

    The caption describes the figure, also for readers who cannot see it.
    """

    name: str
    caption: str
    content: bytes
    image_format: str = "svg+xml"


def page(
    diagnosis: Diagnosis,
    figures: Sequence[Picture] = (),
    accuracies: Mapping[str, Sequence[float | None]] | None = None,
    run_figures: Sequence[Picture] = (),
) -> str:
    """Returns the report as HTML.

    The page begins with the verdict, its reasons and what to do. Then come the accuracies, the
    figures of the run, the measurements that have a healthy range with their meaning (unhealthy
    ones first, with advice), the figures of the diagnosis, and all numbers.

    Args:
        diagnosis: The diagnosis.
        figures: Pictures of the measurements, from `draw`. Defaults to none.
        accuracies: Test accuracies on source and target by the name of a model; `None` without
            labels. Defaults to `None`: no table.
        run_figures: Pictures of the run, such as its images and features. Defaults to none.
    """
    measurements, metadata = diagnosis.measurements, diagnosis.metadata
    domains = " → ".join(str(metadata[key]) for key in ("source", "target") if key in metadata)
    subject = ", ".join(filter(None, (str(metadata.get("method", "")), domains))) or "a model"
    accuracy_rows = [
        [_escape(name), *("unknown" if value is None else f"{value:.1%}" for value in values)]
        for name, values in (accuracies or {}).items()
    ]
    note = ""
    if any(target is not None for _, target in (accuracies or {}).values()):
        note = "<p>Target labels measured the accuracy on the target, but selected nothing.</p>"
    skip_rows = [map(_escape, row) for row in diagnosis.skip_reasons.items()]
    sections = [
        f"<p>{_escape(subject)}</p>\n",
        _render_verdict(diagnosis),
        _render_section("Accuracy", _render_table(("", "source", "target"), accuracy_rows), note),
        _render_section("The domains", *map(_render_figure, run_figures)),
        _render_section("Evidence", _render_evidence(measurements)),
        _render_section("Figures", *map(_render_figure, figures)),
        _render_section("Not measured", _render_table(("", "reason"), skip_rows)),
        _render_section("All numbers", _render_numbers(measurements)),
    ]
    template = string.Template(_TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(subject=_escape(subject), sections="".join(sections))


def _render_section(title: str, *blocks: str) -> str:
    """Returns a section of blocks of HTML, or `""` if the first block is empty."""
    content = "\n".join(blocks)
    is_empty = not blocks or not blocks[0]
    return "" if is_empty else f"<section>\n<h2>{title}</h2>\n{content}\n</section>\n"


def _render_table(head: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
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
    reasons = "".join(f"<li>{_to_html(reason)}</li>" for reason in verdict.reasons)
    metadata = "; ".join(
        f"{key}: {_format_value(value)}" for key, value in diagnosis.metadata.items()
    )
    return (
        f"<section class='verdict {css_class}'>\n<h1>{_escape(verdict.headline)}</h1>\n"
        f"<ul>{reasons}</ul>\n<p><strong>What to do.</strong> {_to_html(verdict.advice)}</p>\n"
        f"</section>\n<p>{_escape(metadata)}</p>\n"
    )


def _render_evidence(measurements):
    rows = evidence(measurements)
    if not rows:
        return ""
    notes = {}
    if is_separated(measurements):
        # The verdict names such a loss as a problem, even if it is in its range.
        notes = {"domain/loss": "The discriminator separates the domains; see the verdict."}
    count = sum(not row.is_healthy for row in rows)
    summary = f"Outside their healthy range: {count} of {len(rows)} values. "
    summary += "✓ in its range; ✗ outside; ! in its range, but the verdict names it as a problem."
    cells = [
        [
            f"{'✗' if not row.is_healthy else '!' if row.name in notes else '✓'} "
            f"<code>{_escape(row.name)}</code>",
            f"<strong>{_format_value(row.value)}</strong>",
            _format_range(row.low, row.high),
            _to_html(f"{row.range.meaning} {row.advice or notes.get(row.name, '')}"),
        ]
        for row in rows
    ]
    head = ("measurement", "value", "healthy", "meaning and advice")
    return f"<p>{summary}</p>\n<div class='evidence'>{_render_table(head, cells)}</div>"


def _render_figure(picture: Picture) -> str:
    data, caption = base64.b64encode(picture.content).decode("ascii"), _escape(picture.caption)
    image = f"<img alt='{caption}' src='data:image/{picture.image_format};base64,{data}'>"
    return f"<figure>\n{image}\n<figcaption>{caption}</figcaption>\n</figure>"


def _render_numbers(measurements):
    rows = [
        (f"<code>{_escape(name)}</code>", _escape(_format_value(value)))
        for name, value in measurements.items()
        if np.ndim(value) == 0
    ]
    summary = "<summary>Show all numbers (diagnosis.json also contains the arrays)</summary>"
    return f"<details>\n{summary}\n{_render_table(('measurement', 'value'), rows)}\n</details>"


def _format_range(low, high):
    if math.isinf(low):
        return f"at most {_format_value(high)}"
    if math.isinf(high):
        return f"at least {_format_value(low)}" if low > 1e-9 else "above 0"
    return f"{_format_value(low)} to {_format_value(high)}"


def _format_value(value: Any) -> str:
    if isinstance(value, bool | int | np.integer | str):
        return str(value)
    if value is None or math.isnan(value):
        return "not a number"
    return "infinite" if value == math.inf else f"{value:.3g}".replace("-", "−")


def _to_html(text):
    """Returns a sentence as HTML, with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _escape(text))


def _escape(value):
    return html.escape(str(value), quote=True)


def draw(measurements: Mapping[str, Any]) -> list[Picture]:
    """Draws the figures for which there are measurements."""
    pictures = []
    if np.isfinite(measurements.get("probe/accuracy", np.nan)):
        caption = "Accuracy of the discriminator and of a newly trained probe, with a 95% interval."
        pictures.append(Picture("probe", caption, _render_svg(_draw_probe, measurements)))
    if "game/eigenvalues/real" in measurements:
        caption = (
            "Eigenvalues of the vector field. At the current learning rate, plain gradient descent "
            "converges inside the dotted circle and diverges outside."
        )
        pictures.append(Picture("game", caption, _render_svg(_draw_eigenvalues, measurements)))
    return pictures


def _render_svg(draw_axes, measurements):
    figure, file = Figure(figsize=(5.2, 3.2), layout="constrained"), io.BytesIO()
    draw_axes(figure.subplots(), measurements)
    # A fixed salt and no date make the bytes reproducible.
    with matplotlib.rc_context({"svg.hashsalt": "dann", "font.size": 11}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _draw_probe(axes, m):
    names = {"probe": "probe/accuracy", "discriminator": "domain/accuracy"}
    bars = {label: m[name] for label, name in names.items() if name in m}
    axes.barh(list(bars), list(bars.values()), height=0.55, color="#8fb3d9", edgecolor="0.2")
    for row, value in enumerate(bars.values()):
        axes.text(0.02, row, f"{value:.0%}", va="center", fontsize=11)
    low, high, middle = (m[f"probe/{name}"] for name in ("low", "high", "accuracy"))
    axes.errorbar(middle, 0, xerr=[[middle - low], [high - middle]], color="0.1", capsize=4)
    limits = {"chance\n": 0.5, "aligned\nbelow ": MAX_ALIGNED_ACCURACY}
    limits |= {"not aligned\nabove ": MIN_SEPARATED_ACCURACY}
    for label, share in limits.items():
        axes.vlines(share, -0.5, len(bars) - 0.5, color="0.3", linestyle=":")
        axes.text(share, len(bars) - 0.45, f"{label}{share:.0%}", ha="center", fontsize=8)
    axes.set(xlim=(0, 1), ylim=(-0.5, len(bars) - 0.1), xlabel="accuracy on the domains")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_eigenvalues(axes, m):
    real, imag = (np.asarray(m[f"game/eigenvalues/{part}"]) for part in ("real", "imag"))
    axes.axhline(0, color="0.7", linewidth=0.8)
    axes.axvline(0, color="0.7", linewidth=0.8)
    if step := m.get("game/step"):
        # |1 - step * mu| = 1 is a circle with the center and radius 1 / step.
        circle = {"fill": False, "color": "0.35", "linestyle": ":", "linewidth": 1.5}
        axes.add_patch(Circle((1 / step, 0), 1 / step, label="edge of stability", **circle))
    axes.plot(real, imag, "o", color="#1b4f8f", markerfacecolor="white", label="eigenvalue")
    limit = 1.15 * max(abs(real).max(), abs(imag).max(), 1e-12)
    axes.set(xlim=(min(-0.15 * limit, 1.15 * real.min()), limit), ylim=(-limit, limit))
    axes.set(xlabel="real part (right: attracts, left: repels)", ylabel="imaginary part (rotates)")
    axes.legend(fontsize=8, loc="lower right")
