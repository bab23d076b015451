import numpy as np
from scipy import special

from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register("entropy", reads="target")
def entropy(outputs: Outputs) -> float:
    """Scores a checkpoint by its certainty on the target: minus the mean entropy.

    With the softmax `p(x)`:

    - `-mean over the target of H(p(x))`, in [-log C, 0] nats, `H(p) = -sum p log p`

    A model that is certain of one class for everything has the best score.

    Reference:
        - [Morerio et al., 2018](https://arxiv.org/abs/1711.10288), section 4.
    """
    return -mean_entropy(special.softmax(outputs.target_logits, axis=1))


def mean_entropy(chances: np.ndarray) -> float:
    """Returns the mean entropy of distributions `(n, num_classes)`, in nats."""
    return float(special.entr(chances).sum(axis=1).mean())
