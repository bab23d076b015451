"""Layers that change images at random, against NumPy."""

import itertools

import keras
import numpy as np
import pytest
from scipy.signal import correlate2d

from dann.layers import DomainBlend, RandomConvolution

RNG = np.random.default_rng(0)
SOURCE, TARGET = RNG.uniform(0, 255, (2, 200, 6, 4, 2)).astype("float32")


def blend(layer, source):
    return keras.ops.convert_to_numpy(layer([source, TARGET], training=True))


@pytest.mark.parametrize(("factor", "rule"), [(0.5, "sum"), (1.0, "difference")])
def test_blend_has_one_weight_per_example(factor, rule):
    """The difference from a black source shows the weights, which determine all other outputs."""
    black = DomainBlend(factor, roll=False, seed=3)
    weights = blend(black, np.zeros_like(SOURCE)) / TARGET
    weight = weights[:, :1, :1, :1]
    np.testing.assert_allclose(weights, np.broadcast_to(weight, weights.shape), rtol=1e-5)
    assert weight.min() >= 0
    assert weight.max() <= factor * (1 + 1e-6)
    assert weight.mean() == pytest.approx(factor / 2, abs=0.1 * factor)
    assert weight.std() == pytest.approx(factor / 12**0.5, abs=0.05 * factor)
    layer = DomainBlend(factor, roll=False, seed=3, rule=rule)
    outputs = blend(layer, SOURCE)
    difference, mixed = SOURCE - weight * TARGET, (1 - weight) * SOURCE + weight * TARGET
    expected = mixed if rule == "sum" else np.abs(difference)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-3)
    assert np.any(blend(layer, SOURCE) != outputs)  # the second call draws new weights


def test_target_is_rolled_by_one_to_two_thirds():
    layer, shifts = DomainBlend(1.0, seed=3), set()
    sides = list(itertools.product(range(6), range(4)))
    for _ in range(40):
        outputs = blend(layer, np.zeros_like(SOURCE))
        weights = {side: outputs / np.roll(TARGET, np.negative(side), (1, 2)) for side in sides}
        shift = [side for side, w in weights.items() if np.allclose(w, w[:, :1, :1, :1], 1e-4)]
        assert len(shift) == 1
        shifts.update(shift)
    assert shifts == set(itertools.product((2, 3, 4), (1, 2)))


def test_inference_returns_the_source():
    np.testing.assert_array_equal(DomainBlend()([SOURCE, TARGET]), SOURCE)


IMAGES = RNG.uniform(0, 255, (3, 9, 8, 2)).astype("float32")


def convolve(layer, images=IMAGES):
    return keras.ops.convert_to_numpy(layer(images, training=True))


def repeat(draw, count):
    return np.stack([keras.ops.convert_to_numpy(draw()) for _ in range(count)])


@pytest.mark.parametrize("size", [1, 3, 5])
def test_image_is_mixed_with_its_convolution(size, monkeypatch):
    kernel = RNG.normal(size=(size, size, 2, 2)).astype("float32")
    weights = np.array([0.0, 0.3, 1.0], "float32").reshape(3, 1, 1, 1)
    tensors = keras.ops.convert_to_tensor(kernel), keras.ops.convert_to_tensor(weights)
    monkeypatch.setattr(RandomConvolution, "_draw_kernel", lambda *_: tensors[0])
    monkeypatch.setattr(RandomConvolution, "_draw_weights", lambda *_: tensors[1])
    x = IMAGES / 127.5 - 1
    expected = np.zeros_like(x)
    for image, result in zip(x, expected, strict=True):
        for out in range(2):
            for into in range(2):
                plane = kernel[:, :, into, out]
                result[..., out] += correlate2d(image[..., into], plane, mode="same")
    expected = 127.5 + 127.5 * (weights * x + (1 - weights) * expected)
    outputs = convolve(RandomConvolution((size,)))
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-3)


def test_kernels_have_uniform_sizes_and_preserve_scale():
    layer = RandomConvolution((1, 3, 5), seed=2)
    kernels_by_size = {}
    for kernel in repeat(lambda: layer._draw_kernel(2, "float32"), 600):
        nonzero = np.argwhere(np.any(kernel != 0, axis=(2, 3)))
        size = nonzero[:, 0].max() - nonzero[:, 0].min() + 1
        assert len(nonzero) == size**2
        assert tuple(nonzero.mean(axis=0)) == (2.0, 2.0)
        kernels_by_size.setdefault(int(size), []).append(kernel[kernel != 0])
    for size in (1, 3, 5):
        # The variance of a sum of size^2 * 2 products with numbers of variance 1 is 1.
        assert np.std(kernels_by_size[size]) == pytest.approx((2 * size**2) ** -0.5, rel=0.1)
        assert len(kernels_by_size[size]) == pytest.approx(200, abs=45)


def test_weights_are_uniform_at_the_rate():
    layer = RandomConvolution(rate=0.3, seed=2)
    weights = repeat(lambda: layer._draw_weights(8, "float32"), 400).reshape(400, 8)
    is_changed = ~np.all(weights == 1, axis=1)
    assert is_changed.mean() == pytest.approx(0.3, abs=0.08)
    assert weights[is_changed].mean() == pytest.approx(0.5, abs=0.05)
    assert weights[is_changed].std() == pytest.approx(12**-0.5, abs=0.03)


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (1.0, False)])
def test_unchanged_images_have_the_compute_type(rate, training):
    images = IMAGES.astype("uint8")
    outputs = RandomConvolution(rate=rate)(images, training=training)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(outputs), images)
