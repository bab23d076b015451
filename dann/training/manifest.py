"""Files that are written completely or not at all, and the list of such files in a directory."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterable, Iterator

MANIFEST = ".dann-manifest.json"
DRAFT = ".dann-draft"  # part of a name, so that a draft never replaces another file
_FORMAT = "dann run manifest"


@contextlib.contextmanager
def atomic_write(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the path of a draft, which replaces the file at the end of the block.

    The folder is created if it does not exist. The draft is flushed to the disk before it is
    renamed. If anything interrupts the block, the file does not change.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.stem}{DRAFT}{path.suffix}")
    try:
        yield draft
        if draft.exists():
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


class Manifest:
    """The list of the files that this package wrote into a directory.

    Only listed files are replaced or deleted. The list is the file `.dann-manifest.json`. Every
    method raises `FileExistsError` if that file has another format or another kind.

    Args:
        directory: The directory. It does not have to exist yet.
        kind: Writer of the directory: `"run"`, `"sweep"` or `"training"`.
    """

    def __init__(self, directory: str | os.PathLike, kind: str):
        self.directory, self.kind = pathlib.Path(directory), kind
        self.path = self.directory / MANIFEST

    def files(self) -> dict[str, str]:
        """Returns the origin of each file (mostly `""`) by name relative to the directory."""
        if not os.path.lexists(self.path):
            return {}
        try:
            content = json.loads(self.path.read_bytes())
            kind, files = content["kind"], dict(content["files"])
            is_manifest = content["format"] == _FORMAT
        except (OSError, KeyError, TypeError, ValueError, RecursionError):
            is_manifest, kind, files = False, "", {}
        if not is_manifest:
            raise FileExistsError(
                "Expected a list of files that this package wrote. Move the file, or choose "
                f"another directory. Received: {self.path}"
            )
        if kind != self.kind:
            raise FileExistsError(
                f"Expected the directory of a {self.kind}. Choose another directory. "
                f"Received: {self.directory}, the directory of a {kind}"
            )
        return files

    def check(self, paths: Iterable[pathlib.Path]) -> None:
        """Checks that files may be written.

        Raises:
            FileExistsError: If a file exists that is not in the list, or if a link leads out of the
                directory.
        """
        files = self.files()
        for path in paths:
            if not self._contains(path):
                raise FileExistsError(
                    f"Expected a folder within {self.directory}. Remove the link. "
                    f"Received: {path.parent}, a link to {path.parent.resolve()}"
                )
            if os.path.lexists(path) and self._name(path) not in files:
                raise FileExistsError(
                    f"Expected no file where a {self.kind} would write one. Move the file, or "
                    f"choose another directory. Received: {path}, which no {self.kind} wrote"
                )

    def record(self, paths: Iterable[pathlib.Path] = (), origin: str = "") -> None:
        """Adds files to the list. Call this method immediately before the files are written."""
        files = self.files()
        changed = files | {self._name(path): origin for path in paths}
        if changed != files or not self.path.exists():
            self._save(changed)

    @contextlib.contextmanager
    def write(self, path: pathlib.Path, origin: str = "") -> Iterator[pathlib.Path]:
        """Writes a file like `atomic_write`, after a check, and adds it to the list."""
        self.check([path])
        with atomic_write(path) as draft:
            yield draft
            if draft.exists():
                self.record([path], origin)

    def discard(self, names: Iterable[str] | None = None) -> None:
        """Deletes files of the list, and drafts of killed processes in the folders of these files.

        Folders within the directory that become empty are deleted too.

        Args:
            names: Names of the files to delete, relative to the directory. Defaults to `None`: all
                files of the list, and the list itself.
        """
        files = self.files()
        selected = files.keys() & set(files if names is None else names)
        paths = [path for path in map(self.directory.joinpath, selected) if self._contains(path)]
        for folder in {path.parent for path in paths}:
            paths += folder.glob(f".*{DRAFT}*")
        for path in paths:
            if path.is_symlink() or path.is_file():
                path.unlink()
            folder = path.parent.resolve()
            with contextlib.suppress(OSError):  # raised by a folder that is not empty
                while folder != self.directory.resolve():
                    folder.rmdir()
                    folder = folder.parent
        if names is None:
            self.path.unlink(missing_ok=True)
        elif selected:
            self._save({name: files[name] for name in files if name not in selected})

    def _name(self, path):
        return path.absolute().relative_to(self.directory.absolute()).as_posix()

    def _contains(self, path):
        """Returns whether a path is in the directory if links to folders are followed."""
        return path.parent.resolve().is_relative_to(self.directory.resolve())

    def _save(self, files):
        content = {"format": _FORMAT, "kind": self.kind, "files": dict(sorted(files.items()))}
        with atomic_write(self.path) as draft:
            draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
