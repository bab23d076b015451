from typing import Any

from dann.selection.entropy import mean_entropy
from dann.selection.outputs import check_target, probabilities


def info_max(model: Any, *, target: Any, source: Any = None, batch_size: int = 256) -> float:
    """Scores a checkpoint by what its predictions tell about the target's inputs.

    The mutual information of input and prediction. With the softmax `p(x)` and its mean `q` over
    the target:

    - `H(q) - mean over the target of H(p(x))`, in [0, log C]

    The best score has a model that is certain and gives the classes in equal parts; one that
    gives everything to one class has 0.

    Args:
        model: `dann.adaptation.AdversarialModel`, or any Keras model from inputs to logits.
        target: Inputs of the target.
        source: Not used.
        batch_size: Inputs at a time. Defaults to `256`.

    Returns:
        The score in nats; higher is better.

    Raises:
        TypeError: If `target` is not one array of inputs.
        ValueError: If it is empty, or a logit is not finite.

    Reference:
        - [Shi and Sha, 2012](https://arxiv.org/abs/1206.6438), section 2.
        - [Musgrave et al., 2022](https://arxiv.org/abs/2208.07360), for its use as a score.
    """
    chances = probabilities(model, check_target(target), batch_size)
    return mean_entropy(chances.mean(axis=0, keepdims=True)) - mean_entropy(chances)
