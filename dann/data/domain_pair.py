"""Two domains, each with a training set and a test set."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dann.checks import check_class_range, check_integer
from dann.data.examples import Examples, OrderedBatches, check_frame_columns, check_matching_inputs
from dann.data.pair import pair
from dann.data.pairs import Pairs
from dann.data.splits import UNKNOWN, draw_per_class, identify_inputs, is_known
from dann.data.standardizer import Standardizer


@dataclasses.dataclass(frozen=True, repr=False)
class DomainPair:
    """A labeled source and an unlabeled target, with a test set of each.

    Training reads `source_train`, the inputs `target_train` and, if present, `target_labeled`. The
    labels in `target_test` and `target_train_labels` are for oracles: only the measurement of
    accuracies and the pair that `oracle()` returns use them. They never reach adaptation or model
    selection.

    Inputs are arrays, or array-likes that `dann.data.pair` accepts.

    Args:
        source: Name of the source domain.
        target: Name of the target domain.
        source_train: Inputs `(n, *input_shape)` and labels `(n,)`: integers; numbers in regression.
        source_test: Inputs and labels of the source's test set.
        target_train: Inputs `(m, *input_shape)`.
        target_test: Inputs and labels of target examples that are not in `target_train`; the labels
            are `None` if they are unknown, and then no target accuracy is reported.
        num_classes: Number of classes that both domains share; 1 for regression.
        class_names: Name of each class, by label. Defaults to `None`.
        target_train_labels: Labels of `target_train`, `(m,)`, for the oracle only; -1 where
            unknown, NaN in regression. Defaults to `None`.
        target_labeled: Inputs and labels of the few target examples whose labels training may use
            (semi-supervised). Defaults to `None`.
        balanced: Whether training batches contain equally many examples of each source class.
            Defaults to `False`.
        source_domain: The domain of each source training example, integers `(n,)`, if the source
            consists of several domains; see `dann.data.join_sources`. Defaults to `None`.
        target_names: File, identifier or row number of each example of `target_train` and of
            `target_test`, for a table of predictions. Defaults to `None`: positions in the arrays.
        target_rows: Row number of each of these examples in its file or array. The table of
            predictions is in this order. Defaults to `None`: training examples come first.
        standardizer: The standardizer of the inputs; see `standardize`. Defaults to `None`.
        columns: Column names, if the inputs were data frames. A model that is fitted to the pair
            refuses frames with other columns. Defaults to no names.
        encoding: Frame that describes each input; see `dann.data.csv_table`. Defaults to `None`.

    Raises:
        ValueError: If a set is empty, shapes or types differ, or a label is out of range.
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
    target_labeled: tuple[Any, np.ndarray] | None = None
    balanced: bool = False
    source_domain: np.ndarray | None = None
    target_names: tuple[Any, Any] | None = None
    target_rows: tuple[np.ndarray, np.ndarray] | None = None
    standardizer: Standardizer | None = None
    columns: Sequence[str] = ()
    encoding: Any = None
    nuisances = None  # see `NuisanceTable`

    def __post_init__(self):
        target_labels = None if self.is_regression else self.target_train_labels  # NaN if unknown
        columns = {
            "source train set": _pack(*self.source_train),
            "source test set": _pack(*self.source_test),
            "target train set": _pack(self.target_train, target_labels),
            "target test set": _pack(*self.target_test),
            "labeled target set": _pack(*self.target_labeled or self.source_test),
        }
        check_integer("num_classes", self.num_classes, 1)
        sets = {name: Examples(values, name) for name, values in columns.items()}
        for name, part in sets.items():
            check_matching_inputs(sets["source train set"].input_spec(), part.input_spec(), name)
            labels = part.columns.get("labels")
            if labels is not None and not self.is_regression:
                unknown = UNKNOWN if name == "target train set" else None
                subject = f"labels of the {name}"
                check_class_range(subject, labels, self.num_classes, unknown=unknown)
        if self.class_names is not None and len(self.class_names) != self.num_classes:
            raise ValueError(
                f"Expected `class_names` to contain {self.num_classes} names, one per class. "
                f"Received: {len(self.class_names)} names"
            )

    def __repr__(self):
        counts = len(self.source_train[0]), len(self.target_train)
        return f"{type(self).__name__}({self.name}, {counts[0]} and {counts[1]} training examples)"

    @property
    def name(self) -> str:
        """Names of the two domains, `source → target`."""
        return f"{self.source} → {self.target}"

    @property
    def is_regression(self) -> bool:
        """`True` if labels are numbers instead of classes."""
        return self.num_classes == 1

    @property
    def num_sources(self) -> int:
        """Number of domains that the source consists of."""
        return 1 if self.source_domain is None else int(self.source_domain.max()) + 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.source_train[0].shape[1:])

    @property
    def has_images(self) -> bool:
        """`True` if an input has the axes of an image, `(height, width, channels)`."""
        return len(self.input_shape) == 3

    @property
    def identity(self) -> dict[str, list[float]]:
        """Number of examples, and a weighted sum over 64 examples, of each training set.

        The numbers change if the data or their split change. Compare the sums with a tolerance,
        because another computer may round inputs differently.
        """
        inputs = {"source": self.source_train[0], "target": self.target_train}
        return {domain: identify_inputs(values) for domain, values in inputs.items()}

    def batches(
        self, batch_size: int | None = None, seed: int | None = None, **options: Any
    ) -> Pairs:
        """Returns endless training pairs.

        Args:
            batch_size: Number of examples of each domain per batch. Defaults to `None`: 64, or all
                examples of a smaller source.
            seed: See `dann.data.pair`.
            **options: `shuffle`, `process_id` and `num_processes` of `dann.data.pair`.
        """
        pairs = pair(
            self.source_train,
            self.target_train,
            batch_size,
            target_labeled=self.target_labeled,
            source_domain=self.source_domain,
            balanced=self.balanced,
            repeat=True,
            seed=seed,
            **options,
        )
        pairs.columns = self.columns or pairs.columns
        return pairs

    def test_batches(self, domain: str, batch_size: int) -> OrderedBatches:
        """Returns batches `(inputs, labels)` of the test set of a domain, in order.

        If the labels are unknown, batches are `(inputs,)`.

        Args:
            domain: `"source"` or `"target"`.
            batch_size: Number of examples per batch; the last batch may be smaller.
        """
        inputs, labels = {"source": self.source_test, "target": self.target_test}[domain]
        examples = Examples(_pack(inputs, labels), f"{domain} test set")
        batches = OrderedBatches(examples, batch_size)
        batches.columns = self.columns or examples.column_names
        return batches

    def oracle(self) -> "DomainPair":
        """Returns the pair that trains on the target's labels, as an upper bound of the accuracy.

        The labeled target replaces the source. Examples with unknown labels are dropped.

        Raises:
            ValueError: If no labels of `target_train` or of `target_test` are known.
        """
        labels = self.target_train_labels
        if labels is None or not is_known(labels).any() or self.target_test[1] is None:
            raise ValueError(
                f"Expected labels of the target for the oracle. Received: none of {self.target}"
            )
        rows = np.flatnonzero(is_known(labels))
        inputs = self.target_train if len(rows) == len(labels) else self.target_train[rows]
        return dataclasses.replace(
            self,
            source=f"{self.target} (labeled)",
            source_train=(inputs, labels[rows]),
            source_test=self.target_test,
            target_labeled=None,
            source_domain=None,
        )

    def map_inputs(self, function: Callable[[Any], Any]) -> "DomainPair":
        """Returns the pair with all inputs replaced by the outputs of a function.

        Args:
            function: Maps inputs `(n, ...)` to an array of `n` rows, such as the `predict` of a
                frozen network. It is called once per set of examples.
        """
        return self._transform(function, function, columns=(), encoding=None)

    def standardize(self, mode: str) -> "DomainPair":
        """Returns the pair with inputs of mean 0 and variance 1, per column or channel.

        The `standardizer` of the result standardizes new examples with the same statistics. Several
        sources count as one domain; standardize each pair before `join_sources` to treat them
        separately.

        Args:
            mode: `"each"`, `"source"` or `"both"`; see `dann.data.Standardizer`.

        Raises:
            ValueError: If the mode is unknown, inputs are strings, or the pair is standardized
                already.

        Example:

        >>> import numpy as np
        >>> from dann.data import arrays
        >>> x, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
        >>> domains = arrays((x, y), 10 * x).standardize("each")
        >>> domains.target_train.std(axis=0).round(4).tolist()
        [1.0, 1.0, 1.0]
        >>> domains.standardizer.transform(10 * x[:2]).shape  # new examples of the target
        (2, 3)
        """
        standardizer = Standardizer(mode).fit(self.source_train[0], self.target_train)
        standardizer.columns = standardizer.columns or list(self.columns)
        return self.apply_standardizer(standardizer)

    def apply_standardizer(self, standardizer: Standardizer) -> "DomainPair":
        """Returns the pair with inputs that are standardized with existing statistics.

        Args:
            standardizer: A fitted standardizer, for example of an earlier run.

        Raises:
            ValueError: If inputs have other columns than the standardizer, or the pair is
                standardized already.
        """
        if self.standardizer is not None:
            raise ValueError(
                "Expected a pair that is not standardized. Received: a pair with "
                f"standardize={self.standardizer.mode!r}"
            )
        check_frame_columns(self, standardizer.columns)
        source = functools.partial(standardizer.transform, domain="source")
        return self._transform(source, standardizer.transform, standardizer=standardizer)

    def _transform(self, source, target, **fields):
        """Returns the pair with other fields, and inputs mapped by one function per domain."""
        functions = {"source_train": source, "source_test": source, "target_test": target}
        functions |= {"target_labeled": target}
        examples = {
            name: (function(columns[0]), columns[1])
            for name, function in functions.items()
            if (columns := getattr(self, name)) is not None
        }
        return dataclasses.replace(
            self, target_train=target(self.target_train), **examples, **fields
        )

    def with_target_labeled(self, per_class: int, seed: int = 0) -> "DomainPair":
        """Returns the pair in which training may use the labels of a few target examples.

        Args:
            per_class: Number of examples per class, at least 1. They also stay in `target_train`.
            seed: Seed of the draw.

        Raises:
            ValueError: If there are no `target_train_labels`, or too few examples of a class.
        """
        labels = self.target_train_labels
        if labels is None or self.is_regression:
            raise ValueError(
                "Expected class labels of the target's training examples, such as class folders or "
                f"a column of labels, for `target_labeled`. Received: none of {self.target}"
            )
        rows = draw_per_class(labels, per_class, seed)
        examples = self.target_train[rows], labels[rows].astype(np.int64)
        return dataclasses.replace(self, target_labeled=examples)


def _pack(inputs, labels):
    return {"inputs": inputs} if labels is None else {"inputs": inputs, "labels": labels}
