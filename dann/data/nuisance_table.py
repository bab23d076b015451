"""One labeled table with nuisances."""

import dataclasses
from typing import Any

from dann.data.domain_pair import DomainPair
from dann.data.nuisances import Nuisances
from dann.data.pairs import Pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class NuisanceTable(DomainPair):
    """A labeled table with nuisances, for `dann.Invariant`.

    The `source_*` fields contain the table. The `target_*` fields contain the same inputs without
    labels; `target_test` contains the new examples if there are any.

    Args:
        nuisances: The nuisances of the source's training and test examples.
        **fields: See `dann.data.DomainPair`.
    """

    nuisances: Nuisances = dataclasses.field()  # required, unlike the base class's attribute

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.source

    def batches(
        self, batch_size: int | None = None, seed: int | None = None, **options: Any
    ) -> Pairs:
        """Returns endless training batches `(inputs, {"label": labels, ...})`.

        The dict of labels also contains the values of each nuisance by name.

        Args:
            batch_size: Number of examples per batch. Defaults to `None`: 64, or all examples of a
                smaller table.
            seed: See `dann.data.pair`.
            **options: `shuffle`, `process_id` and `num_processes` of `dann.data.pair`.
        """
        pairs = super().batches(batch_size, seed, **options)
        table: Any = pairs.domains["source"]
        # Replaced after the checks of `Examples`, because missing numbers are NaN.
        labels = {"label": self.source_train[1], **self.nuisances.train}
        table.examples.columns["labels"] = labels
        return Pairs({"source": table}, pairs.batch_size, None, pairs.shard)
