"""Inputs of a pair of domains."""

import numpy as np


def collect_inputs(domains):
    """Returns inputs of source train, source test, target train and target test."""
    (source, _), (source_test, _) = domains.source_train, domains.source_test
    return [source, source_test, domains.target_train, domains.target_test[0]]


def assert_same_inputs(domains, expected):
    """Compares the inputs of two pairs part by part, bit for bit."""
    for inputs, expected_inputs in zip(
        collect_inputs(domains), collect_inputs(expected), strict=True
    ):
        np.testing.assert_array_equal(inputs, expected_inputs)
