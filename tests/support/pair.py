"""A small source with labels and a small target."""

import numpy as np

RNG = np.random.default_rng(1)
SOURCE = RNG.normal(size=(5, 3))
TARGET = RNG.normal(size=(5, 3)) + 0.5
ALL_INPUTS = np.concatenate([SOURCE, TARGET])
LABELS = np.array([0, 1, 2, 1, 0])
PAIR = {"source": SOURCE, "target": TARGET}
STRENGTH = 0.7
