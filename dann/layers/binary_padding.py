"""Padding by a value that a binary convolution can hold."""

from typing import Any

from keras import ops

from dann.layers.binary_layer import BinaryLayer


class PaddedBinaryLayer(BinaryLayer):
    """A binary convolution whose `"same"` and `"causal"` padding is -1, 0 or +1."""

    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation_rate: tuple[int, ...]
    padding: str
    data_format: str

    def __init__(self, *args, pad_values: float = 0.0, **kwargs):
        super().__init__(*args, **kwargs)
        if isinstance(pad_values, bool) or pad_values not in (-1, 0, 1):
            raise ValueError(
                f"Argument `pad_values` must be -1, 0 or +1. Received: pad_values={pad_values!r}"
            )
        if pad_values and self.padding == "valid":
            raise ValueError(
                "Argument `pad_values` needs padding: give `padding='same'` too. "
                f"Received: pad_values={pad_values} with padding='valid'"
            )
        self.pad_values = float(pad_values)

    def build(self, input_shape):
        self._widths(input_shape)  # a symbolic call asks for no more than the output's shape
        super().build(input_shape)

    def padded(self, inputs: Any) -> tuple[Any, dict[str, Any]]:
        """Returns the inputs, padded where Keras would not, and what is left to `keras.ops`."""
        geometry = {
            "strides": self.strides,
            "padding": self.padding,
            "dilation_rate": self.dilation_rate,
            "data_format": self.data_format,
        }
        widths = self._widths(inputs.shape)
        if widths is None:
            return inputs, geometry
        padded = ops.pad(inputs, widths, constant_values=self.pad_values)
        return padded, {**geometry, "padding": "valid"}

    def _widths(self, shape):
        """What to pad each axis with, or `None` where Keras pads."""
        if self.padding == "valid" or (self.padding == "same" and not self.pad_values):
            return None
        first = 1 if self.data_format == "channels_last" else 2
        widths = [(0, 0)] * len(shape)
        for place, length in enumerate(shape[first : first + len(self.kernel_size)]):
            total = self._total_padding(place, length)
            left = total if self.padding == "causal" else total // 2
            widths[first + place] = (left, total - left)
        return widths

    def _total_padding(self, place, length):
        reach = (self.kernel_size[place] - 1) * self.dilation_rate[place]
        stride = self.strides[place]
        if stride == 1 or self.padding == "causal":
            return reach
        if length is None:
            raise ValueError(
                "Padding with `pad_values` and strides above 1 needs fixed lengths of the inputs. "
                f"Received: strides={self.strides} with a length of None"
            )
        # ceil(length / stride) outputs, as TensorFlow's SAME gives
        return max((-(-length // stride) - 1) * stride + reach + 1 - length, 0)

    def get_config(self):
        return {**super().get_config(), "pad_values": self.pad_values}
