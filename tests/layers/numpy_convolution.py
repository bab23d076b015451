"""Convolutions as their definition says, in plain loops: the judge of the layers."""

import itertools

import numpy as np


def same_widths(length, size, stride, dilation):
    """Padding so that there are ceil(length / stride) outputs, the odd one at the end."""
    outputs = -(-length // stride)
    total = max((outputs - 1) * stride + (size - 1) * dilation + 1 - length, 0)
    return total // 2, total - total // 2


def pad(inputs, sizes, strides, dilations, padding, value):
    widths = [(0, 0)]
    for place, size in enumerate(sizes):
        if padding == "valid":
            widths.append((0, 0))
        elif padding == "causal":
            widths.append(((size - 1) * dilations[place], 0))
        else:
            length = inputs.shape[1 + place]
            widths.append(same_widths(length, size, strides[place], dilations[place]))
    return np.pad(inputs, [*widths, (0, 0)], constant_values=value)


def convolution(inputs, kernel, strides=1, dilations=1, padding="valid", value=0.0, groups=1):
    """Of `(batch, *lengths, channels)` with `(*sizes, channels // groups, filters)`."""
    sizes = kernel.shape[:-2]
    strides, dilations = ([one] * len(sizes) for one in (strides, dilations))
    padded = pad(inputs, sizes, strides, dilations, padding, value)
    lengths = [
        (length - (size - 1) * dilation - 1) // stride + 1
        for length, size, stride, dilation in zip(
            padded.shape[1:-1], sizes, strides, dilations, strict=True
        )
    ]
    filters = kernel.shape[-1]
    outputs = np.zeros((len(inputs), *lengths, filters))
    for at in itertools.product(*map(range, lengths)):
        for tap in itertools.product(*map(range, sizes)):
            place = [a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True)]
            seen = padded[(slice(None), *place)]
            for group, channels in enumerate(np.split(seen, groups, axis=-1)):
                own = slice(group * filters // groups, (group + 1) * filters // groups)
                outputs[(slice(None), *at, own)] += channels @ kernel[tap][:, own]
    return outputs


def depthwise_convolution(inputs, kernel, **arguments):
    """With a kernel `(*sizes, channels, multiplier)`: each channel by itself."""
    return np.concatenate(
        [
            convolution(inputs[..., [place]], kernel[..., [place], :], **arguments)
            for place in range(inputs.shape[-1])
        ],
        axis=-1,
    )


def transposed_convolution(inputs, kernel, strides=1):
    """With a kernel `(*sizes, filters, channels)`: each input spreads its kernel."""
    lengths, sizes = inputs.shape[1:-1], kernel.shape[:-2]
    shape = [(length - 1) * strides + size for length, size in zip(lengths, sizes, strict=True)]
    outputs = np.zeros((len(inputs), *shape, kernel.shape[-2]))
    for at in itertools.product(*map(range, lengths)):
        for tap in itertools.product(*map(range, sizes)):
            place = [a * strides + t for a, t in zip(at, tap, strict=True)]
            outputs[(slice(None), *place)] += inputs[(slice(None), *at)] @ kernel[tap].T
    return outputs


def gradients_of_bilinear(function, inputs, kernel, upstream):
    """Of `sum(upstream * function(inputs, kernel))`, by one basis vector after the other."""

    def along(array, of):
        slopes = np.zeros(array.size)
        for place in range(array.size):
            basis = np.zeros(array.size)
            basis[place] = 1
            slopes[place] = np.sum(upstream * of(basis.reshape(array.shape)))
        return slopes.reshape(array.shape)

    nothing = np.zeros_like(inputs)
    of_inputs = along(inputs, lambda basis: function(basis, kernel) - function(nothing, kernel))
    return of_inputs, along(kernel, lambda basis: function(inputs, basis))
