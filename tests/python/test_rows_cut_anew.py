"""Rows that are cut where vectors do not end: quotients and remainders of places, against NumPy."""

import numpy as np
import pytest

import lathe


@pytest.mark.parametrize("n", [5, 16, 17, 31, 40, 129])
def test_rows_shifted_by_their_number(n):
    """A pad and two reshapes move each row by one more than the row before, as relative positions are laid out."""

    @lathe.jit
    def shifted(x):
        wide = lathe.pad(x, [(0, 0), (0, 0), (1, 0)])
        return wide.reshape((3, n + 1, n))[:, 1:].reshape((3, n, n))

    x = np.random.default_rng(0).standard_normal((3, n, n), np.float32)
    wide = np.pad(x, [(0, 0), (0, 0), (1, 0)])
    np.testing.assert_array_equal(shifted(x), wide.reshape(3, n + 1, n)[:, 1:].reshape(3, n, n))


@pytest.mark.parametrize("divisor", [2, 3, 7, 8, 15, 16, 17, 31, 45, 100])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_quotients_of_neighbours(divisor, step):
    places = lathe.jit(lambda: lathe.compute((300,), lambda i: (i * step - 70) // divisor))
    within = lathe.jit(lambda: lathe.compute((300,), lambda i: (i * step - 70) % divisor))
    at = np.arange(300) * step - 70
    np.testing.assert_array_equal(places(), at // divisor)
    np.testing.assert_array_equal(within(), at % divisor)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(5, 40, 3), (7, 13, 2, 2), (3, 4, 2), (2, 100, 1), (4, 1, 3), (2, 0, 2)])
def test_axes_roll_around_short_rows(dtype, shape):
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for shift in (1, 3, -2, 37):
        roll = lathe.jit(lambda x, shift=shift: lathe.roll(x, shift, axis=1))
        np.testing.assert_array_equal(roll(x), np.roll(x, shift, axis=1))
