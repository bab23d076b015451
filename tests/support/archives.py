"""Archives of generated files, and the folder of real ones."""

import io
import os
import pathlib
import tarfile

import pytest

REAL_DATA = pathlib.Path(os.environ.get("DANN_DATA_DIR", "../shared/data")).absolute()


def needs_real(*names):
    """Returns a mark that skips a test if files or folders of `REAL_DATA` are missing."""
    exist = all((REAL_DATA / name).exists() for name in names)
    return pytest.mark.skipif(not exist, reason=f"needs {names} in {REAL_DATA}, or DANN_DATA_DIR")


def pack_files(files):
    """Returns a compressed tar archive of files, a dict from name to bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
