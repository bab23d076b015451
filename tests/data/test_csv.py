import csv

import numpy as np
import pandas
import pytest
from support.arrays import assert_same_inputs, collect_inputs

from dann.data import csv_table
from dann.data.probes import probe_domains

HEADER = ["age", "city", "income", "label"]
CITIES = ["", "bergen", "hamar", "oslo"]


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def people(count, seed):
    """Returns rows with different incomes, in ascending order."""
    rng = np.random.default_rng(seed)
    return [
        [rng.integers(18, 80), rng.choice(CITIES), 1000 * seed + i + 0.5, ["no", "yes"][i % 2]]
        for i in range(count)
    ]


SOURCE, TARGET = people(40, 1), people(30, 2)


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "a.csv", SOURCE), write(tmp_path / "b.csv", TARGET)


def file_rows(domains):
    """Returns the file row of each input, from the order of the incomes."""
    return np.argsort(np.argsort(np.concatenate(collect_inputs(domains))[:, 1]))


def test_columns_are_encoded_by_training_rows(files):
    domains = csv_table(*files, "label")
    assert (domains.name, domains.class_names) == ("a → b", ("no", "yes"))
    parts = collect_inputs(domains)
    assert [part.shape for part in parts] == [(32, 6), (8, 6), (24, 6), (6, 6)]
    assert {part.dtype for part in parts} == {np.dtype("float32")}
    inputs, rows = np.concatenate(parts), [(SOURCE + TARGET)[i] for i in file_rows(domains)]
    train = rows[:32] + rows[40:64]
    for feature, column in ((0, 0), (1, 2)):
        values = np.array([row[column] for row in train])
        expected = [(row[column] - values.mean()) / values.std() for row in rows]
        np.testing.assert_allclose(inputs[:, feature], expected, rtol=1e-4, atol=1e-6)
    expected = [[float(row[1] == city) for city in CITIES] for row in rows]
    np.testing.assert_array_equal(inputs[:, 2:], expected)
    labels = [domains.source_train[1], domains.source_test[1]]
    labels += [domains.target_train_labels, domains.target_test[1]]
    np.testing.assert_array_equal(np.concatenate(labels), file_rows(domains) % 2)


@pytest.mark.parametrize("width", [4, 3], ids=["empty column", "no column"])
def test_target_may_have_no_labels(files, width):
    expected = csv_table(*files, "label")
    write(files[1], [[*row[:3], ""][:width] for row in TARGET], HEADER[:width])
    domains = csv_table(*files, "label")
    assert domains.target_train_labels is domains.target_test[1] is None
    assert_same_inputs(domains, expected)


def test_scale_ignores_test_rows(files, tmp_path, capsys):
    trained, test = [], tmp_path / "test.csv"
    for factor in (1, 10**6):
        write(test, [[factor, f"town {factor}", factor, "yes"]] * 3)
        domains = csv_table(*files, "label", source_test=test, target_test=test)
        trained.append(np.concatenate([domains.source_train[0], domains.target_train]))
        assert (domains.target_test[0][:, 2:] == 0).all()  # a city that no training row has
        assert domains.source_test[1].tolist() == domains.target_test[1].tolist() == [1, 1, 1]
        assert ("'age' has inputs of up to 5.52e+04" in capsys.readouterr().err) == (factor > 1)
    csv_table(*files, "label", target_new=test)
    assert "are zeros: city: ['town 1000000']\n" in capsys.readouterr().err
    assert len(trained[0]) == 40 + 30
    np.testing.assert_array_equal(*trained)


def test_missing_numbers_become_the_training_median(tmp_path):
    rows = [[value, "", "yx"[i > 0]] for i, value in enumerate((1, 2, "", 9, "NA", "NaN", 4))]
    a, b = (write(tmp_path / f"{name}.csv", rows, ["size", "none", "kind"]) for name in "ab")
    write(b, [[100, "", "x"], ["", "", "x"]], ["size", "none", "kind"])
    domains = csv_table(a, a, "kind", source_test=b, target_test=b)
    # Of 1, 2, 9, 4, twice: the median is 3.
    filled = np.array([1, 2, 3, 9, 3, 3, 4])
    scaled = (filled - filled.mean()) / filled.std()
    np.testing.assert_allclose(domains.source_train[0][:, 0], scaled, rtol=1e-5)
    np.testing.assert_allclose(domains.source_test[0][1, 0], scaled[2], rtol=1e-5)
    for part in collect_inputs(domains):  # a column without any value
        np.testing.assert_array_equal(part[:, 1], 0)


def test_column_order_delimiter_and_spaces_do_not_matter(files):
    expected = csv_table(*files, "label")
    write(files[1], [row[::-1] for row in TARGET], HEADER[::-1])
    for file in files:
        text = file.read_text().replace(",", " ; ").replace("\n", " \n")
        file.write_text(text, encoding="utf-8-sig")  # as spreadsheets do
    domains = csv_table(*files, "label", delimiter=";")
    assert domains.class_names == ("no", "yes")
    assert_same_inputs(domains, expected)


def test_rare_categories_share_a_column():
    names = [f"town {number}" for number in range(1100)]
    table = pandas.DataFrame({"x": [*names, *names[:999]], "label": np.arange(2099) % 2})
    tests = {"source_test": table[:3].copy(), "target_test": table[1099:].copy()}
    domains = csv_table(table, table.copy(), **tests)
    assert domains.input_shape == (1000,)
    np.testing.assert_array_equal(domains.target_train.sum(axis=0), [*[2] * 999, 101])
    np.testing.assert_array_equal(np.bincount(domains.encoding["input"]), [*[1] * 999, 101])


@pytest.mark.parametrize(("odd", "count"), [("?", 1), ("12%", 29), ("1,000", 30)])
def test_mostly_numeric_column_is_not_categorical(files, odd, count):
    write(files[1], [[*row[:2], odd, row[3]] for row in TARGET[:count]] + TARGET[count:])
    with pytest.raises(ValueError, match="'income' to contain finite numbers.*`categorical`"):
        csv_table(*files, "label")
    assert csv_table(*files, "label", categorical=["income", "city"]).input_shape[0] > 5


def test_nuisance_of_whole_numbers_with_missing_cells_is_classes():
    table = pandas.DataFrame({"x": np.arange(60.0), "label": np.arange(60) % 2})
    table["site"], table["dose"] = np.arange(60) % 3 + 1, np.arange(60) % 3 / 2
    table.loc[[0, 7], "site"] = np.nan  # pandas now writes 1.0
    domains = csv_table(table, nuisances=["site", "dose"], groups="site")
    assert domains.nuisances.kinds == {"site": 3, "dose": "number"}
    values = np.concatenate([domains.nuisances.train["site"], domains.nuisances.test["site"]])
    assert np.bincount(values + 1).tolist() == [2, 19, 19, 20]


def test_whole_numbers_are_one_category_and_one_label(tmp_path):
    table = pandas.DataFrame({"k": [1, 2, 3, 4] * 50, "v": range(200), "label": [0, 1] * 100})
    table.to_csv(tmp_path / "a.csv", index=False)
    table = table.astype({"k": float, "label": float})
    table.loc[0, "k"] = table.loc[3, "label"] = np.nan
    table.to_csv(tmp_path / "b.csv", index=False)  # pandas now writes 1.0
    domains = csv_table(tmp_path / "a.csv", tmp_path / "b.csv", categorical=["k"])
    assert (domains.class_names, domains.input_shape) == (("0", "1"), (1 + 5,))  # 4 and missing
    assert probe_domains(domains.source_train[0], domains.target_train).accuracy < 0.65
    labels = np.concatenate([domains.target_train_labels, domains.target_test[1]])
    assert (np.bincount(labels + 1) == [1, 100, 99]).all()


@pytest.mark.parametrize(
    ("column", "second_column", "names", "width"),
    [
        ([True, False, None], [1, 0, 1], None, 1),
        (["TRUE", "FALSE", ""], [True, False, False], None, 3),
        (["True", "False", "no"], [1, 0, 1], None, 5),
        ([1, 0, 1], ["true", "FALSE", ""], ("0", "1"), 0),
    ],
)
def test_booleans_are_one_category_and_one_label(column, second_column, names, width):
    tables = [
        pandas.DataFrame({"x": values * 20, "y": 1.0, "label": [0, 1, 0] * 20})
        for values in (column, second_column)
    ]
    domains = csv_table(*tables, **({} if names is None else {"label": "x", "drop": "label"}))
    assert domains.input_shape == (1 + width,)
    assert domains.class_names == (names or ("0", "1"))


@pytest.mark.parametrize("column", [[True, False], [1, 0], ["TRUE", "False"]])
@pytest.mark.parametrize("new_column", [[True, False], [1, 0], ["true", "FALSE"]])
def test_new_booleans_have_the_spelling_of_training(column, new_column):
    columns = column, column, column, new_column
    tables = [pandas.DataFrame({"x": values * 30, "label": [0, 1] * 30}) for values in columns]
    domains, expected = (csv_table(*tables[:2], target_new=new) for new in tables[2:])
    assert_same_inputs(domains, expected)


@pytest.mark.parametrize(
    ("column", "target_column", "words"),
    [
        (range(60), range(60, 120), "'x' reveals the domain: it is 0 to 59 in the source, 60 to"),
        (np.arange(60) + 20200101, range(60), "it is 20200101 to 20200160 in the source, 0 to 59"),
        (np.arange(60) * 7, np.arange(60)[::-1] * 7 + 1, "'x' has a different whole number in"),
        (np.arange(60) % 7 + 20200101, [20200102] * 59 + [np.nan], "as 20200107. If they are d"),
        (np.arange(60) / 7, np.where(np.arange(60) % 3, np.nan, 2.5), "source cells and 67% of t"),
        (np.arange(60) / 7, [np.nan] * 60, "0% of source cells and 100% of"),
        ([np.nan] * 57 + [1, 2, 3], np.arange(60) / 7, "95% of source cells and 0% of"),
        (np.arange(60) / 7, np.arange(60) / 6, None),
        (np.arange(60) % 59, np.arange(60), None),
        (np.arange(60) % 2, np.ones(60), None),
        (["F", "M"] * 30, ["female", "male"] * 30, "lacks (F, M) and 100% of target rows have"),
        (["F", "M", "M"] * 20, ["female", "M", "M"] * 20, "domain: 33% of source rows have categ"),
        (["yes", "no"] * 30, [True, False] * 30, "that the source lacks (True, False). Rename"),
        ([f"2020-01-{d:02}" for d in range(60)], [f"2021-02-{d}" for d in range(60)], "120 categ"),
        ([f"2020-01-0{1 + d % 3}" for d in range(60)], ["2020-01-01", ""] * 30, "4 categories in"),
        (["a"] * 60, ["a", ""] * 30, "50% of target rows have categories that the source lacks ("),
        ([f"n{i}" for i in range(60)], ["good"] * 60, "120 rows. If they are ids, set 'data.id=x'"),
        (["a", "b", "b"] * 20, ["a", "a", "b"] * 20, None),
        (["a"] * 54 + ["c"] * 6, ["a"] * 60, None),
    ],
)
def test_columns_that_reveal_the_domain_are_named(tmp_path, capsys, column, target_column, words):
    for name, values in (("a", column), ("b", target_column)):
        table = pandas.DataFrame({"x": values, "y": np.arange(60) / 2, "label": np.arange(60) % 2})
        table.to_csv(tmp_path / f"{name}.csv")  # with row numbers
    files = tmp_path / "a.csv", tmp_path / "b.csv"
    width = csv_table(*files).input_shape[0]
    message = capsys.readouterr().err
    assert "'Unnamed: 0' has no name in the header" in message
    assert (words or "warning: column 'Unnamed: 0'") in message
    assert ("column 'x'" in message) == (words is not None)
    assert message.count("leave it out: 'data.drop=[x]'\n") == message.count("column 'x'") <= 1
    csv_table(*files, target_new=pandas.read_csv(files[1], dtype=str))
    csv_table(*files, verbose=False)
    assert "column" not in "".join(capsys.readouterr())
    csv_table(*files)
    assert capsys.readouterr().err == ""  # each warning is printed once
    domains = csv_table(*files, drop=["x", "Unnamed: 0"])
    assert capsys.readouterr() == ("Numeric columns: 1; categorical columns: 0\n", "")
    assert domains.input_shape == (1,) < (width,)


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_frames_are_read_like_files(files, delimiter):
    expected = csv_table(*files)
    frames = [pandas.DataFrame(rows, columns=HEADER) for rows in (SOURCE, TARGET)]
    frames[1]["city"] = frames[1]["city"].replace({"": None}).astype("category")  # missing cells
    domains = csv_table(*frames, delimiter=delimiter, class_names=["no", "yes", "maybe"])
    assert_same_inputs(domains, expected)
    np.testing.assert_array_equal(domains.source_train[1], expected.source_train[1])
    assert (domains.name, domains.num_classes) == ("source → target", 3)
    mixed = csv_table(files[0], frames[1])
    assert_same_inputs(mixed, expected)
    assert mixed.name == "a → target"
