from typing import Any

from dann.selection.entropy import mean_entropy
from dann.selection.predictions import check_target, probabilities
from dann.selection.scores import SCORES


@SCORES.register(
    "info_max",
    summary="Mutual information of inputs and predictions: certain, and classes in equal parts.",
    reads="target",
    cost="cheap",
    paper="[Musgrave et al., 2022](https://arxiv.org/abs/2208.07360)",
)
def info_max(model: Any, *, target: Any, source: Any = None, batch_size: int = 256) -> float:
    """Scores a checkpoint by the mutual information of the target's inputs and its predictions.

    With the softmax `p(x)` and its mean `q` over the target:

    - `H(q) - mean over the target of H(p(x))`, in [0, log C] nats

    A model that is certain and predicts the classes in equal parts has the best score; one that
    gives everything to one class has 0.

    Shared arguments and errors: see `dann.selection.compute_scores`.

    Reference:
        - [Shi and Sha, 2012](https://arxiv.org/abs/1206.6438), section 2.
        - [Musgrave et al., 2022](https://arxiv.org/abs/2208.07360), for its use as a score.
    """
    chances = probabilities(model, check_target(model, target), batch_size)
    return mean_entropy(chances.mean(axis=0, keepdims=True)) - mean_entropy(chances)
