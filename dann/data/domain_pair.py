"""Two domains, split and checked."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from dann.checks import check_class_range, check_integer
from dann.data.examples import Examples, OrderedBatches, check_matching_inputs
from dann.data.nuisances import Nuisances
from dann.data.pair import pair
from dann.data.pairs import Pairs
from dann.data.splits import UNKNOWN


@dataclasses.dataclass(frozen=True)
class DomainPair:
    """A labelled source and an unlabelled target, with a test set of each.

    Training sees `source_train`, `target_train`, which holds inputs alone, and `target_labelled` if
    it is given. The labels in `target_test` and `target_train_labels` are an oracle's: they report
    an accuracy and train the pair of `oracle()`, and never serve to adapt or to choose.

    Inputs are arrays, or what `dann.data.pair` takes for an array.

    Args:
        source: Name of the source domain.
        target: Name of the target domain.
        source_train: Inputs `(n, *input_shape)` and integer labels `(n,)`.
        source_test: The same, to test on.
        target_train: Inputs `(m, *input_shape)`.
        target_test: Inputs and labels of target examples that are not in `target_train`; labels
            `None` if they are unknown. Then a run cannot report the target's accuracy.
        num_classes: Number of classes that both domains share.
        class_names: Names of the classes, by label. Defaults to `None`.
        target_train_labels: Labels of `target_train`, `(m,)`, for the oracle only; -1 where
            unknown. Defaults to `None`.
        target_labelled: Inputs and labels of the few target examples whose labels training may use
            (semi-supervised). Defaults to `None`.
        balanced: Whether training draws the source's classes in equal parts. Defaults to `False`.
        source_domain: The number of each source training example's domain, `(n,)`, if the source is
            several domains; see `dann.data.join_sources`. Defaults to `None`.
        target_names: The file or row number of each example of `target_train` and of `target_test`,
            for a table of predictions. Defaults to `None`: their places.
        nuisances: Those of one labelled table, which is the source, and without its labels the
            target too. Defaults to `None`.

    Raises:
        ValueError: If a part is empty, shapes or types differ, or a label is out of range.
    """

    source: str
    target: str
    source_train: tuple[Any, np.ndarray]
    source_test: tuple[Any, np.ndarray]
    target_train: Any
    target_test: tuple[Any, np.ndarray | None]
    num_classes: int
    class_names: tuple[str, ...] | None = None
    target_train_labels: np.ndarray | None = None
    target_labelled: tuple[Any, np.ndarray] | None = None
    balanced: bool = False
    source_domain: np.ndarray | None = None
    target_names: tuple[Any, Any] | None = None
    nuisances: Nuisances | None = None

    def __post_init__(self):
        parts = {
            "source train set": _columns(*self.source_train),
            "source test set": _columns(*self.source_test),
            "target train set": _columns(self.target_train, self.target_train_labels),
            "target test set": _columns(*self.target_test),
            "labelled target set": _columns(*self.target_labelled or self.source_test),
        }
        check_integer("num_classes", self.num_classes, 2)
        given = {name: Examples(columns, name) for name, columns in parts.items()}
        for name, examples in given.items():
            check_matching_inputs(
                given["source train set"].input_spec(), examples.input_spec(), name
            )
            if "labels" in examples.columns:
                labels, told = examples.columns["labels"], f"labels of the {name}"
                unknown = UNKNOWN if name == "target train set" else None
                check_class_range(told, labels, self.num_classes, unknown=unknown)
        if self.class_names is not None and len(self.class_names) != self.num_classes:
            raise ValueError(
                f"`class_names` must name {self.num_classes} classes. "
                f"Received: {len(self.class_names)} names"
            )

    @property
    def name(self) -> str:
        """The two domains in one phrase, `source → target`; of one table its name."""
        return self.source if self.nuisances else f"{self.source} → {self.target}"

    @property
    def num_sources(self) -> int:
        """Number of domains that the source is made of."""
        return 1 if self.source_domain is None else int(self.source_domain.max()) + 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.source_train[0].shape[1:])

    def batches(self, batch_size: int, seed: int | None = None, **options: Any) -> Pairs:
        """Returns endless training pairs of `batch_size` examples of each domain.

        With nuisances they are batches `(inputs, {"label": labels, ...})` of one table, with the
        values of each nuisance by its name.

        Args:
            batch_size: See `pair`, as for `seed`.
            seed: Seed of the order.
            **options: `shuffle`, `process_id` and `num_processes` of `pair`.
        """
        pairs = pair(
            self.source_train,
            self.target_train,
            batch_size,
            target_labelled=self.target_labelled,
            source_domain=self.source_domain,
            balanced=self.balanced,
            repeat=True,
            seed=seed,
            **options,
        )
        if self.nuisances:
            del pairs.domains["target"]
            table: Any = pairs.domains["source"]
            labels = {"label": self.source_train[1], **self.nuisances.train}  # NaN is not checked
            table.examples.columns["labels"] = labels
        return pairs

    def test_batches(self, domain: str, batch_size: int) -> OrderedBatches:
        """Returns the test set of a domain in order, as batches of inputs and labels.

        If its labels are unknown, the batches are `(inputs,)`.

        Args:
            domain: `"source"` or `"target"`.
            batch_size: Examples in a batch; the last may be smaller.
        """
        inputs, labels = {"source": self.source_test, "target": self.target_test}[domain]
        return OrderedBatches(Examples(_columns(inputs, labels), f"{domain} test set"), batch_size)

    def oracle(self) -> "DomainPair":
        """Returns the pair that trains on the target's labels: an upper bound, not a method.

        The target takes the source's place; examples without a known label are left out.

        Raises:
            ValueError: If no labels of `target_train` or of `target_test` are known.
        """
        labels = self.target_train_labels
        if labels is None or not (labels >= 0).any() or self.target_test[1] is None:
            raise ValueError(
                f"The oracle needs the target's labels. Received: none of {self.target}"
            )
        known = np.flatnonzero(labels >= 0)
        inputs = self.target_train if len(known) == len(labels) else self.target_train[known]
        return dataclasses.replace(
            self,
            source=f"{self.target} (labelled)",
            source_train=(inputs, labels[known]),
            source_test=self.target_test,
            target_labelled=None,
            source_domain=None,
        )

    def map_inputs(self, function: Callable[[Any], Any]) -> "DomainPair":
        """Returns the pair with `function` of all inputs in their place, part by part.

        Args:
            function: From inputs `(n, ...)` to an array of `n` rows, such as the `predict` of a
                frozen network. It is called for every part.
        """
        changed = {
            name: (function(part[0]), part[1])
            for name in ("source_train", "source_test", "target_test", "target_labelled")
            if (part := getattr(self, name)) is not None
        }
        return dataclasses.replace(self, target_train=function(self.target_train), **changed)

    def with_target_labelled(self, per_class: int, seed: int = 0) -> "DomainPair":
        """Returns the pair in which training may use the labels of a few target examples.

        Args:
            per_class: Number of examples of each class, at least 1; they stay in `target_train`.
            seed: Seed of the draw.

        Raises:
            ValueError: If `target_train_labels` are not given or hold too few of a class.
        """
        labels = self.target_train_labels
        if labels is None:
            raise ValueError(f"`target_labelled` needs labels. Received: none of {self.target}")
        counts = np.bincount(labels[labels >= 0], minlength=self.num_classes)
        fewest = int(counts[counts > 0].min(initial=len(labels)))
        check_integer("per_class", per_class, 1, fewest, why=f"as the target has {counts.tolist()}")
        rng = np.random.default_rng(seed)
        drawn = [
            rng.choice(np.flatnonzero(labels == label), per_class, replace=False)
            for label in np.flatnonzero(counts)
        ]
        rows = np.sort(np.concatenate(drawn))
        chosen = self.target_train[rows], labels[rows].astype(np.int64)
        return dataclasses.replace(self, target_labelled=chosen)


def _columns(inputs, labels):
    return {"inputs": inputs} if labels is None else {"inputs": inputs, "labels": labels}
