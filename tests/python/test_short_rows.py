"""Rows shorter than a vector, beside what is the same for each of them, and picked elements."""

import numpy as np
import pytest

import lathe


@pytest.mark.parametrize("columns", [2, 3, 4, 5, 6, 7, 10, 12, 20, 24, 33])
@pytest.mark.parametrize("rows", [2, 31, 200, 1001])
def test_affine_rows(rows, columns):
    rng = np.random.default_rng(rows * columns)
    x = rng.standard_normal((rows, columns), np.float32)
    scale, shift = rng.standard_normal((2, columns), np.float32)
    got = lathe.jit(lambda x, s, t: lathe.maximum(x * s + t, 0.0))(x, scale, shift)
    np.testing.assert_allclose(got, np.maximum(x * scale + shift, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float64])
def test_pixels_of_other_types(dtype):
    x = np.random.default_rng(1).integers(0, 99, (5, 33, 47, 3)).astype(dtype)
    mean, scale = np.array([3, 50, 7], np.float32), np.array([0.5, 0.25, 2], np.float32)
    got = lathe.jit(lambda x, m, s: (lathe.astype(x, lathe.float32) - m) * s)(x, mean, scale)
    np.testing.assert_array_equal(got, (x.astype(np.float32) - mean) * scale)


def test_matrices_that_repeat():
    x, y = np.arange(4 * 50 * 2 * 3, dtype=np.float64).reshape(4, 50, 2, 3), np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(lathe.jit(lambda x, y: x - y)(x, y), x - y)
    np.testing.assert_array_equal(lathe.jit(lambda x, y: x - y)(x[:, ::-1], y[::-1]), x[:, ::-1] - y[::-1])


def test_rows_are_vectors_in_a_row():
    x, s = np.ones((1000, 3), np.float32), np.arange(3, dtype=np.float32)
    low = lathe.jit(lambda x, s: x * s).lower(x, s)
    if "avx512vl" in low.signature:
        assert "% 3" in low.text("scheduled") and "permute" in low.text("end")


@pytest.mark.parametrize("columns", [2, 3, 4, 5, 7, 8, 12, 33])
@pytest.mark.parametrize("shape", [(31,), (5, 99), (64, 40), (3, 7, 11)])
def test_one_element_for_each_row(shape, columns):
    rng = np.random.default_rng(columns)
    x, each = rng.standard_normal((*shape, columns), np.float32), rng.standard_normal((*shape, 1), np.float32)
    np.testing.assert_array_equal(lathe.jit(lambda x, e: x * e)(x, each), x * each)
    np.testing.assert_array_equal(lathe.jit(lambda x, e: x * e)(x, each[:1]), x * each[:1])
    far = np.repeat(each, 3, axis=-1)[..., ::3]
    np.testing.assert_array_equal(lathe.jit(lambda x, e: x - e)(x, far), x - far)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("last", [1, 2, 3, 5, 8, 16])
@pytest.mark.parametrize("form", ["cab,bd->dacb", "edb,ecab->dceab", "dca,ceb->caedb", "cab,bed->dacbe"])
def test_outer_products_of_short_rows(form, last, dtype):
    extents = {"a": 13, "b": last, "c": 9, "d": 6, "e": 11}
    rng = np.random.default_rng(last)
    operands = [
        rng.integers(-9, 9, [extents[axis] for axis in axes]).astype(dtype) for axes in form.split("->")[0].split(",")
    ]
    got = lathe.jit(lambda x, y: lathe.einsum(form, x, y))(*operands)
    np.testing.assert_array_equal(got, np.einsum(form, *operands))


@pytest.mark.parametrize("count", [1, 7, 64, 1001])
def test_places_of_few_bits_need_no_check(count):
    rng = np.random.default_rng(count)
    x, table = rng.integers(0, 256, count).astype(np.uint8), rng.standard_normal(256, np.float32)
    take = lathe.jit(lambda x, t: lathe.take(t, lathe.astype(x, lathe.int64), axis=0))
    np.testing.assert_array_equal(take(x, table), table[x])
    assert "assert" not in take.lower(x, table).text("traced")
    wrapped = lathe.jit(lambda i, t: lathe.take(t, (i * 3) % 100, axis=0) * 2.0)
    i = rng.integers(-(2**62), 2**62, count)
    np.testing.assert_array_equal(wrapped(i, table), table[(i * 3) % 100] * 2)
    with pytest.raises(IndexError):
        take(np.full(count, 255, np.uint8), table[:255])
    picked = lathe.jit(lambda x, i: lathe.take(x, i, axis=0))
    np.testing.assert_array_equal(picked(table, x.astype(np.int64)), table[x])


@pytest.mark.parametrize(("channels", "states"), [(768, 16), (100, 5), (33, 64), (7, 3)])
def test_a_function_of_each_row_is_evaluated_in_vectors(channels, states):
    """States that decay by a step that is a function of each channel, as in selective state spaces."""
    rng = np.random.default_rng(12)
    h, a = (rng.standard_normal((channels, states)).astype(np.float32) for _ in range(2))
    x, d = (rng.standard_normal(channels).astype(np.float32) for _ in range(2))

    def step(lib, h, a, x, d):
        t = lib.log(1.0 + lib.exp(d))
        return h * lib.exp(t[:, None] * a) + t[:, None] * x[:, None]

    run = lathe.jit(lambda *args: step(lathe, *args))
    np.testing.assert_allclose(run(h, a, x, d), step(np, h, a, x, d), rtol=2e-5, atol=1e-5)
    if channels == 768:
        text = run.lower(h, a, x, d).text("scheduled")
        assert "vectorized for" in text[: text.index("log(")]


@pytest.mark.parametrize(("samples", "features"), [(2000, 33), (101, 7), (64, 300), (5, 3)])
def test_gradients_evaluate_a_function_of_each_sample_in_vectors(samples, features):
    """The gradient of a logistic regression: what is read of each sample is added up by a function of its own sum."""
    rng = np.random.default_rng(samples)
    x, w = rng.standard_normal((samples, features), np.float32), rng.standard_normal(features, np.float32) * 0.2
    y = rng.random(samples, np.float32)
    gradient = lathe.jit(lambda x, w, y: x.T @ (lathe.sigmoid(x @ w) - y))
    wide = x.astype(np.float64)
    expected = wide.T @ (1 / (1 + np.exp(-(wide @ w))) - y)
    np.testing.assert_allclose(gradient(x, w, y), expected, rtol=1e-4, atol=1e-4 * samples**0.5)
    if samples == 2000:
        text = gradient.lower(x, w, y).text("scheduled")
        nest = text[: text.index("sigmoid(")].splitlines()
        assert "vectorized for" in [line for line in nest if " in [0, " in line and "for " in line][-1]


@pytest.mark.parametrize("shape", [(31, 103), (4, 16), (3, 5), (200,)])
def test_functions_that_a_choice_reads_twice_are_evaluated_in_vectors(shape):
    """Two neighbours of levels that are computed for each element, weighted by its place between them."""
    x = np.random.default_rng(7).random(shape, np.float32)

    def between(lib, x):
        levels = lib.stack([lib.exp((x - level / 3) * (x - level / 3) * -8.0) * x for level in range(4)])
        place = lib.astype(lib.floor(x * 2.999), lib.int64)
        weight = x * 2.999 - lib.astype(place, lib.float32)
        low, high = (lib.take_along_axis(levels, place[None] + k, axis=0)[0] for k in range(2))
        return low * (1.0 - weight) + high * weight

    run = lathe.jit(lambda x: between(lathe, x))
    np.testing.assert_allclose(run(x), between(np, x), rtol=1e-4, atol=1e-6)
    if shape[-1] > 100:
        text = run.lower(x).text("scheduled")
        assert text.count("vectorized for") >= text.count("exp(")


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("channels", [2, 3, 5])
@pytest.mark.parametrize("shape", [(1, 7), (13, 101), (24, 64)])
def test_narrow_pixels_by_one_element_for_each(dtype, channels, shape):
    rng = np.random.default_rng(channels)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, (*shape, channels)).astype(dtype)
    mask = rng.integers(0, 127, shape).astype(dtype)
    scale = rng.integers(0, 127, channels).astype(dtype)

    def blend(x, mask, scale):
        wide = x.astype("int32")
        mixed = wide * mask.astype("int32")[..., None] + scale.astype("int32") * (255 - wide)
        return (mixed >> 8).astype(str(np.dtype(dtype)))

    np.testing.assert_array_equal(lathe.jit(blend)(x, mask, scale), blend(x, mask, scale))
    picked = lathe.jit(lambda x, mask: x ^ mask[..., None])
    np.testing.assert_array_equal(picked(x, mask), x ^ mask[..., None])
