"""Domain adaptation by gradient reversal, for Keras 3.

Importing it registers every class with Keras, so that `keras.models.load_model` knows them.
"""

import os

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "1.0.0"

# In safe mode Keras loads only classes that are registered, so a plain import imports everything.
# The scripts set this variable, because they print help and errors without importing Keras.
if os.environ.get("DANN_LAZY_IMPORT") != "1":
    for _name in __all__:
        __getattr__(_name)
