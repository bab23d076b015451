"""Pairs of domains as batches for `fit`, the readers that load them, and TFDS builders for some.

The builders are imported when they are first asked for, because TFDS needs TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dann.data.domain_pair import DomainPair
from dann.data.image_files import ImageFiles
from dann.data.pair import pair
from dann.data.pairs import Pairs
from dann.data.readers import READERS
from dann.data.several_sources import several_sources
from dann.registry import import_modules

if TYPE_CHECKING:
    from dann.data.builders import ChalkDigits as ChalkDigits
    from dann.data.builders import Digits as Digits
    from dann.data.builders import MnistFiles as MnistFiles
    from dann.data.builders import MnistM as MnistM
    from dann.data.builders import SyntheticDigits as SyntheticDigits
    from dann.data.builders import Usps as Usps

import_modules(__name__, leave_out=("builders",))
globals().update(READERS)  # such as `dann.data.csv_table`


def __getattr__(name: str) -> Any:
    if name[0].isupper():
        return getattr(importlib.import_module("dann.data.builders"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
