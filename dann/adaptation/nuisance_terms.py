"""What a nuisance head descends and logs, and what is counted of its nuisance."""

from typing import Any

from keras import ops

from dann.adaptation.missing_labels import LEAST, flat


def class_terms(
    counts: Any, values: Any, known: Any, weights: Any, logits: Any, balanced: bool
) -> tuple[dict[str, Any], Any]:
    """Returns `loss`, `accuracy` and `chance` of `K` values, scalars, and the new counts.

    Args:
        counts: The examples of each value so far `(K,)`.
        values: Numbers from 0 to `K - 1`, `(batch,)`; another one makes the terms NaN, because a
            compiled step cannot raise an error.
        known: 1 where the value is known, else 0, `(batch,)`.
        weights: Weights of the examples `(batch,)`.
        logits: Outputs of the head `(batch, K)`.
        balanced: Whether rare values count as much as the others.
    """
    values = ops.cast(values, "int32")
    members = ops.one_hot(values, logits.shape[-1], dtype="float32")
    counts = counts + ops.matmul(known, members)
    share = counts
    if balanced:
        met = ops.cast(counts > 0, "float32")
        rarity = ops.sum(counts) / (ops.maximum(ops.sum(met), 1) * ops.maximum(counts, 1))
        weights, share = weights * ops.matmul(members, rarity), met
    weights = ops.where(values < logits.shape[-1], weights, float("nan"))
    losses = ops.categorical_crossentropy(members, logits, from_logits=True)
    found = ops.cast(ops.argmax(logits, axis=-1), "int32")  # of equal logits the first
    right = ops.cast(ops.equal(found, values), "float32")
    terms = {
        "loss": ops.mean(weights * losses),
        "accuracy": ops.sum(weights * right) / ops.maximum(ops.sum(weights), LEAST),
        "chance": ops.max(share) / ops.maximum(ops.sum(share), 1),
    }
    return terms, counts


def number_terms(
    seen: Any, values: Any, known: Any, weights: Any, outputs: Any
) -> tuple[dict[str, Any], Any]:
    """Returns the `loss` of a number, a scalar, and what is seen now.

    Args:
        seen: Count, mean, and sum of squares about it, of the values so far `(3,)`.
        values: Numbers `(batch,)`.
        known: As in `class_terms`.
        weights: As in `class_terms`.
        outputs: Outputs of the head `(batch, 1)`.
    """
    values = flat(values)
    count, mean, squares = (seen[index] for index in range(3))
    added = ops.sum(known)
    total = ops.maximum(count + added, 1)
    here = ops.sum(known * values) / ops.maximum(added, 1)
    # Not `+=`, which torch does in place, on the variable.
    within = ops.sum(known * ops.square(values - here))
    squares = squares + within + ops.square(here - mean) * count * added / total
    mean = mean + (here - mean) * added / total
    scaled = (values - mean) / ops.sqrt(ops.maximum(squares / total, LEAST))
    loss = ops.mean(weights * ops.square(flat(outputs) - scaled))
    return {"loss": loss}, ops.stack([count + added, mean, squares])
