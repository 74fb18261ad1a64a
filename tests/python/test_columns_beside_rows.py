"""Sums down the columns of arrays that leave a core's own caches, beside what else walks their rows."""

import numpy as np
import pytest

import lathe

SHAPES = [(2048, 1024), (1500, 1003), (1021, 1100), (20_000, 130), (40, 100, 600)]


def draw(shape, dtype, rows=3):
    rng = np.random.default_rng(sum(shape))
    return [rng.standard_normal(shape, np.float32).astype(dtype) for _ in range(rows)]


def check(f, arrays, expected, rtol=1e-5, scale=1.0):
    results = lathe.jit(f)(*arrays)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * scale * np.abs(want).mean())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_a_norm(shape, dtype):
    x, g = draw(shape, dtype, 2)
    w = draw(shape[-1:], dtype, 1)[0]
    mean, scale = x.mean(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def gradients(x, g, w, mean, scale, xp=lathe):
        rows = tuple(range(len(shape) - 1))
        h, gw = (x - mean) * scale, g * w
        along = {"axis": -1, "keepdims": True}
        dx = scale * (gw - xp.mean(gw, **along) - h * xp.mean(gw * h, **along))
        return dx, xp.sum(g * h, axis=rows), xp.sum(g, axis=rows)

    wide = [a.astype(np.float64) for a in (x, g, w, mean, scale)]
    check(gradients, (x, g, w, mean, scale), gradients(*wide, xp=np), 1e-5 if dtype == np.float32 else 1e-12, 10.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bias_beside_the_gradient_of_what_it_was_added_to(shape):
    x, g = draw(shape, np.float32, 2)
    w = draw(shape[-1:], np.float32, 1)[0]
    rows = tuple(range(len(shape) - 1))

    def gradients(x, g, w, xp=lathe):
        d = xp.where(x + w > 0, g, xp.float32(0) if xp is np else 0.0)
        return d, xp.sum(d, axis=rows)

    kept = np.where(x + w > 0, g, np.float32(0))
    check(gradients, (x, g, w), (kept, kept.astype(np.float64).sum(rows)), scale=10.0)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if len(shape) == 2])
def test_sums_along_both_axes(shape):
    x, y = draw(shape, np.float32, 2)
    wide = x.astype(np.float64) * y
    expected = (wide.sum(0), wide.sum(1), x.max(0), x.astype(np.float64).sum(0))
    check(
        lambda x, y: (lathe.sum(x * y, axis=0), lathe.sum(x * y, axis=1), lathe.max(x, axis=0), lathe.sum(x, axis=0)),
        (x, y),
        expected,
        scale=10.0,
    )


@pytest.mark.parametrize("shape", [(8, 512, 600), (3, 1000, 1003), (40, 53, 640), (2, 2048, 2048)])
def test_sums_over_two_axes_that_weights_keep_apart(shape):
    x, w = draw(shape, np.float32, 1)[0], draw((shape[0], 1, shape[2]), np.float32, 1)[0]

    def both(x, w, xp=lathe):
        return x * w, xp.sum(x * w, axis=(0, 1)), xp.max(x, axis=(0, 1))

    def alone(x, w, xp=lathe):
        return (xp.sum(x * w, axis=(0, 1)),)

    wide = x.astype(np.float64), w.astype(np.float64)
    check(both, (x, w), both(*wide, xp=np), scale=10.0)
    check(alone, (x, w), alone(*wide, xp=np), scale=10.0)


def test_nans_and_infinities_stay_in_their_columns():
    x, y = draw((2048, 1024), np.float32, 2)
    x[1000, 5], x[3, 7], x[2047, 1023] = np.nan, np.inf, -np.inf
    sums, along, most = lathe.jit(lambda x: (lathe.sum(x, axis=0), lathe.sum(x, axis=1), lathe.max(x, axis=0)))(x)
    assert np.isnan(sums[5]) and np.isnan(most[5]) and np.isnan(along[1000])
    assert sums[7] == along[3] == most[7] == np.inf and sums[1023] == along[2047] == -np.inf
    assert np.isfinite(np.delete(sums, [5, 7, 1023])).all() and np.isfinite(np.delete(most, [5, 7])).all()


def test_rows_that_wait_for_the_sums():
    (x,) = draw((2048, 1024), np.float32, 1)

    def centred(x, xp=lathe):
        mean = xp.mean(x, axis=0)
        return x - mean, mean, xp.sum((x - mean) * x, axis=0)

    check(centred, (x,), centred(x.astype(np.float64), xp=np), scale=10.0)
