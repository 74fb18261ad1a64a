"""Convolutions in groups, of images of channels and of pixels, against NumPy."""

import numpy as np
import pytest

import lathe

rng = np.random.default_rng(3)


@pytest.mark.parametrize(
    "groups, kernels, depth",
    [(2, 8, 3), (3, 5, 4), (4, 1, 1), (40, 1, 1), (6, 2, 1), (1, 6, 5), (1, 48, 24), (2, 32, 24)],
)
@pytest.mark.parametrize("size, stride, dilation", [(14, 1, 1), (7, 1, 1), (17, 2, 1), (56, 2, 1), (15, 1, 2)])
def test_grouped_convolution(groups, kernels, depth, size, stride, dilation):
    x = rng.standard_normal((2, groups * depth, size, size), dtype=np.float32)
    w = rng.standard_normal((groups * kernels, depth, 3, 3), dtype=np.float32)
    pad = 1
    side = (size + 2 * pad - 2 * dilation - 1) // stride + 1

    def convolution(x, w):
        x = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
        return lathe.compute(
            (2, groups * kernels, side, side),
            lambda b, f, i, j: lathe.reduce(
                "sum",
                (depth, 3, 3),
                lambda c, r, s: (
                    x[b, f // kernels * depth + c, i * stride + r * dilation, j * stride + s * dilation] * w[f, c, r, s]
                ),
            ),
        )

    result = lathe.jit(convolution, name="convolution")(x, w)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    expected = np.zeros((2, groups * kernels, side, side))
    for r in range(3):
        for s in range(3):
            rows = slice(r * dilation, r * dilation + (side - 1) * stride + 1, stride)
            columns = slice(s * dilation, s * dilation + (side - 1) * stride + 1, stride)
            part = padded[:, :, rows, columns].reshape(2, groups, depth, side, side)
            taps = w[:, :, r, s].reshape(groups, kernels, depth)
            expected += np.einsum("bgcij,gkc->bgkij", part, taps).reshape(expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "groups, kernels, depth",
    [(2, 32, 32), (5, 24, 12), (8, 8, 8), (3, 7, 5), (4, 2, 2), (2, 48, 3), (4, 6, 6), (3, 12, 5), (2, 20, 10)],
)
@pytest.mark.parametrize("weights_last", [True, False])
def test_grouped_convolution_of_pixels(groups, kernels, depth, weights_last):
    """Channels are contiguous, so that vectors walk those of a group; weights along them, or along the reduction."""
    x = rng.standard_normal((2, 9, 11, groups * depth), dtype=np.float32)
    w = rng.standard_normal((groups * kernels, 3, 3, depth), dtype=np.float32)

    def convolution(x, w):
        return lathe.compute(
            (2, 7, 9, groups * kernels),
            lambda b, i, j, f: lathe.reduce(
                "sum",
                (3, 3, depth),
                lambda r, s, c: (
                    x[b, i + r, j + s, f // kernels * depth + c] * (w[r, s, c, f] if weights_last else w[f, r, s, c])
                ),
            ),
        )

    given = np.ascontiguousarray(w.transpose(1, 2, 3, 0)) if weights_last else w
    kernel = lathe.jit(convolution)
    result = kernel(x, given)
    if kernels >= 8 and depth >= 8:
        assert "vectorized" in kernel.lower(x, given).text("scheduled")
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(1, 2))
    windows = windows.reshape(2, 7, 9, groups, depth, 3, 3)
    expected = np.einsum("bijgcrs,gkrsc->bijgk", windows, w.reshape(groups, kernels, 3, 3, depth))
    np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=1e-4, atol=1e-4)
