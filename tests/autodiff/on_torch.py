"""Derivatives and methods on torch, against closed forms; run in a process of its own."""

import keras
import numpy as np
from keras import ops

import dann
from dann.autodiff import (
    batch_jacobian,
    frobenius_norm,
    gradients,
    hvp,
    jacobian,
    jvp,
    singular_values,
    vjp,
)

assert keras.backend.backend() == "torch"
X = np.array([[0.5, -1.0], [2.0, 0.25], [1.0, 3.0]], "float32")
W = np.array([[1.0, 2.0, -1.0], [0.5, -3.0, 1.0]], "float32")


def linear(x):
    return ops.matmul(x, W)


def close(found, expected):
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5, atol=1e-6)


def derivatives():
    close(gradients(lambda x: ops.sum(x**3), [X])[0], 3 * X**2)
    close(gradients(lambda x, y: ops.sum(x), [X, X])[1], 0 * X)
    assert gradients(lambda x, y: ops.sum(x), [X, X], unconnected_gradients="none")[1] is None
    close(vjp(lambda x: x**2, [X], [X])[1][0], 2 * X**2)
    close(jvp(linear, [X], [2 * X])[1], 2 * X @ W)
    close(hvp(lambda x: ops.sum(x**3), [X], [X])[0], 6 * X**2)
    close(jacobian(lambda x: x**2, X[0]), np.diag(2 * X[0]))
    close(batch_jacobian(linear, X), np.stack([W.T] * 3))
    close(batch_jacobian(lambda x: x**2, X[:, 0]), 2 * X[:, 0])
    close(singular_values(linear, X, 2), [np.linalg.svd(W, compute_uv=False)] * 3)
    norms, errors = (ops.convert_to_numpy(v) for v in frobenius_norm(linear, X, samples=64))
    assert (np.abs(norms - np.linalg.norm(W)) < 5 * errors).all()
    slope = gradients(lambda x: gradients(lambda x: ops.sum(x**3), [x])[0], [X])[0]
    close(slope, 6 * X)  # a derivative of a derivative


def methods():
    pair = {"source": X, "target": X + 1}
    labels = np.array([0, 1, 2])
    vat = [dann.VirtualAdversarial(radius=0.5)]
    for method, settings in (
        (dann.WDGRL, {"critic_steps": 1}),
        (dann.DANN, {"regularizers": vat, "task_radius": 0.05}),
        (dann.DIRTT, {"radius": 0.5}),
        (dann.CDAN, {}),
    ):
        backbone = keras.Sequential([keras.Input((2,)), keras.layers.Dense(4)])
        model = method(backbone, num_classes=3, **settings)
        model.compile("adam")
        model(X)
        before = [np.array(ops.convert_to_numpy(w)) for w in model.trainable_weights]
        history = model.fit(pair, labels, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all(), method
        after = [ops.convert_to_numpy(w) for w in model.trainable_weights]
        moved = [np.abs(a - b).max() for a, b in zip(after, before, strict=True)]
        assert max(moved) > 0, method


derivatives()
methods()
print("right on torch")
