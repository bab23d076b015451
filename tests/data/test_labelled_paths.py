import os
import shutil

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


def test_a_file_counts_once_in_its_class_however_many_links_lead_to_it(root):
    (root / "photo/bike/copy.png").symlink_to("1.png")
    (root / "photo/bike/a.png").symlink_to("1.png")
    (root / "photo/cup/again").symlink_to(".")
    (root / "photo/cup/self.png").symlink_to("self.png")
    found = read_folder(root, "photo")
    assert found.names == ["bike"] * 2 + ["cup"] * 4
    assert len({os.path.realpath(path) for path in found.paths}) == 6


def test_a_class_of_links_to_another_place_keeps_its_name(root):
    (root / "photo/hat").mkdir()
    (root / "stored").touch()
    (root / "more").mkdir()
    (root / "more/0.png").touch()
    (root / "photo/hat/0.png").symlink_to(root / "stored")
    (root / "photo/hat/more").symlink_to(root / "more")
    found = read_folder(root, "photo")
    assert relative(root / "photo", found.paths)[5:] == ["hat/0.png", "hat/more/0.png"]
    (root / "list.txt").write_text("photo/bike/0.png 0\nphoto/hat/0.png 1")
    assert read_lists(root, "photo", "list.txt").classes == ["bike", "hat"]


def test_hard_links_to_a_file_are_that_file(root):
    os.link(root / "photo/bike/1.png", root / "photo/bike/copy.png")
    found = read_folder(root, "photo")
    assert relative(root / "photo/bike", found.paths[:2]) == ["0.png", "1.png"]
    assert found.names == ["bike"] * 2 + ["cup"] * 3
    (root / "train.txt").write_text("photo/cup/0.png 1\nphoto/bike/1.png 0")
    (root / "test.txt").write_text("photo/bike/copy.png 0\nphoto/cup/1.png 1")
    with pytest.raises(ValueError, match="test list. Received: 1 in both: .*bike/copy.png$"):
        read_lists(root, "photo", "train.txt", "test.txt")
    os.link(root / "photo/bike/1.png", root / "photo/cup/a.png")
    with pytest.raises(ValueError, match="in one class.* 1 in several: bike/1.png and cup/a.png"):
        read_folder(root, "photo")


def test_of_many_links_to_a_file_the_first_are_named(root):
    for number in range(5):
        (root / f"photo/more_{number}").mkdir()
        os.link(root / "photo/bike/1.png", root / f"photo/more_{number}/0.png")
    with pytest.raises(ValueError, match="more_0/0.png and more_1/0.png and 3 more$"):
        read_folder(root, "photo")


@pytest.mark.parametrize("link", ["a file", "a folder", "a class", "the domain"])
def test_a_file_linked_from_two_classes_is_refused(root, link):
    places = {
        "a file": ("cup/a.png", "../bike/0.png", 1),
        "a folder": ("cup/more", "../bike", 2),
        "a class": ("red bike", "bike", 2),
        "the domain": ("cup/up", "..", 2),
    }
    name, place, count = places[link]
    (root / "photo" / name).symlink_to(place)
    message = f"of photo must be in one class.* Received: {count} in several: bike/0.png and "
    with pytest.raises(ValueError, match=message):
        read_folder(root, "photo")


def test_files_that_are_no_images_are_counted_by_their_suffix(root, capsys):
    read_folder(root, "photo")
    assert capsys.readouterr().out == ""
    for name in ("bike/notes.txt", "cup/a.TXT", "cup/b/README", "stray.png", ".DS_Store", "cup/.a"):
        (root / "photo" / name).parent.mkdir(exist_ok=True)
        (root / "photo" / name).touch()
    (root / "photo/cup/again").symlink_to(".")
    assert len(read_folder(root, "photo").paths) == 5
    assert capsys.readouterr().out == (
        "Ignored 4 files of photo that are not images in the folder of a class: "
        "2 .txt, 1 .png, 1 without a suffix\n"
    )


def test_a_missing_domain_is_an_error(root):
    (root / "sketch").mkdir()
    with pytest.raises(FileNotFoundError, match="folders in .*: photo, sketch. Received: Photo$"):
        read_folder(root, "Photo")


def test_a_folder_without_images_is_an_error(root):
    (root / "empty/cup").mkdir(parents=True)
    with pytest.raises(ValueError, match="empty must hold a folder .* in the folders cup$"):
        read_folder(root, "empty")
    (root / "photo/hat").mkdir()
    with pytest.raises(ValueError, match="is a class and must hold images .*Received: none in hat"):
        read_folder(root, "photo")


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
    with pytest.raises(ValueError, match="its test list. Received: 1 in both: .*cup/0.png$"):
        read_lists(root, "photo", "train.txt", "test.txt")


def test_a_link_to_an_image_of_a_list_is_that_image(root):
    (root / "latest").symlink_to("photo")
    (root / "train.txt").write_text("photo/cup/0.png 1\nphoto/bike/0.png 0\nlatest/cup/0.png 1")
    assert read_lists(root, "photo", "train.txt").names == ["cup", "bike"]
    (root / "test.txt").write_text("latest/cup/0.png 1\nlatest/cup/1.png 1\nlatest/bike/0.png 0")
    with pytest.raises(ValueError, match="its test list. Received: 2 in both: .*latest/bike/0.png"):
        read_lists(root, "photo", "train.txt", "test.txt")
    (root / "test.txt").write_text("photo/cup/0.png 1\nlatest/cup/0.png 0")
    with pytest.raises(ValueError, match="line 2: an image must have one label.* with 1 and 0"):
        read_lists(root, "photo", "test.txt")


def test_a_tilde_is_the_home_in_lists_and_for_lists(root, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    (root / "list.txt").write_text("~/photo/cup/0.png 1\n~nobody.png 1")
    (root / "~nobody.png").touch()
    found = read_lists(root / "photo", "none", "~/list.txt")
    assert relative(root, found.paths) == ["photo/cup/0.png", "~nobody.png"]
    with pytest.raises(FileNotFoundError, match="Received: ~nobody/a.txt, which does not exist"):
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("photo/cup/0.png 1\nphoto/cup/1.png one", "list.txt, line 2: .*'photo/cup/1.png one'"),
        ("\nphoto/cup/0.png", "line 2: expected `path label`.* Received: 'photo/cup/0.png'"),
        ("photo/cup/0.png -1", "line 1: .* an integer from 0. Received"),
        ("photo/cup/0.png 1.5", "line 1: "),
        ("photo/cup/0.png ²", "line 1: "),
        ("7", "line 1: .*Received: '7'"),
        ("", "list.txt must have lines .* Received: an empty file"),
        ("cup/0.png 1\ncup/40.png 1\ncup/41.png 1", "exist.* 2 that do not: cup/40.png, cup/41"),
        ("photo/cup/0.png 1\ncup/0.png 2", "line 2: an image must .*: cup/0.png with 1 and 2"),
    ],
)
def test_a_faulty_line_of_a_list_is_named(root, text, message):
    (root / "list.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_lists(root, "photo", "list.txt")


def test_a_list_must_be_a_text_file_that_exists(root):
    with pytest.raises(FileNotFoundError, match="Received: no.txt, which does not exist"):
        read_lists(root, "photo", "no.txt")
    (root / "list.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="Expected a text file in UTF-8. Received: .*list.txt"):
        read_lists(root, "photo", "list.txt")


@pytest.mark.parametrize("way", ["absolute", "up", "home"])
def test_a_list_leads_outside_only_if_that_is_allowed(root, tmp_path_factory, monkeypatch, way):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(root / "photo/cup/0.png", elsewhere / "secret.png")
    monkeypatch.setenv("HOME", str(elsewhere))
    name = {
        "absolute": elsewhere / "secret.png",
        "up": os.path.relpath(elsewhere / "secret.png", root),
        "home": "~/secret.png",
    }[way]
    (root / "list.txt").write_text(f"photo/cup/0.png 0\n{name} 1\n")
    message = "images must lie in .*`outside_root=True`. Received: 1 elsewhere: .*secret.png$"
    with pytest.raises(ValueError, match=message):
        read_lists(root, "photo", "list.txt")
    (root / "plain.txt").write_text("photo/cup/0.png 0\n")
    with pytest.raises(ValueError, match=message):
        read_lists(root, "photo", "plain.txt", "list.txt")
    found = read_lists(root, "photo", "list.txt", outside_root=True)
    assert str(elsewhere / "secret.png") in found.paths


def test_a_list_may_name_files_of_the_root_and_of_its_folder_in_any_way(root, tmp_path_factory):
    beside = tmp_path_factory.mktemp("beside")
    shutil.copy(root / "photo/cup/0.png", beside / "own.png")
    lines = [f"{root}/photo/cup/1.png 0", "photo/../photo/cup/2.png 0", "own.png 1"]
    (beside / "list.txt").write_text("\n".join(lines))
    assert len(read_lists(root, "photo", beside / "list.txt").paths) == 3
