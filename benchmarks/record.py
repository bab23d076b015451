"""Measurements in a file, from which `docs/performance.md` is made."""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.timing import Comparison, Times

PLACE = pathlib.Path(__file__).parents[1] / "docs/performance.json"
_PACKAGES = "adapt", "ai-edge-litert", "jax", "keras", "numpy", "tensorflow", "torch"
_OURS, _RIVALS = "#4051b5", "#9aa0b5"


def as_record(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Returns comparisons as plain values."""
    return [
        {
            "task": one.task,
            "reference": one.reference or next(iter(one.times)),
            "notes": dict(one.notes),
            "sizes": list(one.sizes),
            "remark": one.own_remark,
            "times": {
                name: {"cpu": times.cpu.round(7).tolist(), "wall": times.wall.round(7).tolist()}
                for name, times in one.times.items()
            },
        }
        for one in comparisons
    ]


def comparisons_of(record: Sequence[dict[str, Any]]) -> list[Comparison]:
    """Returns the comparisons of a record."""
    return [
        Comparison(
            one["task"],
            {
                name: Times(np.array(times["cpu"]), np.array(times["wall"]))
                for name, times in one["times"].items()
            },
            one["reference"],
            one["notes"],
            one["sizes"],
            one["remark"],
        )
        for one in record
    ]


def joined(processes: Sequence[Sequence[Comparison]]) -> list[Comparison]:
    """Returns the comparisons that several processes made, with the rounds of all of them."""
    found = []
    for same in zip(*processes, strict=True):
        first = same[0]
        times = {
            name: Times(
                *(
                    np.concatenate([getattr(one.times[name], part) for one in same])
                    for part in ("cpu", "wall")
                )
            )
            for name in first.times
        }
        found.append(dataclasses.replace(first, times=times))
    return found


def in_processes(
    suite: str,
    count: int,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[Comparison]:
    """Runs the command of this process again for one suite, so many times, and joins the results.

    Args:
        suite: Name of the suite.
        count: Number of processes, one after the other.
        overrides: More of the command, which come last.
        environment: Variables that these processes have beside those of this one.

    Raises:
        SystemExit: If one of them fails; it has said why.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "record.json"
        own = [f"suite={suite}", "processes=1", f"record={path}", *overrides]
        variables = {**os.environ, **(environment or {})}
        for _ in range(count):
            command = [sys.executable, *sys.argv, *own]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, env=variables)
            if done.returncode:
                sys.exit(f"error: a process of suite={suite} ended with status {done.returncode}")
            found.append(comparisons_of(read(path)[suite]["comparisons"]))
    return joined(found)


def read(path: pathlib.Path) -> dict[str, Any]:
    """Returns all that a file records, by suite; nothing if there is no file."""
    return json.loads(path.read_text()) if path.is_file() else {}


def write(
    path: pathlib.Path, suite: str, comparisons: Sequence[Comparison], hardware: str, processes: int
) -> None:
    """Writes what a suite measured into a file, which keeps the other suites.

    If there is a folder `images` beside it, that gets a chart.
    """
    known = read(path)
    known[suite] = {
        "hardware": hardware,
        "packages": _versions(),
        "processes": processes,
        "comparisons": as_record(comparisons),
    }
    lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")  # a line for each suite
    folder = path.parent / "images"
    if folder.is_dir():
        draw(folder / f"performance_{suite}.png", comparisons)


def draw(path: pathlib.Path, comparisons: Sequence[Comparison]) -> None:
    """Draws each way's CPU time in times of the reference's, with its range, as bars."""
    bars = [(one, name) for one in comparisons for name in one.times]
    figure = Figure(figsize=(7, 0.8 + 0.22 * len(bars) + 0.3 * len(comparisons)))
    axes = figure.subplots()
    place, places, labels = 0.0, [], []
    for one in comparisons:
        place += 0.8
        title = {"fontsize": 8, "fontweight": "bold", "va": "center"}
        axes.text(0, place - 0.75, one.task, transform=axes.get_yaxis_transform(), **title)
        for name in one.times:
            ratios = one.ratios(name)
            middle = float(np.median(ratios))
            spread = [[middle - ratios.min()], [ratios.max() - middle]]
            color = _OURS if name.startswith("dann") else _RIVALS
            axes.barh(place, middle, color=color, xerr=spread, error_kw={"lw": 0.8})
            places.append(place)
            labels.append(name)
            place += 1
        place += 0.6
    axes.set_yticks(places, labels, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="black", lw=0.8)
    if max(one.ratios(name).max() for one, name in bars) > 10:
        axes.set_xscale("log")
    axes.set_xlabel("CPU time, in times of the reference's")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.01)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def instructions() -> str:
    """Returns NumPy's name for the newest instructions that it uses here, such as `X86_V4`."""
    told: Any = np.show_config(mode="dicts")
    known = told["SIMD Extensions"]
    return [*known.get("baseline", ()), *known.get("found", ())][-1]


def _versions():
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
