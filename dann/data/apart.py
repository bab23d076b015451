"""Files that are tested on are not trained on."""

import os
from collections.abc import Mapping


def check_apart(trained: Mapping[str, os.PathLike], tested: Mapping[str, os.PathLike]) -> None:
    """Refuses a file that is tested on and trained on; links are followed, contents not compared.

    Args:
        trained: Paths of what is trained on, by what they are: `"source"` and `"target"`.
        tested: Paths of what test sets come from. One with a name of `trained` is that file, of
            which a part is held out; it must differ from the others alone.

    Raises:
        ValueError: If two paths that must be apart lead to one file.
    """
    for part, path in tested.items():
        for other, other_path in trained.items():
            if part != other and os.path.realpath(path) == os.path.realpath(other_path):
                raise ValueError(
                    f"The {part} and the {other} must be different files: nothing may be tested "
                    f"on that is trained on. Received: {path} and {other_path}"
                )
