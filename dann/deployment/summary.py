"""The bits and the operations of a packed file, layer by layer."""

import math

import keras
import pandas

from dann.deployment.packing import program_of


def summarize(classifier: keras.Model) -> pandas.DataFrame:
    """Summarizes what the packed file of a classifier has of every layer.

    Batch normalization before a sign is a threshold and a bit a channel there, and layers that do
    nothing at inference are not in it.

    Args:
        classifier: What `dann.deployment.pack` takes.

    Returns:
        A row for each layer, by its name after those of the models that it is nested in:

        - `output_shape`: without the batch
        - `bits`, `numbers`: how many weights are stored in 1 bit, and in 32
        - `bytes`: of both; the file fills rows of bits up to whole words
        - `binary_macs`, `float_macs`: multiply-accumulates of signs with signs, and the others of
          its kernels, for one input, over all its calls

    Raises:
        PackError: If a layer cannot be packed; the error names it.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> layers = [keras.Input((64,)), BinaryDense(2, use_bias=False, name="last")]
    >>> table = summarize(keras.Sequential(layers)).T["last"]
    >>> int(table.bits), int(table.bytes), int(table.binary_macs)
    (128, 16, 128)
    """
    stored, rows = set(), []
    for step in program_of(classifier)[1:]:
        # A layer that is called twice is stored once.
        new = {(step.layer, array.tobytes()): array for array in step.arrays.values()}
        arrays = [array for key, array in new.items() if key not in stored]
        stored.update(new)
        bits = sum(array.size for array in arrays if array.itemsize == 1)
        numbers = sum(array.size for array in arrays if array.itemsize > 1)
        binary, fan_in = step.op.startswith("binary"), step.attributes.get("fan_in", 0)
        macs = math.prod(step.shape) * fan_in
        row = tuple(step.shape), bits, numbers, -(-bits // 8) + 4 * numbers
        rows.append((step.layer, *row, macs * binary, macs * (not binary)))
    names = ["output_shape", "bits", "numbers", "bytes", "binary_macs", "float_macs"]
    table = pandas.DataFrame(rows, columns=["layer", *names]).groupby("layer", sort=False)
    return table.agg({"output_shape": "last", **dict.fromkeys(names[1:], "sum")})
