"""Means and variances whose terms are read once: as accurate as those of two walks, whatever the shape and the offset."""

import numpy as np
import pytest

import lathe

SHAPES = [
    ((64, 4096), 1),
    ((3, 2240), 1),
    ((1, 1 << 18), 1),
    ((262_144,), None),
    ((1024, 512), None),
    ((1000, 256), 0),
    ((385, 257), 0),
    ((999, 70), 0),
    ((20_000, 20), 0),
    ((4096, 33), 0),
    ((40, 20_000), 0),
    ((16, 8, 28, 28), (0, 2, 3)),
    ((4, 6, 56, 56), (2, 3)),
    ((4, 784, 48), (0, 1)),
    ((3, 5, 8192), (0, 2)),
    ((7, 2048, 5), (0, 1)),
    ((5, 4096, 3), 1),
    ((97, 17, 40), 0),
]


def moments(axis):
    return lathe.jit(lambda x: (lathe.mean(x, axis=axis), lathe.var(x, axis=axis)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_means_and_variances(shape, axis, dtype):
    rng = np.random.default_rng(len(shape))
    eps = np.finfo(dtype).eps
    for offset, scale in ((0, 1), (1000, 1), (1e-3, 1e-3), (-3e5, 2)):
        x = (rng.standard_normal(shape) * scale + offset).astype(dtype)
        wide = x.astype(np.float64)
        mean, variance = (np.asarray(r) for r in moments(axis)(x))
        np.testing.assert_allclose(mean, wide.mean(axis=axis), rtol=200 * eps, atol=20 * eps * scale)
        shifted = "_shifted" in moments(axis).lower(x).text("scheduled")
        error = 100 * eps if shifted else 100 * eps + (60 * eps * offset / scale) ** 2
        np.testing.assert_allclose(variance, wide.var(axis=axis), rtol=error)


@pytest.mark.parametrize("shape, axis", [((64, 4096), 1), ((1000, 256), 0), ((16, 8, 28, 28), (0, 2, 3))])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e30])
def test_values_that_leave_the_range(shape, axis, value):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x.flat[5] = value
    mean, variance = (np.asarray(r) for r in moments(axis)(x))
    with np.errstate(all="ignore"):
        expected_mean, expected = x.mean(axis=axis), x.var(axis=axis)
    np.testing.assert_array_equal(np.isnan(mean), np.isnan(expected_mean))
    np.testing.assert_array_equal(np.isinf(mean), np.isinf(expected_mean))
    np.testing.assert_array_equal(np.isfinite(variance), np.isfinite(expected))
    np.testing.assert_array_equal(np.isnan(variance), np.isnan(expected))


@pytest.mark.parametrize("mean, spread", [(1e22, 1e16), (0, 1e17), (1e17, 1e17)])
def test_large_values_stay_in_range(mean, spread):
    x = (mean + spread * np.random.default_rng(2).standard_normal((64, 4096))).astype(np.float32)
    found, variance = (np.asarray(r) for r in moments(1)(x))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found, wide.mean(1), atol=1e-5 * max(mean, spread))
    np.testing.assert_allclose(variance, wide.var(1), rtol=1e-5)


def test_terms_are_read_once():
    """Where only the variance leaves the kernel, too, whose mean is left out."""
    for x, axis in ((np.ones((64, 4096), np.float32), 1), (np.ones((4096, 512), np.float32), 0)):
        for f in (moments(axis), lathe.jit(lambda x, axis=axis: lathe.var(x, axis=axis))):
            text = f.lower(x).text("scheduled")
            assert "_shifted" in text and "block var_mean(" not in text


def test_terms_that_are_alike_have_no_variance():
    for value in (3.3, -1e-7, 7e11, 0):
        x = np.full((8, 5000), value, np.float32)
        deviation = np.asarray(lathe.jit(lambda x: lathe.sqrt(lathe.var(x, axis=1)))(x))
        assert (deviation <= 1e-6 * abs(value)).all()


@pytest.mark.parametrize("shape, axis", [((16, 8192), 1), ((8192, 64), 0), ((1, 1 << 20), 1)])
def test_a_sample_that_lies_far_from_all_else(shape, axis):
    """Padding before tight values: the squares lose no more than the share of the sample allows."""
    x = (1000 + np.random.default_rng(5).standard_normal(shape)).astype(np.float32)
    np.moveaxis(x, axis, 0)[: x.shape[axis] // 64] = 0
    _, variance = (np.asarray(r) for r in moments(axis)(x))
    np.testing.assert_allclose(variance, x.astype(np.float64).var(axis=axis), rtol=1e-4)


def test_standardized_columns_and_images():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2048, 96), np.float32) * 3 + 5
    f = lathe.jit(lambda x: (x - lathe.mean(x, axis=0)) / lathe.sqrt(lathe.var(x, axis=0) + 1e-5))
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
    np.testing.assert_allclose(f(x), expected, rtol=1e-4, atol=1e-5)
    images = rng.standard_normal((8, 12, 32, 32), np.float32) - 2
    g = lathe.jit(
        lambda x: (
            (x - lathe.mean(x, axis=(0, 2, 3), keepdims=True))
            / lathe.sqrt(lathe.var(x, axis=(0, 2, 3), keepdims=True) + 1e-5)
        )
    )
    wide = images.astype(np.float64)
    expected = (wide - wide.mean((0, 2, 3), keepdims=True)) / np.sqrt(wide.var((0, 2, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(g(images), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("terms", [1, 7, 210])
def test_the_primitive_interpreted_and_compiled(terms):
    x = np.random.default_rng(4).standard_normal((5, 6, 42), np.float32) + 3
    before = lathe.jit(lambda x: lathe.var(x, axis=(0, 2))).lower(x).func
    s = lathe.Schedule(before)
    names = [b.name for b in s.blocks]
    total, squares = next(n for n in names if n.endswith("sum")), next(n for n in names if n.endswith("squares"))
    assert [b.name for b in s.shift_squares(total, squares, terms)] == [total + "_shifted", squares + "_shifted"]
    again = lathe.Schedule(before)
    again.replay(s.record)
    assert str(again.func) == str(s.func)
    s.func.verify()
    for run in (lambda f, *a: lathe.interpret(f, list(a)), lambda f, *a: lathe.compile(f)(*a)):
        out = np.empty(6, np.float32)
        run(s.func, x, out)
        np.testing.assert_allclose(out, x.astype(np.float64).var(axis=(0, 2)), rtol=1e-5)
