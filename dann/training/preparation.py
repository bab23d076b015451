"""Prepares a training run: resets Keras, checks the settings and compiles the model."""

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from dann.adaptation import MDD, AdversarialModel
from dann.adaptation.replicas import count_replicas
from dann.checks import check_choice, check_integer
from dann.training.devices import Distribution, list_accelerators
from dann.training.trainer import Trainer

_STEPS_PER_CALL = 20


def start(seed: int, precision: str = "float32", distribution: Distribution | None = None) -> None:
    """Clears the state of Keras, then sets the precision, all seeds and the distribution.

    Args:
        seed: Seed of Python, NumPy and the backend, from 0 to 2**32 - 1.
        precision: Keras dtype policy, such as `"float32"` or `"mixed_bfloat16"`.
        distribution: Distribution of the batches over devices. Defaults to `None`: one device.
    """
    check_integer("seed", seed, 0, 2**32 - 1)
    keras.utils.clear_session()
    keras.config.set_dtype_policy(precision)
    keras.utils.set_random_seed(seed)
    (distribution or Distribution()).use()


@contextlib.contextmanager
def hide_retracing() -> Iterator[None]:
    """Hides TensorFlow's warnings that functions are traced again, as every new model requires."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def check_trainer(trainer: Trainer) -> None:
    """Checks the numbers of steps.

    Raises:
        TypeError: If a number is not an integer. `steps_per_execution` may be `"auto"`.
        ValueError: If a number is below 1, or an epoch has a number of steps that is not a multiple
            of `steps_per_execution`. The last epoch has the remaining steps.
    """
    steps = check_integer("trainer.steps", trainer.steps, low=1)
    epoch = min(steps, check_integer("trainer.steps_per_epoch", trainer.steps_per_epoch, low=1))
    call: Any = trainer.steps_per_execution
    call = 1 if call == "auto" else check_integer("trainer.steps_per_execution", call, low=1)
    if epoch % call or steps % call:
        raise ValueError(
            "trainer.steps and trainer.steps_per_epoch must be multiples of "
            f"trainer.steps_per_execution. Received: {steps}, {epoch} and {call}"
        )


def compile_model(
    model: AdversarialModel,
    optimizer: keras.optimizers.Optimizer,
    trainer: Trainer,
    intervals: Iterable[int] = (),
) -> AdversarialModel:
    """Compiles a model for classification, or for regression if it has one output, and returns it.

    In regression, the loss is the squared error, divided by the square of the scale of the head.

    Args:
        model: Model to train.
        optimizer: Any Keras optimizer.
        trainer: Settings of training.
        intervals: Numbers of steps after which callbacks act within an epoch.

    Raises:
        ValueError: If `jit_compile` is not a valid choice, or is true on several devices of
            TensorFlow, where XLA is not supported; or if the method is `MDD` in regression.
    """
    jit_compile = check_choice("trainer.jit_compile", trainer.jit_compile, ("auto", True, False))
    if jit_compile is True and count_replicas(model) > 1:
        raise ValueError(
            "Expected trainer.jit_compile=false on several devices of TensorFlow. Received: "
            "trainer.jit_compile=True. To compile on several devices use JAX (KERAS_BACKEND=jax)."
        )
    task: dict[str, Any] = {"metrics": ["accuracy"]}
    if model.num_classes == 1:
        if isinstance(model, MDD):  # its disparity has the unit of the labels, the loss has none
            raise ValueError(
                "Expected a method other than MDD. For regression with MDD, call `compile` in "
                "Python; see docs/methods.md. Received: MDD"
            )
        last_layer = model.label_head.layers[-1]  # see `scale_outputs`
        scale = last_layer.scale if isinstance(last_layer, keras.layers.Rescaling) else 1.0
        task = {"loss": "mse", "loss_weights": scale**-2, "metrics": ["mae"]}
    model.compile(
        optimizer=optimizer,
        **task,
        steps_per_execution=_choose_steps_per_call(model, trainer, intervals),
        jit_compile=choose_jit_compile() if jit_compile == "auto" else jit_compile,
        run_eagerly=trainer.run_eagerly,
    )
    return model


def choose_jit_compile() -> bool | str:
    """Returns `"auto"`, or `False` on TensorFlow with a CPU, where XLA slows down convolutions."""
    is_slow = keras.backend.backend() == "tensorflow" and not list_accelerators()
    return False if is_slow else "auto"


def _choose_steps_per_call(model, trainer, intervals):
    if trainer.steps_per_execution != "auto":
        return trainer.steps_per_execution
    if keras.backend.backend() != "tensorflow" or count_replicas(model) > 1 or trainer.run_eagerly:
        return 1
    epoch = min(trainer.steps, trainer.steps_per_epoch)
    numbers = epoch, trainer.steps, *intervals
    divides = all(number % _STEPS_PER_CALL == 0 for number in numbers)
    return _STEPS_PER_CALL if divides else 1
