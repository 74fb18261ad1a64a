"""Reducers of one's own: associative, whether or not their operands may change places."""

import itertools
import math

import numpy as np
import pytest

import lathe

SHAPES = [(300, 40), (16, 100), (4, 64), (5, 30), (33, 8), (7, 16, 48), (1, 200), (64, 1), (3, 5, 31)]
DTYPES = ["float32", "float64", "int32"]


def drawn(shape, dtype, seed=0):
    return np.random.default_rng(seed).uniform(-3, 3, shape).astype(dtype)


def along(reducer, shape, axis, term):
    """The reduction of term(indices) along an axis of the shape."""
    kept = [extent for i, extent in enumerate(shape) if i != axis]
    return lambda x: lathe.compute(
        tuple(kept), lambda *o: lathe.reduce(reducer, shape[axis], lambda j: term(x[(*o[:axis], j, *o[axis:])]))
    )


def first_positive(x, axis):
    result = np.zeros_like(np.take(x, 0, axis))
    for k in range(x.shape[axis]):
        result = np.where(result != 0, result, np.maximum(np.take(x, k, axis), 0))
    return result


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, -1])
def test_folds_in_the_order_of_the_elements(shape, dtype, axis):
    """Neither chains nor lanes may take elements out of turn where the operands may not change places."""
    axis %= len(shape)
    x, of_lathe = drawn(shape, dtype), getattr(lathe, dtype)
    first = lathe.Reducer(lambda a, b: lathe.where(a != 0, a, b), 0, of_lathe)
    run = lathe.jit(along(first, shape, axis, lambda v: lathe.maximum(v, 0)))
    np.testing.assert_array_equal(run(x), first_positive(x, axis))
    last = lathe.Reducer(lambda a, b: (a[0] + b[0], lathe.where(b[0] != 0, b[1], a[1])), (0, 0), (of_lathe, of_lathe))
    run = lathe.jit(along(last, shape, axis, lambda v: (lathe.where(v > 0, 1, 0).astype(of_lathe), v)))
    count, value = run(x)
    np.testing.assert_array_equal(count, (x > 0).sum(axis))
    np.testing.assert_array_equal(value, first_positive(np.flip(x, axis), axis))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, -1])
def test_functions_fold_in_lanes(shape, dtype, axis):
    axis %= len(shape)
    x, of_lathe = drawn(shape, dtype), getattr(lathe, dtype)
    exponentials = lathe.Reducer(lambda a, b: lathe.logaddexp(a, b), -math.inf, of_lathe)
    run = lathe.jit(along(exponentials, shape, axis, lambda v: v))
    np.testing.assert_allclose(run(x), np.logaddexp.reduce(x, axis), rtol=1e-4, atol=1e-5)
    if shape == (300, 40) and axis == 1:
        assert "vectorized for" in run.lower(x).text("scheduled")
    norms = lathe.Reducer(lambda a, b: lathe.hypot(a, b), 0, of_lathe)
    run = lathe.jit(along(norms, shape, axis, lambda v: v))
    np.testing.assert_allclose(run(x), np.sqrt((x.astype(np.float64) ** 2).sum(axis)), rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_moments_that_are_merged(shape):
    """Chan, Golub and LeVeque's update of counts, means and sums of squares."""
    x = drawn(shape, "float32")

    def merged(a, b):
        n = lathe.maximum(a[0] + b[0], 1.0)
        d = b[1] - a[1]
        return a[0] + b[0], a[1] + d * (b[0] / n), a[2] + b[2] + d * d * (a[0] * b[0] / n)

    moments = lathe.Reducer(merged, (0.0, 0.0, 0.0), (lathe.float32,) * 3)
    n, mean, squares = lathe.jit(along(moments, shape, len(shape) - 1, lambda v: (1.0, v, 0.0)))(x)
    np.testing.assert_array_equal(n, np.full(shape[:-1], shape[-1]))
    np.testing.assert_allclose(mean, x.mean(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(squares, ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("size", "stride"), [((2, 3), (1, 1)), ((5, 4), (2, 1)), ((3, 3), (2, 2)), ((1, 4), (1, 3))])
@pytest.mark.parametrize("channels", [1, 3, 16])
@pytest.mark.parametrize("sums_channels", [False, True])
def test_windows_fold_row_by_row(size, stride, channels, sums_channels):
    x = drawn((channels, 17, 23), "int32", seed=2)
    first = lathe.Reducer(lambda a, b: lathe.where(a != 0, a, b), 0, lathe.int32)
    shape = tuple((e - k) // s + 1 for e, k, s in zip(x.shape[1:], size, stride, strict=True))
    extents = (channels, *size) if sums_channels else size

    def place(o, k):
        c, (i, j), (r, s) = (k[0] if sums_channels else o[0]), o[-2:], k[-2:]
        return c, i * stride[0] + r, j * stride[1] + s

    space = shape if sums_channels else (channels, *shape)
    run = lathe.jit(
        lambda x: lathe.compute(
            space, lambda *o: lathe.reduce(first, extents, lambda *k: lathe.maximum(x[place(o, k)], 0))
        )
    )
    expected, grid = np.zeros(space, np.int32), np.meshgrid(*map(np.arange, space), indexing="ij")
    for k in itertools.product(*map(range, extents)):
        expected = np.where(expected != 0, expected, np.maximum(x[place(grid, k)], 0))
    np.testing.assert_array_equal(run(x), expected)


@pytest.mark.parametrize("shape", [(2, 3), (7, 20), (3, 4, 17)])
def test_folds_over_several_axes_whatever_their_layout(shape):
    last = lathe.Reducer(lambda a, b: lathe.where(b != 0, b, a), 0, lathe.int32)
    x = np.maximum(drawn(shape, "int32", seed=4), 0)
    x.reshape(-1)[-2:] = 0
    run = lathe.jit(lambda x: lathe.compute((), lambda: lathe.reduce(last, x.shape, lambda *i: x[i])))
    expected = x[x != 0][-1]
    for order in itertools.permutations(range(x.ndim)):
        y = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        assert run(y) == expected
