"""Configs as the scripts compose them."""

import pathlib

from hydra import compose, initialize_config_dir

import dann.config  # noqa: F401  registers the schemas that the configs name

CONF = pathlib.Path(__file__).parents[2] / "conf"


def composed(*overrides, script="train"):
    """The config of a script, by default of the training in the folder `run`."""
    paths = ["paths.run_dir=run"] if script == "train" else []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(script, [*paths, *overrides])
