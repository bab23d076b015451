import os

import pytest

from dann.data.image_folder import read_images


@pytest.fixture
def root(tmp_path):
    """Creates a folder with the domain `photo` of two classes, with empty files."""
    for name in ("bike/0", "bike/1", "cup/0", "cup/1", "cup/2"):
        (tmp_path / "photo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"photo/{name}.png").touch()
    return tmp_path


def relative(root, paths):
    return [os.path.relpath(path, root) for path in paths]


@pytest.mark.parametrize("level", ["", "images/"])  # the second is Office-31's layout
def test_folders_are_classes(root, capsys, level):
    if level:
        (root / "photo").rename(root / "images")
        (root / "photo").mkdir()
        (root / "images").rename(root / "photo/images")
    (root / f"photo/{level}bike/notes.txt").touch()
    images = read_images(root, "photo")
    assert list(images.values()) == ["bike"] * 2 + ["cup"] * 3
    assert relative(root, images)[:2] == [f"photo/{level}bike/{number}.png" for number in (0, 1)]
    assert "Ignored 1 files of photo that are not images" in capsys.readouterr().out


def test_deep_files_and_links_are_found(root):
    for name in ("bike/left/old/a.PNG", "bike/._a.png", "bike/.old/a.png", ".trash/a.png"):
        (root / "photo" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "photo" / name).touch()
    (root / "photo/hat").symlink_to("cup")
    (root / "photo/bike/b.png").symlink_to("1.png")
    (root / "photo/bike/nowhere.png").symlink_to("nowhere")
    (root / "photo/bike/again").symlink_to(".")
    os.mkfifo(root / "photo/bike/pipe.png")
    images = read_images(root, "photo")
    assert list(images.values()) == ["bike"] * 4 + ["cup"] * 3 + ["hat"] * 3
    bikes = relative(root / "photo/bike", images)[:4]
    assert bikes == ["0.png", "1.png", "b.png", "left/old/a.PNG"]


def test_folder_without_folders_has_no_classes(root):
    (root / "photo/cup/.hidden").mkdir()
    images = read_images(root / "photo", "cup")
    assert set(images.values()) == {None}
    assert relative(root, images) == [f"photo/cup/{number}.png" for number in range(3)]


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("list.txt", "photo/"), ("a/list/list.txt", "../../photo/"), ("photo/list.txt", "")],
)
def test_list_paths_are_relative_with_spaces(root, name, prefix):
    (root / "a/list").mkdir(parents=True)
    (root / "photo/bike").rename(root / "photo/my bike")
    text = f"\ufeff{prefix}cup/1.png\t3\r\n\r\n{prefix}my bike/0.png  1\r\n"
    (root / name).write_text(text, encoding="utf-8")
    images = read_images(root, "photo", name)
    assert relative(root, images) == ["photo/cup/1.png", "photo/my bike/0.png"]
    assert list(images.values()) == [3, 1]
