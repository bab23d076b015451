"""Benchmarks of the package beside its rivals; `python benchmarks/run.py suite=...` runs them."""
