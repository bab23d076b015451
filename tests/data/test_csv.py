import csv

import numpy as np
import pytest

from dann.data import csv_table

HEADER = ["age", "city", "income", "label"]
CITIES = ["", "bergen", "hamar", "oslo"]


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def people(count, seed):
    """Rows with incomes in ascending order, no two of them alike."""
    rng = np.random.default_rng(seed)
    return [
        [rng.integers(18, 80), rng.choice(CITIES), 1000 * seed + i + 0.5, ["no", "yes"][i % 2]]
        for i in range(count)
    ]


SOURCE, TARGET = people(40, 1), people(30, 2)


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "a.csv", SOURCE), write(tmp_path / "b.csv", TARGET)


def inputs_of(domains):
    """The inputs of source train, source test, target train and target test."""
    (source, _), (source_test, _) = domains.source_train, domains.source_test
    return [source, source_test, domains.target_train, domains.target_test[0]]


def assert_same(parts, expected):
    for part, wanted in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part, wanted)


def places(column):
    """Which rows of the files these are, told from the order of a column."""
    return np.argsort(np.argsort(column))


def test_columns_are_standardised_and_categories_encoded_by_the_training_rows(files):
    domains = csv_table(*files, "label")
    parts = inputs_of(domains)
    assert [part.shape for part in parts] == [(32, 6), (8, 6), (24, 6), (6, 6)]
    assert {part.dtype for part in parts} == {np.dtype("float32")}
    found = np.concatenate(parts)
    rows = [(SOURCE + TARGET)[i] for i in places(found[:, 1])]
    train = rows[:32] + rows[40:64]
    for feature, column in ((0, 0), (1, 2)):
        mean = sum(row[column] for row in train) / 56
        deviation = (sum((row[column] - mean) ** 2 for row in train) / 56) ** 0.5
        expected = [(row[column] - mean) / deviation for row in rows]
        np.testing.assert_allclose(found[:, feature], expected, rtol=1e-4, atol=1e-6)
    expected = [[float(row[1] == city) for city in CITIES] for row in rows]
    np.testing.assert_array_equal(found[:, 2:], expected)


def test_labels_stay_with_their_rows(files):
    domains = csv_table(*files, "label")
    assert (domains.name, domains.class_names) == ("a → b", ("no", "yes"))
    found = places(np.concatenate(inputs_of(domains))[:, 1])
    labels = [domains.source_train[1], domains.source_test[1]]
    labels += [domains.target_train_labels, domains.target_test[1]]
    np.testing.assert_array_equal(np.concatenate(labels), found % 2)


def test_no_row_is_in_two_parts_and_a_seed_sets_which(files):
    orders = []
    for seed in (0, 0, 1):
        order = places(np.concatenate(inputs_of(csv_table(*files, "label", seed=seed)))[:, 1])
        np.testing.assert_array_equal(np.sort(order), np.arange(70))
        assert set(order[:40]) == set(range(40))
        orders.append(order)
    np.testing.assert_array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_the_targets_labels_change_no_inputs(files):
    expected = inputs_of(csv_table(*files, "label"))
    for seed in range(3):
        labels = np.random.default_rng(seed).permutation([row[3] for row in TARGET])
        rows = [[*row[:3], label] for row, label in zip(TARGET, labels, strict=True)]
        domains = csv_table(files[0], write(files[1], rows), "label")
        assert_same(inputs_of(domains), expected)


def test_test_rows_have_no_part_in_the_scale(files, tmp_path):
    tests = [tmp_path / "a_test.csv", tmp_path / "b_test.csv"]
    trained = []
    for factor in (1, 1000):
        for path in tests:
            write(path, [[factor, f"town {factor}", factor, "yes"]] * 3)
        domains = csv_table(*files, "label", source_test=tests[0], target_test=tests[1])
        trained.append((domains.source_train[0], domains.target_train))
        assert (domains.target_test[0][:, 2:] == 0).all()  # a city that no training row has
        assert domains.source_test[1].tolist() == domains.target_test[1].tolist() == [1, 1, 1]
    assert len(trained[0][0]) == 40
    assert_same(*trained)


def test_a_missing_number_becomes_the_median_of_the_training_rows(tmp_path):
    rows = [[value, "x"] for value in (1, 2, "", 9, "NA", "NaN", 4)]
    rows[0][1] = "y"
    a = write(tmp_path / "a.csv", rows, ["size", "kind"])
    b = write(tmp_path / "b.csv", [[100, "x"], ["", "x"]], ["size", "kind"])
    domains = csv_table(a, a, "kind", source_test=b, target_test=b)
    # Of 1, 2, 9, 4, twice: the median is 3.
    filled = np.array([1, 2, 3, 9, 3, 3, 4])
    scaled = (filled - filled.mean()) / filled.std()
    np.testing.assert_allclose(domains.source_train[0][:, 0], scaled, rtol=1e-5)
    np.testing.assert_allclose(domains.source_test[0][1, 0], scaled[2], rtol=1e-5)


def test_a_column_without_any_value_becomes_zeros(tmp_path):
    rows = [["", i, "xy"[i % 2]] for i in range(6)]
    a, b = (write(tmp_path / name, rows, ["none", "size", "kind"]) for name in ("a.csv", "b.csv"))
    for part in inputs_of(csv_table(a, b, "kind")):
        np.testing.assert_array_equal(part[:, 0], 0)


@pytest.mark.parametrize(
    ("chosen", "features"),
    [
        ({}, 3 + 4),
        ({"categorical": ["label2"]}, 2 + 4 + 2),
        ({"numeric": ["income"], "categorical": ["city"]}, 1 + 4),
        ({"numeric": ["income", "label2"]}, 2 + 4 + 36),
        ({"numeric": ["age"], "categorical": []}, 1),
        ({"numeric": [], "categorical": ["city"]}, 4),
    ],
)
def test_columns_can_be_chosen(tmp_path, chosen, features):
    header = [*HEADER[:3], "label2", "label"]
    rows = [[20 + i % 36, CITIES[i % 4], i, i % 2, ["no", "yes"][i % 2]] for i in range(72)]
    a, b = (write(tmp_path / name, rows, header) for name in ("a.csv", "b.csv"))
    domains = csv_table(a, a, "label", source_test=b, target_test=b, **chosen)
    assert domains.input_shape == (features,)


def test_the_order_of_columns_may_differ(files):
    expected = inputs_of(csv_table(*files, "label"))
    write(files[1], [row[::-1] for row in TARGET], HEADER[::-1])
    assert_same(inputs_of(csv_table(*files, "label")), expected)


def test_classes_that_are_numbers_are_in_their_order(tmp_path):
    rows = [[i, [10, -1, 9][i % 3]] for i in range(12)]
    a, b = (write(tmp_path / name, rows, ["x", "y"]) for name in ("a.csv", "b.csv"))
    assert csv_table(a, b, "y").class_names == ("-1", "9", "10")


@pytest.mark.parametrize("column", ["empty", "absent"])
def test_a_target_may_have_no_labels(files, column):
    expected = inputs_of(csv_table(*files, "label"))
    width = 3 if column == "absent" else 4
    write(files[1], [[*row[:3], ""][:width] for row in TARGET], HEADER[:width])
    domains = csv_table(*files, "label")
    assert domains.target_train_labels is None
    assert domains.target_test[1] is None
    assert_same(inputs_of(domains), expected)


def test_test_rows_of_the_target_are_among_the_labelled(files):
    write(files[1], [row if i < 10 else [*row[:3], ""] for i, row in enumerate(TARGET)])
    domains = csv_table(*files, "label")
    found = places(np.concatenate(inputs_of(domains))[:, 1])
    assert len(domains.target_test[1]) == 2
    assert set(found[-2:]) < set(range(40, 50))
    assert np.count_nonzero(domains.target_train_labels == -1) == 20


def test_files_of_spreadsheets_are_read(tmp_path):
    text = '\ufeff"the; kind"; size\r\n"a"; 1\r\n\r\n b; 2\r\n"a ""b""";3\r\n'
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(text.encode())
    path, test = tmp_path / "a.csv", tmp_path / "b.csv"
    arguments = {"delimiter": ";", "source_test": test, "target_test": test}
    assert csv_table(path, path, "the; kind", **arguments).class_names == ("a", 'a "b"', "b")


def test_spaces_around_names_texts_and_labels_are_no_part_of_them(files, tmp_path):
    spaced = tmp_path / "spaced.csv"
    spaced.write_text(files[0].read_text().replace(",", " , ").replace("\n", " \n"))
    expected = inputs_of(csv_table(*files, "label"))
    domains = csv_table(spaced, files[1], "label")
    assert domains.class_names == ("no", "yes")
    assert_same(inputs_of(domains), expected)


def test_missing_is_what_pandas_calls_missing(files, capsys):
    rows = [[*row[:2], [row[2], "N/A", "null", ""][i % 4], row[3]] for i, row in enumerate(TARGET)]
    write(files[1], rows)
    assert csv_table(*files, "label").input_shape == (6,)
    said = "Columns taken as numbers: 2; as categories: 1: city (4 values)"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("odd", ["?", "-", "none of these", "1,000", "12%", "3,5", "1_2"])
@pytest.mark.parametrize("share", [2, 7])
def test_a_column_of_which_most_cells_are_numbers_is_no_category(files, odd, share):
    alike = odd in ("1,000", "12%", "3,5")  # then all cells may be written so
    rows = [[*r[:2], r[2] if i % share and not alike else odd, r[3]] for i, r in enumerate(TARGET)]
    write(files[1], rows)
    write(files[0], rows)
    if share == 2 and not alike:
        rows[0][2] = odd  # half of the cells or fewer are numbers
        assert csv_table(*files, "label").input_shape[0] > 10
        return
    with pytest.raises(ValueError, match="'income' must hold finite numbers.*`categorical`"):
        csv_table(*files, "label")
    assert csv_table(*files, "label", categorical=["income", "city"]).input_shape[0] > 5


@pytest.mark.parametrize(
    "paths",
    [
        {"target": "a.csv"},
        {"target": "link.csv"},
        {"target": "a.csv", "source_test": "c.csv"},
        {"target": "a.csv", "target_test": "c.csv"},
        {"target_test": "b.csv"},
        {"target_test": "folder/../b.csv"},
        {"target_test": "a.csv"},
        {"source_test": "a.csv"},
        {"source_test": "b.csv"},
    ],
)
def test_a_file_that_is_trained_on_is_not_tested_on(files, tmp_path, paths):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.csv").symlink_to(files[0])
    write(tmp_path / "c.csv", SOURCE)
    paths = {"source": "a.csv", "target": "b.csv", **paths}
    with pytest.raises(ValueError, match="must be different files"):
        csv_table(**{part: tmp_path / path for part, path in paths.items()}, label="label")


A = "age,city,label\n1,x,yes\n2,y,no\n3,z,yes\n"


@pytest.mark.parametrize(
    ("a", "b", "arguments"),
    [
        ("", A, {}),
        ("\n\n", A, {}),
        (A, "age,city,label\n", {}),
        (A, A + "\n1,x,yes,no\n", {}),
        (A, "age,city,label\n1,x,yes,no\n", {}),
        (A, A.replace("age", "years"), {}),
        (A, A, {"label": "class"}),
        ("label\nyes\n", "label\nyes\n", {}),
        (A + "4,x,\n", A, {}),
        (A, A + "4,x,maybe\n", {}),
        (A, A, {"numeric": ["city"]}),
        (A, A + "-inf,x,no\n", {}),
        (A, A, {"numeric": ["height"]}),
        (A, A, {"delimiter": ""}),
        (A, A, {"delimiter": ";"}),
        (A, A, {"categorical": ["label"]}),
        (A, A, {"numeric": [], "categorical": []}),
        (A, A, {"numeric": "age"}),
        (A, A, {"max_categories": 2}),
        (A, "age,city,label\n1,\xff,yes\n", {}),
        (A, A + "1e200,x,yes\n-1e200,x,yes\n" * 9, {}),
    ],
)
def test_bad_tables_are_refused(tmp_path, a, b, arguments):
    for name, text in (("a", a), ("b", b)):
        (tmp_path / f"{name}.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises((ValueError, TypeError)):
        csv_table(tmp_path / "a.csv", tmp_path / "b.csv", **{"label": "label", **arguments})


def test_a_file_that_is_not_there_is_named(files, tmp_path):
    with pytest.raises(FileNotFoundError, match="no.csv"):
        csv_table(files[0], tmp_path / "no.csv", "label")
