from .distillation import distill as distill
from .resumable_fit import fit as fit
from .run_callbacks import EpochTable as EpochTable
