"""The settings of a comparison: methods of adaptation, simple baselines and oracles, by name."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras

from dann.adaptation import DANN, MDAN, METHODS, REGULARIZERS, SourceOnly
from dann.checks import check_choice
from dann.data import DomainPair
from dann.data.conversion import has_strings
from dann.experiments.compared_runs import (
    ComparedRun,
    Task,
    adapt_baseline_shares,
    boost,
    train,
    train_standardized,
)

Method = Callable[[Any, int], Any]
SOURCE_ONLY, TARGET_ONLY, CONTROL = "source_only", "target_only", "control"
STANDARDIZED, SHARES, BOOSTING = "standardized", "share_correction", "gradient_boosting"
# Settings that are more than a function of `(backbone, num_classes)`.
_SPECIAL = {STANDARDIZED: train_standardized, SHARES: adapt_baseline_shares, BOOSTING: boost}
# Simple baselines, the control run, and three adversarial methods.
_DEFAULT = STANDARDIZED, "coral", "mcc", CONTROL, "dann", "cdan", "sdat", SHARES, BOOSTING


def list_defaults(domains: DomainPair) -> list[str]:
    """Returns the names of the default settings that these domains allow."""
    unavailable = set()
    if has_strings(domains.source_train[0]):
        unavailable |= {STANDARDIZED, BOOSTING}
    if domains.standardizer is not None:
        unavailable.add(STANDARDIZED)
    if len(domains.input_shape) != 1:
        unavailable.add(BOOSTING)
    return [name for name in _DEFAULT if name not in unavailable]


def resolve_methods(
    methods: Iterable[str | Method] | Mapping[str, Method], domains: DomainPair
) -> dict[str, Callable[[Task, int], ComparedRun | None]]:
    """Returns functions of `(task, seed)` that return a run, by name.

    Args:
        methods: As in `dann.compare`.
        domains: The data.

    Raises:
        TypeError: If a method is not a function.
        ValueError: If a name is unknown.
    """
    by_name: Any = methods if isinstance(methods, Mapping) else dict(map(_find_method, methods))
    settings: dict[str, Any] = {}
    for name, method in by_name.items():
        if method in _SPECIAL.values():
            settings[name] = method
            continue
        if not callable(method) or isinstance(method, keras.Layer):
            raise TypeError(
                "Expected methods to be names or functions of `(backbone, num_classes)`. Received: "
                f"{method!r}."
            )
        model_class = method.func if isinstance(method, functools.partial) else method
        if isinstance(model_class, type) and issubclass(model_class, MDAN):
            arguments = {"num_sources": domains.num_sources} | getattr(method, "keywords", {})
            method = functools.partial(method, **arguments)
        # The probe of the recommendation reads the features of source only.
        settings[name] = functools.partial(train, method=method, features=name == SOURCE_ONLY)
    return settings


def _find_method(method):
    """Returns the name of a method, and the function of this name."""
    if not isinstance(method, str):
        return getattr(method, "__name__", type(method).__name__), method
    if method in _SPECIAL:
        return method, _SPECIAL[method]
    if method == CONTROL:
        return method, functools.partial(DANN, strength=0.0)
    if method in REGULARIZERS:
        return method, functools.partial(_build_regularized, REGULARIZERS[method])
    check_choice("methods", method, [*METHODS, *_SPECIAL, CONTROL, *REGULARIZERS])
    arguments = METHODS.metadata[method].get("arguments", {})
    return method, functools.partial(METHODS[method], **arguments)


def _build_regularized(regularizer, backbone, num_classes):
    # Models must not share regularizers.
    return SourceOnly(backbone, num_classes, regularizers=[regularizer()])
