"""Rows that are reduced and passed over again, two at a time, and what is read of their sums elsewhere."""

import numpy as np
import pytest

import lathe


@pytest.mark.parametrize("columns", [16, 112, 768, 800])
@pytest.mark.parametrize("rows", [64, 101, 512])
def test_sums_that_are_results_too(rows, columns):
    x = np.random.default_rng(rows).integers(-9, 9, (rows, columns)).astype(np.float32)
    sums = x.sum(axis=1)

    def less(x):
        s = lathe.sum(x, axis=1)
        return x - s[:, None], s

    def elsewhere(x):
        s = lathe.sum(x, axis=1)
        return x - s[:, None], s * 2.0, lathe.sum(s)

    got, kept = lathe.jit(less)(x)
    np.testing.assert_array_equal(got, x - sums[:, None])
    np.testing.assert_array_equal(kept, sums)
    got, twice, all_of_them = lathe.jit(elsewhere)(x)
    np.testing.assert_array_equal(got, x - sums[:, None])
    np.testing.assert_array_equal(twice, sums * 2)
    assert all_of_them == sums.sum()


@pytest.mark.parametrize("shape", [(512, 768), (3, 100, 128), (96, 13, 64), (40, 48)])
def test_norms(shape):
    rng = np.random.default_rng(1)
    x, w, b = rng.standard_normal(shape, np.float32), *rng.standard_normal((2, shape[-1]), np.float32)
    got = lathe.jit(lambda x, w, b: lathe.layer_norm(x, weight=w, bias=b))(x, w, b)
    wide = x.astype(np.float64)
    mean, var = wide.mean(axis=-1, keepdims=True), wide.var(axis=-1, keepdims=True)
    np.testing.assert_allclose(got, (wide - mean) / np.sqrt(var + 1e-5) * w + b, rtol=1e-4, atol=1e-5)
