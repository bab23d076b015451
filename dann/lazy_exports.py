"""Names of a package that are imported when they are first asked for."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dann.installed import is_installed


def lazy_exports(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package that imports its modules when it must.

    Args:
        package: Full name of the package.
        names: For each module of the package, the names that it gives.

    Example: in the `__init__.py` of a package,

    ```python
    __getattr__, __dir__ = lazy_exports(__name__, {"packing": ("PackError", "pack")})
    ```
    """
    modules = {name: module for module, given in names.items() for name in given}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)  # the next look needs no search
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *(modules if is_installed("keras") else ())})

    return find, listed
