import os

import pytest

from dann.data.labelled_paths import read_folder, read_lists

NAMES = {"bike": 2, "cup": 3}


@pytest.fixture
def root(tmp_path):
    """A domain of two classes and five files; nothing here looks into them."""
    for name, count in NAMES.items():
        (tmp_path / "photo" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "photo" / name / f"{number}.png").touch()
    return tmp_path


def relative(root, paths):
    return [os.path.relpath(path, root) for path in paths]


def test_folders_are_classes(root):
    (root / "photo/notes.txt").touch()
    (root / "photo/bike/notes.txt").touch()
    found = read_folder(root, "photo")
    assert found.classes == ["bike", "cup"]
    assert found.names == ["bike"] * 2 + ["cup"] * 3
    assert relative(root / "photo", found.paths) == [
        f"{name}/{number}.png" for name, count in NAMES.items() for number in range(count)
    ]


def test_the_level_that_office_31_has_is_passed(root):
    (root / "photo").rename(root / "images")
    (root / "photo").mkdir()
    (root / "images").rename(root / "photo/images")
    found = read_folder(root, "photo")
    assert found.classes == ["bike", "cup"]
    assert relative(root, found.paths)[0] == "photo/images/bike/0.png"


def test_a_class_may_be_called_images(root):
    (root / "photo/images").mkdir()
    (root / "photo/images/0.png").touch()
    assert read_folder(root, "photo").classes == ["bike", "cup", "images"]


def test_deeper_folders_and_capitals_count_and_hidden_files_do_not(root):
    for name in ("bike/left/old/a.PNG", "bike/._a.png", "bike/.old/a.png", ".trash/a.png"):
        (root / "photo" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "photo" / name).touch()
    found = read_folder(root, "photo")
    assert found.classes == ["bike", "cup"]
    names = [name for name in relative(root / "photo", found.paths) if "a" in name]
    assert names == ["bike/left/old/a.PNG"]


def test_links_are_followed_to_files_and_classes_and_pipes_ignored(root, capsys):
    (root / "photo/hat").symlink_to("cup")
    (root / "photo/bike/a.png").symlink_to("1.png")
    (root / "photo/bike/nowhere.png").symlink_to("nowhere")
    (root / "photo/bike/again").symlink_to(".")
    os.mkfifo(root / "photo/bike/pipe.png")
    (root / "photo/cup/notes.txt").touch()
    found = read_folder(root, "photo")
    assert found.names == ["bike"] * 3 + ["cup"] * 3 + ["hat"] * 3
    assert "Ignored 4 files of photo that are no images" in capsys.readouterr().out


def test_a_folder_without_folders_has_no_classes(root):
    (root / "photo/cup/.hidden").mkdir()
    found = read_folder(root / "photo", "cup")
    assert (found.names, found.classes) == (None, [])
    assert relative(root, found.paths) == [f"photo/cup/{number}.png" for number in range(3)]


def test_a_missing_domain_is_an_error(root):
    (root / "sketch").mkdir()
    with pytest.raises(FileNotFoundError, match="folders in .*: photo, sketch. Received: Photo$"):
        read_folder(root, "Photo")


def test_a_folder_without_images_is_an_error(root):
    (root / "empty/cup").mkdir(parents=True)
    for folder, domain in ((root, "empty"), (root / "empty", "cup")):
        with pytest.raises(ValueError, match="must hold a folder for each class"):
            read_folder(folder, domain)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("list.txt", "photo/"), ("list.txt", ""), ("a/list/list.txt", "../../photo/")],
    ids=["to the root", "to the domain", "to the list"],
)
def test_paths_in_a_list_are_relative(root, name, prefix):
    (root / "a/list").mkdir(parents=True)
    (root / name).write_text(f"{prefix}cup/1.png 3\n\n{prefix}bike/0.png 1\n")
    found = read_lists(root, "photo", name)
    assert relative(root, found.paths) == ["photo/cup/1.png", "photo/bike/0.png"]
    assert (found.names, found.classes) == (["cup", "bike"], ["bike", "cup"])
    assert found.numbers == [3, 1]
    assert found.tests is None


def test_a_list_that_is_there_goes_before_that_of_the_root(root, tmp_path_factory):
    (root / "list.txt").write_text("photo/cup/0.png 0")
    other = tmp_path_factory.mktemp("other") / "list.txt"
    other.write_text("photo/cup/2.png 0")
    assert relative(root, read_lists(root, "photo", other).paths) == ["photo/cup/2.png"]


def test_paths_may_have_spaces_and_tabs_may_stand_before_the_label(root):
    (root / "photo/bike").rename(root / "photo/my bike")
    lines = ["photo/my bike/0.png\t0", "photo/my bike/1.png  0", "photo/cup/2.png 1"]
    (root / "list.txt").write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    found = read_lists(root, "photo", "list.txt")
    assert found.names == ["my bike", "my bike", "cup"]


def test_the_images_of_a_test_list_are_marked(root):
    (root / "train.txt").write_text("cup/0.png 1\nbike/0.png 0")
    (root / "test.txt").write_text("cup/1.png 1")
    found = read_lists(root, "photo", "train.txt", "test.txt")
    assert relative(root, found.paths)[2:] == relative(root, found.tests) == ["photo/cup/1.png"]
    assert found.names == ["cup", "bike", "cup"]
    (root / "test.txt").write_text("cup/1.png 1\nphoto/cup/0.png 1")
    with pytest.raises(ValueError, match="must be apart. Received: in both .*cup/0.png$"):
        read_lists(root, "photo", "train.txt", "test.txt")


def test_a_tilde_is_the_home_in_lists_and_for_lists(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    (root / "list.txt").write_text("~/photo/cup/0.png 1\n~nobody.png 1")
    (root / "~nobody.png").touch()
    found = read_lists(root / "photo", "none", "~/list.txt")
    assert relative(root, found.paths) == ["photo/cup/0.png", "~nobody.png"]
    with pytest.raises(FileNotFoundError, match="Received: ~nobody/a.txt"):
        read_lists(root, "photo", "~nobody/a.txt")


@pytest.mark.parametrize(
    "labels", [(0, 1, 1), (0, 0, 0)], ids=["a folder of two", "a class in two folders"]
)
def test_classes_are_numbers_where_folders_do_not_tell_them(root, labels):
    paths = ("bike/0.png", "bike/1.png", "cup/0.png")
    lines = [f"{path} {label}" for path, label in zip(paths, labels, strict=True)]
    (root / "list.txt").write_text("\n".join(lines))
    found = read_lists(root, "photo", "list.txt")
    assert found.names == [str(label) for label in labels]
    assert found.classes == [str(label) for label in sorted(set(labels))]


def test_a_list_may_have_no_labels(root):
    (root / "photo/cup").rename(root / "photo/my cup")
    (root / "list.txt").write_text("my cup/0.png\nbike/1.png\n")
    found = read_lists(root, "photo", "list.txt")
    assert (found.names, found.classes, found.numbers) == (None, [], None)
    assert relative(root, found.paths) == ["photo/my cup/0.png", "photo/bike/1.png"]


@pytest.mark.parametrize(
    "text",
    [
        "photo/cup/0.png 1\nphoto/cup/1.png one",
        "photo/cup/0.png -1",
        "photo/cup/0.png 1.5",
        "photo/cup/0.png ²",
        "7",
        "",
        "cup/0.png 1\ncup/40.png 1",
        "photo/cup/0.png 1\ncup/0.png 2",
        "photo/cup/0.png 1\ncup/1.png",
        "\udcff",
    ],
)
def test_a_faulty_list_is_refused(root, text):
    (root / "list.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"list.txt|or none|utf-8"):
        read_lists(root, "photo", "list.txt")


def test_a_list_must_exist(root):
    with pytest.raises(FileNotFoundError, match="Received: no.txt"):
        read_lists(root, "photo", "no.txt")
