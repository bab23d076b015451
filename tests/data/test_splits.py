"""Splits of single examples and of groups, in arrays, files and tables."""

import numpy as np
import pandas
import pytest
from sklearn.model_selection import GroupShuffleSplit
from support.domains import collect_inputs

from dann.data import arrays, csv_table, npz
from dann.data.splits import hold_out

RNG = np.random.default_rng(0)
PEOPLE = RNG.integers(0, 12, 150)
X = np.column_stack([PEOPLE, RNG.normal(size=150)])
Y = np.arange(150) % 3


def sides(domains):
    """Returns the people in each training and test set, read from the inputs."""
    return [set(np.round(x[:, 0]).astype(int).tolist()) for x in collect_inputs(domains)]


@pytest.mark.parametrize("share", [0.05, 0.2, 0.9])
def test_groups_are_split_whole(share):
    people = PEOPLE + 50
    shifted = np.column_stack([people, X[:, 1]])
    domains = arrays((X, Y), (shifted, Y), groups=(PEOPLE, people), test_share=share)
    for train, test, all_people in ((*sides(domains)[:2], PEOPLE), (*sides(domains)[2:], people)):
        assert not train & test
        assert train | test == set(all_people.tolist())
        assert len(test) == int(np.ceil(share * 12))
    assert len(domains.source_train[1]) + len(domains.source_test[1]) == 150


def test_group_draw_ignores_labels():
    names = np.array([f"person {number}" for number in PEOPLE])
    (_, expected), *_ = GroupShuffleSplit(1, test_size=0.3, random_state=4).split(X, groups=names)
    pairs = [
        arrays((X, Y), (X + 50, labels), groups=(None, names), test_share=0.3, seed=4)
        for labels in (Y, Y[::-1], None)
    ]
    for domains in pairs:
        np.testing.assert_array_equal(domains.target_test[0], np.float32(X + 50)[expected])


@pytest.mark.parametrize("reader", [npz, csv_table])
def test_files_name_their_groups(reader, tmp_path):
    paths = [tmp_path / name for name in ("a.npz", "b.npz")]
    for path in paths:
        people = np.char.add(path.name, PEOPLE.astype(str))
        table = pandas.DataFrame(X, columns=["p", "x"]).assign(subject=people, label=Y)
        if reader is npz:
            np.savez(path, x=X, y=Y, subject=people)
        else:
            table.to_csv(path, index=False)
    domains = reader(*paths, groups="subject")
    assert domains.input_shape == (2,)
    parts = [set(np.round(x[:, 0], 4).tolist()) for x in collect_inputs(domains)]
    assert not parts[0] & parts[1] | parts[2] & parts[3]


@pytest.mark.parametrize("sizes", [None, [60, 30, 10], [500, 20, 1], [3, 1, 1], [2, 2, 2], [19, 1]])
@pytest.mark.parametrize("share", [0.001, 0.2, 0.999])
def test_split_is_disjoint_complete_and_keeps_classes(sizes, share):
    labels = np.full(50, -1) if sizes is None else np.repeat(np.arange(len(sizes)), sizes)
    count, classes = (50, 1) if sizes is None else (sum(sizes), len(sizes))
    for seed in range(10):
        train, test = hold_out(labels, None, share, seed, sizes is not None)
        assert len(test) == min(max(round(share * count), 1), count - classes)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(count))
        np.testing.assert_array_equal(train, np.sort(train))
        assert len(np.unique(labels[train])) == classes
