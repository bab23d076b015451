"""Loads saved models and goes on with each; run by `tests/test_users_matrix.py` in a new process.

The process knows the package and the classes of the toy backbones, and nothing of what ran before.
"""

import pickle
import sys
from pathlib import Path

import keras
import numpy as np
from support.users_matrix import gone_on


def main(folders):
    """Writes for each folder what its model gives and what one more step makes of its weights."""
    for folder in folders:
        again, inputs = pickle.loads((folder / "again.pkl").read_bytes())
        model = keras.models.load_model(folder / "model.keras", safe_mode=True)
        np.savez(folder / "found.npz", *gone_on(model, again, inputs))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
