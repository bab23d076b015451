"""How many steps of a training one call of TensorFlow takes."""

import math
from collections.abc import Iterable
from typing import Any

import keras

from dann.adaptation import AdversarialModel
from dann.adaptation.replicas import replicas_of
from dann.deployment import summarize

_MOST = 20
_LARGEST = 25e9  # floating-point operations of a call: about half a second of a core
_PASSES = 3  # forward, and backward to the outputs and to the weights


def steps_in_a_call(model: AdversarialModel, trainer: Any, intervals: Iterable[int] = ()) -> int:
    """Returns the number of steps that `trainer.steps_per_execution` asks for.

    Several steps in one call (Keras's `steps_per_execution`) give the same weights and save the
    time between the calls. Callbacks act, and signals are heard, only between calls. So `"auto"`
    chooses the largest number of steps, at most 20, that divides the epoch, `check_every` and
    `intervals`, and that needs at most 25 billion floating-point operations, about half a second of
    a processor's core. It is 1 where these are not known, such as for a model that is not built
    yet; on other backends than TensorFlow, where it would save nothing or does not exist; on
    several devices; and if the model runs eagerly.

    Args:
        model: The model.
        trainer: Object with `steps`, `steps_per_epoch`, `batch_size` (of each domain),
            `check_every`, `run_eagerly` and `steps_per_execution`, a number or `"auto"`.
        intervals: Numbers of steps after which something else acts, such as a checkpoint.
    """
    if trainer.steps_per_execution != "auto":
        return trainer.steps_per_execution
    elsewhere = keras.backend.backend() != "tensorflow" or replicas_of(model) > 1
    if elsewhere or trainer.run_eagerly or not model.built:
        return 1
    layers = summarize(model).layers
    if any(layer.float_macs is None for layer in layers):
        return 1
    products = sum(layer.binary_macs + layer.float_macs for layer in layers)
    operations = 2 * products * _PASSES * 2 * trainer.batch_size
    epoch = min(trainer.steps, trainer.steps_per_epoch)
    whole = math.gcd(epoch, trainer.check_every, *intervals)
    most = int(min(_MOST, _LARGEST // max(operations, 1)))
    return max((n for n in range(1, most + 1) if whole % n == 0), default=1)
