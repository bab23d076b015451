import numpy as np

from dann.selection.logistic import fit_logistic
from dann.selection.outputs import Outputs
from dann.selection.scores import SCORES


@SCORES.register("reverse_validation", reads="labelled source, target", of_features=True)
def reverse_validation(outputs: Outputs) -> float:
    """Scores a checkpoint by a classifier trained on its predictions, tested on the source.

    A reverse classifier `r`, a logistic regression on the model's features, is trained on the
    target with the classes that the model predicts, and tested on held-out source examples:

    - `mean over the source of [r(x) = y]`, in [0, 1]

    The paper trains `r` with the method itself, with exchanged domains, which takes another whole
    training.

    Reference:
        - [Zhong et al., 2010](https://doi.org/10.1007/978-3-642-15939-8_35), section 3.
        - [Ganin et al., 2016](https://jmlr.org/papers/v17/15-239.html), section 5.1.2.
    """
    pseudo_labels = outputs.target_logits.argmax(axis=1)
    num_classes = outputs.target_logits.shape[1]
    predict = fit_logistic(outputs.target_features, pseudo_labels, num_classes)
    predicted = predict(outputs.source_features).argmax(axis=1)
    return float(np.mean(predicted == outputs.source_labels))
