"""argmax and argmin: the first of equal elements, and the first NaN, wherever vectors and chains meet."""

import numpy as np
import pytest

import lathe

RNG = np.random.default_rng(5)


def rows(length, dtype):
    """Rows of few different values, of one value, of the worst values, and with NaN here and there."""
    x = RNG.integers(-2, 3, (9, length)).astype(dtype)
    x[1] = 1
    if np.dtype(dtype).kind == "f":
        x[2], x[3] = -np.inf, np.inf
        x[4, RNG.integers(0, length, 3)] = np.nan
        x[5, -1] = np.nan
        x[6] = np.nan
        x[7, 0] = -np.inf
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "uint16", "int64"])
@pytest.mark.parametrize("length", [1, 2, 5, 15, 16, 17, 50, 63, 64, 65, 130, 2048, 2049, 2077, 4096])
def test_along_rows_and_columns(length, dtype):
    x = rows(length, dtype)
    for name in ("argmax", "argmin"):
        ours, theirs = getattr(lathe, name), getattr(np, name)
        for axis, given in ((1, x), (0, np.ascontiguousarray(x.T))):
            found = lathe.jit(lambda t, f=ours, a=axis: f(t, axis=a))(given)
            np.testing.assert_array_equal(found, theirs(given, axis=axis))


def test_along_several_axes_at_once():
    x = rows(4096, "float32")
    x[4:7] = 0
    assert lathe.jit(lambda t: lathe.argmax(t))(x) == np.argmax(x)


@pytest.mark.parametrize("shape", [(3, 40, 50), (2, 5, 33), (37, 1, 19), (4, 100, 3)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_every_axis(shape, axis):
    x = RNG.integers(-2, 3, shape).astype(np.float32)
    x.flat[RNG.integers(0, x.size, 4)] = np.nan
    np.testing.assert_array_equal(lathe.jit(lambda t: lathe.argmax(t, axis=axis))(x), np.argmax(x, axis))


BEFORE = {
    "rows less their mean": lambda m, x: x - m.mean(x, axis=1, keepdims=True),
    "columns less their mean": lambda m, x: x - m.mean(x, axis=0, keepdims=True),
    "rows over their greatest": lambda m, x: x / m.max(m.abs(x), axis=1, keepdims=True),
    "columns over their greatest": lambda m, x: x / m.max(m.abs(x), axis=0, keepdims=True),
    "square roots": lambda m, x: m.sqrt(m.abs(x)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(20, 5), (48, 15), (33, 48), (64, 64), (31, 90), (40, 97), (9, 300), (300, 9)])
@pytest.mark.parametrize("before", BEFORE)
def test_of_what_is_computed_before(before, shape, dtype):
    x = (RNG.integers(-2, 3, shape) * 4).astype(dtype)
    x[::3, ::2] = 8
    of_lathe, of_numpy = (lambda x: BEFORE[before](lathe, x)), BEFORE[before](np, x)
    values = lathe.jit(of_lathe)(x)
    np.testing.assert_allclose(values, of_numpy, 2e-6, 2e-6)
    for axis in (0, 1):
        found = lathe.jit(lambda x, axis=axis: lathe.argmax(of_lathe(x), axis=axis))(x)
        # By its own values: rounding may set apart what ties in NumPy.
        np.testing.assert_array_equal(
            np.take_along_axis(values, np.expand_dims(found, axis), axis), values.max(axis, keepdims=True)
        )


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(2, 3, 64), (3, 5, 95), (2, 2, 2, 70), (90, 3, 40), (30, 20, 2), (30, 20, 3), (9, 40, 8)]
)
def test_of_few_rows_or_columns(shape, dtype):
    x = RNG.integers(0, 4, shape).astype(dtype)
    for axis in range(x.ndim):
        np.testing.assert_array_equal(lathe.jit(lambda t, axis=axis: lathe.argmax(t, axis=axis))(x), x.argmax(axis))
        less = lathe.jit(lambda t, a=axis: lathe.astype(t, lathe.int64) - lathe.argmax(t, axis=a, keepdims=True))(x)
        np.testing.assert_array_equal(less, x.astype("int64") - x.argmax(axis, keepdims=True))


@pytest.mark.parametrize("shape", [(50, 5, 48), (7, 3, 2, 15), (1, 40, 30), (33, 1, 60)])
def test_of_few_short_rows_at_a_time(shape):
    x = RNG.integers(-2, 3, shape).astype(np.float32)
    x.flat[RNG.integers(0, x.size, 4)] = np.nan
    best, total = lathe.jit(lambda t: (lathe.argmax(t, axis=-1), lathe.sum(t, axis=0)))(x)
    np.testing.assert_array_equal(best, np.argmax(x, -1))
    np.testing.assert_allclose(total, x.sum(0))


@pytest.mark.parametrize("shape", [(5, 500), (300, 33), (2, 7), (1, 1), (64, 2000)])
def test_a_reducer_of_tuples_finds_the_two_greatest(shape):
    least = float("-inf")
    two = lathe.Reducer(
        lambda a, b: (
            lathe.maximum(a[0], b[0]),
            lathe.maximum(lathe.minimum(a[0], b[0]), lathe.maximum(a[1], b[1])),
        ),
        (least, least),
        (lathe.float32, lathe.float32),
    )

    @lathe.jit
    def greatest(x):
        return lathe.compute(x.shape[:1], lambda i: lathe.reduce(two, x.shape[1], lambda j: (x[i, j], least)))

    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    first, second = greatest(x)
    ranked = np.sort(np.concatenate([np.full((shape[0], 1), -np.inf, np.float32), x], 1), 1)
    np.testing.assert_array_equal(first, ranked[:, -1])
    np.testing.assert_array_equal(second, ranked[:, -2])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(("shape", "axis"), [((40, 1), 1), ((1,), 0), ((1, 1), None), ((0, 1), 1), ((5, 1, 7), 1)])
@pytest.mark.parametrize("value", [1.0, np.nan, -np.inf, np.inf])
def test_an_axis_of_one_element_is_not_read(name, shape, axis, value):
    x = np.full(shape, value, np.float32)
    f = lathe.jit(lambda t: getattr(lathe, name)(t, axis=axis, keepdims=True))
    np.testing.assert_array_equal(f(x), getattr(np, name)(x, axis=axis, keepdims=True))
    assert "reads" not in f.lower(x).text("scheduled")
