"""Methods and regularizers where the best source classifier fails, as means of three seeds.

Classes are normal with deviation 0.3 along each of two axes, and every backbone is linear. The
target accuracy of the best source classifier follows from its direction, the first axis.
"""

import numpy as np
import pytest
from support import shifted_classes
from support.shifted_classes import CENTERS, SIZE, draw_examples, linear_backbone

from dann.adaptation import CDAN, DALN, DANN, DIRTT, FDAL, MCC, MCD, MDD, WDGRL
from dann.networks import domain_head, label_head

SHORT = 200


def mostly_one_class(seed):
    """Returns classes at (-1, 0) and (1, 0); 80% of the shifted target is of the first class.

    The target is shifted by (0.9, 1.2). The sign of `x1` classifies 70% of it: 63% of the first
    class, the normal distribution at 0.1 / 0.3, and all of the second. The sign of `x1 - 0.75 x2`
    classifies 99.6% of either domain.
    """
    rng = np.random.default_rng(seed)
    source, target = rng.permutation(SIZE) % 2, (rng.permutation(SIZE) >= 0.8 * SIZE).astype(int)
    return *draw_examples(rng, CENTERS, source), *draw_examples(rng, CENTERS + [0.9, 1.2], target)


def head():
    return label_head(2, 2, hidden_units=())


def hidden_head(name="label_head"):
    return label_head(2, 2, hidden_units=(16,), name=name)


def with_discriminator(method=DANN, features=2, **kwargs):
    discriminator = domain_head(features, hidden_units=(16,))
    return method(linear_backbone(), label_head=head(), domain_head=discriminator, **kwargs)


def with_second_head(method, name, first=head, **kwargs):
    second = {name: hidden_head(name)}
    return method(linear_backbone(), label_head=first(), **second, **kwargs)


def weak_dann(*regularizers):
    """Returns a DANN whose small strength lets the regularizer decide."""
    return with_discriminator(strength=0.03, regularizers=regularizers)


def start_from_the_best_source_classifier(model, seed):
    """Sets the log odds of normal classes at -1 and 1 with deviation 0.3, `2 x / 0.09`."""
    slopes = np.array([[-1.0, 1.0], [0.0, 0.0]]) / 0.09
    model.classifier.set_weights([np.eye(2), slopes, np.zeros(2)])


def second_stage():
    return DIRTT(linear_backbone(), label_head=head(), radius=0.6, refresh_steps=50, seed=0)


NEARER = {"problem": shifted_classes.closer_classes}
SECOND = {"steps": 100, "start": start_from_the_best_source_classifier}
# Method, minimum target accuracy and training options. The best source classifier has an accuracy
# of 0.52; on nearer classes 0.83, on a target of mostly one class 0.71.
ADAPTING = {
    "dann": (with_discriminator, 0.955, {}),
    "cdan": (lambda: with_discriminator(CDAN, 4, strength=0.3), 0.875, {}),
    "dann at moved weights": (lambda: with_discriminator(task_radius=0.05), 0.955, {}),
    "wdgrl": (lambda: with_discriminator(WDGRL, critic_steps=1, seed=0), 0.955, {}),
    "daln": (lambda: DALN(linear_backbone(), label_head=hidden_head()), 0.725, {}),
    "mcd": (lambda: with_second_head(MCD, "second_head", hidden_head), 0.725, {}),
    "fdal": (lambda: with_second_head(FDAL, "critic", divergence="jensen_shannon"), 0.825, {}),
    "mdd": (lambda: with_second_head(MDD, "adversarial_head", strength=1.0), 0.948, NEARER),
    "dirt_t": (second_stage, 0.967, {**NEARER, **SECOND}),
    "mcc": (lambda: weak_dann(MCC()), 0.964, {"problem": mostly_one_class, "steps": SHORT}),
}
FAST = {"dann"}


PARAMS = [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in ADAPTING]


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", PARAMS)
def test_adapts_where_best_source_classifier_fails(name):
    make, least, training = ADAPTING[name]
    accuracies = shifted_classes.target_accuracies(make(), **training)
    assert accuracies.mean() > least, accuracies
