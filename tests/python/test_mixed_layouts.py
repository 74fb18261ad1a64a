"""Convolutions whose image, weights and result lie in different orders in memory, against NumPy."""

import itertools

import numpy as np
import pytest

import lathe


def convolution(x, w, stride, groups):
    n, c, height, width = x.shape
    filters, channels, r, s = w.shape
    x = lathe.pad(x, [(0, 0), (0, 0), (r // 2, r // 2), (s // 2, s // 2)])
    each = filters // groups
    return lathe.compute(
        (n, filters, (height - 1) // stride + 1, (width - 1) // stride + 1),
        lambda b, f, i, j: lathe.reduce(
            "sum",
            (channels, r, s),
            lambda k, u, v: x[b, f // each * channels + k, i * stride + u, j * stride + v] * w[f, k, u, v],
        ),
    )


def expected(x, w, stride, groups):
    channels, r, s = w.shape[1:]
    each = w.shape[0] // groups
    padded = np.pad(x, [(0, 0), (0, 0), (r // 2, r // 2), (s // 2, s // 2)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (r, s), (2, 3))[:, :, ::stride, ::stride]
    return np.concatenate(
        [
            np.einsum("bcijuv,fcuv->bfij", windows[:, g * channels : (g + 1) * channels], w[g * each : (g + 1) * each])
            for g in range(groups)
        ],
        1,
    )


def channels_last(array):
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "taps", "stride"),
    [(20, 24, 1, 3, 1), (3, 40, 1, 3, 2), (33, 33, 33, 3, 1), (48, 48, 48, 5, 2), (32, 32, 2, 3, 1), (17, 35, 1, 1, 1)],
)
def test_layouts_of_a_convolution(channels, filters, groups, taps, stride):
    rng = np.random.default_rng(8)
    x = rng.integers(-3, 4, (2, channels, 19, 21)).astype(np.float32)
    w = rng.integers(-3, 4, (filters, channels // groups, taps, taps)).astype(np.float32)
    want = expected(x, w, stride, groups)
    f = lathe.jit(lambda x, w: convolution(x, w, stride, groups))
    for lie in itertools.product([np.ascontiguousarray, channels_last], repeat=3):
        out = lie[2](np.zeros_like(want))
        f(lie[0](x), lie[1](w), out=out)
        np.testing.assert_array_equal(out, want)


def test_a_convolution_of_images_that_are_joined():
    rng = np.random.default_rng(8)
    for channels in ((4, 6), (3, 2, 5)):
        images = [rng.integers(-3, 4, (2, c, 19, 21)).astype(np.float32) for c in channels]
        w = rng.integers(-3, 4, (24, sum(channels), 3, 3)).astype(np.float32)
        f = lathe.jit(lambda w, *images: convolution(lathe.concat(images, axis=1), w, 1, 1))
        np.testing.assert_array_equal(f(w, *images), expected(np.concatenate(images, 1), w, 1, 1))


def test_a_transposed_convolution_of_channels_last():
    # Its residues have different numbers of taps, so that no vectors lie across memory.
    rng = np.random.default_rng(8)
    x = rng.integers(-3, 4, (1, 24, 9, 20)).astype(np.float32)
    w = rng.integers(-3, 4, (24, 16, 3, 3)).astype(np.float32)

    def transposed(x, w):
        x = lathe.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        spread = lathe.compute(
            (1, 24, 19, 41),
            lambda b, c, i, j: lathe.select(
                ((i - 1) % 2 == 0) & ((j - 1) % 2 == 0), x[b, c, (i - 1) // 2 + 1, (j - 1) // 2 + 1], 0.0
            ),
        )
        return lathe.compute(
            (1, 16, 17, 39),
            lambda b, f, i, j: lathe.reduce(
                "sum", (24, 3, 3), lambda c, u, v: spread[b, c, i + u, j + v] * w[c, f, 2 - u, 2 - v]
            ),
        )

    spread = np.zeros((1, 24, 19, 41), np.float32)
    spread[:, :, 1:18:2, 1:40:2] = x
    want = expected_valid(spread, w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
    f = lathe.jit(transposed)
    for lie in (np.ascontiguousarray, channels_last):
        np.testing.assert_array_equal(f(lie(x), lie(w)), want)


def expected_valid(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("bcijuv,fcuv->bfij", windows, w)
