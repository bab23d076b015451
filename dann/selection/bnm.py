import numpy as np
from scipy import special

from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register("bnm", reads="target")
def bnm(outputs: Outputs) -> float:
    """Scores a checkpoint by the nuclear norm of its predictions on the target.

    With the softmax matrix `P` `(n, C)` and the sum of its singular values `|P|_*`:

    - `|P|_* / sqrt(n * min(n, C))`, in (0, 1]

    The divisor is the norm's maximum: predictions that are certain and give the classes in equal
    parts score 1. For `n >= C`, certain predictions of one class score `1 / sqrt(C)`, uniform ones
    `1 / C`.

    Reference:
        - [Cui et al., 2020](https://arxiv.org/abs/2003.12237), section 3.
    """
    chances = special.softmax(outputs.target_logits, axis=1)
    singular_values = np.linalg.svd(chances, compute_uv=False)
    return float(singular_values.sum() / np.sqrt(len(chances) * min(chances.shape)))
