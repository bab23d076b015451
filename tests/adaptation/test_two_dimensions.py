"""Methods and regularizers where the best source classifier fails, as means of three seeds.

Classes are normal, of deviation .3 along each of two axes, and every backbone is linear. What the
best source classifier reaches on the target follows from its direction, the first axis.
"""

import numpy as np
import pytest
from support.shifted_classes import (
    CENTERS,
    SIZE,
    closer_classes,
    draw_examples,
    linear_backbone,
    target_accuracies,
)

from dann.adaptation import (
    CDAN,
    DALN,
    DANN,
    DIRTT,
    FDAL,
    MADA,
    MCC,
    MCD,
    MDD,
    PADA,
    WDGRL,
    ConditionalEntropy,
    VirtualAdversarial,
)
from dann.networks import domain_head, label_head
from dann.schedules import GaninSchedule

SHORT = 200


def mostly_one_class(seed):
    """Two classes at (-1, 0) and (1, 0); the target is moved by (.9, 1.2), 4 of 5 are the first.

    The sign of `x1` is right on 70% of it (63% of the first class, the normal distribution at
    .1 / .3, and all of the second); the sign of `x1 - .75 x2` on 99.6% of either domain.
    """
    rng = np.random.default_rng(seed)
    source, target = rng.permutation(SIZE) % 2, (rng.permutation(SIZE) >= 0.8 * SIZE).astype(int)
    return *draw_examples(rng, CENTERS, source), *draw_examples(rng, CENTERS + [0.9, 1.2], target)


def turned_by_50(seed):
    """Classes at -1, 1 and 3 on the first axis; the target's are turned about 0 by 50 degrees.

    The boundaries in the source, `x1 = 0` and `x1 = 2`, are right on 79% of the target: on 98% of
    the first two classes and, with the last at `x1 = 1.93`, on 40% of that.
    """
    rng = np.random.default_rng(seed)
    source, target = (rng.permutation(SIZE) % 3 for _ in range(2))
    centers, a = np.array([[-1.0, 0.0], [1.0, 0.0], [3.0, 0.0]]), np.deg2rad(50)
    turned = centers @ [[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]
    return *draw_examples(rng, centers, source), *draw_examples(rng, turned, target)


def head(classes=2):
    return label_head(2, classes, hidden_units=())


def hidden_head(name="label_head"):
    return label_head(2, 2, hidden_units=(16,), name=name)


def of_domains(method=DANN, features=2, classes=2, **kwargs):
    judge = domain_head(features, hidden_units=(16,))
    return method(linear_backbone(), label_head=head(classes), domain_head=judge, **kwargs)


def of_second_head(method, name, first=head, **kwargs):
    second = {name: hidden_head(name)}
    return method(linear_backbone(), label_head=first(), **second, **kwargs)


def weak_dann(*regularizers):
    """A discriminator of small strength leaves a part, which the clusters of the target decide."""
    return of_domains(strength=0.03, regularizers=regularizers)


def weaker_dann(*regularizers):
    strength = GaninSchedule(SHORT, high=0.03)
    return of_domains(classes=3, strength=strength, regularizers=regularizers)


def start_from_the_best_source_classifier(model, seed):
    """The log odds of two normal classes at -1 and 1 of deviation .3 are 2 x / .09."""
    slopes = np.array([[-1.0, 1.0], [0.0, 0.0]]) / 0.09
    model.classifier.set_weights([np.eye(2), slopes, np.zeros(2)])


def second_stage():
    return DIRTT(linear_backbone(), label_head=head(), radius=0.6, refresh_steps=50, seed=0)


NEARER = {"problem": closer_classes}
SECOND = {"steps": 100, "start": start_from_the_best_source_classifier}
ON_TURNED = {"problem": turned_by_50, "steps": SHORT, "rate": 0.03}
# A method, what it reaches at least, and how it is trained. The best source classifier reaches .52,
# on nearer classes .83, on one that is mostly of one class .71 and on a turned one .78.
ADAPTING = {
    "dann": (of_domains, 0.955, {}),
    "dann smoothed": (
        lambda: of_domains(domain_label_smoothing=0.1, strength=0.3),
        0.955,
        {"steps": 1200},
    ),
    "cdan": (lambda: of_domains(CDAN, 4, strength=0.3), 0.875, {}),
    "cdan_e": (lambda: of_domains(CDAN, 4, entropy_conditioning=True), 0.875, {}),
    "dann at moved weights": (lambda: of_domains(task_radius=0.05), 0.955, {}),
    "mada": (lambda: of_domains(MADA), 0.875, {}),
    "pada": (lambda: of_domains(PADA), 0.875, {}),
    "wdgrl": (lambda: of_domains(WDGRL, critic_steps=1, seed=0), 0.955, {}),
    "wdgrl of 5 steps": (lambda: of_domains(WDGRL, seed=0), 0.955, {"steps": 1500}),
    "daln": (lambda: DALN(linear_backbone(), label_head=hidden_head()), 0.725, {}),
    "mcd": (lambda: of_second_head(MCD, "second_head", hidden_head), 0.725, {}),
    "fdal": (lambda: of_second_head(FDAL, "critic", divergence="jensen_shannon"), 0.825, {}),
    "fdal on nearer classes": (lambda: of_second_head(FDAL, "critic"), 0.948, NEARER),
    "mdd": (lambda: of_second_head(MDD, "adversarial_head", strength=1.0), 0.948, NEARER),
    "dirt_t": (second_stage, 0.967, {**NEARER, **SECOND}),
    "mcc": (lambda: weak_dann(MCC()), 0.964, {"problem": mostly_one_class, "steps": SHORT}),
    "entropy": (lambda: weaker_dann(ConditionalEntropy(0.1)), 0.955, ON_TURNED),
    "vat": (lambda: weaker_dann(VirtualAdversarial(0.1, radius=0.5, seed=0)), 0.955, ON_TURNED),
}
OFTEN = {"dann", "dirt_t", "mcc", "entropy", "vat"}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.slow) for n in ADAPTING]
)
def test_it_adapts_where_the_best_source_classifier_fails(name):
    make, least, training = ADAPTING[name]
    accuracies = target_accuracies(make(), **training)
    assert accuracies.mean() > least, accuracies
