"""Windows that leave their operand: borders written by hand give what padding gives, in value and in the program."""

import numpy as np
import pytest

import lathe

x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
w = np.array([0.5, -1, 2, 0.25, 1], np.float32)
PLACES = {
    "edge": lambda t: lathe.clip(t, 0, 39),
    "wrap": lambda t: (t + 40) % 40,
    "reflect": lambda t: lathe.where(t < 0, -t, lathe.where(t < 40, t, 78 - t)),
}


def windows(place):
    return lambda x, w: lathe.compute(
        x.shape, lambda i, t: lathe.reduce("sum", 5, lambda r: x[i, place(t + r - 2)] * w[r])
    )


def reference(x, w, mode):
    padded = np.pad(x, [(0, 0), (2, 2)], mode=mode)
    return sum(padded[:, r : r + x.shape[1]] * w[r] for r in range(5))


@pytest.mark.parametrize("mode", PLACES)
def test_windows_repeat_elements_at_the_border(mode):
    np.testing.assert_allclose(lathe.jit(windows(PLACES[mode]))(x, w), reference(x, w, mode), rtol=1e-4, atol=1e-5)


def zero(x, w):
    def element(i, t):
        return lathe.where((t >= 0) & (t < 40), x[i, lathe.clip(t, 0, 39)], 0.0)

    return lathe.compute(x.shape, lambda i, t: lathe.reduce("sum", 5, lambda r: element(i, t + r - 2) * w[r]))


def padded(x, w):
    y = lathe.pad(x, [(0, 0), (2, 2)])
    return lathe.compute(x.shape, lambda i, t: lathe.reduce("sum", 5, lambda r: y[i, t + r] * w[r]))


def test_a_choice_of_zero_beyond_the_border_is_padding():
    np.testing.assert_allclose(lathe.jit(zero)(x, w), reference(x, w, "constant"), rtol=1e-4, atol=1e-5)
    mine = lathe.jit(zero, name="kernel").lower(x, w).text("scheduled")
    theirs = lathe.jit(padded, name="kernel").lower(x, w).text("scheduled")
    assert mine.partition("{")[2] == theirs.partition("{")[2]


def test_either_arm_of_a_choice_may_hold_the_element():
    @lathe.jit
    def f(x):
        return lathe.compute(x.shape, lambda i, t: lathe.where(t < 3, 7.0, x[i, lathe.maximum(t - 3, 0)]))

    np.testing.assert_array_equal(f(x), np.concatenate([np.full((3, 3), 7, np.float32), x[:, :-3]], 1))


def test_a_bound_that_the_choice_does_not_make_needless_stays():
    @lathe.jit
    def f(x):
        return lathe.compute(x.shape, lambda i, t: lathe.where(t < 20, x[i, lathe.minimum(t + 25, 39)], 0.0))

    expected = np.zeros_like(x)
    expected[:, :20] = x[:, np.minimum(np.arange(20) + 25, 39)]
    np.testing.assert_array_equal(f(x), expected)
