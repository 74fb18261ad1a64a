"""Places beside numbers of 64 bits that a call gives, which are compared in 32."""

import numpy as np
import pytest

import lathe

NUMBERS = [0, 1, 7, 63, 64, 99, 100, -1, 2**31 - 1, 2**31, 2**32, 2**32 + 5, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("columns", [3, 16, 100, 129])
@pytest.mark.parametrize("op", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_numbers_of_rows(op, columns):
    x = np.array(NUMBERS)
    compare, reference = getattr(lathe, op), getattr(np, op)
    places = np.arange(columns)
    f = lathe.jit(lambda x: (compare(lathe.arange(columns)[None, :], x[:, None]), compare(x[:, None], lathe.arange(columns)[None, :])))
    for got, want in zip(f(x), (reference(places, x[:, None]), reference(x[:, None], places)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_places_that_begin_elsewhere():
    x = np.array(NUMBERS)
    f = lathe.jit(lambda x: lathe.where(lathe.arange(64)[None, :] - 32 < x[:, None], 1.5, -2.0))
    np.testing.assert_array_equal(f(x), np.where(np.arange(64) - 32 < x[:, None], np.float32(1.5), np.float32(-2.0)))


def test_classes_and_lengths():
    classes, values = np.array(NUMBERS), np.arange(len(NUMBERS) * 40, dtype=np.float32).reshape(-1, 40)
    f = lathe.jit(lambda i, x: (lathe.one_hot(i, 40, lathe.float32) * 0.75 + 0.25, lathe.where(lathe.arange(40) < i[:, None], x, 0.0)))
    hot, kept = f(classes, values)
    np.testing.assert_array_equal(hot, (classes[:, None] == np.arange(40)) * np.float32(0.75) + np.float32(0.25))
    np.testing.assert_array_equal(kept, np.where(np.arange(40) < classes[:, None], values, 0))
