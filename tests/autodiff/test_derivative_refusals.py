"""What has no derivative, or would have a wrong one, is refused."""

import keras
import numpy as np
import pytest
from keras import ops
from maps import INPUTS, curved, linear

from dann.autodiff import batch_jacobian, frobenius_norm, gradients, hvp, jacobian, jvp, vjp
from dann.autodiff import singular_values as singular

VARIABLE = keras.Variable(INPUTS)
X, U, WHOLE = INPUTS, np.ones((3, 5), "float32"), INPUTS.astype("int32")


def of_two_inputs():
    inputs = [keras.Input(X.shape[1:]), keras.Input(X.shape[1:])]
    return keras.Model(inputs, keras.layers.Add()(inputs))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: gradients(ops.square, [X], [X, X]), ValueError),
        (lambda: gradients(ops.square, [X], []), ValueError),
        (lambda: gradients(ops.square, [X], [X[:1]]), ValueError),
        (lambda: gradients(ops.square, [X], [None]), (TypeError, ValueError)),
        (lambda: gradients(ops.square, [X], [X.astype("float16")]), ValueError),
        (lambda: gradients(ops.square, [X], X), TypeError),
        (lambda: gradients(ops.square, [X], stop_gradients=[1]), ValueError),
        (lambda: gradients(ops.sum, [WHOLE]), TypeError),
        (lambda: gradients(ops.argmax, [X]), TypeError),
        (lambda: jvp(linear, [X], [U]), ValueError),
        (lambda: jvp(linear, [X], []), ValueError),
        (lambda: vjp(linear, [X], [X]), ValueError),
        (lambda: hvp(ops.sum, [X], [U]), ValueError),
        (lambda: jacobian(linear, WHOLE), TypeError),
        (lambda: jacobian(lambda x: {"a": x, "b": x}, [X]), ValueError),
        (lambda: gradients(np.sin, [X]), (TypeError, RuntimeError)),  # 0 on TensorFlow, in silence
        (lambda: gradients(ops.square, X[:1]), TypeError),  # by its row, in silence
        (lambda: jacobian(linear, {"a": X}), TypeError),
        (lambda: gradients(of_two_inputs(), [{"a": VARIABLE, "b": VARIABLE}]), TypeError),
        (lambda: gradients(of_two_inputs(), [[VARIABLE, VARIABLE]]), TypeError),
        (lambda: jacobian(linear, [[VARIABLE], [VARIABLE]]), TypeError),
        (lambda: gradients(linear, [None]), TypeError),
        (lambda: jvp(linear, [VARIABLE], {"a": X}), TypeError),
        (lambda: hvp(ops.sum, [VARIABLE], None), TypeError),
        (lambda: batch_jacobian(linear, WHOLE), TypeError),
        (lambda: batch_jacobian(of_two_inputs(), [X, X]), TypeError),
        (lambda: batch_jacobian(ops.sum, X), ValueError),
        (lambda: batch_jacobian(lambda x: x[:2], X), ValueError),
        (lambda: batch_jacobian(lambda x: [x, x], X), (AttributeError, ValueError)),
        (lambda: batch_jacobian(lambda x: ops.argmax(x, axis=1), X), TypeError),
        (lambda: frobenius_norm(curved, X, samples=1), ValueError),
        (lambda: singular(curved, X, k=0), ValueError),
        (lambda: singular(curved, X, k=5), ValueError),
        (lambda: singular(curved, X, k=3, iterations=2), ValueError),
    ],
)
def test_what_has_no_derivative_is_refused(call, error):
    with pytest.raises(error):  # a foreign one would be another
        call()
