"""Depthwise convolutions, each channel by a filter of its own, against NumPy."""

import itertools

import numpy as np
import pytest

import lathe


def extent(size, taps, stride, dilation, pad):
    return (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1


def depthwise(x, w, stride, dilation, pad):
    n, c, height, width = x.shape
    taps = w.shape[1]
    if pad:
        x = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    return lathe.compute(
        (n, c, extent(height, taps, stride, dilation, pad), extent(width, taps, stride, dilation, pad)),
        lambda b, f, i, j: lathe.reduce(
            "sum",
            (taps, taps),
            lambda r, s: x[b, f, i * stride + r * dilation, j * stride + s * dilation] * w[f, r, s],
        ),
    )


def expected(x, w, stride, dilation, pad):
    taps = w.shape[1]
    rows, columns = (extent(size, taps, stride, dilation, pad) for size in x.shape[2:])
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    out = np.zeros((*x.shape[:2], rows, columns))
    for r, s in itertools.product(range(taps), repeat=2):
        top, left = r * dilation, s * dilation
        window = x[
            :, :, top : top + (rows - 1) * stride + 1 : stride, left : left + (columns - 1) * stride + 1 : stride
        ]
        out += window * w[:, r, s].astype(np.float64)[:, None, None]
    return out


@pytest.mark.parametrize(
    "taps, stride, dilation", [(3, 1, 1), (3, 2, 1), (5, 2, 1), (3, 1, 2), (3, 2, 2), (3, 3, 1), (4, 2, 3)]
)
@pytest.mark.parametrize("size", [(7, 7), (14, 13), (28, 28), (33, 40), (9, 57)])
@pytest.mark.parametrize("padded", [False, True])
def test_depthwise(taps, stride, dilation, size, padded):
    reach = dilation * (taps - 1)
    if not padded and min(size) <= reach:
        pytest.skip("the filter is larger than the image")
    pad = reach // 2 if padded else 0
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 20, *size)).astype("float32")
    w = rng.standard_normal((20, taps, taps)).astype("float32")
    result = lathe.jit(lambda x, w: depthwise(x, w, stride, dilation, pad))(x, w)
    np.testing.assert_allclose(result, expected(x, w, stride, dilation, pad), rtol=1e-4, atol=1e-5)


def test_padding_stays_zero_beside_infinities():
    x = np.ones((1, 20, 15, 15), "float32")
    x[0, :, 0, 0] = np.inf
    w = np.ones((20, 3, 3), "float32")
    result = lathe.jit(lambda x, w: depthwise(x, w, 2, 1, 1))(x, w)
    assert np.isinf(result[0, :, 0, 0]).all()
    assert np.isfinite(result[0, :, 1:, 1:]).all()


def channels_last(x):
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.mark.parametrize(
    "taps, stride, dilation", [(3, 1, 1), (3, 2, 1), (5, 1, 1), (7, 1, 1), (5, 2, 1), (3, 1, 2), (4, 2, 3)]
)
@pytest.mark.parametrize(
    "channels, size", [(16, (7, 7)), (48, (14, 13)), (96, (28, 28)), (19, (9, 31)), (130, (12, 5)), (32, (1, 1))]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_channels_last(taps, stride, dilation, channels, size, dtype):
    pad = (dilation * (taps - 1) + 1) // 2
    rng = np.random.default_rng(0)
    x = channels_last(rng.standard_normal((2, channels, *size)).astype(dtype))
    w = rng.standard_normal((channels, taps, taps)).astype(dtype)
    result = lathe.jit(lambda x, w: depthwise(x, w, stride, dilation, pad))(x, w)
    tolerance = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(result, expected(x, w, stride, dilation, pad), rtol=tolerance, atol=tolerance)


def test_padding_is_multiplied_where_channels_come_last():
    x = channels_last(np.ones((1, 32, 9, 9), "float32"))
    w = np.ones((32, 3, 3), "float32")
    w[5, 0, 1] = np.inf
    result = lathe.jit(lambda x, w: depthwise(x, w, 1, 1, 1))(x, w)
    assert np.isnan(result[0, 5, 0]).all() and (result[0, 5, 1:] == np.inf).all()
    assert np.isfinite(np.delete(result, 5, axis=1)).all()
