"""Pairs of domains as batches for `fit`, and the TFDS builders that some of them come from."""

from dann.data.arrays import arrays
from dann.data.builders.chalk_digits import ChalkDigits
from dann.data.builders.digits import Digits
from dann.data.builders.mnist_files import MnistFiles
from dann.data.builders.mnist_m import MnistM
from dann.data.builders.synthetic_digits import SyntheticDigits
from dann.data.builders.usps import Usps
from dann.data.csv_table import csv_table
from dann.data.digits_pair import digits_to_photos
from dann.data.domain_pair import DomainPair
from dann.data.image_files import ImageFiles
from dann.data.image_folder import image_folder
from dann.data.mnist_pair import mnist_to_mnist_m
from dann.data.npz import npz
from dann.data.pair import pair
from dann.data.several_sources import several_sources
from dann.data.tfds_pair import tfds_pair

__all__ = [
    "ChalkDigits",
    "Digits",
    "DomainPair",
    "ImageFiles",
    "MnistFiles",
    "MnistM",
    "SyntheticDigits",
    "Usps",
    "arrays",
    "csv_table",
    "digits_to_photos",
    "image_folder",
    "mnist_to_mnist_m",
    "npz",
    "pair",
    "several_sources",
    "tfds_pair",
]
