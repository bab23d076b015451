"""Pairs of domains as batches for `fit`."""

from dann.data.digits_pair import digits_to_photos
from dann.data.domain_pair import DomainPair
from dann.data.mnist_pair import mnist_to_mnist_m
from dann.data.pair import pair

__all__ = ["DomainPair", "digits_to_photos", "mnist_to_mnist_m", "pair"]
