"""One run from start to report: seeds, training, tables and figures."""

from dann.training.run import Run, compile_model, start

__all__ = ["Run", "compile_model", "start"]
