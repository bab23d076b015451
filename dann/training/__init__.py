"""Training runs: checkpoints, evaluation, reports, and the files of a run."""

import lazy_loader

# The schema of the command line imports `trainer` and `devices` without importing Keras.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
