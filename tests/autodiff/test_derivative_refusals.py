import keras
import numpy as np
import pytest
from keras import ops
from maps import INPUTS, curved, linear

from dann.autodiff import batch_jacobian, frobenius_norm, gradients, jacobian, jvp
from dann.autodiff import singular_values as singular

X, U, INTEGERS = INPUTS, np.ones((3, 5), "float32"), INPUTS.astype("int32")


def make_sum_model():
    inputs = [keras.Input(X.shape[1:]), keras.Input(X.shape[1:])]
    return keras.Model(inputs, keras.layers.Add()(inputs))


REFUSALS = [
    (lambda: gradients(ops.square, [X], [X, X]), r"`grad_ys` to contain .*\[\(\(3, 4\), 'float32'"),
    (lambda: gradients(ops.square, [X], X), r"`grad_ys` to be a list .*`\[x\]`. Received: ndarray"),
    (lambda: gradients(ops.square, [X], stop_gradients=[1]), "Received: stop_gradients=1"),
    (lambda: gradients(ops.sum, [INTEGERS]), r"`xs\[0\]` to be floating.*dtype=int32"),
    (lambda: gradients(ops.argmax, [X]), r"`function\(\*xs\)\[0\]` to be floating"),
    (lambda: jvp(linear, [X], [U]), r"`vs` to contain .*\(3, 4\).* Received: .*\(3, 5\)"),
    (lambda: jacobian(lambda x: {"a": x, "b": x}, [X]), "one output. Received: 2 outputs"),
    # TensorFlow would silently return 0.
    (lambda: gradients(np.sin, [X]), "`keras.ops.sin|NumPy|numpy|Tracer"),
    # The rows would silently count as arguments.
    (lambda: gradients(ops.square, X[:1]), "`xs` to be a list of tensors.*Received: ndarray"),
    (lambda: jacobian(linear, {"a": X}), "one tensor, array or variable. Received: dict"),
    (lambda: batch_jacobian(make_sum_model(), [X, X]), "one input. Received: 2 inputs"),
    (lambda: batch_jacobian(ops.sum, X), r"one by one .* shape \(\)"),
    (lambda: frobenius_norm(curved, X, samples=1), "`samples` to be an integer >= 2.*samples=1"),
    (lambda: singular(curved, X, k=5), "from 1 to 4, the largest rank .* Received: k=5"),
    (lambda: singular(curved, X, k=3, iterations=2), "`iterations` to be an integer >= 3"),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[words for _, words in REFUSALS])
def test_refusal_names_the_argument(call, words):
    with pytest.raises((RuntimeError, TypeError, ValueError), match=words):
        call()
