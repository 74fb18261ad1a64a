"""Layers with what follows them in one kernel, against the interpreter."""

import math

import numpy as np
import pytest

import lathe


def convolution(x, w, pad=0, dilation=1, groups=1):
    filters, channels, r, s = w.shape
    x = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    rows, columns = x.shape[2] - dilation * (r - 1), x.shape[3] - dilation * (s - 1)
    return lathe.compute(
        (x.shape[0], filters, rows, columns),
        lambda b, f, i, j: lathe.reduce(
            "sum",
            (channels, r, s),
            lambda c, p, q: (
                x[b, f // (filters // groups) * channels + c, i + p * dilation, j + q * dilation] * w[f, c, p, q]
            ),
        ),
    )


def pooled(x, side, stride, op, pad=0):
    x = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], value=-math.inf if op == "max" else 0.0)
    rows, columns = ((size - side) // stride + 1 for size in x.shape[2:])
    return lathe.compute(
        (*x.shape[:2], rows, columns),
        lambda b, c, i, j: lathe.reduce(op, (side, side), lambda p, q: x[b, c, i * stride + p, j * stride + q]),
    )


def standardized(x, axes):
    centered = x - lathe.mean(x, axis=axes, keepdims=True)
    return centered * lathe.rsqrt(lathe.var(x, axis=axes, keepdims=True) + 1e-5)


def weights_of_channels(x, w):
    """A sum of weights over the axis that they are of, with no columns to mix."""
    y = lathe.mean(lathe.softmax(convolution(x, w, pad=1, dilation=2), axis=1), axis=1, keepdims=True)
    return pooled(y, 3, 2, "sum", pad=1)


def pools_of_norms(x, w):
    """Lanes that all read the one statistic of a channel."""
    y = pooled(standardized(convolution(x, w, groups=96), (2, 3)), 3, 2, "max", pad=1)
    return lathe.logsumexp(lathe.where(y > 0, y, y * 0.01), axis=1, keepdims=True)


def pool_beside_a_bias(x, w):
    return pooled(lathe.clip(convolution(x, w) + w[:, 0, 0, 0].reshape((-1, 1, 1)), 0.0, 6.0), 2, 2, "max")


@pytest.mark.parametrize(
    ("network", "x", "w"),
    [
        (weights_of_channels, (2, 16, 12, 14), (16, 16, 1, 3)),
        (weights_of_channels, (2, 64, 28, 28), (16, 64, 1, 3)),
        (pools_of_norms, (2, 96, 14, 14), (96, 1, 3, 5)),
        (pool_beside_a_bias, (2, 8, 16, 17), (32, 8, 3, 3)),
    ],
)
def test_computes_what_the_interpreter_does(network, x, w):
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(shape, np.float32) for shape in (x, w))
    f = lathe.jit(network)
    found = f(x, w)
    expected = np.empty_like(found)
    lathe.interpret(f.lower(x, w).func, [x, w, expected])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
