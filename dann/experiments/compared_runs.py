"""The runs of a comparison: methods of adaptation, simple baselines and oracles, by name."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from dann.adaptation import DANN, MDAN, SourceOnly, TargetOnly
from dann.adaptation.adversarial_model import METHODS, AdversarialModel
from dann.adaptation.prediction import check_finite_outputs, predict
from dann.adaptation.regularizers.regularizer import REGULARIZERS
from dann.checks import check_choice
from dann.data import DomainPair, Standardizer
from dann.data.conversion import has_strings
from dann.experiments.comparison import BOOSTING
from dann.networks.heads import label_head, scale_outputs
from dann.selection import adapt_shares, compute_outputs, estimate_shares
from dann.selection.outputs import Outputs
from dann.selection.recommend import DISTILLED_AVERAGE
from dann.training import distill
from dann.training.preparation import compile_model, start
from dann.training.trainer import Trainer

Method = Callable[[Any, int], Any]
SOURCE_ONLY, TARGET_ONLY, CONTROL = "source_only", "target_only", "control"
STANDARDIZED, SHARES = "standardized", "adapted_shares"
# Simple baselines, the control run, and three adversarial methods.
_DEFAULT = STANDARDIZED, "coral", "mcc", CONTROL, "dann", "cdan", "sdat", SHARES, BOOSTING
# Settings of `_DEFAULT` that compare classes, which regression lacks.
CLASSIFIERS = "mcc", "cdan", "sdat", SHARES, BOOSTING
_MIN_PROBABILITY = 1e-12


class ComparedRun(NamedTuple):
    """A run of a comparison.

    Attributes:
        outputs: The outputs that scores read, on the source's test set and the target's training
            inputs.
        test_logits: Logits on the target's test set, `(n, num_classes)`.
        classifier: Network from inputs of the target to logits, or `None`.
        is_oracle: Whether it learned from target labels.
        backbone: Network from inputs to features, or `None`.
    """

    outputs: Outputs
    test_logits: np.ndarray
    classifier: Any = None
    is_oracle: bool = False
    backbone: Any = None


@dataclasses.dataclass
class RunContext:
    """The data and the settings that all runs of a comparison share.

    Args:
        domains: The data.
        backbone: Function without arguments that returns a new backbone.
        optimizer: Function without arguments that returns a new optimizer, or `None` for Adam.
        steps: Training steps per run.
        batch_size: Number of examples per domain and step, or `None` for the default.
        baselines: Source-only runs that are finished, by seed.
        notes: Lines to print below the table.
    """

    domains: DomainPair
    backbone: Callable[[], Any]
    optimizer: Callable[[], Any] | None
    steps: int
    batch_size: int | None
    baselines: dict[int, ComparedRun] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    _last_backbone: Any = None

    def build_backbone(self) -> Any:
        """Returns a new backbone.

        Raises:
            ValueError: If the function returns the same backbone again, whose weights are trained.
        """
        backbone = self.backbone()
        if backbone is self._last_backbone:
            raise ValueError(
                "Expected `backbone` to build a new network in each call. Received: a function "
                "that returns the same network twice"
            )
        self._last_backbone = backbone
        return backbone


def train(
    context: RunContext, seed: int, method: Callable[[Any, int], Any], features: bool = False
) -> ComparedRun:
    """Trains one run, as `dann.compare` describes.

    Args:
        context: The settings of the comparison.
        seed: Seed of weights and batches.
        method: Function of `(backbone, num_classes)` that returns a model; in regression, the
            keyword argument `label_head` contains a head with one output.
        features: Whether the outputs contain the features.

    Raises:
        NotFiniteError: If an output is not finite. It is a `ValueError`.
    """
    domains = context.domains
    start(seed, keras.config.dtype_policy().name)
    backbone, options = context.build_backbone(), {}
    if domains.is_regression:
        head = label_head(backbone.output_shape[-1], domains.num_classes)
        options["label_head"] = scale_outputs(head, domains.source_train[1])
    model: Any = method(backbone, domains.num_classes, **options)
    if not isinstance(model, AdversarialModel):
        raise TypeError(
            f"Expected a method to return a model of `dann.adaptation`. Received: {model}"
        )
    # An adversary oscillates less with less momentum.
    beta_1 = 0.9 if model.reversal is None else 0.5
    optimizer = context.optimizer() if context.optimizer else keras.optimizers.Adam(beta_1=beta_1)
    compile_model(model, optimizer, Trainer(context.steps, steps_per_epoch=context.steps))
    is_oracle = isinstance(model, TargetOnly)
    batches = (domains.oracle() if is_oracle else domains).batches(context.batch_size, seed)
    model.fit(batches, steps_per_epoch=context.steps, epochs=1, verbose=0)
    run = _predict_run(model, model.classifier, domains, features)
    return run._replace(is_oracle=is_oracle, backbone=model.backbone)


def train_on_average(context: RunContext, seed: int, average: np.ndarray) -> ComparedRun:
    """Returns a run that predicts an average over runs; see `dann.training.distill`."""
    start(seed, keras.config.dtype_policy().name)
    classifier = SourceOnly(context.build_backbone(), context.domains.num_classes).classifier
    distill(classifier, context.domains.target_train, average, context.steps)
    return _predict_run(classifier, classifier, context.domains)


def _predict_run(model, classifier, domains, features=False):
    """Returns the outputs of a model, or of its classifier if `features` is false, as a run."""
    source, target = domains.source_test, domains.target_train
    outputs = compute_outputs(model, source=source, target=target, features=features, mixed=False)
    logits = check_finite_outputs("logits", predict(classifier, domains.target_test[0]))
    return ComparedRun(outputs, logits, classifier)


def train_standardized(context: RunContext, seed: int) -> ComparedRun:
    """Trains source only on domains that are standardized separately."""
    pair = standardize_each(context.domains)
    return train(dataclasses.replace(context, domains=pair), seed, SourceOnly)


def standardize_each(domains: DomainPair) -> DomainPair:
    """Returns the domains, each standardized with its own statistics.

    Images of the target get the mean and variance of the source, because networks rescale pixels.
    """
    standardizer = Standardizer("each").fit(domains.source_train[0], domains.target_train)
    if domains.has_images:
        (source_mean, source_std), (mean, std) = standardizer.statistics.values()
        # (x - mean) / std * source_std + source_mean keeps the range of the source's pixels.
        scale = std / source_std
        target = np.stack([mean - source_mean * scale, scale])
        source = np.stack([np.zeros_like(mean), np.ones_like(std)])
        standardizer.statistics = {"source": source, "target": target}
    return domains.apply_standardizer(standardizer)


def adapt_baseline_shares(context: RunContext, seed: int) -> ComparedRun | None:
    """Returns the source-only run of a seed, adapted to the class proportions of the target.

    Returns `None` if this run is missing, or if the estimated proportions are rejected.
    """
    if (baseline := context.baselines.get(seed)) is None:
        return None
    shares = estimate_shares(baseline.outputs)
    context.notes.append(f"seed {seed}: {shares}")
    if shares.rejection_reason:
        return None
    target, test = (
        logits / shares.temperature + shares.offsets
        for logits in (baseline.outputs.target_logits, baseline.test_logits)
    )
    outputs = baseline.outputs._replace(target_logits=target)
    return ComparedRun(outputs, test, adapt_shares(baseline.classifier, shares))


def boost(context: RunContext, seed: int) -> ComparedRun:
    """Returns the run of gradient boosting on the source, which is not a network."""
    domains = context.domains
    inputs, labels = domains.source_train
    with threadpool_limits(1):  # on shared cores, threads would wait in a busy loop
        trees = HistGradientBoostingClassifier(random_state=seed).fit(np.asarray(inputs), labels)

    def compute_logits(examples):
        # The source may lack classes, and log(0) is not finite.
        probabilities = np.full((len(examples), domains.num_classes), _MIN_PROBABILITY)
        probabilities[:, trees.classes_] += trees.predict_proba(np.asarray(examples))
        return np.log(probabilities)

    source, source_labels = domains.source_test
    outputs = Outputs(
        target_logits=compute_logits(domains.target_train),
        source_logits=compute_logits(source),
        source_labels=source_labels,
    )
    return ComparedRun(outputs, compute_logits(domains.target_test[0]))


# Settings that are more than a function of `(backbone, num_classes)`.
_SPECIAL = {STANDARDIZED: train_standardized, SHARES: adapt_baseline_shares, BOOSTING: boost}


def list_defaults(domains: DomainPair) -> list[str]:
    """Returns the names of the default settings that these domains allow."""
    unavailable = set()
    if has_strings(domains.source_train[0]):
        unavailable |= {STANDARDIZED, BOOSTING}
    if domains.standardizer is not None:
        unavailable.add(STANDARDIZED)
    if len(domains.input_shape) != 1:
        unavailable.add(BOOSTING)
    if domains.is_regression:
        unavailable |= {*CLASSIFIERS}
    return [name for name in _DEFAULT if name not in unavailable]


def resolve_methods(
    methods: Iterable[str | Method] | Mapping[str, Method], domains: DomainPair
) -> dict[str, Callable[[RunContext, int], ComparedRun | None]]:
    """Returns functions of `(context, seed)` that return a run, by name.

    Args:
        methods: As in `dann.compare`.
        domains: The data.

    Raises:
        TypeError: If a method is not a function.
        ValueError: If a name is unknown.
    """
    by_name: Any = methods
    if not isinstance(methods, Mapping):
        named_methods = list(map(_find_method, methods))
        by_name = dict(named_methods)
        if len(by_name) < len(named_methods):
            names = [name for name, _ in named_methods]
            raise ValueError(
                f"Expected methods with different names; pass a dict by name. Received: {names}"
            )
    baseline = by_name.get(SOURCE_ONLY, SourceOnly)
    is_replaced = getattr(baseline, "func", baseline) is not SourceOnly
    if is_replaced or DISTILLED_AVERAGE in by_name:
        raise ValueError(
            f"Expected another name, because {SOURCE_ONLY!r} is the baseline and "
            f"{DISTILLED_AVERAGE!r} the average of all runs. Received: {[*by_name]}"
        )
    settings: dict[str, Any] = {}
    for name, method in by_name.items():
        if domains.is_regression and method in (adapt_baseline_shares, boost):
            raise ValueError(
                f"Expected methods that support regression. Received: {name!r}, which needs "
                "classes. Remove it from `methods`"
            )
        if method in _SPECIAL.values():
            settings[name] = method
            continue
        if not callable(method) or isinstance(method, keras.Layer):
            raise TypeError(
                f"Expected names or functions of `(backbone, num_classes)`. Received: {method!r}"
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


def _build_regularized(regularizer, backbone, num_classes, label_head=None):
    # Models must not share regularizers.
    return SourceOnly(backbone, num_classes, label_head, regularizers=[regularizer()])
