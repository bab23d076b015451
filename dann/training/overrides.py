"""Paths as arguments of the command line."""

import re
import shlex


def quote(path: object) -> str:
    """Returns a path in quotes for Hydra's command line, whatever characters it contains."""
    # Hydra reads two backslashes before a quote as one, so backslashes there are doubled.
    text = re.sub(
        r'(\\*)("|$)', lambda match: 2 * match[1] + "\\" * len(match[2]) + match[2], str(path)
    )
    return '"' + text.replace("${", "\\${") + '"'


def format_argument(key: str, path: object) -> str:
    """Returns the argument `key=path` of a script, in quotes if the shell needs them."""
    plain = re.fullmatch(r"[\w./-]+", str(path), re.ASCII)
    return f"{key}={path}" if plain else shlex.quote(f"{key}={quote(path)}")
