"""Measures the table of docs/how-to/segmentation.md with that page's own code.

python docs/segmentation.py          both methods, seeds 0 to 2; prints the rows
"""

import pathlib
import re
import statistics
import sys
import time

import keras
import numpy as np

import dann

PAGE = pathlib.Path(__file__).parent / "how-to" / "segmentation.md"
EPOCHS, SEEDS = 25, (0, 1, 2)


def functions():
    """The functions that the page defines."""
    names = {"dann": dann, "keras": keras, "np": np}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        if "def " in block:
            exec(block, names)
    return names


def main():
    """Trains both and prints their figures."""
    train = functions()["train"]
    for name, adapts in (("source only", False), ("DANN", True)):
        start = time.perf_counter()
        found = [train(adapts, seed, EPOCHS) for seed in SEEDS]
        minutes = (time.perf_counter() - start) / 60 / len(SEEDS)
        cells = []
        for values in zip(*found, strict=True):
            spread = statistics.stdev(values)
            each = ", ".join(f"{value:.3f}" for value in values)
            cells.append(f"{statistics.mean(values):.3f} ± {spread:.3f} ({each})")
        print(f"| {name} | {cells[0]} | {cells[1]} | {minutes:.1f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
