"""Reductions over windows that move along rows, as in pooling, against NumPy."""

import math

import numpy as np
import pytest

import lathe


def pooled(x, op, size, stride, pad, outside):
    n, c, height, width = x.shape
    padded = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], value=outside)

    def extent(length):
        return (length + 2 * pad - size) // stride + 1

    return lathe.compute(
        (n, c, extent(height), extent(width)),
        lambda b, f, i, j: lathe.reduce(op, (size, size), lambda r, s: padded[b, f, stride * i + r, stride * j + s]),
    )


def expected(x, op, size, stride, pad, outside):
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=outside)
    found = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (2, 3))[:, :, ::stride, ::stride]
    return found.max((-1, -2)) if op == "max" else found.sum((-1, -2), dtype=np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8])
@pytest.mark.parametrize("op", ["max", "sum"])
@pytest.mark.parametrize("window", [(3, 2, 1), (2, 2, 0), (3, 3, 0), (5, 4, 2), (3, 1, 1), (2, 3, 0)])
@pytest.mark.parametrize("shape", [(1, 3, 112, 112), (2, 3, 57, 55), (1, 2, 9, 200), (1, 5, 9, 9)])
def test_windows(shape, window, op, dtype):
    rng = np.random.default_rng(6)
    x = rng.integers(-3, 4, shape).astype(dtype)
    outside = 0 if op == "sum" else -math.inf if np.dtype(dtype).kind == "f" else -100
    f = lathe.jit(lambda x: pooled(x, op, *window, outside))
    np.testing.assert_array_equal(f(x), expected(x, op, *window, outside))


def test_a_greatest_element_of_a_window_keeps_nan():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1, 2, 40, 80), np.float32)
    x[rng.random(x.shape) < 0.01] = np.nan
    f = lathe.jit(lambda x: pooled(x, "max", 3, 2, 1, -math.inf))
    np.testing.assert_array_equal(f(x), expected(x, "max", 3, 2, 1, -math.inf))
