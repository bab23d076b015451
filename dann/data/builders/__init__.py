"""TFDS builders of data sets that this package prepares itself, and their cache.

TFDS finds a builder once its file is imported.
"""

from dann.data.builders.chalk_digits import ChalkDigits as ChalkDigits
from dann.data.builders.emoji import Emoji as Emoji
from dann.data.builders.mnist import MnistFiles as MnistFiles
from dann.data.builders.mnist import MnistM as MnistM
from dann.data.builders.usps import Usps as Usps
