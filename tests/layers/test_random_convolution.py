import keras
import numpy as np
import pytest
from scipy.signal import correlate2d

from dann.layers import RandomConvolution

RNG = np.random.default_rng(0)
IMAGES = RNG.uniform(0, 255, (3, 9, 8, 2)).astype("float32")


def convolved(layer, images=IMAGES):
    return keras.ops.convert_to_numpy(layer(images, training=True))


def drawn(draw, count):
    return np.stack([keras.ops.convert_to_numpy(draw()) for _ in range(count)])


@pytest.mark.parametrize("size", [1, 3, 5])
def test_each_image_is_mixed_with_its_convolution(size, monkeypatch):
    kernel = RNG.normal(size=(size, size, 2, 2)).astype("float32")
    shares = np.array([0.0, 0.3, 1.0], "float32").reshape(3, 1, 1, 1)
    tensors = keras.ops.convert_to_tensor(kernel), keras.ops.convert_to_tensor(shares)
    monkeypatch.setattr(RandomConvolution, "_draw_kernel", lambda *_: tensors[0])
    monkeypatch.setattr(RandomConvolution, "_draw_weights", lambda *_: tensors[1])
    x = IMAGES / 127.5 - 1
    expected = np.zeros_like(x)
    for image, result in zip(x, expected, strict=True):
        for out in range(2):
            for into in range(2):
                plane = kernel[:, :, into, out]
                result[..., out] += correlate2d(image[..., into], plane, mode="same")
    expected = 127.5 + 127.5 * (shares * x + (1 - shares) * expected)
    given = convolved(RandomConvolution((size,)))
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-3)


def test_kernels_of_each_size_keep_the_scale_and_are_drawn_equally_often():
    layer = RandomConvolution((1, 3, 5), seed=2)
    found = drawn(lambda: layer._draw_kernel(2, "float32"), 600)
    side = np.max(np.abs(found), axis=(0, 3, 4)) > 0
    assert side.all()
    sizes = {}
    for kernel in found:
        filled = np.argwhere(np.any(kernel != 0, axis=(2, 3)))
        size = filled[:, 0].max() - filled[:, 0].min() + 1
        assert len(filled) == size**2
        assert tuple(filled.mean(axis=0)) == (2.0, 2.0)
        sizes.setdefault(int(size), []).append(kernel[kernel != 0])
    for size in (1, 3, 5):
        # The variance of a sum of size^2 * 2 products with numbers of variance 1 is 1.
        assert np.std(sizes[size]) == pytest.approx((2 * size**2) ** -0.5, rel=0.1)
        assert len(sizes[size]) == pytest.approx(200, abs=45)


def test_shares_are_uniform_and_the_rate_says_how_many_batches_change():
    layer = RandomConvolution(rate=0.3, seed=2)
    found = drawn(lambda: layer._draw_weights(8, "float32"), 400).reshape(400, 8)
    changed = ~np.all(found == 1, axis=1)
    assert changed.mean() == pytest.approx(0.3, abs=0.08)
    assert found[changed].mean() == pytest.approx(0.5, abs=0.05)
    assert found[changed].std() == pytest.approx(12**-0.5, abs=0.03)


def test_other_numbers_the_next_time_and_the_same_ones_for_the_same_seed():
    layer, again = (RandomConvolution(rate=1.0, seed=3) for _ in range(2))
    first = convolved(layer)
    assert np.any(convolved(layer) != first)
    np.testing.assert_array_equal(convolved(again), first)


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (1.0, False)])
def test_without_a_change_the_images_stay_and_have_its_type(rate, training):
    whole = IMAGES.astype("uint8")
    out = RandomConvolution(rate=rate)(whole, training=training)
    assert keras.backend.standardize_dtype(out.dtype) == "float32"
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(out), whole)
