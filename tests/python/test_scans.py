"""Running sums and products: each way that the scheduler runs them, against NumPy."""

import numpy as np
import pytest

import lathe

# Rows of less than a vector, of whole ones, with a rest; columns of less than a block and of several.
SHAPES = [((3, 5), 1), ((3, 64), 1), ((2, 3, 77), 2), ((1, 1000), 1), ((513,), 0), ((5, 3), 0), ((9, 70), 0), ((4, 3000), 0),
          ((2, 9, 40), 1), ((3, 40, 1), 1), ((3, 1), 1), ((0, 4), 1)]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_running_sums_are_numpy_s(shape, axis, dtype):
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(dtype)  # sums of small integers are exact in any order
    got = lathe.jit(lambda x: lathe.cumulative_sum(x, axis=axis))(x)
    np.testing.assert_array_equal(got, np.cumsum(x, axis, dtype=None if x.dtype.kind == "f" else np.int64))


def test_a_scan_may_overwrite_its_operand():
    x = np.arange(300, dtype=np.float32).reshape(3, 100)
    expected = np.cumsum(x, 1)
    lathe.jit(lambda x: lathe.cumulative_sum(x, axis=1))(x, out=x)
    np.testing.assert_array_equal(x, expected)


def test_views_and_element_wise_operators_stand_around_a_scan():
    x = np.random.default_rng(2).integers(1, 5, (6, 50)).astype(np.float32)
    reverse = lathe.jit(lambda x: lathe.flip(lathe.cumulative_sum(lathe.flip(x * 2, 1), axis=1), 1) - x)
    np.testing.assert_array_equal(reverse(x), np.cumsum((x * 2)[:, ::-1], 1)[:, ::-1] - x)
    np.testing.assert_array_equal(reverse(x.T.copy().T), reverse(x))
    both = lathe.jit(lambda x: lathe.cumulative_sum(lathe.cumulative_sum(x, axis=0), axis=1) + lathe.sum(x))
    np.testing.assert_array_equal(both(x), np.cumsum(np.cumsum(x, 0), 1) + x.sum())


def test_what_is_not_finite_reaches_what_comes_behind_it():
    x = np.ones((2, 40), np.float32)
    x[0, 5], x[0, 20], x[1, 33] = np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(lathe.jit(lambda x: lathe.cumulative_sum(x, axis=1))(x), np.cumsum(x, 1))
        np.testing.assert_array_equal(lathe.jit(lambda x: lathe.cumulative_prod(x, axis=1))(x), np.cumprod(x, 1))


@pytest.mark.parametrize("dtype, exponent", [("float32", 30), ("float64", 250)])
def test_products_that_leave_the_range_do_so_where_factors_one_after_another_do(dtype, exponent):
    rng = np.random.default_rng(6)
    exponents = rng.uniform(-exponent, exponent, (20, 75))
    exponents[:10, 1::2] = -exponents[:10, :-1:2]  # up and down again: finite in order, pairs of neighbours are not all
    exponents[10:15] /= 15  # some of sixteen factors together leave the range, others do not
    x = (rng.choice([-1, 1], exponents.shape) * 10.0**exponents).astype(dtype)
    x[3, 40], x[5, 20], x[7, 9] = 0, np.inf, np.nan
    with np.errstate(all="ignore"):
        expected = np.cumprod(x, 1)
    got = lathe.jit(lambda x: lathe.cumulative_prod(x, axis=1))(x)
    # Behind a product that was too small to be exact, what is left of it says little.
    tiny = np.logical_or.accumulate((expected != 0) & (np.abs(expected) < np.finfo(dtype).tiny), 1)
    assert tiny.mean() < 0.5
    np.testing.assert_allclose(got[~tiny], expected[~tiny], rtol=1e-4)
    np.testing.assert_array_equal(np.signbit(got[expected == 0]), np.signbit(expected[expected == 0]))


def test_any_reducer_of_one_value_scans():
    x = np.random.default_rng(3).standard_normal((4, 100)).astype(np.float32)
    np.testing.assert_array_equal(
        lathe.jit(lambda x: lathe.scan(x.shape, 1, "max", lambda i, j: x[i, j]))(x), np.maximum.accumulate(x, 1)
    )
    least = lathe.Reducer(lambda a, b: lathe.minimum(a, b), float("inf"), lathe.float32)
    np.testing.assert_array_equal(
        lathe.jit(lambda x: lathe.scan(x.shape, 0, least, lambda i, j: x[i, j] + 1))(x), np.minimum.accumulate(x + 1, 0)
    )
    with pytest.raises(ValueError, match="scan: axis 2"):
        lathe.jit(lambda x: lathe.scan(x.shape, 2, "max", lambda i, j: x[i, j]))(x)


@pytest.mark.parametrize("shape", [(33, 50), (40, 7), (3, 100), (16, 1), (2, 18, 35)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_costly_reducer_of_one_value_scans(shape, axis):
    axis %= len(shape)
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    add = lathe.Reducer(lambda a, b: lathe.logaddexp(a, b), float("-inf"), lathe.float32)
    run = lathe.jit(lambda x: lathe.scan(x.shape, axis, add, lambda *i: x[i]))
    np.testing.assert_allclose(run(x), np.logaddexp.accumulate(x, axis), rtol=1e-5, atol=1e-5)


def recurrence(decay, x):
    """h[t] = decay[t] * h[t - 1] + x[t] along axis 1, and the product of the decays."""
    step = lathe.Reducer(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (1.0, 0.0), (lathe.float32, lathe.float32))
    return lathe.scan(x.shape, 1, step, lambda *i: (decay[i], x[i]))


@pytest.mark.parametrize("shape", [(2, 9, 64), (3, 20, 5), (4, 1, 17), (1, 33, 1), (5, 40), (2, 0, 8)])
def test_a_reducer_of_tuples_scans(shape):
    rng = np.random.default_rng(4)
    decay, x = rng.uniform(0.5, 1, shape).astype(np.float32), rng.standard_normal(shape).astype(np.float32)
    products, states = lathe.jit(recurrence)(decay, x)
    np.testing.assert_allclose(products, np.cumprod(decay, 1), rtol=1e-5)
    expected, state = np.empty_like(x), np.zeros_like(x[:, 0]) if shape[1] else None
    for t in range(shape[1]):
        state = decay[:, t] * state + x[:, t]
        expected[:, t] = state
    np.testing.assert_allclose(states, expected, rtol=1e-4, atol=1e-5)
    doubled = lathe.jit(lambda a, x: recurrence(a, x)[1] * 2)(decay, x)
    np.testing.assert_allclose(doubled, 2 * expected, rtol=1e-4, atol=1e-5)


def test_a_scan_of_tuples_wants_a_term_for_each_value():
    step = lathe.Reducer(lambda a, b: (a[0] + b[0], a[1] * b[1]), (0.0, 1.0), (lathe.float32, lathe.float32))
    x = np.ones((3, 4), np.float32)
    with pytest.raises(ValueError, match="the scan has 1 terms; its reducer folds 2"):
        lathe.jit(lambda x: lathe.scan(x.shape, 1, step, lambda i, j: x[i, j]))(x)


def reference(decay, x):
    """Along the last axis: h[t] = decay[t] * h[t - 1] + x[t]."""
    states, state = np.empty_like(x), np.zeros_like(x[..., 0])
    for t in range(x.shape[-1]):
        state = decay[..., t] * state + x[..., t]
        states[..., t] = state
    return states


@pytest.mark.parametrize("shape", [(16, 40), (7, 9), (100, 33), (3, 20, 17), (2, 50), (33, 8), (129, 65)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_recurrences_along_rows(shape, dtype):
    """Rows are turned around and scanned side by side, with as many lanes as there are rows or as a vector has."""
    rng = np.random.default_rng(6)
    decay, x = rng.uniform(0, 1.9, shape).astype(dtype), rng.uniform(-3, 3, shape).astype(dtype)
    of_lathe = getattr(lathe, dtype)
    step = lathe.Reducer(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (1, 0), (of_lathe, of_lathe))
    axis = len(shape) - 1

    def both(decay, x):
        return lathe.scan(x.shape, axis, step, lambda *i: (decay[i], x[i]))

    def backwards(decay, x):
        last = [x.shape[axis] - 1]
        return lathe.scan(
            x.shape, axis, step, lambda *i: (decay[(*i[:-1], last[0] - i[-1])], x[(*i[:-1], last[0] - i[-1])])
        )[1]

    expected = reference(decay, x)
    tolerance = {"rtol": 1e-3, "atol": 1e-3}
    products, states = lathe.jit(both)(decay, x)
    np.testing.assert_allclose(states, expected, **tolerance)
    np.testing.assert_allclose(products, np.cumprod(decay, axis, dtype=dtype), **tolerance)
    alone = lathe.jit(lambda decay, x: both(decay, x)[1])
    np.testing.assert_allclose(alone(decay, x), expected, **tolerance)
    place = x.copy()
    alone(decay, place, out=place)
    np.testing.assert_allclose(place, expected, **tolerance)
    np.testing.assert_allclose(
        lathe.jit(backwards)(decay, x), reference(decay[..., ::-1], x[..., ::-1]), **tolerance
    )
    constant = lathe.jit(lambda x: lathe.scan(x.shape, axis, step, lambda *i: (2, x[i]))[1])
    np.testing.assert_allclose(constant(x[..., :8]), reference(np.full_like(x, 2)[..., :8], x[..., :8]), **tolerance)
