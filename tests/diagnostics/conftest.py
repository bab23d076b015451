import pathlib
import sys

# The toy problems of the methods' tests.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "adaptation"))
