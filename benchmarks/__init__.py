"""Benchmarks of the package against other libraries: `python benchmarks/run.py suite=...`."""
