"""Windows that nothing weighs: pooling and box filters, summed one axis after the other."""

import numpy as np
import pytest

import lathe


def pool(op, size, stride, pad, fill):
    high, wide = size

    def f(x):
        padded = lathe.pad(x, [(0, 0)] * (len(x.shape) - 2) + [(pad, pad), (pad, pad)], value=fill)
        *outer, height, width = padded.shape
        shape = (*outer, (height - high) // stride + 1, (width - wide) // stride + 1)
        return lathe.compute(
            shape,
            lambda *at: lathe.reduce(
                op, size, lambda r, s: padded[(*at[:-2], stride * at[-2] + r, stride * at[-1] + s)]
            ),
        )

    return f


def reference(op, x, size, stride, pad, fill):
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(pad, pad)] * 2, constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, (-2, -1))[..., ::stride, ::stride, :, :]
    return windows.max((-2, -1)) if op == "max" else windows.sum((-2, -1), dtype=np.float64)


@pytest.mark.parametrize("size", [(2, 2), (3, 3), (5, 5), (2, 7), (9, 3), (13, 13)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("shape", [(40, 41), (3, 28, 28), (2, 5, 17, 33), (4, 13, 13), (3, 9, 112), (2, 11, 7)])
@pytest.mark.parametrize("op", ["max", "sum"])
def test_windows_of_both_axes(op, shape, stride, size):
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    pad, fill = size[1] // 2, -np.inf if op == "max" else 0.0
    if min(shape[-2:]) + 2 * pad < max(size):
        pytest.skip("the window is larger than the padded image")
    got = lathe.jit(pool(op, size, stride, pad, fill))(x)
    np.testing.assert_allclose(got, reference(op, x, size, stride, pad, fill), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float64, np.float16])
@pytest.mark.parametrize("stride, pad", [(1, 0), (2, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("shape", [(3, 40, 50), (2, 9, 224)])
def test_windows_of_other_types(dtype, stride, pad, shape):
    x = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    got = lathe.jit(pool("max", (5, 5), stride, pad, 0))(x)
    np.testing.assert_array_equal(got, reference("max", x, (5, 5), stride, pad, 0))


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_greatest_of_windows_keeps_nan_and_infinities(stride):
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    x[10, 20], x[40, 41], x[50, 3], x[30:33, 8:16], x[20:32, 20:32] = np.nan, np.inf, -np.inf, -0.0, -np.inf
    got = lathe.jit(pool("max", (5, 5), stride, 2, -np.inf))(x)
    np.testing.assert_array_equal(got, reference("max", x, (5, 5), stride, 2, -np.inf))


def test_greatest_of_zeros_keeps_their_signs():
    x = np.full((3, 20, 64), -0.0, np.float32)
    x[1, 10, 30] = 0.0
    got = lathe.jit(pool("max", (3, 3), 2, 1, -np.inf))(x)
    signs = np.ones((3, 10, 32), bool)
    signs[1, 5, 15] = False
    np.testing.assert_array_equal(np.signbit(got), signs)


def test_windows_with_channels_last_and_of_squares():
    x = np.random.default_rng(0).standard_normal((30, 31, 24)).astype(np.float32)

    def f(x):
        return lathe.compute(
            (24, 25, 24),
            lambda i, j, c: lathe.reduce("sum", (7, 7), lambda r, s: x[i + r, j + s, c] * x[i + r, j + s, c]),
        )

    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64) ** 2, (7, 7), (0, 1))
    np.testing.assert_allclose(lathe.jit(f)(x), windows.sum((-2, -1)), rtol=1e-5)


@pytest.mark.parametrize("fold", ["sum", "max", "min"])
@pytest.mark.parametrize("size", [(3, 3), (4, 3), (2, 7), (5, 5), (3, 17)])
@pytest.mark.parametrize(("channels", "filters", "groups"), [(8, 16, 4), (4, 8, 1), (3, 5, 1)])
def test_channels_of_small_images_are_folded_behind_a_convolution(channels, filters, groups, size, fold):
    """Rows that are joined for the convolution, and read one by one behind it: no lanes of one register."""
    rng = np.random.default_rng(filters)
    per, of_group = channels // groups, filters // groups
    x, w = rng.standard_normal((channels, *size), np.float32), rng.standard_normal((filters, per), np.float32)

    def f(x, w):
        y = lathe.compute(
            (filters, *size), lambda o, i, j: lathe.reduce("sum", per, lambda c: x[o // of_group * per + c, i, j] * w[o, c])
        )
        return getattr(lathe, fold)(y, axis=0)

    y = np.einsum("gchw,gfc->gfhw", x.reshape(groups, per, *size), w.reshape(groups, of_group, per))
    expected = getattr(y.reshape(filters, *size), fold)(axis=0)
    np.testing.assert_allclose(lathe.jit(f)(x, w), expected, rtol=1e-4, atol=1e-5)
