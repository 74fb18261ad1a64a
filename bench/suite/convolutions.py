"""Convolutions in NCHW, written by their definition."""

import lathe

from .case import Case, Library, f32


def extent(size, kernel, stride=1, pad=0, dilation=1):
    """How many positions a kernel takes along an axis."""
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def convolution(x, w, stride=1, pad=0, dilation=1, groups=1):
    """Of any number of dimensions behind images and channels."""
    n, c, *size = x.shape
    k, per_group, *taps = w.shape
    if pad:
        x = lathe.pad(x, [(0, 0), (0, 0), *[(pad, pad)] * len(size)])
    kernels = k // groups

    def term(b, f, at, ci, by):
        channel = ci if groups == 1 else f // kernels * per_group + ci
        return x[(b, channel, *(i * stride + r * dilation for i, r in zip(at, by, strict=True)))] * w[(f, ci, *by)]

    return lathe.compute(
        (n, k, *(extent(s, r, stride, pad, dilation) for s, r in zip(size, taps, strict=True))),
        lambda b, f, *at: lathe.reduce("sum", (per_group, *taps), lambda ci, *by: term(b, f, at, ci, by)),
    )


def transposed_convolution(x, w, stride, pad):
    """The adjoint of a convolution: a plain one over x with stride - 1 zeros between its elements, w turned round."""
    n, c, height, width = x.shape
    _, k, r, s = w.shape
    rows, columns = (height - 1) * stride - 2 * pad + r, (width - 1) * stride - 2 * pad + s
    top, left = r - 1 - pad, s - 1 - pad
    x = lathe.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    spread = lathe.compute(
        (n, c, rows + r - 1, columns + s - 1),
        lambda b, ci, i, j: lathe.select(
            ((i - top) % stride == 0) & ((j - left) % stride == 0),
            x[b, ci, (i - top) // stride + 1, (j - left) // stride + 1],
            0.0,
        ),
    )
    return lathe.compute(
        (n, k, rows, columns),
        lambda b, f, i, j: lathe.reduce(
            "sum", (c, r, s), lambda ci, ri, si: spread[b, ci, i + ri, j + si] * w[ci, f, r - 1 - ri, s - 1 - si]
        ),
    )


def jax_convolution(j, x, w, stride=1, pad=0, dilation=1, groups=1):
    return j.lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        [(pad, pad), (pad, pad)],
        rhs_dilation=(dilation, dilation),
        feature_group_count=groups,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )


def library(x_shape, w_shape, stride=1, pad=0, dilation=1, groups=1, operation="convolution", residual=False):
    """The integers of `operation`; w_shape is that of the array in memory."""
    return Library(operation, (*x_shape, *w_shape, stride, pad, dilation, groups, int(residual)))


def plain(rng, name, x_shape, w_shape, bound="compute", **options):
    x, w = f32(rng, *x_shape), f32(rng, *w_shape)
    for_torch = {"padding" if key == "pad" else key: value for key, value in options.items()}
    placement = {key: value for key, value in options.items() if key != "groups"}
    k, per_group, r, s = w_shape
    outputs = x_shape[0] * k * extent(x_shape[2], r, **placement) * extent(x_shape[3], s, **placement)
    return Case(
        f"conv {name}",
        bound,
        [x, w],
        lambda x, w: convolution(x, w, **options),
        lambda t, x, out: t.nn.functional.conv2d(*x, **for_torch),
        lambda j, x: jax_convolution(j, *x, **options),
        library(x_shape, w_shape, **options),
        flops=2.0 * outputs * per_group * r * s,
        out=False,
    )


def convolutions(rng):
    yield plain(rng, "3-64 7x7/2 224", (1, 3, 224, 224), (64, 3, 7, 7), stride=2, pad=3)
    for batch in (1, 8):
        yield plain(rng, f"64-64 3x3 56 b{batch}", (batch, 64, 56, 56), (64, 64, 3, 3), pad=1)
    yield plain(rng, "64-256 1x1 56", (1, 64, 56, 56), (256, 64, 1, 1))
    yield plain(rng, "128-128 3x3 28", (1, 128, 28, 28), (128, 128, 3, 3), pad=1)
    yield plain(rng, "256-256 3x3 14", (1, 256, 14, 14), (256, 256, 3, 3), pad=1)
    yield plain(rng, "512-512 3x3 7", (1, 512, 7, 7), (512, 512, 3, 3), pad=1)
    yield plain(rng, "depthwise 96 3x3 56", (1, 96, 56, 56), (96, 1, 3, 3), bound="other", pad=1, groups=96)
    yield plain(rng, "dilated 64-64 3x3 56", (1, 64, 56, 56), (64, 64, 3, 3), pad=2, dilation=2)
    yield plain(rng, "grouped 4 64-64 3x3 56", (1, 64, 56, 56), (64, 16, 3, 3), pad=1, groups=4)


def transposed(rng):
    x_shape, w_shape = (1, 64, 28, 28), (64, 64, 4, 4)
    yield Case(
        "conv transposed 64-64 4x4/2 28",
        "compute",
        [f32(rng, *x_shape), f32(rng, *w_shape)],
        lambda x, w: transposed_convolution(x, w, 2, 1),
        lambda t, x, out: t.nn.functional.conv_transpose2d(*x, stride=2, padding=1),
        lambda j, x: j.lax.conv_general_dilated(
            x[0],
            x[1].swapaxes(0, 1)[:, :, ::-1, ::-1],
            (1, 1),
            [(2, 2), (2, 2)],
            lhs_dilation=(2, 2),
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        ),
        library(x_shape, w_shape, stride=2, pad=1, operation="transposed_convolution"),
        flops=2.0 * 64 * 64 * 28 * 28 * 16,
        out=False,
    )


def fused(rng):
    x_shape, w_shape = (1, 64, 56, 56), (64, 64, 3, 3)
    case = plain(rng, "", x_shape, w_shape, pad=1)
    yield Case(
        "conv + bias + residual + relu",
        "compute",
        [*case.inputs, f32(rng, 64), f32(rng, 1, 64, 56, 56)],
        lambda x, w, b, y: lathe.relu(convolution(x, w, pad=1) + lathe.reshape(b, (1, 64, 1, 1)) + y),
        lambda t, x, out: t.relu_(t.nn.functional.conv2d(x[0], x[1], x[2], padding=1).add_(x[3])),
        lambda j, x: j.nn.relu(jax_convolution(j, x[0], x[1], pad=1) + x[2][:, None, None] + x[3]),
        library(x_shape, w_shape, pad=1, residual=True),
        flops=case.flops,
        lane_operations=64 * 56 * 56 * 3.0,
        out=False,
    )


topics = (convolutions, transposed, fused)
