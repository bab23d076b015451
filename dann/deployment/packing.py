"""Writes a Keras classifier as a packed file.

`docs/deployment.md` documents the layout, and `runtime.py` reads the file.
"""

import json
import math
import os
import pathlib
from collections.abc import Sequence

import keras
import numpy as np
import pandas

from dann.adaptation import AdversarialModel
from dann.adaptation.networks import check_network
from dann.deployment.folding import Program
from dann.deployment.kernel_rules import as_array
from dann.deployment.layer_rules import translate_call
from dann.deployment.runtime import HEADER, MAGIC, VERSION, Step, compute_digest
from dann.deployment.tracing import Call, PackError, trace_calls


def pack(classifier: keras.Model, path: str | os.PathLike) -> int:
    """Writes a classifier as a packed file, which stores binary kernels as one bit per weight.

    Bias, batch normalization and ReLU between the sums of a binary layer and the next sign become
    one integer threshold per channel, which is found by calling the layers themselves. Layers that
    are not binary, usually the first and the last, stay in float32. The page Deployment documents
    the layout of the file.

    The packed file computes the same outputs as the classifier. Where the float32 layers before
    them return equal values, the binary layers compute equal signs and sums, and the logits are
    equal to the last bit. Sums of floats may differ in their last digits, because programs add in
    different orders. NaN is an exception: it cannot be stored as a bit and its sign counts as -1,
    so a packed file may return finite logits where the classifier returns NaN.

    Args:
        classifier: Model with one input and one output in float32, or a method of
            `dann.adaptation`, whose `classifier` is packed.
        path: Path of the file. An existing file is replaced.

    Returns:
        The size of the file in bytes.

    Raises:
        PackError: If a layer cannot be packed; the error names the layer.

    Example:

    >>> import keras, numpy as np, tempfile
    >>> from dann.deployment import load, pack
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     size = pack(model, f"{folder}/model.dann")
    ...     packed = load(f"{folder}/model.dann")
    >>> packed.predict(np.zeros((3, 4))).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    return pathlib.Path(path).write_bytes(encode(build_program(classifier)))


def build_program(classifier: keras.Model) -> list[Step]:
    """Returns the steps of a classifier, as `pack` writes them."""
    network = get_network(classifier)
    inputs, outputs = get_inputs(network), []
    program = Program([tensor.shape[1:] for tensor in inputs], translate_call)
    dtypes = [tensor.dtype for tensor in inputs]
    if dtypes == ["float32"]:
        outputs = trace_calls(program, network.call, inputs, [0], "")
    if len(outputs) != 1:
        received = f"{len(outputs)} outputs" if outputs else f"inputs of {', '.join(dtypes)}"
        raise PackError(
            "Expected a classifier with one input and one output in float32, because Keras rounds "
            f"or truncates others. Received: {network.name} with {received}. Pass "
            "`keras.Model(inputs, outputs)`"
        )
    return program.select_steps(outputs)


def get_inputs(network: keras.Model) -> list[keras.KerasTensor]:
    """Returns the symbolic inputs of a model.

    Raises:
        TypeError: If it is not a Keras model or layer.
        PackError: If the model is not built.
    """
    inputs = getattr(check_network("classifier", network), "inputs", None)
    if inputs is None:  # a subclassed model, or one that is not built
        shape = (network.get_build_config() or {}).get("input_shape")
        inputs = [keras.KerasTensor(shape)] if isinstance(shape, tuple | list) else []
    if not inputs:
        raise PackError(
            f"Expected a model with known inputs. Received: {network.name}, which has none. Call "
            "it on a batch, or pass `keras.Model(inputs, outputs)`"
        )
    return inputs


def summarize(classifier: keras.Model) -> pandas.DataFrame:
    """Summarizes the size and the work of each layer in the packed file of a classifier.

    In the file, batch normalization before a sign is one threshold and one bit per channel. Layers
    that do nothing in inference are not part of the file. Layers that cannot be packed have a row
    with a `reason`.

    Args:
        classifier: A built model, or a method of `dann.adaptation`, whose `classifier` is
            summarized.

    Returns:
        One row per layer. The index is its name, preceded by the names of the models that contain
        it. The columns are:

        - `output_shape`: shape of the output, without the batch
        - `bits`, `numbers`: number of weights that are stored in 1 bit and in 32 bits
        - `bytes`: size of both; the file pads rows of bits to whole words
        - `binary_macs`: multiply-accumulates of signs with signs, for one input, over all calls
        - `float_macs`: all other multiply-accumulates; both are 0 for layers that cannot be packed
        - `reason`: the requirement of `pack` that the layer does not meet, or `""`

    Raises:
        PackError: If the model is not built.

    Example:

    >>> import keras
    >>> from dann.deployment import summarize
    >>> from dann.layers import BinaryDense
    >>> layers = [keras.Input((64,)), BinaryDense(2, use_bias=False, name="last")]
    >>> table = summarize(keras.Sequential(layers)).T["last"]
    >>> int(table.bits), int(table.bytes), int(table.binary_macs)
    (128, 16, 128)
    """
    network = get_network(classifier)
    inputs, stored, rows, reasons = get_inputs(network), set(), [], {}

    def translate(call):
        try:
            return translate_call(call)
        except PackError as error:
            reasons[call.name] = str(error)
            weights = [as_array(weight).ravel() for weight in getattr(call.layer, "weights", [])]
            arrays = {"weights": np.concatenate(weights)} if weights else {}
            # In reverse, because the table contains the shape of the last step.
            steps = [call.add("unknown", shape=shape, **arrays) for shape in call.shapes[::-1]]
            return steps[::-1]

    program = Program([tensor.shape[1:] for tensor in inputs], translate)
    arguments = inputs if len(inputs) == 1 else [network.input]
    call = Call(program, "", network, range(len(inputs)), [()], arguments, {})
    for step in program.select_steps(translate(call)):
        # The weights of a layer that is called twice are stored once.
        contents = {(step.layer, array.tobytes()): array for array in step.arrays.values()}
        arrays = [array for content, array in contents.items() if content not in stored]
        stored.update(contents)
        bits = sum(array.size for array in arrays if array.itemsize == 1)
        numbers = sum(array.size for array in arrays if array.itemsize > 1)
        binary, fan_in = step.op.startswith("binary"), step.attributes.get("fan_in", 0)
        macs = math.prod(step.shape) * fan_in if fan_in else 0  # sizes may be None without
        row = tuple(step.shape), bits, numbers, -(-bits // 8) + 4 * numbers
        if step.op != "input":
            rows.append((step.layer, *row, macs * binary, macs * (not binary)))
    names = ["output_shape", "bits", "numbers", "bytes", "binary_macs", "float_macs"]
    table = pandas.DataFrame(rows, columns=["layer", *names]).groupby("layer", sort=False)
    table = table.agg({"output_shape": "last", **dict.fromkeys(names[1:], "sum")})
    table = table.assign(reason=[reasons.get(layer, "") for layer in table.index])
    return table.rename(index={"": network.name})  # a model whose layers are unknown


def get_network(classifier: keras.Model) -> keras.Model:
    """Returns the `classifier` of a method of `dann.adaptation`, and any other model unchanged."""
    return classifier.classifier if isinstance(classifier, AdversarialModel) else classifier


def encode(steps: Sequence[Step]) -> bytes:
    """Returns the bytes of a packed file: header, directory and arrays.

    The arrays of a layer are stored once, even if the layer is called twice.
    """
    offsets, entries, size = {}, [], 0
    for step in steps:
        references = {}
        for name, array in step.arrays.items():
            if array.dtype == "int8":  # a kernel of signs: one row of bits per unit
                name, array = "kernel_bits", pack_bits(array.reshape(-1, array.shape[-1]).T > 0)
            elif array.dtype == bool:
                array = pack_bits(array)
            content = (step.layer, array.tobytes())
            if content not in offsets:
                offsets[content] = size
                size += array.nbytes + -array.nbytes % 8
            reference = {"type": array.dtype.str, "shape": array.shape, "offset": offsets[content]}
            references[name] = reference
        entries.append({**vars(step), "arrays": references})
    # Directory and arrays are padded to multiples of 8 bytes, so that all arrays are aligned.
    directory = json.dumps({"steps": entries}, separators=(",", ":")).encode()
    directory += b" " * (-len(directory) % 8)
    payload = directory + b"".join(data + bytes(-len(data) % 8) for _, data in offsets)
    header = HEADER.pack(MAGIC, VERSION, len(directory), HEADER.size + len(payload), b"")
    return header[:32] + compute_digest(header + payload) + payload


def pack_bits(positive: np.ndarray) -> np.ndarray:
    """Packs booleans `(..., size)` along the last axis into 64-bit words `(..., words)`.

    `dann.deployment.runtime.unpack_bits` documents the order. Unused bits of the last word are 0.
    """
    padding = [(0, 0)] * (positive.ndim - 1) + [(0, -positive.shape[-1] % 64)]
    octets = np.packbits(np.pad(positive, padding), axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view("<u8")
