import keras


class Noise(keras.layers.Layer):
    """Random numbers that continue where they stopped when the model is loaded from a file.

    Keras saves the weights of a layer but not the state of its `SeedGenerator`; this layer does.
    """

    def __init__(self, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.built = True

    def normal(self, shape):
        """Returns numbers of the standard normal distribution."""
        return keras.random.normal(shape, seed=self.seed_generator)

    def uniform(self, shape):
        """Returns numbers between 0 and 1."""
        return keras.random.uniform(shape, seed=self.seed_generator)

    def save_own_variables(self, store):
        store["state"] = keras.ops.convert_to_numpy(self.seed_generator.state)

    def load_own_variables(self, store):
        self.seed_generator.state.assign(store["state"])
