"""Engines that run a packed program: NumPy is the reference, numba is the fast one."""

from dann.deployment.engines import numba_engine, numpy_engine
from dann.deployment.engines.numpy_engine import ENGINES

__all__ = ["ENGINES"]
