"""Indices that are quotients of loop variables, as resizing has them, against NumPy: every tail, and ends of the input."""

import numpy as np
import pytest

import lathe

SIZES = [(200, 100), (100, 133), (133, 100), (64, 224), (7, 14), (14, 7), (100, 33), (100, 21), (3, 50), (2, 17), (1, 40), (50, 1)]
DTYPES = [np.float32, np.float64, np.int32, np.uint8]


def values(shape, dtype, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 50).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nearest(size, dtype):
    given, wanted = size
    x = values((2, 5, given), dtype)
    rows = np.arange(9) * 5 // 9
    columns = np.arange(wanted) * given // wanted
    f = lathe.jit(lambda x: lathe.compute((2, 9, wanted), lambda b, i, j: x[b, i * 5 // 9, j * given // wanted]))
    np.testing.assert_array_equal(f(x), x[:, rows][:, :, columns])
    np.testing.assert_array_equal(f(x[:, ::-1]), x[:, ::-1][:, rows][:, :, columns])
    wide = values((2, 5, 2 * given + 3), dtype, 1)[:, :, 1 : given + 1]
    np.testing.assert_array_equal(f(wide), wide[:, rows][:, :, columns])


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_linear(size, dtype):
    given, wanted = size
    x = values((3, 4, given), dtype)

    def neighbours(j, larger, smaller):
        position = (2 * j + 1) * given - wanted
        low = position // (2 * wanted)
        return larger(low, 0), smaller(low + 1, given - 1), position - low * (2 * wanted)

    def body(b, i, j):
        left, right, share = neighbours(j, lathe.maximum, lathe.minimum)
        name = "float32" if dtype is np.float32 else "float64"
        return x0[0][b, i, left] + (x0[0][b, i, right] - x0[0][b, i, left]) * (
            share.astype(getattr(lathe, name)) * (1.0 / (2 * wanted))
        )

    x0 = [None]

    @lathe.jit
    def f(x):
        x0[0] = x
        return lathe.compute((3, 4, wanted), body)

    left, right, share = neighbours(np.arange(wanted), np.maximum, np.minimum)
    share = share.astype(dtype) * dtype(1.0 / (2 * wanted))
    expected = x[:, :, left] + (x[:, :, right] - x[:, :, left]) * share
    np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("stride", [2, 3, 4, 5])
def test_several_strided_operands(stride):
    x = values((37, 61 * stride), np.float32)
    parts = [x[:, k::stride] for k in range(stride)]
    f = lathe.jit(lambda x: sum(x[:, k::stride] for k in range(1, stride)) * x[:, ::stride])
    np.testing.assert_allclose(f(x), sum(parts[1:]) * parts[0], rtol=1e-5)


def test_repeated_elements():
    x = values((20, 15), np.float32)
    f = lathe.jit(lambda x: lathe.compute((20, 60), lambda i, j: x[i, j // 4]))
    np.testing.assert_array_equal(f(x), x.repeat(4, 1))


def places(lib, given, wanted):
    """Of pixel centres, in floats, as frameworks compute them; of lathe or NumPy."""
    position = lib.astype(lib.arange(wanted), lib.float32)
    position = lib.maximum((position + 0.5) * (given / wanted) - 0.5, 0.0)
    low = lib.floor(position)
    left = lib.astype(low, lib.int64)
    return left, lib.minimum(left + 1, given - 1), position - low


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8], ids=lambda d: d.__name__)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_places_that_are_rounded_floats(size, dtype):
    given, wanted = size
    x = values((3, 4, given), dtype)
    left, right, _ = places(np, given, wanted)

    def body(b, i, j):
        position = lathe.maximum((lathe.astype(j, lathe.float32) + 0.5) * (given / wanted) - 0.5, 0.0)
        low = lathe.astype(lathe.floor(position), lathe.int64)
        return x0[0][b, i, low] - x0[0][b, i, lathe.minimum(low + 1, given - 1)]

    x0 = [None]

    @lathe.jit
    def lambdas(x):
        x0[0] = x
        return lathe.compute((3, 4, wanted), body)

    @lathe.jit
    def arrays(x):
        left, right, _ = places(lathe, given, wanted)
        return lathe.take(x, left, axis=2) - lathe.take(x, right, axis=2)

    expected = x[:, :, left] - x[:, :, right]
    np.testing.assert_array_equal(lambdas(x), expected)
    np.testing.assert_array_equal(arrays(x), expected)


def test_a_list_of_known_places_needs_no_check():
    x = np.zeros((5, 40), np.float32)
    f = lathe.jit(lambda x: lathe.take(x, lathe.arange(80) // 2, axis=1))
    text = f.lower(x).text("traced")
    assert "assert" not in text and "alloc" not in text, text


@pytest.mark.parametrize(
    "list_of",
    [lambda: lathe.arange(80) - 3, lambda: 39 - lathe.arange(40), lambda: lathe.arange(20) * 3 % 40, lambda: lathe.arange(4) * 10],
    ids=["from the end", "falling", "wrapped", "strided"],
)
def test_lists_of_places(list_of):
    x = values((5, 80), np.float32)
    f = lathe.jit(lambda x: (lathe.take(x, list_of(), axis=1), list_of()))
    taken, places = f(x)
    np.testing.assert_array_equal(taken, x[:, places])


def test_a_list_that_leaves_the_array_stops_the_kernel():
    x = np.zeros((5, 40), np.float32)
    with pytest.raises(IndexError, match="take.*axis 1"):
        lathe.jit(lambda x: lathe.take(x, lathe.arange(80) // 2 + 1, axis=1))(x)


@pytest.mark.parametrize("size", [((7, 9), (14, 18)), ((30, 56), (60, 112)), ((64, 50), (21, 33))], ids=str)
def test_bilinear_resizing_of_arrays(size):
    (height, width), (rows, columns) = size
    x = values((2, 3, height, width), np.float32)

    def resize(lib, x):
        top, bottom, down = places(lib, height, rows)
        left, right, across = places(lib, width, columns)
        down = down[:, None]
        upper, lower = lib.take(x, top, axis=2), lib.take(x, bottom, axis=2)
        upper = lib.take(upper, left, axis=3) * (1 - across) + lib.take(upper, right, axis=3) * across
        lower = lib.take(lower, left, axis=3) * (1 - across) + lib.take(lower, right, axis=3) * across
        return upper * (1 - down) + lower * down

    np.testing.assert_allclose(lathe.jit(lambda x: resize(lathe, x))(x), resize(np, x), rtol=1e-5, atol=1e-4)
