"""The old name of `benchmarks/run.py`."""

import pathlib
import runpy

RUN = pathlib.Path(__file__).parents[1] / "benchmarks/run.py"
runpy.run_path(str(RUN), run_name="__main__")
