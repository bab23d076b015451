"""Every engine computes sums of signs, whatever the sizes, as NumPy does from the definition."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dann.deployment import ENGINES
from dann.deployment.bits import count_bits, pack_bits, unpack_bits, unpack_signs
from dann.deployment.folding import find_thresholds
from dann.deployment.packed_model import PackedModel
from dann.deployment.program import Program, Step
from dann.deployment.program_checks import check_program

few = settings(deadline=None, max_examples=25)


def signs_into(op, input_shape, shape, attributes, kernel):
    bits = {"kernel_bits": pack_bits(kernel > 0).astype("<u8")}
    return Program(
        [
            Step("input", "input", (), input_shape, "float"),
            Step("sign", "sign", (0,), input_shape, "bits"),
            Step(op, op, (1,), shape, "int", attributes, bits),
        ]
    )


def check_dense(engine, rows, inputs, units, seed):
    rng = np.random.default_rng(seed)
    kernel = rng.choice([-1, 1], (units, inputs))
    x = rng.integers(-1, 2, (rows, inputs))
    expected = np.where(x >= 0, 1, -1) @ kernel.T
    program = signs_into("binary_dense", (inputs,), (units,), {"fan_in": inputs}, kernel)
    np.testing.assert_array_equal(PackedModel(program, engine).predict(x), expected)


def check_convolution(engine, shape, channels, units, size, stride, rate, pads, value, seed):
    rng = np.random.default_rng(seed)
    kernel = rng.choice([-1, 1], (*size, channels, units))
    x = rng.integers(-1, 2, (2, *shape, channels))
    widths = [(0, 0), *pads, (0, 0)]
    padded = np.pad(np.where(x >= 0, 1, -1), widths, constant_values=value)
    reach = [(taps - 1) * rate for taps in size]
    outputs = [
        (length - far - 1) // stride + 1
        for length, far in zip(padded.shape[1:3], reach, strict=True)
    ]
    expected = np.zeros((2, *outputs, units), int)
    for place in np.ndindex(*outputs):
        for tap in np.ndindex(*size):
            at = [p * stride + t * rate for p, t in zip(place, tap, strict=True)]
            expected[:, *place] += padded[:, *at] @ kernel[tap]
    attributes = {
        "input_shape": [*shape, channels],
        "size": list(size),
        "strides": [stride, stride],
        "dilation": [rate, rate],
        "pads": [list(pad) for pad in pads],
        "groups": 1,
        "pad_value": float(value),
        "fan_in": int(np.prod(size)) * channels,
    }
    rows = kernel.reshape(-1, units).T
    output_shape = (*outputs, units)
    program = signs_into("binary_conv", (*shape, channels), output_shape, attributes, rows)
    np.testing.assert_array_equal(PackedModel(program, engine).predict(x), expected)


dense_cases = {
    "rows": st.integers(1, 20),
    "inputs": st.integers(1, 1200),
    "units": st.integers(1, 20),
    "seed": st.integers(0, 99),
}
convolution_cases = {
    "shape": st.tuples(st.integers(5, 8), st.integers(5, 8)),
    "channels": st.sampled_from([1, 3, 63, 64, 65]),
    "units": st.sampled_from([1, 7, 8, 9]),
    "size": st.tuples(st.integers(1, 3), st.integers(1, 3)),
    "stride": st.integers(1, 2),
    "rate": st.integers(1, 2),
    "pads": st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 2),
    "value": st.sampled_from([-1, 0, 1]),
    "seed": st.integers(0, 99),
}


@pytest.mark.parametrize("engine", ENGINES)
@few
@given(**dense_cases)
def test_dense_products_of_any_size(engine, rows, inputs, units, seed):
    check_dense(engine, rows, inputs, units, seed)


@pytest.mark.parametrize("engine", ENGINES)
@few
@given(**convolution_cases)
def test_convolutions_of_any_size(engine, **case):
    check_convolution(engine, **case)


def dense_program(units):
    kernel = np.random.default_rng(0).choice([-1, 1], (units, 4096))
    return signs_into("binary_dense", (4096,), (units,), {"fan_in": 4096}, kernel)


@pytest.mark.parametrize(("units", "shares"), [(2**14, [(0, 3), (3, 6), (6, 10)]), (2, None)])
def test_threads_share_the_rows_if_it_is_worth_it(units, shares):
    numba_engine = pytest.importorskip("dann.deployment.engines.numba_engine")
    engine = numba_engine.NumbaEngine(dense_program(units), 3)
    assert [rows for _, rows in engine._shares(10)] == ([] if shares is None else [shares])


def test_threads_give_what_one_gives():
    pytest.importorskip("numba")
    program = dense_program(2**12)
    inputs = np.random.default_rng(1).standard_normal((50, 4096), "float32")
    expected = PackedModel(program, "numpy").predict(inputs)
    for threads in (1, 3):
        given = PackedModel(program, "numba", threads).predict(inputs)
        np.testing.assert_array_equal(given, expected)


def images_into(*steps):
    """A program on images `(4, 4, 2)`."""
    return Program([Step("input", "input", (), (4, 4, 2), "float"), *steps])


def windows_of(size, **others):
    attributes = {"input_shape": [4, 4, 2], "size": [size, size], "strides": [1, 1]}
    return {**attributes, "dilation": [1, 1], "pads": [[1, 0], [1, 0]], **others}


def step_of(op, shape=(4, 4, 2), attributes=None, **arrays):
    kinds = {"sign": "bits", "threshold": "bits"}
    return Step(op, op, (0,), shape, kinds.get(op, "float"), attributes or {}, arrays)


float_steps = {
    "relu": step_of("activation", attributes={"function": "relu"}),
    "sigmoid": step_of("activation", attributes={"function": "sigmoid"}),
    "tanh": step_of("activation", attributes={"function": "tanh"}),
    "softmax": step_of("activation", attributes={"function": "softmax"}),
    "prelu": step_of("prelu", slopes=np.array([0.5, -2], "float32")),
    "scale": step_of("affine", scale=np.array([3], "float32")),
    "offset": step_of("affine", offset=np.array([0.1, -0.2], "float32")),
    "nothing": step_of("affine"),
    "max pool": step_of("max_pool", attributes=windows_of(2)),
    "average pool": step_of("average_pool", attributes=windows_of(2)),
    "dense": step_of(
        "dense",
        (4, 4, 3),
        {"fan_in": 2},
        kernel=np.arange(6, dtype="float32").reshape(2, 3) - 2,
        bias=np.array([0.1, 0.2, 0.3], "float32"),
    ),
    "groups": step_of(
        "conv",
        (4, 4, 6),
        windows_of(2, groups=2, pad_value=-1.0, fan_in=4),
        kernel=np.sin(np.arange(24, dtype="float32")).reshape(2, 2, 1, 6),
        bias=np.arange(6, dtype="float32"),
    ),
    "convolution of 1 x 1": step_of(
        "conv",
        (4, 4, 3),
        {**windows_of(1, groups=1, pad_value=0.0, fan_in=2), "pads": [[0, 0], [0, 0]]},
        kernel=np.sin(np.arange(6, dtype="float32")).reshape(1, 1, 2, 3),
    ),
}


@pytest.mark.parametrize("special", [None, np.nan, np.inf])
@pytest.mark.parametrize("name", float_steps)
def test_the_fast_engine_computes_floats_as_the_reference_does(name, special):
    pytest.importorskip("numba")
    program = images_into(float_steps[name])
    check_program(program)
    images = np.random.default_rng(0).standard_normal((5, 4, 4, 2), "float32")
    if special is not None:
        images[1, 2, 1, 0] = special
        images[3, 0, 3] = -special
    with np.errstate(invalid="ignore"):
        expected = PackedModel(program, "numpy").predict(images)
    given = PackedModel(program, "numba").predict(images)
    np.testing.assert_allclose(given, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("before", "after"), [(3, 48), (48, 3), (64, 9), (96, 6), (4, 36)])
@pytest.mark.parametrize("engine", ENGINES)
def test_bits_move_into_rows_of_another_size(engine, before, after):
    signs = np.random.default_rng(0).choice([-1, 1], (3, 576 // before, before))
    shapes = signs.shape[1:], (576 // after, after)
    steps = [
        Step("input", "input", (), shapes[0], "float"),
        Step("sign", "sign", (0,), shapes[0], "bits"),
        Step("reshape", "reshape", (1,), shapes[1], "bits", {"input_shape": list(shapes[0])}),
        Step("signs", "signs", (2,), shapes[1], "float"),
    ]
    given = PackedModel(Program(steps), engine).predict(signs)
    np.testing.assert_array_equal(given, signs.reshape(3, *shapes[1]))


def test_a_model_serves_several_threads_at_once():
    pytest.importorskip("numba")
    model = PackedModel(dense_program(64), "numba")
    inputs = np.random.default_rng(2).standard_normal((8, 40, 4096), "float32")
    expected = [model.predict(batch) for batch in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for given, one in zip(pool.map(model.predict, inputs), expected, strict=True):
                np.testing.assert_array_equal(given, one)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fan_in_of_many_words_that_fill_no_group(engine):
    check_dense(engine, rows=2, inputs=64 * 37 + 5, units=17, seed=0)


@few
@given(size=st.integers(1, 200), seed=st.integers(0, 99))
def test_bits_come_back_and_fill_up_with_zeros(size, seed):
    positive = np.random.default_rng(seed).random((3, size)) < 0.5
    words = pack_bits(positive)
    assert words.shape == (3, -(-size // 64))
    np.testing.assert_array_equal(unpack_bits(words, size), positive)
    np.testing.assert_array_equal(unpack_signs(words, size), np.where(positive, 1, -1))
    assert count_bits(words).sum() == positive.sum()
    whole = [[int(word) >> bit & 1 for word in row for bit in range(64)] for row in words]
    np.testing.assert_array_equal(np.array(whole)[:, :size], positive)
    assert not np.array(whole)[:, size:].any()


def test_bits_are_counted_without_numpy_2(monkeypatch):
    words = np.array([[0, 1, 2**64 - 1], [2**63 + 5, 255, 2**32]], "uint64")
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert count_bits(words).tolist() == [[0, 1, 64], [3, 8, 1]]


@settings(deadline=None, max_examples=60)
@given(
    largest=st.integers(1, 40),
    gamma=st.sampled_from([-3.0, -0.1, 0.0, -0.0, 1e-6, 0.7]),
    beta=st.sampled_from([-20.0, -0.7, -1e-7, -0.0, 0.0, 0.7, 20.0]),
    mean=st.integers(-50, 50),
)
def test_thresholds_decide_as_batch_norm_for_every_sum(largest, gamma, beta, mean):
    scale = np.float32(gamma)
    offset = np.float32(beta) - np.float32(mean) * scale

    def batch_norm(sums):
        return sums * scale + offset

    thresholds, flips = find_thresholds(batch_norm, 1, largest)
    sums = np.arange(-largest, largest + 1)
    expected = batch_norm(sums.astype("float32")) >= 0
    np.testing.assert_array_equal((sums >= thresholds) != flips, expected)
    assert abs(thresholds[0]) <= largest
