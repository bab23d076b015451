"""What the telling measurements mean, and where they are healthy."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dann.diagnostics.reversal_state import OFF
from dann.diagnostics.verdict import (
    APART,
    BEHIND,
    CONSTANT,
    GROWTH,
    ONE_CLASS,
    PASSED,
    UNLEARNT,
)

Range = Callable[[Mapping[str, Any]], tuple[float, float] | None]


class Meaning(NamedTuple):
    """A measurement in words.

    Attributes:
        title: What is measured.
        text: What a value says.
        healthy: From all measurements to the smallest and largest healthy value of this, or to
            `None` where those that tell them are missing.
    """

    title: str
    text: str
    healthy: Range


class Evidence(NamedTuple):
    """A measured value beside its healthy range.

    Attributes:
        name: The measurement's name.
        title: What was measured.
        value: What was found.
        low: Smallest healthy value, or minus infinity.
        high: Largest healthy value, or infinity.
        text: What the value says.
    """

    name: str
    title: str
    value: float
    low: float
    high: float
    text: str

    @property
    def is_healthy(self) -> bool:
        """Whether the value lies in its range."""
        return self.low <= self.value <= self.high


def evidence(measurements: Mapping[str, Any]) -> list[Evidence]:
    """Returns the measurements that have a healthy range, those out of it first.

    Args:
        measurements: Values by name, as the diagnostics give them.
    """
    found = []
    for name, value in measurements.items():
        meaning = MEANINGS.get(_general(name))
        healthy = meaning.healthy(measurements) if meaning else None
        if meaning and healthy:
            low, high = healthy
            title = meaning.title.format(name.removeprefix("binary/").removesuffix("/passed"))
            found.append(Evidence(name, title, float(value), low, high, meaning.text))
    order = list(MEANINGS)
    return sorted(found, key=lambda one: (one.is_healthy, order.index(_general(one.name))))


def _general(name):
    """The name under which all binary layers are known."""
    parts = name.split("/")
    return "binary/*/passed" if parts[0] == "binary" and parts[-1] == "passed" else name


def _between(low=-math.inf, high=math.inf) -> Range:
    return lambda found: (low, high)


def _near_strength(found):
    strength = found.get("reversal/strength", math.nan)
    if math.isnan(strength):
        return None
    if strength == 0:  # then it is right, and of no use
        return 1e-6, math.inf
    return 0.98 * strength, 1.02 * strength


def _below_collapse(found):
    return -math.inf, max(ONE_CLASS, (1 + found.get("label/largest_share", 0.0)) / 2)


def _learnt(found):
    if "label/prior_entropy" not in found:
        return None
    return -math.inf, UNLEARNT * found["label/prior_entropy"]


def _near_probe(found):
    return APART, max(found.get("probe/loss", math.inf), APART) + BEHIND


def _stable(found):
    return (found["game/step"], math.inf) if "game/step" in found else None


def _no_edge(found):
    return (-math.inf, 2 / found["game/step"]) if "game/step" in found else None


MEANINGS = {
    "reversal/cosine": Meaning(
        "Direction of the reversed gradient",
        "Cosine of the features' gradient with and without the reversal. -1: it is reversed. +1: "
        "the reversal does nothing, or is there twice.",
        _between(-1.001, -0.99),
    ),
    "reversal/ratio": Meaning(
        "Strength that arrives",
        "Length of the reversed gradient in multiples of the plain one. It should be the strength "
        "that the reversal tells, and above 0 once the schedule has begun.",
        _near_strength,
    ),
    "reversal/head_error": Meaning(
        "Change of the discriminator's gradient",
        "By the reversal, as a share of it. It should be 0: the discriminator learns at full rate. "
        "2: it is reversed too.",
        _between(high=OFF),
    ),
    "domain/spread": Meaning(
        "Spread of the discriminator's output",
        "Deviation over all examples. 0: it says the same of every example, and teaches nothing.",
        _between(low=CONSTANT),
    ),
    "domain/loss": Meaning(
        "Loss of the live discriminator",
        "In nats; .693 is that of knowing nothing. Low: the domains are apart. Far above that of a "
        "fresh discriminator on the same features: this one is weak or overrun.",
        _near_probe,
    ),
    "probe/loss": Meaning(
        "Loss of a fresh discriminator",
        "In nats, trained on the frozen features, tested on examples it has not seen. .693: the "
        "domains are alike. Towards 0: they are apart.",
        _between(low=APART),
    ),
    "target/largest_share": Meaning(
        "Largest predicted class of the target",
        "Share of target examples predicted as one class. Near 1 the target has collapsed.",
        _below_collapse,
    ),
    "label/loss": Meaning(
        "Label loss",
        "In nats, on the source. Knowing nothing but the classes' shares gives little more than "
        "the upper end.",
        _learnt,
    ),
    "conflict/ratio": Meaning(
        "Say of the adversary",
        "Length of the reversed domain gradient on the backbone in multiples of the label loss's. "
        "Far below 1 the adversary has no say, far above the labels have none.",
        _between(0.1, 100),
    ),
    "conflict/cosine": Meaning(
        "Conflict of the two gradients",
        "Cosine of both gradients on the backbone. Somewhat negative is usual; near -1 they undo "
        "each other.",
        _between(-0.9, 1.0),
    ),
    "binary/*/passed": Meaning(
        "Gradient through binary layer {}",
        "Share of the units whose gradient is passed on. Near 0 the layer is saturated and what "
        "lies before it stands still.",
        _between(low=PASSED),
    ),
    "game/largest_stable_step": Meaning(
        "Largest stable step",
        "Learning rate from which on plain simultaneous descent overshoots in a direction that "
        "pulls in. It should exceed the learning rate.",
        _stable,
    ),
    "game/growth": Meaning(
        "Growth in a step",
        "Factor by which the fastest direction grows in a step, momentum included. A little above "
        "1 is usual away from a minimum.",
        _between(high=GROWTH),
    ),
    "sharpness/top_eigenvalue": Meaning(
        "Sharpness of the label loss",
        "Largest curvature. Above 2 divided by the learning rate plain descent overshoots; between "
        "models that fit alike the flatter one transfers better.",
        _no_edge,
    ),
    "jacobian/target_to_source": Meaning(
        "Sensitivity on the target",
        "How strongly the logits follow the inputs on the target, in multiples of the source. Far "
        "above 1 the target lies where the network was not trained.",
        _between(0.25, 4),
    ),
    "rank/target/rank_share": Meaning(
        "Directions in use by the target's features",
        "Effective rank of the features, as a share of the greatest possible. Near 0 they have "
        "collapsed into a few directions.",
        _between(low=0.05),
    ),
    "signal/target/gain_range": Meaning(
        "Range of the layers' gains",
        "Largest divided by smallest gain from a layer to the features. Many orders of magnitude "
        "are derivatives that explode or vanish.",
        _between(high=1000),
    ),
}
