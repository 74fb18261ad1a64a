"""What is flipped, or walked backwards by steps, gives what NumPy gives: alone, turned around, reduced and multiplied."""

import numpy as np
import pytest

import lathe


def values(dtype, *shape):
    drawn = np.random.default_rng(7).standard_normal(shape)
    return (drawn * 20).astype(dtype)


VIEWS = {
    "columns": np.s_[:, ::-1],
    "rows": np.s_[::-1],
    "both": np.s_[::-1, ::-1],
    "every second column backwards": np.s_[:, ::-2],
    "every third row backwards": np.s_[::-3],
}
SHAPES = [(1, 1), (1, 33), (33, 1), (5, 7), (17, 16), (40, 5), (64, 96), (101, 67)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "float16"])
@pytest.mark.parametrize("view", VIEWS)
def test_turned_around(view, dtype, shape):
    x, part = values(dtype, *shape), VIEWS[view]
    np.testing.assert_array_equal(lathe.jit(lambda x: lathe.positive(x[part].T))(x), x[part].T)
    np.testing.assert_array_equal(lathe.jit(lambda x: lathe.positive(x.T[part]))(x), x.T[part])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("view", VIEWS)
def test_reduced(view, shape, axis):
    x, part = values("float32", *shape), VIEWS[view]
    v = x[part]
    y = values("float32", *v.shape) + 1
    for own, theirs in (
        (lambda x, y: lathe.sum(x[part] * y, axis=axis), (v * y).sum(axis, dtype="float64")),
        (lambda x, y: lathe.max(x[part] - y, axis=axis), (v - y).max(axis)),
        (lambda x, y: lathe.var(x[part], axis=axis), v.var(axis, dtype="float64")),
        (lambda x, y: lathe.argmax(x[part], axis=axis), v.argmax(axis)),
        (lambda x, y: lathe.cumulative_sum(x[part], axis=axis), v.cumsum(axis, dtype="float64")),
    ):
        np.testing.assert_allclose(
            lathe.jit(own)(x, y), theirs.astype(np.int64 if theirs.dtype == np.int64 else "float32"), 2e-5, 2e-3
        )


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (17, 16), (64, 96), (101, 67), (30, 200)])
@pytest.mark.parametrize("view", VIEWS)
def test_products(view, shape):
    x, part = values("float32", *shape) / 20, VIEWS[view]
    v = x[part]
    left, right = values("float32", 9, v.shape[0]) / 20, values("float32", v.shape[1], 33) / 20
    np.testing.assert_allclose(lathe.jit(lambda a, x: a @ x[part])(left, x), left.astype("float64") @ v, 2e-5, 1e-4)
    np.testing.assert_allclose(lathe.jit(lambda x, b: x[part] @ b)(x, right), v.astype("float64") @ right, 2e-5, 1e-4)
    np.testing.assert_allclose(lathe.jit(lambda x: x[part].T @ x[part])(x), v.T.astype("float64") @ v, 2e-5, 1e-4)


@pytest.mark.parametrize("taps", [1, 2, 5, 16, 33])
@pytest.mark.parametrize("samples", [1, 7, 100, 1003])
def test_filters(samples, taps):
    x, h = values("float32", samples + taps - 1) / 20, values("float32", taps) / 20

    def convolve(x, h):
        return lathe.compute((samples,), lambda n: lathe.reduce("sum", (taps,), lambda k: x[n + taps - 1 - k] * h[k]))

    np.testing.assert_allclose(lathe.jit(convolve)(x, h), np.convolve(x.astype("float64"), h, "valid"), 2e-5, 1e-4)
