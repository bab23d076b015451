"""Inputs of a pair of domains."""

from support.arrays import assert_all_equal


def collect_inputs(domains):
    """Returns inputs of source train, source test, target train and target test."""
    (source, _), (source_test, _) = domains.source_train, domains.source_test
    return [source, source_test, domains.target_train, domains.target_test[0]]


def assert_same_inputs(domains, expected):
    """Compares the inputs of two pairs part by part, bit for bit."""
    assert_all_equal(collect_inputs(domains), collect_inputs(expected))
