"""Arrays as a `PyDataset`."""

import keras

_SIZE = 5


class ArrayBatches(keras.utils.PyDataset):
    """Arrays as batches of 5: tuples if there are several, else the parts of one."""

    def __init__(self, *arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return -(-len(self.arrays[0]) // _SIZE)

    def __getitem__(self, index):
        rows = slice(_SIZE * index, _SIZE * (index + 1))
        parts = tuple(array[rows] for array in self.arrays)
        return parts if len(parts) > 1 else parts[0]
