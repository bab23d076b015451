"""Many runs: methods side by side, the ranking of a sweep, and experiments over seeds."""

from dann.experiments.compare import compare
from dann.experiments.comparison import Comparison
