"""Whether two runs have the same settings."""

import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from hydra import compose
from omegaconf import OmegaConf

_NOT_OF_THE_RESULT = {"seed", "paths", "hydra", "callbacks", "compare"}


def settings_digest(cfg: Any) -> str:
    """Returns a digest of the settings that a run's result depends on, but its seed.

    What is off (null, false, 0 or empty) does not count, so that an option added later leaves the
    digests of earlier runs as they are.
    """
    settings: Any = OmegaConf.to_container(cfg, resolve=False)
    left_out = set(_NOT_OF_THE_RESULT)
    if not settings.get("selection", {}).get("keep"):
        left_out.add("selection")  # scores that only look on
    kept = {key: value for key, value in settings.items() if key not in left_out}
    return hashlib.sha256(json.dumps(_switched_on(kept), sort_keys=True).encode()).hexdigest()[:12]


def _switched_on(node):
    if isinstance(node, dict):
        parts = {key: _switched_on(value) for key, value in node.items()}
        return {key: value for key, value in parts.items() if value}
    return [_switched_on(value) for value in node] if isinstance(node, list) else node


def digest_of_command(overrides: Sequence[str]) -> str:
    """Returns the digest of the run that `scripts/train.py` makes of these arguments.

    Only within a `command`, whose `conf/` it reads.
    """
    return settings_digest(compose("train", list(overrides)))


def digest_of_run(directory: str | pathlib.Path) -> str | None:
    """Returns the digest of the settings of a finished run, or `None` if there is none."""
    directory = pathlib.Path(directory)
    if not (directory / "summary.json").is_file():
        return None
    return settings_digest(OmegaConf.load(directory / ".hydra/config.yaml"))
