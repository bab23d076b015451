"""Models for `shifted_classes`: without a fault, or with exactly one."""

import keras
import numpy as np
from keras import ops
from support.shifted_classes import initialize, linear_backbone, shifted_classes

from dann.adaptation import DANN
from dann.layers import BinarySign
from dann.networks import domain_head, label_head

STRENGTH = 0.7


def build_dann(cls=DANN, strength=STRENGTH, backbone=None, head=None):
    """A compiled `DANN` with 2 linear features."""
    model = cls(
        backbone or linear_backbone(),
        label_head=label_head(2, 2, hidden_units=()),
        domain_head=head or domain_head(2, hidden_units=(16,)),
        strength=strength,
    )
    model.compile(keras.optimizers.Adam(0.01, beta_1=0.5), steps_per_execution=20)
    return model


def load_batch(seed, size=512):
    source, labels, target, _ = shifted_classes(seed)
    return {"source": source[:size], "target": target[:size]}, labels[:size]


def train(model, seed, steps):
    """Trains the model in `fit`, on random batches of 64."""
    x, y = load_batch(seed)
    rng = np.random.default_rng(seed)
    rows = {name: rng.integers(len(part), size=64 * steps) for name, part in x.items()}
    pair = {name: part[rows[name]] for name, part in x.items()}
    model.fit(pair, y[rows["source"]], batch_size=64, shuffle=False, verbose=0)


def reset(model, seed):
    """Draws new weights and resets the optimizer."""
    initialize(model, seed)
    for variable in model.optimizer.variables:
        if variable is not model.optimizer.learning_rate:
            variable.assign(np.zeros(variable.shape))


class CustomReversal(DANN):
    """A `DANN` whose subclasses define how the features are reversed."""

    def reverse(self, features, training, reversal):
        raise NotImplementedError

    def domain_scores(self, batch, reversal, training):
        features = self.reverse(batch.domain_features, training, reversal)
        return self.domain_head(features, training=training)


class NotApplied(CustomReversal):
    def reverse(self, features, training, reversal):
        return features


class AppliedTwice(CustomReversal):
    def reverse(self, features, training, reversal):
        return reversal(reversal(features, training=training), training=training)


class SourceReversed(CustomReversal):
    def reverse(self, features, training, reversal):
        source, target = ops.split(features, 2)
        return ops.concatenate([reversal(source, training=training), target])


class Detached(CustomReversal):
    def reverse(self, features, training, reversal):
        return reversal(ops.stop_gradient(features), training=training)


class BehindHead(DANN):
    """The reversal also reverses the gradient of the discriminator."""

    def domain_scores(self, batch, reversal, training):
        scores = self.domain_head(batch.domain_features, training=training)
        return reversal(scores, training=training)


class OneUnitSoftmax(keras.layers.Layer):
    def call(self, inputs):
        return ops.exp(inputs) / ops.sum(ops.exp(inputs), axis=-1, keepdims=True)


def saturated():
    """A binary layer whose inputs are nearly all outside [-1, 1]."""
    large = keras.initializers.RandomNormal(stddev=60.0, seed=1)
    layers = keras.layers.Dense(32, kernel_initializer=large), BinarySign(name="binary")
    return build_dann(
        backbone=keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(2)])
    )
