"""Convolutions of bytes, which run on dot products where the host has them: exact whatever the shape."""

import numpy as np
import pytest

import lathe


def extent(size, taps, stride, pad, dilation):
    return (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1


def convolution(x, w, stride=1, pad=0, dilation=1, groups=1, last=False):
    """x is NCHW and w OIHW, or with channels last."""
    channel, rows, columns = (3, 1, 2) if last else (1, 2, 3)
    n, height, width = x.shape[0], x.shape[rows], x.shape[columns]
    k, per_group, r, s = (w.shape[i] for i in (0, channel, rows, columns))
    x, w = lathe.astype(x, lathe.int32), lathe.astype(w, lathe.int32)
    if pad:
        x = lathe.pad(x, [(pad, pad) if d in (rows, columns) else (0, 0) for d in range(4)])
    high, wide = extent(height, r, stride, pad, dilation), extent(width, s, stride, pad, dilation)

    def element(b, f, i, j):
        def term(c, ri, si):
            from_channel = c if groups == 1 else f // (k // groups) * per_group + c
            at = (i * stride + ri * dilation, j * stride + si * dilation)
            if last:
                return x[b, at[0], at[1], from_channel] * w[f, ri, si, c]
            return x[b, from_channel, at[0], at[1]] * w[f, c, ri, si]

        return lathe.reduce("sum", (per_group, r, s), term)

    if last:
        return lathe.compute((n, high, wide, k), lambda b, i, j, f: element(b, f, i, j))
    return lathe.compute((n, k, high, wide), element)


def expected(x, w, stride, pad, dilation, groups):
    x, w = x.astype(np.int32), w.astype(np.int32)
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    k, per_group, r, s = w.shape
    rows = (x.shape[2] - dilation * (r - 1) - 1) // stride + 1
    columns = (x.shape[3] - dilation * (s - 1) - 1) // stride + 1
    out = np.zeros((x.shape[0], k, rows, columns), np.int32)
    kernels = k // groups
    for g in range(groups):
        for ri in range(r):
            for si in range(s):
                taps = x[
                    :,
                    g * per_group : (g + 1) * per_group,
                    ri * dilation : ri * dilation + (rows - 1) * stride + 1 : stride,
                    si * dilation : si * dilation + (columns - 1) * stride + 1 : stride,
                ]
                filters = w[g * kernels : (g + 1) * kernels, :, ri, si]
                out[:, g * kernels : (g + 1) * kernels] += np.einsum("nchw,kc->nkhw", taps, filters)
    return out


def byte_values(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape, dtype=dtype)


CASES = [  # x (n, c, h, w), w (k, r, s), stride, pad, dilation, groups
    ((1, 64, 14, 14), (64, 3, 3), 1, 1, 1, 1),
    ((2, 16, 9, 13), (24, 3, 3), 1, 1, 1, 1),
    ((1, 32, 20, 20), (48, 1, 1), 1, 0, 1, 1),
    ((1, 32, 15, 15), (20, 1, 1), 2, 0, 1, 1),
    ((1, 3, 33, 33), (16, 7, 7), 2, 3, 1, 1),
    ((1, 5, 11, 12), (7, 3, 3), 1, 1, 1, 1),
    ((1, 67, 9, 9), (33, 3, 3), 2, 1, 1, 1),
    ((1, 32, 12, 12), (32, 3, 3), 1, 1, 1, 4),
    ((1, 24, 10, 10), (16, 3, 3), 1, 1, 1, 4),
    ((1, 16, 16, 16), (16, 3, 3), 1, 2, 2, 1),
    ((1, 12, 10, 10), (12, 3, 3), 1, 1, 1, 12),
    ((1, 9, 8, 8), (6, 2, 5), 3, 2, 1, 3),
    ((1, 128, 7, 7), (128, 3, 3), 1, 1, 1, 1),
]


@pytest.mark.parametrize("x_shape, w_shape, stride, pad, dilation, groups", CASES)
@pytest.mark.parametrize("last", [False, True])
def test_convolutions_of_bytes_are_exact(x_shape, w_shape, stride, pad, dilation, groups, last):
    rng = np.random.default_rng(sum(x_shape) + sum(w_shape))
    options = {"stride": stride, "pad": pad, "dilation": dilation, "groups": groups}
    for a, b in ((np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)):
        x = byte_values(rng, a, *x_shape)
        w = byte_values(rng, b, w_shape[0], x_shape[1] // groups, *w_shape[1:])
        want = expected(x, w, **options)
        if last:
            x, w = (np.ascontiguousarray(array.transpose(0, 2, 3, 1)) for array in (x, w))
            want = want.transpose(0, 2, 3, 1)
        out = lathe.jit(lambda x, w: convolution(x, w, **options, last=last))(x, w)
        np.testing.assert_array_equal(np.asarray(out), want)


def test_extremes_of_bytes_do_not_saturate():
    for a, b in ((-128, -128), (-128, 127), (127, 127)):
        x, w = np.full((1, 64, 8, 8), a, np.int8), np.full((16, 64, 3, 3), b, np.int8)
        out = np.asarray(lathe.jit(lambda x, w: convolution(x, w, pad=1))(x, w))
        np.testing.assert_array_equal(out, expected(x, w, 1, 1, 1, 1))


def test_what_follows_a_convolution_of_bytes_sees_its_sums():
    rng = np.random.default_rng(1)
    x, w = byte_values(rng, np.uint8, 1, 32, 10, 10), byte_values(rng, np.int8, 40, 32, 3, 3)
    scale, bias = rng.uniform(1e-4, 1e-3, (1, 40, 1, 1)).astype(np.float32), rng.integers(-99, 99, (1, 40, 1, 1), np.int32)

    def quantized(x, w, scale, bias):
        sums = convolution(x, w, pad=1) + bias
        return lathe.astype(lathe.clip(lathe.round(lathe.astype(sums, lathe.float32) * scale) + 64.0, 0, 255), lathe.uint8)

    out = lathe.jit(quantized)(x, w, scale, bias)
    sums = (expected(x, w, 1, 1, 1, 1) + bias).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(out), np.clip(np.round(sums * scale) + 64.0, 0, 255).astype(np.uint8))


def test_filters_that_are_not_contiguous():
    rng = np.random.default_rng(2)
    x = byte_values(rng, np.int8, 1, 9, 9, 32).transpose(0, 3, 1, 2)
    w = byte_values(rng, np.int8, 3, 3, 32, 24).transpose(3, 2, 0, 1)
    out = lathe.jit(lambda x, w: convolution(x, w, pad=1))(x, w)
    np.testing.assert_array_equal(np.asarray(out), expected(x, w, 1, 1, 1, 1))
