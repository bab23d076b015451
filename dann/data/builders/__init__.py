"""TFDS builders of data sets that this package prepares itself, and the cache they share."""

from dann.data.builders.chalk_digits import ChalkDigits
from dann.data.builders.digits import Digits
from dann.data.builders.mnist_files import MnistFiles
from dann.data.builders.mnist_m import MnistM
from dann.data.builders.synthetic_digits import SyntheticDigits
from dann.data.builders.usps import Usps
from dann.registry import import_modules

import_modules(__name__)  # a builder is known to TFDS once its file is imported
