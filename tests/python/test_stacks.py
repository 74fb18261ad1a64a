"""Tensors stacked along an axis: of results, where vectors are woven, and of reductions, which take one a step."""

import numpy as np
import pytest

import lathe


def parts(x, count):
    return [x[:, i % x.shape[1]] + x[:, (i + 1) % x.shape[1]] for i in range(count)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int8])
@pytest.mark.parametrize("count", [2, 3, 5, 6, 7, 8, 9, 12, 15, 16, 17])
def test_stacks_of_many(dtype, count):
    for rows in (1, 5, 16, 33):
        x = (np.random.default_rng(rows).standard_normal((rows, 5)) * 20).astype(dtype)
        expected = np.stack(parts(x, count), axis=1)
        np.testing.assert_array_equal(lathe.jit(lambda x: lathe.stack(parts(x, count), axis=1))(x), expected)
        if count % 3 == 0:
            shape = (rows, 3, count // 3)
            f = lathe.jit(lambda x, shape=shape: lathe.reshape(lathe.stack(parts(x, count), axis=1), shape))
            np.testing.assert_array_equal(f(x), expected.reshape(shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 4), (4, 4), (3, 5), (5, 5)])
def test_stacks_within_stacks(dtype, shape):
    for rows in (1, 7, 16, 45):
        x = (np.random.default_rng(rows).standard_normal((rows, 5)) * 20).astype(dtype)

        def table(stack, x, shape=shape):
            arms = iter(parts(x, shape[0] * shape[1]))
            return stack([stack([next(arms) for _ in range(shape[1])], axis=1) for _ in range(shape[0])], axis=1)

        np.testing.assert_array_equal(lathe.jit(lambda x: table(lathe.stack, x))(x), table(np.stack, x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("extent", [6, 16, 35])
def test_squares_of_a_larger_image_that_are_stacked(dtype, extent):
    x = (np.random.default_rng(extent).standard_normal((3, extent + 2, extent + 2)) * 20).astype(dtype)

    def upsampled(stack, reshape, x):
        near = x[:, 1:-1, 1:-1]
        rows = [
            stack([near + x[:, i : i + extent, j : j + extent] + x[:, 1:-1, j : j + extent] for j in (0, 2)], axis=3)
            for i in (0, 2)
        ]
        return reshape(stack(rows, axis=2), (3, 2 * extent, 2 * extent))

    f = lathe.jit(lambda x: upsampled(lathe.stack, lathe.reshape, x))
    np.testing.assert_array_equal(f(x), upsampled(np.stack, np.reshape, x))


@pytest.mark.parametrize("count", [2, 5, 16, 17, 50])
@pytest.mark.parametrize("step", [0, 1, 7, -3])
@pytest.mark.parametrize("axis", [0, 1])
def test_slices_a_step_apart(count, step, axis):
    x = np.random.default_rng(count).standard_normal(500).astype(np.float32)
    begin = 200 if step < 0 else 0

    def frames(m, x):
        slices = [x[begin + i * step : begin + i * step + 33] for i in range(count)]
        return m.stack(slices, axis=axis) * 2.0, m.stack([m.abs(s) + 1.0 for s in slices], axis=axis)

    for got, expected in zip(lathe.jit(lambda x: frames(lathe, x))(x), frames(np, x), strict=True):
        np.testing.assert_array_equal(got, expected)
    f = lathe.jit(lambda x: frames(lathe, x[1:] - 0.5 * x[:-1]))
    for got, expected in zip(f(x), frames(np, x[1:] - np.float32(0.5) * x[:-1]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", [2, 9, 16, 18])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_costly_arms(count, axis):
    x = np.random.default_rng(count).standard_normal((6, 48)).astype(np.float32)

    def table(m, x):
        return m.stack([m.exp(x * (0.1 * i)) + m.sqrt(m.abs(x) + float(i)) for i in range(count)], axis=axis)

    np.testing.assert_allclose(lathe.jit(lambda x: table(lathe, x))(x), table(np, x), rtol=1e-5)


@pytest.mark.parametrize("count", [2, 5, 33])
def test_reductions_over_stacks(count):
    x = np.random.default_rng(count).standard_normal((19, 40)).astype(np.float32)

    def windows(x):
        return [x[:, i : i + 7] * float(i + 1) for i in range(count)]

    for name in ("sum", "max", "mean"):
        f = lathe.jit(lambda x, name=name: getattr(lathe, name)(lathe.stack(windows(x), axis=0), axis=0))
        expected = getattr(np, name)(np.stack(windows(x)), axis=0)
        np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-5)
    f = lathe.jit(lambda x: lathe.sum(lathe.stack(windows(x), axis=0), axis=(0, 2)))
    np.testing.assert_allclose(f(x), np.stack(windows(x)).sum(axis=(0, 2)), rtol=1e-4, atol=1e-4)


def test_a_reduction_over_a_stack_takes_one_tensor_a_step():
    x = np.zeros((8, 300), np.float32)
    f = lathe.jit(lambda x: lathe.sum(lathe.stack([x[:, i : i + 256] * float(i) for i in range(20)], axis=0), axis=0))
    text = f.lower(x).text("scheduled")
    assert "reducer" not in text
    assert "select" not in text


@pytest.mark.parametrize("outer", [0, 1, 2, -1])
@pytest.mark.parametrize("inner", [0, 1, -1])
@pytest.mark.parametrize("rows, columns", [(2, 2), (3, 3), (2, 5), (4, 4), (3, 6)])
def test_matrices_whose_elements_are_computed_one_by_one(rows, columns, inner, outer):
    x = np.random.default_rng(rows).standard_normal((37, 5)).astype(np.float32)

    def matrix(library, x):
        parts = [[x[:, i] * x[:, j % 5] for j in range(columns)] for i in range(rows)]
        return library.stack([library.stack(row, axis=inner) for row in parts], axis=outer)

    def uses(x):
        m = matrix(lathe, x)
        return m, lathe.sum(m, axis=1), m.T + 1, lathe.max(m, axis=(0, 2)), m[1:, :1]

    m = matrix(np, x)
    for mine, expected in zip(lathe.jit(uses)(x), (m, m.sum(1), m.T + 1, m.max((0, 2)), m[1:, :1]), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-5)


def test_stacks_of_stacks_promote_as_each_stack_does():
    a, b = np.arange(7, dtype=np.float32) / 3, np.arange(7, dtype=np.float64) / 3

    def f(library, a, b, zero, tenth):
        narrow = library.stack([a, tenth], axis=1)
        return library.stack([narrow, library.stack([a, b], axis=1)], axis=1), library.stack(
            [narrow, narrow + 1], axis=-1
        )

    mine = lathe.jit(lambda a, b: f(lathe, a, b, a * 0, a * 0 + 0.1))(a, b)
    for y, expected in zip(mine, f(np, a, b, a * 0, a * 0 + np.float32(0.1)), strict=True):
        assert y.dtype == expected.dtype
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("count", [2, 5, 13])
@pytest.mark.parametrize("apart", [False, True])
def test_places_of_the_greatest_over_a_stack(count, apart):
    """Windows of one array, or arrays of their own, with equal elements and NaN among them."""
    rng = np.random.default_rng(count)
    x = rng.integers(0, 4, (41, 23)).astype(np.float64)
    x[7, 3], x[20:24, 5] = np.nan, np.nan
    arrays = [x[r : r + 27].copy() for r in range(count)] if apart else [x]

    def stacked(stack, *arrays):
        return stack(arrays if apart else [arrays[0][r : r + 27] for r in range(count)])

    f = lathe.jit(lambda *a: (stacked(lathe.stack, *a).argmax(axis=0), stacked(lathe.stack, *a).argmin(axis=0)))
    expected = stacked(np.stack, *arrays)
    for mine, theirs in zip(f(*arrays), (expected.argmax(0), expected.argmin(0)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_places_of_the_greatest_of_windows_walk_memory():
    """No step chooses among all windows: what is stacked is one access."""
    f = lathe.jit(lambda x: lathe.stack([x[r : r + 30] for r in range(9)]).argmax(axis=0))
    text = f.lower(np.zeros((40, 16), np.float32)).text("scheduled")
    loads = [line for line in text.splitlines() if "= x0[" in line]
    assert len(loads) == 1
    assert " if " not in loads[0]
