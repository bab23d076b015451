"""Configs as the scripts compose them."""

import copy
import functools
import pathlib
import types

from hydra import compose, initialize_config_dir

import dann.config.schema  # noqa: F401  registers the schemas that the configs name

CONF = pathlib.Path(__file__).parents[2] / "conf"


def compose_config(*overrides, script="train"):
    """Composes the config of a script; the default trains in the folder `run`."""
    return copy.deepcopy(_compose(script, *overrides))


@functools.cache  # a composition takes a quarter of a second
def _compose(script, *overrides):
    paths = ["paths.run_dir=run"] if script == "train" else []
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(script, [*paths, *overrides])


def minimal_domains(input_shape, num_classes, nuisances=None, standardizer=None):
    """Returns the attributes of domains that `build_model` reads."""
    shapes = {"input_shape": input_shape, "num_classes": num_classes, "num_sources": 1}
    shapes["has_images"] = len(input_shape) == 3
    return types.SimpleNamespace(**shapes, nuisances=nuisances, standardizer=standardizer)
