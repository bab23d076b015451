import dataclasses
from typing import Any


@dataclasses.dataclass
class Trainer:
    """How long and how to train.

    Attributes:
        steps: Training steps.
        steps_per_epoch: Steps from one checkpoint to the next.
        epochs: For a config: the number of passes over the source, which replaces both above.
        batch_size: Examples of each domain in a step.
        steps_per_execution: Steps in one call, or `"auto"`: on TensorFlow 20 if 20 divides the
            epoch and every interval of a callback, else one. Several steps in a call give the same
            weights and save the time between the calls, where callbacks act and signals are heard.
        jit_compile: Whether XLA compiles, or `"auto"`: where Keras can, except for TensorFlow on a
            CPU, where XLA makes small convolutions about 6 times slower.
        run_eagerly: As in `keras.Model.compile`.
        precision: Keras dtype policy, such as `"float32"` or `"mixed_bfloat16"`.
        oracle_curve: Whether a run writes the target accuracy after each epoch to a file of its
            own.
        check_every: Steps between checks for NaN or infinite losses and weights.
    """

    steps: int
    steps_per_epoch: int = 200
    epochs: int | None = None
    batch_size: int = 64
    steps_per_execution: Any = "auto"
    jit_compile: Any = "auto"
    run_eagerly: bool = False
    precision: str = "float32"
    oracle_curve: bool = False
    check_every: int = 50
