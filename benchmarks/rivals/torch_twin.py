"""Networks and a DANN step in plain PyTorch, with the weights of Keras networks."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]


class _Rescaling(nn.Module):
    def __init__(self, scale, offset):
        super().__init__()
        self.scale, self.offset = scale, offset

    def forward(self, x):
        return x * self.scale + self.offset


class _Reversal(torch.autograd.Function):
    """Identity with a reversed gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, upstream):  # pyright: ignore[reportIncompatibleMethodOverride]
        return -upstream


class _Flatten(nn.Module):
    """Flattens feature maps in Keras order: channels last."""

    def forward(self, x):
        return x.movedim(1, -1).flatten(1)


def torch_twin(network: keras.Model) -> nn.Sequential:
    """Returns the same network in PyTorch, for channels-first images.

    Args:
        network: Sequence of layers of the classes that `dann.networks` uses.

    Raises:
        KeyError: If an activation is not supported.
        TypeError: If a layer is not supported.
    """
    parts = [part for layer in network.layers for part in _parts(layer)]
    return nn.Sequential(*parts)


def _parts(layer: Any) -> list[nn.Module]:
    """Returns the modules of a layer, with its weights."""
    layers = keras.layers
    if isinstance(layer, layers.InputLayer):
        return []
    if isinstance(layer, layers.Rescaling):
        return [_Rescaling(layer.scale, layer.offset)]
    if isinstance(layer, layers.Flatten):
        return [_Flatten()]
    if isinstance(layer, layers.ReLU):
        return [nn.ReLU()]
    if isinstance(layer, layers.MaxPooling2D):
        return [nn.MaxPool2d(layer.pool_size)]
    weights = [torch.tensor(np.asarray(weight)) for weight in layer.get_weights()]
    if isinstance(layer, layers.BatchNormalization):
        inputs: Any = layer.input
        norm_class = nn.BatchNorm2d if len(inputs.shape) == 4 else nn.BatchNorm1d
        norm = norm_class(len(weights[0]), eps=layer.epsilon, momentum=1 - layer.momentum)
        names = "weight", "bias", "running_mean", "running_var"
        norm.load_state_dict(dict(zip(names, weights, strict=True)), strict=False)
        return [norm]
    kernel: Any = weights[0]
    bias = weights[1:]
    if isinstance(layer, layers.Dense):
        twin = nn.Linear(kernel.shape[0], kernel.shape[1], bias=bool(bias))
        kernel = kernel.T
    elif isinstance(layer, layers.Conv2D):
        sizes: Any = kernel.shape[2], kernel.shape[3], layer.kernel_size
        twin = nn.Conv2d(*sizes, padding=layer.padding, bias=bool(bias))
        kernel = kernel.permute(3, 2, 0, 1)
    else:
        raise TypeError(f"Expected a layer of `dann.networks`. Received: {layer!r}")
    twin.load_state_dict({"weight": kernel, **({"bias": bias[0]} if bias else {})})
    activations = {"linear": [], "relu": [nn.ReLU()], "tanh": [nn.Tanh()]}
    return [twin, *activations[layer.activation.__name__]]


def torch_steps(
    parts: Sequence[keras.Model], arrays: Sequence[np.ndarray], batch_size: int, rate: float
) -> Callable[[], float]:
    """Returns a function that makes one pass of DANN steps and returns the last loss.

    The images are stored with channels last, the fastest of PyTorch's memory layouts.

    Args:
        parts: Backbone, label head and domain head.
        arrays: Source inputs, target inputs and source labels.
        batch_size: Examples of each domain in a step.
        rate: Learning rate of stochastic gradient descent.
    """
    backbone, label_head, domain_head = (torch_twin(part).train() for part in parts)
    weights = [w for part in (backbone, label_head, domain_head) for w in part.parameters()]
    first = [torch.tensor(np.moveaxis(x, -1, 1) if x.ndim == 4 else x) for x in arrays[:2]]
    source, target, labels = *first, torch.tensor(arrays[2]).long()
    domain = torch.arange(2).repeat_interleave(batch_size).float()[:, None]

    def step(source_rows, target_rows):
        features = backbone(torch.cat([source[source_rows], target[target_rows]]))
        logits = label_head(features[:batch_size])
        domain_logits = domain_head(_Reversal.apply(features))
        loss = functional.cross_entropy(logits, labels[source_rows])
        loss = loss + functional.binary_cross_entropy_with_logits(domain_logits, domain)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():  # PyTorch's optimizers cannot be imported after TensorFlow
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(gradient, alpha=rate)
        return float(loss.detach())

    def run():
        orders = [torch.randperm(len(part)).split(batch_size) for part in (source, target)]
        return [step(*batch) for batch in zip(*orders, strict=True)][-1]

    return run
