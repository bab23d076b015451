"""Measures the table of docs/how-to/segmentation.md with that page's own code.

python docs/segmentation.py          both methods, seeds 0 to 2; prints rows of docs/notes.csv
"""

import csv
import pathlib
import re
import statistics
import sys
import time

import keras
import numpy as np

import dann
from dann.training.hardware import hardware

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
        start = time.process_time()
        found = [train(adapts, seed, EPOCHS) for seed in SEEDS]
        seconds = (time.process_time() - start) / len(SEEDS)
        cells = {}
        for domain, values in zip(("source", "target"), zip(*found, strict=True), strict=True):
            each = ", ".join(f"{value:.3f}" for value in values)
            spread = f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"
            cells[f"{domain}: seeds 0, 1, 2"] = f"{each} ({spread})"
        for measure, value in {**cells, "CPU seconds": f"{seconds:.0f}"}.items():
            told = ["segmentation", name, "1,400", "0, 1, 2", hardware(), measure, value]
            csv.writer(sys.stdout).writerow(told)


if __name__ == "__main__":
    sys.exit(main())
