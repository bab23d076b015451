"""Keras optimizers that binary and adversarial networks need."""

from dann.optimizers.bop import Bop as Bop
from dann.optimizers.faster_heads import faster_heads as faster_heads
from dann.optimizers.flip_ratio import FlipRatio as FlipRatio
from dann.optimizers.per_variable import PerVariable as PerVariable
