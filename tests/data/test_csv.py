import csv
import os

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


@pytest.mark.parametrize("late", ["source", "target"])
def test_one_text_makes_a_column_categorical(tmp_path, late):
    numbers = [["1.0", "y"], *([value, "x"] for value in ("1", "2", "2", "2"))]
    rows = {"source": numbers, "target": numbers}
    rows[late] = [*numbers, ["1_2", "x"]]
    paths = [write(tmp_path / f"{name}.csv", part, ["size", "kind"]) for name, part in rows.items()]
    test = write(tmp_path / "test.csv", numbers, ["size", "kind"])
    domains = csv_table(*paths, "kind", source_test=test, target_test=test)
    assert domains.input_shape == (4,)  # 1, 1.0, 1_2, 2 as they are written
    expected = np.eye(4)[[1, 0, 3, 3, 3]]
    np.testing.assert_array_equal(domains.source_train[0][:5], expected)
    np.testing.assert_array_equal(domains.target_train[:5], expected)


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
def test_a_target_may_have_no_labels_if_its_test_set_has(files, tmp_path, column):
    test = write(tmp_path / "test.csv", TARGET[:5])
    rows, header = [[*row[:3], ""] for row in TARGET], HEADER
    if column == "absent":
        rows, header = [row[:3] for row in rows], HEADER[:3]
    write(files[1], rows, header)
    domains = csv_table(*files, "label", target_test=test)
    assert domains.target_train_labels is None
    assert len(domains.target_train) == 30
    np.testing.assert_array_equal(domains.target_test[1], np.arange(5) % 2)
    with pytest.raises(ValueError, match="or a test set that has labels.*Received: no labels"):
        csv_table(*files, "label")


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


def test_na_is_a_category_and_a_label_like_any_other(tmp_path):
    rows = [[["NA", "no"][i % 2], ["NA", "SE"][i % 3 == 0]] for i in range(12)]
    a, b = (write(tmp_path / name, rows, ["kind", "country"]) for name in ("a.csv", "b.csv"))
    domains = csv_table(a, b, "country")
    assert domains.class_names == ("NA", "SE")
    assert domains.input_shape == (2,)


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({"target": "a.csv"}, "The source and the target must be different files: .*tested"),
        ({"target": "link.csv"}, "Received: .*a.csv and .*link.csv"),
        ({"target": "hard.csv"}, "Received: .*a.csv and .*hard.csv"),
        ({"target_test": "hard.csv"}, "The target test and the source must be different files"),
        ({"target": "a.csv", "source_test": "c.csv"}, "The target and the source must be"),
        ({"target": "a.csv", "target_test": "c.csv"}, "The source and the target must be"),
        ({"target_test": "b.csv"}, "The target test and the target must be different files"),
        ({"target_test": "folder/../b.csv"}, "The target test and the target must be"),
        ({"target_test": "a.csv"}, "The target test and the source must be different files"),
        ({"source_test": "a.csv"}, "The source test and the source must be different files"),
        ({"source_test": "b.csv"}, "The source test and the target must be different files"),
    ],
)
def test_a_file_that_is_trained_on_is_not_tested_on(files, tmp_path, paths, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.csv").symlink_to(files[0])
    os.link(files[0], tmp_path / "hard.csv")
    write(tmp_path / "c.csv", SOURCE)
    paths = {"source": "a.csv", "target": "b.csv", **paths}
    with pytest.raises(ValueError, match=message):
        csv_table(**{part: tmp_path / path for part, path in paths.items()}, label="label")


A = "age,city,label\n1,x,yes\n2,y,no\n3,z,yes\n"


@pytest.mark.parametrize(
    ("a", "b", "arguments", "message"),
    [
        ("", A, {}, "a.csv must have a header and rows. Received: an empty file"),
        ("\n\n", A, {}, "a.csv must have a header and rows. Received: an empty file"),
        (A, "age,city,label\n", {}, "b.csv must have rows below its header. Received: none"),
        ("age,age,label\n1,2,a\n", A, {}, r"a.csv, line 1: .*Received: \['age'\] more than once"),
        (",age,label\n0,1,a\n", A, {}, "a.csv, line 1: .* Received: one without a name"),
        (A + "1,x\n", A, {}, "a.csv, line 5: a row must have 3 cells.*Received: 2"),
        (A, A + "\n1,x,yes,no\n", {}, "b.csv, line 6: a row must have 3 cells.*Received: 4"),
        (A, A.replace("age", "years"), {}, r"in .*a.csv: \['age'\], only in .*b.csv: \['years'\]"),
        (A, A, {"label": "class"}, r"a.csv must .* labels 'class'.*\['age', 'city', 'label'\]"),
        ("label\nyes\n", "label\nyes\n", {}, "must have a column beside the labels"),
        (A + "4,x,\n", A, {}, "a.csv, line 5: every row of the source must .* label in 'label'"),
        (A, A + "4,x,maybe\n", {}, r"b.csv, line 5: .* \['no', 'yes'\]. Received: 'maybe'"),
        (A, A, {"numeric": ["city"]}, "a.csv, line 2: the numeric column 'city' .*Received: 'x'"),
        (A, A + "1_2,x,no\n", {"numeric": ["age"]}, "b.csv, line 5: .* 'age' .*Received: '1_2'"),
        (A, A + "-inf,x,no\n", {}, "b.csv, line 5: .* 'age' .* finite numbers. Received: '-inf'"),
        (A, A + "inf,x_y,no\n", {}, "b.csv, line 5: .* 'age' .* finite numbers. Received: 'inf'"),
        (A, A, {"numeric": ["height"]}, r"columns of \['age', 'city'\].*: numeric=\['height'\]"),
        (A, A, {"delimiter": ";;"}, "must be one character, .*Received: delimiter=';;'"),
        (A, A, {"delimiter": ""}, "must be one character, .*Received: delimiter=''"),
        (A, A, {"delimiter": '"'}, "not a quote or .*Received: delimiter='\"'"),
        (A, A, {"numeric": ["age"], "categorical": ["age"]}, "must name different columns"),
        (A, A, {"categorical": ["label"]}, "must name different columns"),
        (A, A, {"numeric": [], "categorical": []}, "must name a column. Received: none in both"),
        (A, "age,city,label\n1,\xff,yes\n", {}, "b.csv, after line .*CSV in UTF-8. Received: 'utf"),
        (A, f"{A}4,{'x' * 140_000},no\n", {}, "b.csv, after line .*field larger than field limit"),
    ],
)
def test_bad_tables_are_refused(tmp_path, a, b, arguments, message):
    for name, text in (("a", a), ("b", b)):
        (tmp_path / f"{name}.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        csv_table(tmp_path / "a.csv", tmp_path / "b.csv", **{"label": "label", **arguments})


def test_a_test_table_is_checked_as_the_others(files, tmp_path):
    test = write(tmp_path / "test.csv", [*TARGET[:2], [30, "oslo", 1.5, ""]])
    message = "test.csv, line 4: every row of the target test must have a label"
    with pytest.raises(ValueError, match=message):
        csv_table(*files, "label", target_test=test)
    write(test, [row[:3] for row in TARGET], HEADER[:3])
    with pytest.raises(ValueError, match="test.csv must have the column of labels 'label'"):
        csv_table(*files, "label", target_test=test)


@pytest.mark.parametrize("kind", ["numeric", "categorical"])
def test_a_single_name_is_refused_as_a_list_of_columns(files, kind):
    with pytest.raises(TypeError, match=f"list of names of columns. Received: {kind}='age'"):
        csv_table(*files, "label", **{kind: "age"})


@pytest.mark.parametrize("domain", ["source", "target"])
def test_a_domain_needs_a_path(files, domain):
    paths = dict(zip(("source", "target"), files, strict=True))
    with pytest.raises(ValueError, match=f"`{domain}` must be the path of a CSV.*Received: None"):
        csv_table(**{**paths, domain: None}, label="label")


@pytest.mark.parametrize(("name", "state"), [("no.csv", "not there"), (".", "a folder")])
def test_a_file_that_is_not_there_is_named(files, name, state):
    message = f"Expected a CSV file. Received: .*, which is {state}$"
    with pytest.raises(FileNotFoundError, match=message):
        csv_table(files[0], files[0].parent / name, "label")


def texts(tmp_path, name, count):
    rows = [[i, f"{name}{i}", i % 2] for i in range(count)]
    return write(tmp_path / f"{name}.csv", rows, ["age", "note", "label"])


def test_a_column_of_texts_does_not_become_thousands_of_features(tmp_path):
    files = texts(tmp_path, "a", 600), texts(tmp_path, "b", 600)
    message = r"hold 1000 categories; .* raise `max_categories`. Received: 1200 in 'note'.*'a0'"
    with pytest.raises(ValueError, match=message):
        csv_table(*files, "label")
    assert csv_table(*files, "label", max_categories=1200).input_shape[0] > 900
    assert csv_table(*files, "label", numeric=["age"], categorical=[]).input_shape == (1,)


def test_a_column_of_names_is_no_column_of_classes(tmp_path):
    files = texts(tmp_path, "a", 20), texts(tmp_path, "b", 20)
    with pytest.raises(ValueError, match=r"`max_categories`. Received: 20 in 'note'"):
        csv_table(*files, "note", max_categories=19)


def test_inputs_that_are_too_large_are_refused_with_the_limit_to_raise(tmp_path):
    files = texts(tmp_path, "a", 100), texts(tmp_path, "b", 100)
    size = 8 * 201 * 200 / 1e9
    message = r"raise `max_gigabytes` .*Received: 201 features of all rows, 0.000322 GB"
    with pytest.raises(ValueError, match=message):
        csv_table(*files, "label", max_gigabytes=size * 0.999)
    csv_table(*files, "label", max_gigabytes=size)


@pytest.mark.parametrize("huge", [1.7e308, 1e200])
def test_a_column_too_large_to_be_standardised_is_refused_by_its_name(tmp_path, huge):
    rows = [[i, huge * (-1) ** i, i % 2] for i in range(20)]
    table = write(tmp_path / "a.csv", rows, ["small", "huge", "label"])
    write(tmp_path / "b.csv", rows, ["small", "huge", "label"])
    with pytest.raises(ValueError, match=r"mean and deviation.*Received: \['huge'\], whose"):
        csv_table(table, tmp_path / "b.csv", "label")
    found = csv_table(table, tmp_path / "b.csv", "label", numeric=["small"])
    assert np.isfinite(found.target_train).all()


def test_a_test_row_far_beyond_the_training_rows_is_refused(tmp_path):
    rows = [[i / 1e6, i % 2] for i in range(20)]
    table, test = write(tmp_path / "a.csv", rows, ["x", "label"]), tmp_path / "c.csv"
    write(tmp_path / "b.csv", rows, ["x", "label"])
    write(test, [[1e40, 0]], ["x", "label"])
    with pytest.raises(ValueError, match=r"Received: \['x'\], whose numbers are too large"):
        csv_table(table, tmp_path / "b.csv", "label", source_test=test)
