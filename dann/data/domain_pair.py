"""Two domains, split and checked."""

import dataclasses

import numpy as np
import tensorflow as tf

from dann.data.pair import check_labels, pair


@dataclasses.dataclass(frozen=True)
class DomainPair:
    """A labelled source and an unlabelled target, with a test set of each.

    Training sees `source_train` and `target_train`, which holds inputs alone. The labels in
    `target_test` are an oracle: they serve to report an accuracy, never to train or to choose.

    Args:
        source: Name of the source domain.
        target: Name of the target domain.
        source_train: Inputs `(n, *input_shape)` and integer labels `(n,)`.
        source_test: The same, for the report.
        target_train: Inputs `(m, *input_shape)`.
        target_test: Inputs and labels of target examples that are not in `target_train`.
        num_classes: Number of classes that both domains share.

    Raises:
        ValueError: If a part is empty, shapes or types differ, or a label is out of range.
    """

    source: str
    target: str
    source_train: tuple[np.ndarray, np.ndarray]
    source_test: tuple[np.ndarray, np.ndarray]
    target_train: np.ndarray
    target_test: tuple[np.ndarray, np.ndarray]
    num_classes: int

    def __post_init__(self):
        inputs = {
            "source train": self.source_train[0],
            "source test": self.source_test[0],
            "target train": self.target_train,
            "target test": self.target_test[0],
        }
        for part, values in inputs.items():
            if len(values) == 0:
                raise ValueError(f"The {part} set of {self.name} is empty. Received: no examples")
            if values.shape[1:] != self.input_shape or values.dtype != self.source_train[0].dtype:
                raise ValueError(
                    f"Inputs of both domains must have one shape and type, here {self.input_shape} "
                    f"of {self.source_train[0].dtype}. Received: {part} with {values.shape[1:]} of "
                    f"{values.dtype}"
                )
        for part in ("source_train", "source_test", "target_test"):
            domain = part.replace("_", " ")
            values, labels = getattr(self, part)
            if len(values) != len(labels):
                raise ValueError(
                    f"The {domain} set must have one label for each input. "
                    f"Received: {len(values)} inputs and {len(labels)} labels"
                )
            check_labels(labels, self.num_classes, f"{domain} set")

    @property
    def name(self) -> str:
        """The two domains in one phrase, `source → target`."""
        return f"{self.source} → {self.target}"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.source_train[0].shape[1:]

    def batches(self, batch_size: int, seed: int | None = None) -> tf.data.Dataset:
        """Returns endless training pairs of `batch_size` examples of each domain."""
        return pair(
            self.source_train,
            self.target_train,
            batch_size,
            num_classes=self.num_classes,
            repeat=True,
            seed=seed,
        )
