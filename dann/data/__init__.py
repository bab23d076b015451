"""Pairs of domains as batches for `fit`, the readers that load them, and TFDS builders for some."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dann.data.builders.chalk_digits import ChalkDigits
from dann.data.builders.digits import Digits
from dann.data.builders.mnist_files import MnistFiles
from dann.data.builders.mnist_m import MnistM
from dann.data.builders.synthetic_digits import SyntheticDigits
from dann.data.builders.usps import Usps
from dann.data.domain_pair import DomainPair
from dann.data.image_files import ImageFiles
from dann.data.pair import pair
from dann.data.readers import READERS
from dann.data.several_sources import several_sources
from dann.registry import import_modules

import_modules(__name__)
globals().update(READERS)  # such as `dann.data.csv_table`

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., DomainPair]: ...
