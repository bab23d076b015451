"""Losses in NumPy, and their gradients by finite differences."""

import numpy as np


def sign(values):
    """Returns the sign, which is +1 at 0."""
    return np.where(values >= 0, 1.0, -1.0)


def softmax(logits):
    """Returns the softmax over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def jacobian_by_differences(function, point, width=1e-5):
    """Returns the Jacobian of a function of a vector, by central differences in float64."""
    moves = width * np.eye(len(point))
    columns = [(function(point + move) - function(point - move)) / (2 * width) for move in moves]
    return np.stack(columns, axis=-1)


def central_differences(function, arrays, width=1e-6):
    """Returns the gradient of the scalar `function(*arrays)` with respect to each array."""
    gradients = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            center = array[index]
            array[index] = center + width
            above = function(*arrays)
            array[index] = center - width
            gradient[index] = (above - function(*arrays)) / (2 * width)
            array[index] = center
        gradients.append(gradient)
    return gradients
