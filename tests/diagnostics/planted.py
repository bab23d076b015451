"""Models with one fault each, in the problem of `shifted_classes`, and one without."""

import keras
import numpy as np
from keras import ops
from support.shifted_classes import initialize, linear_backbone, shifted_classes

from dann.adaptation import DANN
from dann.layers import BinarySign
from dann.networks import domain_head, label_head

STRENGTH = 0.7

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    NEGATIVE = "dann.tests.Negative"

    @tf.RegisterGradient(NEGATIVE)
    def _negative(op, upstream):
        return -upstream


def dann(cls=DANN, strength=STRENGTH, backbone=None, head=None):
    """A `DANN` of 2 linear features, compiled."""
    model = cls(
        backbone or linear_backbone(),
        label_head=label_head(2, 2, hidden_units=()),
        domain_head=head or domain_head(2, hidden_units=(16,)),
        strength=strength,
    )
    model.compile(keras.optimizers.Adam(0.01, beta_1=0.5), steps_per_execution=20)
    return model


def batch(seed, size=512):
    """A batch of the problem, as `dann.data.pair` gives it."""
    source, labels, target, _ = shifted_classes(seed)
    return {"source": source[:size], "target": target[:size]}, labels[:size]


def trained(model, seed, steps):
    """Trains the model in `fit`, on batches of 64; returns it."""
    x, y = batch(seed)
    rng = np.random.default_rng(seed)
    chosen = {name: rng.integers(len(part), size=64 * steps) for name, part in x.items()}
    pair = {name: part[chosen[name]] for name, part in x.items()}
    model.fit(pair, y[chosen["source"]], batch_size=64, shuffle=False, verbose=0)
    return model


def initialized(model, seed):
    """Draws the weights, and begins anew; returns the model."""
    initialize(model, seed)
    for variable in model.optimizer.variables:
        if variable is not model.optimizer.learning_rate:
            variable.assign(np.zeros(variable.shape))
    return model


class OtherWay(DANN):
    """Reverses as `turn` does."""

    def turn(self, features, training, reversal):
        raise NotImplementedError

    def domain_scores(self, batch, reversal, training):
        return self.domain_head(
            self.turn(batch.domain_features, training, reversal), training=training
        )


class Forgotten(OtherWay):
    def turn(self, features, training, reversal):
        return features


class Twice(OtherWay):
    def turn(self, features, training, reversal):
        once = reversal(features, training=training)
        return reversal(once, training=training)


class OneDomain(OtherWay):
    def turn(self, features, training, reversal):
        source, target = ops.split(features, 2)
        return ops.concatenate([reversal(source, training=training), target])


class Cut(OtherWay):
    def turn(self, features, training, reversal):
        return reversal(ops.stop_gradient(features), training=training)


class BehindHead(DANN):
    """The reversal turns the discriminator's gradient around too."""

    def domain_scores(self, batch, reversal, training):
        return reversal(
            self.domain_head(batch.domain_features, training=training), training=training
        )


class OneUnitSoftmax(keras.layers.Layer):
    def call(self, inputs):
        return ops.exp(inputs) / ops.sum(ops.exp(inputs), axis=-1, keepdims=True)


def saturated():
    """A binary layer behind weights so large that hardly an input lies within [-1, 1]."""
    large = keras.initializers.RandomNormal(stddev=60.0, seed=1)
    layers = keras.layers.Dense(32, kernel_initializer=large), BinarySign(name="binary")
    return dann(backbone=keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(2)]))
