"""Convolutions by their definitions, in plain loops."""

import itertools

import numpy as np


def same_widths(length, size, stride, dilation):
    """Returns the padding for ceil(length / stride) outputs; an odd one goes to the end."""
    outputs = -(-length // stride)
    total = max((outputs - 1) * stride + (size - 1) * dilation + 1 - length, 0)
    return total // 2, total - total // 2


def pad(inputs, sizes, strides, dilations, padding, value):
    widths = [(0, 0)]
    for axis, size in enumerate(sizes):
        if padding == "valid":
            widths.append((0, 0))
        elif padding == "causal":
            widths.append(((size - 1) * dilations[axis], 0))
        else:
            length = inputs.shape[1 + axis]
            widths.append(same_widths(length, size, strides[axis], dilations[axis]))
    return np.pad(inputs, [*widths, (0, 0)], constant_values=value)


def convolution(inputs, kernel, strides=1, dilations=1, padding="valid", value=0.0, groups=1):
    """Convolves `(batch, *lengths, channels)` with `(*sizes, channels // groups, filters)`."""
    sizes = kernel.shape[:-2]
    strides, dilations = [strides] * len(sizes), [dilations] * len(sizes)
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
            index = [a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True)]
            inputs_at_tap = padded[(slice(None), *index)]
            for group, channels in enumerate(np.split(inputs_at_tap, groups, axis=-1)):
                part = slice(group * filters // groups, (group + 1) * filters // groups)
                outputs[(slice(None), *at, part)] += channels @ kernel[tap][:, part]
    return outputs


def depthwise_convolution(inputs, kernel, **arguments):
    """Convolves each channel separately, with a kernel `(*sizes, channels, multiplier)`."""
    return np.concatenate(
        [
            convolution(inputs[..., [channel]], kernel[..., [channel], :], **arguments)
            for channel in range(inputs.shape[-1])
        ],
        axis=-1,
    )


def transposed_convolution(inputs, kernel, strides=1):
    """Adds the kernel times each input, with a kernel `(*sizes, filters, channels)`."""
    lengths, sizes = inputs.shape[1:-1], kernel.shape[:-2]
    shape = [(length - 1) * strides + size for length, size in zip(lengths, sizes, strict=True)]
    outputs = np.zeros((len(inputs), *shape, kernel.shape[-2]))
    for at in itertools.product(*map(range, lengths)):
        for tap in itertools.product(*map(range, sizes)):
            index = [a * strides + t for a, t in zip(at, tap, strict=True)]
            outputs[(slice(None), *index)] += inputs[(slice(None), *at)] @ kernel[tap].T
    return outputs


def differentiate_bilinear(function, inputs, kernel, upstream):
    """Returns both gradients of `sum(upstream * function(inputs, kernel))` by basis vectors."""

    def differentiate(linear, shape):
        basis = np.eye(np.prod(shape)).reshape(-1, *shape)
        return np.reshape([np.sum(upstream * linear(vector)) for vector in basis], shape)

    # A padding other than 0 makes the function affine in its inputs.
    offset = function(np.zeros_like(inputs), kernel)
    input_gradient = differentiate(lambda x: function(x, kernel) - offset, inputs.shape)
    return input_gradient, differentiate(lambda w: function(inputs, w), kernel.shape)
