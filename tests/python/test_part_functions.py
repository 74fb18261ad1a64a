"""Functions that stand in bodies of one's own, and that many results share: evaluated once, against NumPy."""

import numpy as np
import pytest

import lathe

rng = np.random.default_rng(11)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def decisions(f, *arrays):
    return f.lower(*arrays).text("scheduled").count("_part")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_of_rows_and_columns(dtype):
    a, b = normal(70, dtype=dtype), normal(90, dtype=dtype)
    f = lathe.jit(lambda a, b: lathe.compute((70, 90), lambda i, j: lathe.exp(a[i]) * lathe.tanh(b[j])))
    np.testing.assert_allclose(f(a, b), np.exp(a)[:, None] * np.tanh(b), rtol=1e-5)
    assert decisions(f, a, b)


def test_functions_of_both_factors_of_a_product():
    a, b = normal(40, 60), normal(60, 50)

    @lathe.jit
    def f(a, b):
        def element(i, j):
            return lathe.reduce("sum", 60, lambda k: lathe.exp(a[i, k]) * lathe.tanh(b[k, j]))

        return lathe.compute((40, 50), element)

    np.testing.assert_allclose(f(a, b), np.exp(a) @ np.tanh(b), rtol=1e-4, atol=1e-4)
    assert decisions(f, a, b)


def test_functions_of_two_elements_that_share_axes():
    x, b, c = normal(40, 60), normal(60, 50), normal(50)

    @lathe.jit
    def f(x, b, c):
        def element(m, n):
            return lathe.reduce("sum", 60, lambda k: x[m, k] * lathe.exp(b[k, n] - c[n]))

        return lathe.compute((40, 50), element)

    np.testing.assert_allclose(f(x, b, c), x @ np.exp(b - c), rtol=1e-4, atol=1e-3)
    assert decisions(f, x, b, c)


def test_functions_in_the_windows_of_a_convolution():
    x, w = normal(6, 20, 20), normal(8, 6, 3, 3)

    @lathe.jit
    def f(x, w):
        def element(o, i, j):
            def tap(c, r, s):
                return lathe.tanh(x[c, i + r, j + s]) * w[o, c, r, s]

            return lathe.reduce("sum", (6, 3, 3), tap)

        return lathe.compute((8, 18, 18), element)

    windows = np.lib.stride_tricks.sliding_window_view(np.tanh(x), (3, 3), axis=(1, 2))
    np.testing.assert_allclose(f(x, w), np.einsum("cijrs,ocrs->oij", windows, w), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("places", [np.uint8, np.int32, np.int64])
def test_what_is_done_to_elements_of_a_table_is_done_once(places, dtype):
    t, x = normal(200, dtype=dtype), rng.integers(0, 200, 30_003).astype(places)
    f = lathe.jit(lambda t, x: lathe.sqrt(lathe.abs(t[x])) * 2.0 - 1.0)
    np.testing.assert_allclose(f(t, x), np.sqrt(np.abs(t[x])) * 2 - 1, rtol=1e-5, atol=1e-6)
    assert decisions(f, t, x)
    if places != np.uint8:
        wrong = x.copy()
        wrong[17] = 200
        with pytest.raises(IndexError, match="200"):
            f(t, wrong)


def test_guarded_elements_stay_where_they_are_asked_for():
    x = normal(30)
    f = lathe.jit(lambda x: lathe.compute((40, 50), lambda i, j: lathe.where(i < 30, lathe.exp(x[i]), 0.0)))
    np.testing.assert_allclose(f(x)[:30], np.repeat(np.exp(x)[:, None], 50, 1), rtol=1e-5)
    assert not f(x)[30:].any()


def test_what_is_not_finite_comes_out_as_before():
    a = np.array([np.inf, -np.inf, np.nan, 0, 90], np.float32)
    b = normal(60)
    f = lathe.jit(lambda a, b: lathe.compute((5, 60), lambda i, j: lathe.exp(a[i]) * b[j]))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(a, b), np.exp(a)[:, None] * b, rtol=1e-5)


def test_more_than_memory_holds_near_is_not_kept():
    """Functions of pairs of many rows would take as much memory as the pairs."""
    x = normal(9000)

    @lathe.jit
    def f(x):
        def term(i, j, c):
            return lathe.exp(x[i] * x[j]) * lathe.astype(c, lathe.float32)

        return lathe.compute((9000,), lambda i: lathe.reduce("sum", (9000, 4), lambda j, c: term(i, j, c)))

    assert not decisions(f, x)
