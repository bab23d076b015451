"""The numbers of a classifier's layers, and their table."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class LayerSummary:
    """What one layer weighs and computes.

    Args:
        name: Name of the layer, after those of the models that it is nested in.
        shape: Shape of its output, without the batch.
        precision: `"1 bit"` or `"float32"` for a kernel, `"int32"` for thresholds (their flips take
            a bit each), `""` where nothing is stored; in an estimate also `"2 bits"` and so on.
        bits: Bits that its weights need, without the rest of the last words.
        bytes: Bytes that its arrays take in the file. What the file holds once, as the weights of
            a layer that is called twice, is counted once.
        binary_macs: Multiply-accumulates of signs with signs for one input, of all its calls,
            whatever an engine computes them by; `None` if not known.
        float_macs: The others, of its kernel; scaling and shifting channels is not counted. `None`
            if not known.
    """

    name: str
    shape: tuple[int, ...]
    precision: str
    bits: int
    bytes: int
    binary_macs: int | None
    float_macs: int | None


@dataclasses.dataclass(frozen=True)
class ModelSummary:
    """The layers of a classifier as a packed file holds them, or would; `str` gives a table.

    Args:
        layers: One entry a layer, in the order of the computation. One that a threshold has taken
            in keeps its line, without bytes.
        directory: Bytes of the file's header and of its list of steps; 0 in an estimate.
        float_bytes: Bytes of all weights of the classifier in float32.
        reason: Why it cannot be packed; `None` (default) if it can.
    """

    layers: Sequence[LayerSummary]
    directory: int
    float_bytes: int
    reason: str | None = None

    @property
    def packable(self) -> bool:
        """Whether `dann.deployment.pack` takes the classifier; if not, the rest is an estimate."""
        return self.reason is None

    @property
    def bytes(self) -> int:
        """Size of the packed file; in an estimate, of the weights at their precision."""
        return self.directory + sum(layer.bytes for layer in self.layers)

    @property
    def binary_macs(self) -> int:
        """Multiply-accumulates of signs with signs for one input, as far as they are known."""
        return sum(layer.binary_macs or 0 for layer in self.layers)

    @property
    def float_macs(self) -> int:
        """The other multiply-accumulates of kernels for one input, as far as they are known."""
        return sum(layer.float_macs or 0 for layer in self.layers)

    def __str__(self) -> str:
        head = ("layer", "shape", "precision", "bits", "bytes", "binary MACs", "float MACs")
        rows = [head, *(_cells(layer) for layer in self.layers)]
        if self.packable:
            rows.append(("header and steps", "", "", "", f"{self.directory:,}", "", ""))
        bits = sum(layer.bits for layer in self.layers)
        more = " + ?" if any(layer.float_macs is None for layer in self.layers) else ""
        macs = (f"{self.binary_macs:,}{more}", f"{self.float_macs:,}{more}")
        rows.append(("total", "", "", f"{bits:,}", f"{self.bytes:,}", *macs))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place < 3 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        ratio = self.float_bytes / max(self.bytes, 1)
        whole = "file" if self.packable else "estimate"
        lines.append(f"float32 weights: {self.float_bytes:,} bytes, {ratio:.1f} times the {whole}")
        if not self.packable:
            lines.append(f"An estimate, because it cannot be packed: {self.reason}")
        return "\n".join(lines)


def _cells(layer):
    numbers = (layer.bits, layer.bytes, layer.binary_macs, layer.float_macs)
    shape = " x ".join(map(str, layer.shape))
    return (layer.name, shape, layer.precision, *map(_cell, numbers))


def _cell(number):
    return "?" if number is None else f"{number:,}" if number else ""
