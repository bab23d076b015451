"""A Keras callback that counts training steps."""

import keras


class StepCounter(keras.callbacks.Callback):
    """Counts the steps of a `fit`, whose last epoch ends early if a callback stops it."""

    steps = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.steps += self.model.steps_per_execution
