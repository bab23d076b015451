"""The settings of a comparison: methods of adaptation, simple baselines and oracles, by name."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras

from dann.adaptation import DANN, METHODS, REGULARIZERS, SourceOnly
from dann.checks import check_choice
from dann.data import DomainPair
from dann.data.conversion import has_strings

Method = Callable[[Any, int], Any]
SOURCE_ONLY, TARGET_ONLY, CONTROL = "source_only", "target_only", "control"
# Settings that are more than a function of `(backbone, num_classes)`.
STANDARDIZED, SHARES, BOOSTING = "standardized", "share_correction", "gradient_boosting"
_SPECIAL = STANDARDIZED, SHARES, BOOSTING
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
) -> dict[str, Any]:
    """Returns functions of `(backbone, num_classes)`, or names of special settings, by name.

    Args:
        methods: As in `dann.compare`.
        domains: The data.

    Raises:
        TypeError: If a method is no function.
        ValueError: If a name is unknown.
    """
    functions: dict[Any, Any] = dict(methods) if isinstance(methods, Mapping) else {}
    for method in () if isinstance(methods, Mapping) else methods:
        if not isinstance(method, str):
            functions[getattr(method, "__name__", type(method).__name__)] = method
        elif method in _SPECIAL:
            functions[method] = method
        elif method == CONTROL:
            functions[method] = functools.partial(DANN, strength=0.0)
        elif method in REGULARIZERS:
            functions[method] = functools.partial(_build_regularized, REGULARIZERS[method])
        else:
            check_choice("methods", method, [*METHODS, *_SPECIAL, CONTROL, *REGULARIZERS])
            arguments = METHODS.metadata[method].get("arguments", {})
            functions[method] = functools.partial(METHODS[method], **arguments)
    for name, function in functions.items():
        if isinstance(function, str) and function in _SPECIAL:
            continue
        if not callable(function) or isinstance(function, keras.Layer):
            raise TypeError(
                "Expected methods to be names or functions of `(backbone, num_classes)`. Received: "
                f"{function!r}."
            )
        arguments = getattr(getattr(function, "func", function), "arguments", ())
        if "num_sources" in arguments and "num_sources" not in getattr(function, "keywords", {}):
            functions[name] = functools.partial(function, num_sources=domains.num_sources)
    return functions


def _build_regularized(regularizer, backbone, num_classes):
    # Models must not share regularizers.
    return SourceOnly(backbone, num_classes, regularizers=[regularizer()])
