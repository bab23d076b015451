"""The config of a run that is finished."""

import pathlib
from typing import Any

from omegaconf import OmegaConf

from dann.config.schema import TrainConfig


def config_of_run(directory: str | pathlib.Path, paths: Any = None) -> Any:
    """Returns the composed config of a run, with today's paths.

    What an older version did not know yet has its default.

    Args:
        directory: A run directory of `scripts/train.py`.
        paths: `data_dir` and `cache_dir` of the command, which replace those of the run where they
            are not null. Defaults to `None`.

    Raises:
        FileNotFoundError: If the config is not there.
    """
    path = pathlib.Path(directory) / ".hydra" / "config.yaml"
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a run directory of scripts/train.py. Received: no {path}"
        )
    cfg: Any = OmegaConf.merge(OmegaConf.structured(TrainConfig), OmegaConf.load(path))
    cfg.paths.run_dir = str(directory)
    for key in ("data_dir", "cache_dir"):
        if paths is not None and paths[key] is not None:
            cfg.paths[key] = paths[key]
    return cfg
