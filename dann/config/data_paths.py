"""Relative paths of data, which do not depend on the working directory of a later command."""

import os
from typing import Any

_FILES = "source", "sources", "target", "path", "source_test", "target_test"
_LISTS = "source_list", "target_list", "source_test_list", "target_test_list"
# Arguments of readers that are paths; of other readers only `data_dir`.
_PATH_ARGUMENTS = {
    "dann.data.csv_table": _FILES,
    "dann.data.image_folder": ("root", *_LISTS),
    "dann.data.npz": _FILES,
}


def resolve_paths(data: dict[str, Any], folder: str | None) -> dict[str, Any]:
    """Makes the relative paths among the arguments of a reader absolute.

    A path starts at the folder in which the run was started. If it does not exist there, perhaps
    because the run and its data were moved together, it starts at the working directory.

    Args:
        data: The arguments and the name of the reader, `_target_`.
        folder: The folder, `paths.work_dir` of the run. `None` is the working directory.
    """

    def resolve(value):
        if isinstance(value, list):
            return [resolve(path) for path in value]
        if not value or not isinstance(value, str):
            return value
        paths = [os.path.abspath(os.path.join(base, value)) for base in (folder or "", "")]
        return next(filter(os.path.exists, paths), value)

    keys = _PATH_ARGUMENTS.get(str(data.get("_target_")), ("data_dir",))
    return {key: resolve(value) if key in keys else value for key, value in data.items()}


def find_missing_path(data: dict[str, Any], folder: str | None) -> str | None:
    """Returns the dotted key and the path of data that do not exist, or `None`.

    Args:
        data: See `resolve_paths`.
        folder: See `resolve_paths`.
    """
    reader, data = str(data.get("_target_")), resolve_paths(data, folder)
    keys, root = _PATH_ARGUMENTS.get(reader, ()), ""
    if "root" in keys:
        root = os.path.expanduser(str(data["root"]))
        # The folders of the domains, unless list files replace them.
        keys = [
            key
            for key in ("source", "sources", "target")
            if not data.get(f"{key.removesuffix('s')}_list")
        ]
    if data.get("sources") or data.get("path"):
        keys = [key for key in keys if key != "source"]
    for key in keys:
        value: Any = data.get(key) or []
        for name in value if isinstance(value, list) else [value]:
            path = os.path.join(root, os.path.expanduser(str(name)))
            if name != "???" and not os.path.exists(path):  # "???" is a missing value
                return f"data.{key}: no such file or folder: {os.path.abspath(path)}"
    return None
