"""Training configs with one odd value: what becomes of them."""

import functools
import warnings

import keras
import numpy as np
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from support.configs import composed

from dann import config, training
from dann.config.config_checks import check_objects
from dann.data import DomainPair

VALUES = ["0", "-1", "nan", "inf", "''", "[]", "{}", "null", "a:b", "true", "1000000000000"]
REFUSED = (config.ConfigError, ValueError, TypeError, OSError, OmegaConfBaseException)
_SMALL = ["trainer.batch_size=2", "trainer.steps=2", "trainer.steps_per_epoch=2"]


@functools.cache
def base(choices):
    """The config of these groups, with a short training."""
    return composed(*_SMALL, *choices.split())


@functools.cache
def domains():
    """Two domains of three classes."""
    images = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 1)).astype("uint8")
    labels = np.arange(12) % 3
    parts = (images, labels), (images[::-1].copy(), labels[::-1].copy())
    return DomainPair("a", "b", parts[0], parts[0], images, parts[1], 3, target_train_labels=labels)


def keys_of(choices, group):
    """The dotted keys of a group, those within lists included."""
    return [key for key in _keys(base(choices)) if f"{key}.".startswith(f"{group}.")]


def _keys(node, prefix=""):
    for name in range(len(node)) if OmegaConf.is_list(node) else node:
        below = node._get_node(name)
        yield f"{prefix}{name}"
        if OmegaConf.is_dict(below) or OmegaConf.is_list(below):
            yield from _keys(below, f"{prefix}{name}.")


def outcome(choices, key, value, folder):
    """What becomes of a config with `key=value`: how it ends, and the words of an error.

    Returns:
        `"refused"`, before anything is trained; `"taken"`, after a step of training; `"diverged"`;
        or `"traceback"`.
    """
    cfg = base(choices).copy()
    try:
        cfg.paths.run_dir = str(folder)
        override = OverridesParser.create().parse_override(f"{key}={value}")
        OmegaConf.update(cfg, key, override.value(), merge=True)
        step = _prepared(cfg, key.partition(".")[0], choices)
    except REFUSED as error:
        return "refused", " ".join(str(error).split())
    except Exception as error:
        return "traceback", repr(error)
    try:
        step()
    except FloatingPointError as error:
        return "diverged", str(error)
    except Exception as error:
        return "traceback", repr(error)
    return "taken", ""


def _prepared(cfg, group, choices):
    """Builds what a group of the config is for; returns what takes a step with it."""
    check_objects(cfg)
    if group == "callbacks":
        model = _trained_model(choices)
        callbacks = config.build_callbacks(cfg, model)
        return functools.partial(_fit, model, callbacks)
    if group == "optimizer":
        model = _trained_model(choices)
        optimizer = config.build_optimizer(cfg, model)
        return functools.partial(_apply, optimizer, model)
    keras.utils.clear_session()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = domains().input_shape, domains().num_classes
        model = config.build_model(cfg, cfg.method, *shapes)
    model.compile(keras.optimizers.SGD(1e-3), run_eagerly=True)
    return functools.partial(_fit, model, [])


def _fit(model, callbacks):
    for callback in callbacks:
        if getattr(callback, "data", 0) is None:  # as a run gives it
            callback.data = keras.tree.map_structure(np.asarray, _batch())
    guard = training.StopOnNonFinite(1)
    settings = {"steps_per_epoch": 1, "verbose": 0, "shuffle": False}
    model.fit(domains().batches(2, 0), callbacks=[guard, *callbacks], **settings)


def _batch():
    return next(iter(domains().batches(2, 0)))


def _apply(optimizer, model):
    weights = model.trainable_variables
    optimizer.apply([keras.ops.zeros_like(weight) for weight in weights], weights)


@functools.cache
def _trained_model(choices):
    cfg = base(choices)
    model = config.build_model(cfg, cfg.method, domains().input_shape, domains().num_classes)
    model.compile(keras.optimizers.SGD(0.01), metrics=["accuracy"])
    return model
