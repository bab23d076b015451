"""What diagnostics ask of data and features beyond the kind of model."""

from dann.adaptation import AdversarialModel


class DataError(ValueError):
    """A diagnostic fits the model but not the data, such as labels that are not classes."""


def check_flat(model: AdversarialModel) -> None:
    """Raises a `DataError` if the features of a model are maps `(batch, ..., num_features)`."""
    shape = model.feature_shape
    if len(shape) > 2:
        raise DataError(
            "This diagnostic compares examples by flat features `(batch, num_features)`. For maps "
            "use `reversal_certificate`, `way_parity`, `gradient_conflict` or `game`. Received: "
            f"features of shape {shape}"
        )
