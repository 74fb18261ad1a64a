"""Convolutions whose windows reach far beyond the image, of which tiles leave out what is zero, against NumPy."""

import numpy as np
import pytest
from test_transposed_convolutions import convolved

import lathe


def convolution(x, w, pad, dilation):
    """NCHW; weights with their channels first."""
    n, _, height, width = x.shape
    r, s = w.shape[2:]
    wide = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    return convolved(wide, w, height + 2 * pad - dilation * (r - 1), width + 2 * pad - dilation * (s - 1), dilation)


def expected(x, w, pad, dilation, dtype=np.float64):
    wide = np.pad(x.astype(dtype), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    r, s = w.shape[2:]
    rows, columns = wide.shape[2] - dilation * (r - 1), wide.shape[3] - dilation * (s - 1)
    out = np.zeros((x.shape[0], w.shape[1], rows, columns), dtype)
    for i in range(r):
        for j in range(s):
            part = wide[:, :, i * dilation : i * dilation + rows, j * dilation : j * dilation + columns]
            out += np.einsum("nchw,ck->nkhw", part, w[:, :, r - 1 - i, s - 1 - j].astype(dtype))
    return out


# x, w, pad, dilation
cases = [
    ((1, 64, 7, 7), (64, 64, 3, 3), 1, 1),
    ((2, 32, 14, 14), (32, 48, 3, 3), 1, 1),
    ((1, 32, 14, 9), (32, 32, 5, 3), 2, 1),
    ((4, 16, 4, 4), (16, 64, 3, 3), 1, 1),
    ((1, 32, 2, 2), (32, 32, 3, 3), 1, 1),
    ((1, 16, 33, 33), (16, 32, 3, 3), 12, 12),
    ((1, 32, 20, 20), (32, 16, 3, 3), 18, 18),
    ((1, 16, 12, 12), (16, 16, 3, 3), 2, 1),
    ((1, 17, 11, 13), (17, 19, 3, 3), 3, 2),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("case", cases, ids=str)
def test_what_is_left_out_is_zero(case, dtype):
    x_shape, w_shape, *placement = case
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-9, 9, shape).astype(dtype) for shape in (x_shape, w_shape))
    np.testing.assert_array_equal(
        lathe.jit(lambda x, w: convolution(x, w, *placement))(x, w), expected(x, w, *placement)
    )


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("case", cases[:6], ids=str)
def test_zero_times_what_is_not_finite_is_nan(case, odd):
    x_shape, w_shape, *placement = case
    rng = np.random.default_rng(3)
    x, w = (rng.integers(1, 9, shape).astype(np.float32) for shape in (x_shape, w_shape))
    w[0, 1, 0, 0] = w[3, 10, 1, 2] = w[2, 5, -1, 1] = odd
    found = lathe.jit(lambda x, w: convolution(x, w, *placement))(x, w)
    with np.errstate(invalid="ignore"):
        reference = expected(x, w, *placement)
    assert np.isnan(reference).any()
    np.testing.assert_array_equal(found, reference)


def test_elements_that_are_not_finite_stay_where_they_are():
    rng = np.random.default_rng(3)
    x, w = (rng.integers(1, 9, shape).astype(np.float32) for shape in cases[0][:2])
    x[0, 3, 0, 0], x[0, 5, 6, 3] = np.nan, np.inf
    np.testing.assert_array_equal(lathe.jit(lambda x, w: convolution(x, w, 1, 1))(x, w), expected(x, w, 1, 1))
