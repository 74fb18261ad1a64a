"""Products of matrices of bytes and of bf16, which run on dot products where the host has them."""

import numpy as np
import pytest

import lathe

SHAPES = [(8, 32, 16), (16, 48, 64), (31, 67, 127), (7, 13, 5), (64, 64, 4), (5, 1, 7), (1, 9, 8), (33, 17, 1), (4, 5, 3), (0, 5, 7), (5, 0, 7), (5, 7, 0)]


def product(x, y):
    return lathe.matmul(lathe.astype(x, lathe.int32), lathe.astype(y, lathe.int32))


def byte_values(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape, dtype=dtype)


@pytest.mark.parametrize("m, n, k", SHAPES)
@pytest.mark.parametrize("turned", ["nn", "tn", "nt", "tt"])
def test_products_of_bytes_are_exact(m, n, k, turned):
    rng = np.random.default_rng(m * 1000 + n * 10 + k)
    for a in (np.int8, np.uint8):
        for b in (np.int8, np.uint8):
            x = byte_values(rng, a, k, m).T if turned[0] == "t" else byte_values(rng, a, m, k)
            y = byte_values(rng, b, n, k).T if turned[1] == "t" else byte_values(rng, b, k, n)
            expected = x.astype(np.int32) @ y.astype(np.int32)
            np.testing.assert_array_equal(np.asarray(lathe.jit(product)(x, y)), expected)


def test_extremes_of_bytes_do_not_saturate():
    for a, b in ((-128, -128), (-128, 127), (127, 127)):
        x, y = np.full((16, 256), a, np.int8), np.full((256, 32), b, np.int8)
        assert (np.asarray(lathe.jit(product)(x, y)) == 256 * a * b).all()


def test_batches_and_strides_of_bytes():
    rng = np.random.default_rng(0)
    cases = [
        (byte_values(rng, np.int8, 3, 20, 18), byte_values(rng, np.int8, 3, 18, 37)),
        (byte_values(rng, np.int8, 40, 64)[::2, ::2], byte_values(rng, np.int8, 64, 66)[::2, ::3]),
        (byte_values(rng, np.int8, 2, 12, 16), byte_values(rng, np.int8, 16, 24)),
    ]
    for x, y in cases:
        expected = x.astype(np.int32) @ y.astype(np.int32)
        np.testing.assert_array_equal(np.asarray(lathe.jit(product)(x, y)), expected)


def test_an_epilogue_follows_a_product_of_bytes():
    rng = np.random.default_rng(1)
    x, y, bias = byte_values(rng, np.int8, 24, 40), byte_values(rng, np.int8, 40, 48), rng.integers(-9, 9, 48, dtype=np.int32)
    out = lathe.jit(lambda x, y, bias: lathe.maximum(product(x, y) + bias, 0))(x, y, bias)
    np.testing.assert_array_equal(np.asarray(out), np.maximum(x.astype(np.int32) @ y.astype(np.int32) + bias, 0))


@pytest.mark.parametrize("m, n, k", [(64, 96, 128), (5, 33, 70), (1, 64, 64)])
def test_values_that_are_quantized_on_the_way_stay_bytes(m, n, k):
    def quantized(x, w):
        scale = lathe.max(lathe.abs(x), axis=1, keepdims=True) / 127
        y = lathe.astype(lathe.clip(lathe.round(x / scale), -127, 127), lathe.int8)
        return lathe.astype(product(y, w), lathe.float32) * scale

    rng = np.random.default_rng(m)
    x, w = rng.standard_normal((m, k), np.float32), byte_values(rng, np.int8, k, n)
    scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
    y = np.clip(np.round(x / scale), -127, 127).astype(np.int32)
    np.testing.assert_allclose(lathe.jit(quantized)(x, w), (y @ w.astype(np.int32)).astype(np.float32) * scale, rtol=1e-6)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 5, 40), (8, 8, 8), (17, 33, 65), (40, 64, 200), (100, 3, 31)])
@pytest.mark.parametrize(("a_type", "b_type"), [("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8"), ("int16", "int8")])
@pytest.mark.parametrize(("a_zero", "b_zero"), [(3, 0), (128, 114), (-7, 5)])
@pytest.mark.parametrize("turned", [False, True])
def test_zero_points_stand_beside_the_product(m, n, k, a_type, b_type, a_zero, b_zero, turned):
    rng = np.random.default_rng(11)
    a = rng.integers(np.iinfo(a_type).min, np.iinfo(a_type).max + 1, (m, k)).astype(a_type)
    b = rng.integers(np.iinfo(b_type).min, np.iinfo(b_type).max + 1, (n, k) if turned else (k, n)).astype(b_type)

    def product(a, b):
        x, y = lathe.astype(a, lathe.int32) - a_zero, lathe.astype(b, lathe.int32) - b_zero
        return lathe.matmul(x, lathe.matrix_transpose(y) if turned else y)

    wide = (a.astype(np.int32) - np.int32(a_zero), b.astype(np.int32) - np.int32(b_zero))
    expected = wide[0] @ (wide[1].T if turned else wide[1])
    np.testing.assert_array_equal(lathe.jit(product)(a, b), expected)
    scaled = lathe.jit(lambda a, b: lathe.astype(product(a, b), lathe.float32) * 0.25)
    np.testing.assert_array_equal(scaled(a, b), expected.astype(np.float32) * np.float32(0.25))


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 17])
@pytest.mark.parametrize("n, k", [(64, 128), (67, 128), (200, 36), (41, 131), (515, 64), (16, 4), (9, 33)])
def test_products_of_bytes_by_columns_that_lie_along_the_sum(m, n, k):
    """As weights of (outputs, inputs) do: words of few rows are taken as they lie, those of more are turned around."""
    rng = np.random.default_rng(m * 1000 + n + k)
    for a, b in ((np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8)):
        x, y = byte_values(rng, a, m, k), byte_values(rng, b, n, k)
        x.flat[0], y.flat[0] = np.iinfo(a).min, np.iinfo(b).min
        out = np.asarray(lathe.jit(lambda x, y: product(x, lathe.matrix_transpose(y)))(x, y))
        np.testing.assert_array_equal(out, x.astype(np.int32) @ y.astype(np.int32).T)


@pytest.mark.parametrize("rows", [(32, 12), (7, 7), (7, 9), (3, 9), (2, 6)])
@pytest.mark.parametrize("k", [64, 130, 768])
def test_rows_of_bytes_of_several_axes_by_a_vector(rows, k):
    """Rows that are joined to one axis are told apart by quotients, which no register is."""
    rng = np.random.default_rng(k)
    for a, b in ((np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)):
        x, y = byte_values(rng, a, *rows, k), byte_values(rng, b, k)
        expected = x.astype(np.int32) @ y.astype(np.int32)
        np.testing.assert_array_equal(np.asarray(lathe.jit(product)(x, y)), expected)
        more = lathe.jit(lambda x, y: product(x.astype(lathe.int16) + 1, y[:, None]))
        np.testing.assert_array_equal(np.asarray(more(x, y))[..., 0], (x.astype(np.int32) + 1) @ y.astype(np.int32))
