import os

import pytest

from dann.data.image_paths import class_names, read_images

COUNTS = {"bike": 2, "cup": 3}


@pytest.fixture
def root(tmp_path):
    """A folder with the domain `photo` of two classes, of empty files."""
    for name, count in COUNTS.items():
        (tmp_path / "photo" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "photo" / name / f"{number}.png").touch()
    return tmp_path


def relative(root, paths):
    return [os.path.relpath(path, root) for path in paths]


def names_of(images):
    return class_names({"source": images})["source"]


def test_folders_are_classes(root, capsys):
    (root / "photo/notes.txt").touch()
    (root / "photo/bike/notes.txt").touch()
    found = read_images(root, "photo")
    assert list(found.values()) == ["bike"] * 2 + ["cup"] * 3
    assert relative(root / "photo", found) == [
        f"{name}/{number}.png" for name, count in COUNTS.items() for number in range(count)
    ]
    assert names_of(found) == {"bike": "bike", "cup": "cup"}
    assert "Ignored 1 files of photo that are no images" in capsys.readouterr().out


def test_the_level_that_office_31_has_is_passed(root):
    (root / "photo").rename(root / "images")
    (root / "photo").mkdir()
    (root / "images").rename(root / "photo/images")
    assert relative(root, read_images(root, "photo"))[0] == "photo/images/bike/0.png"


def test_deeper_folders_and_capitals_count_and_hidden_files_do_not(root):
    for name in ("bike/left/old/a.PNG", "bike/._a.png", "bike/.old/a.png", ".trash/a.png"):
        (root / "photo" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "photo" / name).touch()
    found = relative(root / "photo", read_images(root, "photo"))
    assert [name for name in found if "a" in name] == ["bike/left/old/a.PNG"]


def test_links_are_followed_to_files_and_classes_and_pipes_ignored(root):
    (root / "photo/hat").symlink_to("cup")
    (root / "photo/bike/a.png").symlink_to("1.png")
    (root / "photo/bike/nowhere.png").symlink_to("nowhere")
    (root / "photo/bike/again").symlink_to(".")
    os.mkfifo(root / "photo/bike/pipe.png")
    found = read_images(root, "photo")
    assert list(found.values()) == ["bike"] * 3 + ["cup"] * 3 + ["hat"] * 3


def test_a_folder_without_folders_has_no_classes(root):
    (root / "photo/cup/.hidden").mkdir()
    found = read_images(root / "photo", "cup")
    assert (set(found.values()), names_of(found)) == ({None}, {})
    assert relative(root, found) == [f"photo/cup/{number}.png" for number in range(3)]


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("list.txt", "photo/"), ("list.txt", ""), ("a/list/list.txt", "../../photo/")],
    ids=["to the root", "to the domain", "to the list"],
)
def test_paths_in_a_list_are_relative(root, name, prefix):
    (root / "a/list").mkdir(parents=True)
    (root / name).write_text(f"{prefix}cup/1.png 3\n\n{prefix}bike/0.png 1\n")
    found = read_images(root, "photo", name)
    assert relative(root, found) == ["photo/cup/1.png", "photo/bike/0.png"]
    assert list(found.values()) == [3, 1]
    assert names_of(found) == {1: "bike", 3: "cup"}


def test_paths_may_have_spaces_and_tabs_may_stand_before_the_label(root):
    (root / "photo/bike").rename(root / "photo/my bike")
    lines = ["photo/my bike/0.png\t0", "photo/my bike/1.png  0", "photo/cup/2.png 1"]
    (root / "list.txt").write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    found = read_images(root, "photo", "list.txt")
    assert names_of(found) == {0: "my bike", 1: "cup"}
    (root / "list.txt").write_text("my bike/0.png\ncup/1.png\n")
    assert set(read_images(root, "photo", "list.txt").values()) == {None}


@pytest.mark.parametrize(
    "labels", [(0, 1, 1), (0, 0, 0)], ids=["a folder of two", "a class in two folders"]
)
def test_classes_are_numbers_where_folders_do_not_tell_them(root, labels):
    paths = ("bike/0.png", "bike/1.png", "cup/0.png")
    lines = [f"{path} {label}" for path, label in zip(paths, labels, strict=True)]
    (root / "list.txt").write_text("\n".join(lines))
    found = read_images(root, "photo", "list.txt")
    assert names_of(found) == {label: str(label) for label in sorted(set(labels))}


def test_what_is_not_there_is_refused(root):
    (root / "empty/cup").mkdir(parents=True)
    for arguments in (["Photo"], ["photo", "no.txt"]):
        with pytest.raises(FileNotFoundError, match=arguments[-1]):
            read_images(root, *arguments)
    for folder, domain in ((root, "empty"), (root / "empty", "cup")):
        with pytest.raises(ValueError, match="must hold a folder for each class"):
            read_images(folder, domain)
