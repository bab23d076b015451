"""One run from start to report, and what is done with it afterwards."""

from dann.training.devices import Distribution
from dann.training.preparation import Trainer, compile_model, start
from dann.training.resumable_fit import fit
from dann.training.run import train_run
from dann.training.run_callbacks import EpochTable
from dann.training.run_directory import RunDirectory
from dann.training.stops import StopOnNonFinite
