"""Keras optimizers that binary and adversarial networks need."""

from dann.optimizers.bop import Bop
from dann.optimizers.faster_heads import faster_heads
from dann.optimizers.flip_ratio import FlipRatio
from dann.optimizers.per_variable import PerVariable
