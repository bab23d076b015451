from scipy import special

from dann.selection.entropy import mean_entropy
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register("info_max", reads="target")
def info_max(outputs: Outputs) -> float:
    """Scores a checkpoint by the mutual information of the target's inputs and its predictions.

    With the softmax `p(x)` and its mean `q` over the target:

    - `H(q) - mean over the target of H(p(x))`, in [0, log C] nats

    A model that is certain and predicts the classes in equal parts has the best score; one that
    gives everything to one class has 0.

    Reference:
        - [Shi and Sha, 2012](https://arxiv.org/abs/1206.6438), section 2.
        - [Musgrave et al., 2022](https://arxiv.org/abs/2208.07360), for its use as a score.
    """
    chances = special.softmax(outputs.target_logits, axis=1)
    return mean_entropy(chances.mean(axis=0, keepdims=True)) - mean_entropy(chances)
