"""Engines that run a packed program: NumPy is the reference, numba the fast one."""
