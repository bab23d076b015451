"""Paths as arguments of the command line."""

import re
import shlex


def quote(path: object) -> str:
    """Returns a path as Hydra's command line takes it, whatever characters it holds."""
    # Hydra takes one of two backslashes where a quote follows.
    text = re.sub(
        r'(\\*)("|$)', lambda found: 2 * found[1] + "\\" * len(found[2]) + found[2], str(path)
    )
    return '"' + text.replace("${", "\\${") + '"'


def format_argument(key: str, path: object) -> str:
    """Returns `key=path` as it is typed for one of the scripts, with the quotes that it needs."""
    plain = re.fullmatch(r"[\w./-]+", str(path), re.ASCII)
    return f"{key}={path}" if plain else shlex.quote(f"{key}={quote(path)}")
