import dataclasses
from typing import Any


@dataclasses.dataclass
class Trainer:
    """Settings of a training run: its length, batches and compilation.

    Attributes:
        steps: Number of training steps.
        steps_per_epoch: Number of steps between two checkpoints. The last epoch has the remaining
            steps.
        epochs: For a config: the number of passes over the source, which replaces `steps` and
            `steps_per_epoch`.
        batch_size: Number of examples per domain and step. `None`: 64, or all examples of a smaller
            source.
        steps_per_execution: Number of steps per call, or `"auto"`: 20 on TensorFlow if 20 divides
            `steps`, the epoch and every interval of a callback, else 1. Several steps per call
            result in the same weights and save time. Callbacks and signals act only between calls.
        jit_compile: Whether XLA compiles the step. `"auto"` compiles where Keras can, except on
            TensorFlow with a CPU, where XLA makes small convolutions about 6 times slower.
        run_eagerly: Whether steps run without a graph; see `keras.Model.compile`.
        precision: Keras dtype policy, such as `"float32"` or `"mixed_bfloat16"`.
        oracle_curve: Whether a run writes the target accuracy after each epoch to a separate file.
    """

    steps: int
    steps_per_epoch: int = 200
    epochs: int | None = None
    batch_size: int | None = None
    steps_per_execution: Any = "auto"
    jit_compile: Any = "auto"
    run_eagerly: bool = False
    precision: str = "float32"
    oracle_curve: bool = False
