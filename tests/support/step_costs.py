"""Prints what a compiled training step of DANN costs on several logical devices, as JSON.

    KERAS_BACKEND=jax python tests/support/step_costs.py resnet50 2 8
    KERAS_BACKEND=jax python tests/support/step_costs.py resnet50 4 8 2

The arguments are the network, the devices, the examples of each domain on a device, and how many
devices share the weights and see the same examples, by default 1. `flops` and `bytes_accessed` are
JAX's cost analysis of the program of one device; `collectives` are the bytes that a device receives
in each kind of collective operation of a step; `held_bytes` are the weights that it holds.
"""

import json
import math
import re
import sys

import jax
import keras
import numpy as np

import dann
from dann.networks import application_backbone, mnist_backbone
from dann.training import Distribution, start

# The result of an operation, such as `f32[32,10]{1,0}` or a tuple of them, and its kind.
COLLECTIVE = re.compile(
    r"= (.+?) (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)\("
)
ARRAY = re.compile(r"(pred|[fsu]\d+)\[([\d,]*)\]")


def network(name):
    if name == "paper":
        return mnist_backbone((28, 28, 3)), (28, 28, 3)
    shape = (224, 224, 3)
    return application_backbone(shape, "ResNet50", weights=None), shape


def compiled_step(name, batch):
    """Returns the compiled step of a model, and the model."""
    backbone, shape = network(name)
    model = dann.DANN(backbone, num_classes=10)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), jit_compile=True)
    distribution = keras.distribution.distribution()
    count = distribution.num_model_replicas * batch
    spread = distribution.get_data_layout((count,)).backend_layout
    images = jax.device_put(np.zeros((count, *shape), "uint8"), spread)
    labels = jax.device_put(np.zeros(count, "int32"), spread)
    inputs = {"source": images, "target": images}
    model.optimizer.build(model.trainable_variables)
    few = dict.fromkeys(inputs, np.zeros((2, *shape), "uint8"))
    model.compute_loss(few, np.zeros(2, "int32"), model(few, training=True))  # makes the metrics
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in group] for group in groups)
    return jax.jit(model.train_step).lower(state, (inputs, labels)).compile(), model


def bytes_of(arrays):
    """The size of the arrays in a piece of a program's text."""
    found = [
        (1 if kind == "pred" else int(kind[1:]) // 8, [int(n) for n in sizes.split(",") if n])
        for kind, sizes in ARRAY.findall(arrays)
    ]
    return sum(size * math.prod(shape) for size, shape in found)


def costs(name, devices, batch, shared=1):
    distribution = Distribution("data_parallel", devices, model_parallel=shared)
    distribution.split_processor()
    start(0, distribution=distribution)
    step, model = compiled_step(name, batch)
    received = {}
    for arrays, kind in COLLECTIVE.findall(step.as_text()):
        received[kind] = received.get(kind, 0) + bytes_of(arrays)
    return {
        "weights_bytes": sum(4 * math.prod(v.shape) for v in model.trainable_variables),
        "held_bytes": sum(v.value.addressable_shards[0].data.nbytes for v in model.weights),
        "flops": step.cost_analysis()["flops"],
        "bytes_accessed": step.cost_analysis()["bytes accessed"],
        "collectives": received,
    }


if __name__ == "__main__":
    print(json.dumps(costs(sys.argv[1], *map(int, sys.argv[2:]))))
