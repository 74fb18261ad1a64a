"""Cases that mostly move data: transposes, a gather, resizing, pooling."""

import math

import lathe

from .case import Case, Library, aligned, f32
from .convolutions import extent


def transposes(rng):
    yield Case(
        "transpose + add 1024",
        "other",
        [f32(rng, 1024, 1024), f32(rng, 1024, 1024)],
        lambda x, y: lathe.matrix_transpose(x) + y,
        lambda t, x, out: t.add(x[0].T, x[1], out=out),
        lambda j, x: x[0].T + x[1],
    )
    yield Case(
        "nchw to nhwc 8x64x56x56",
        "other",
        [f32(rng, 8, 64, 56, 56)],
        lambda x: lathe.positive(lathe.permute_dims(x, (0, 2, 3, 1))),
        lambda t, x, out: out.copy_(x[0].permute(0, 2, 3, 1)),
        lambda j, x: x[0].transpose((0, 2, 3, 1)),
        Library("nchw_to_nhwc", (8, 64, 56, 56)),
    )


def gathers(rng):
    yield Case(
        "gather 512 of 50000x768",
        "other",
        [f32(rng, 50000, 768), aligned(rng.integers(0, 50000, 512))],
        lambda x, i: lathe.take(x, i, axis=0),
        lambda t, x, out: t.index_select(x[0], 0, x[1], out=out),
        lambda j, x: j.numpy.take(x[0], x[1], axis=0),
        traffic=512 * (2 * 768 * 4 + 8),  # the rows that are read, not the table
    )


def resize(x, rows, columns):
    """Bilinear, pixel centres half a pixel inside, edges repeated, no antialiasing: as torch's align_corners=False."""
    n, c, height, width = x.shape

    def neighbours(i, size, count):
        position = (2 * i + 1) * size - count  # of the centre, in steps of 1 / (2 count)
        low = position // (2 * count)
        share = (position - low * (2 * count)).astype(lathe.float32) * (1.0 / (2 * count))
        return lathe.maximum(low, 0), lathe.minimum(low + 1, size - 1), share

    def value(b, f, i, j):
        top, bottom, down = neighbours(i, height, rows)
        left, right, across = neighbours(j, width, columns)
        upper = x[b, f, top, left] + (x[b, f, top, right] - x[b, f, top, left]) * across
        lower = x[b, f, bottom, left] + (x[b, f, bottom, right] - x[b, f, bottom, left]) * across
        return upper + (lower - upper) * down

    return lathe.compute((n, c, rows, columns), value)


def max_pool(x, size=3, stride=2, pad=1):
    n, c, height, width = x.shape
    padded = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], value=-math.inf)
    return lathe.compute(
        (n, c, extent(height, size, stride, pad), extent(width, size, stride, pad)),
        lambda b, f, i, j: lathe.reduce("max", (size, size), lambda r, s: padded[b, f, stride * i + r, stride * j + s]),
    )


def windows(rng):
    yield Case(
        "bilinear resize 64x200x200 to 100",
        "other",
        [f32(rng, 1, 64, 200, 200)],
        lambda x: resize(x, 100, 100),
        lambda t, x, out: t.nn.functional.interpolate(x[0], size=(100, 100), mode="bilinear", align_corners=False),
        lambda j, x: j.image.resize(x[0], (1, 64, 100, 100), "bilinear", antialias=False),
        Library("bilinear_resize", (1, 64, 200, 200, 100, 100)),
        lane_operations=64 * 100 * 100 * 6.0,
        out=False,
    )
    yield Case(
        "max pool 3x3/2 64x112x112",
        "other",
        [f32(rng, 1, 64, 112, 112)],
        max_pool,
        lambda t, x, out: t.nn.functional.max_pool2d(x[0], 3, 2, 1),
        lambda j, x: j.lax.reduce_window(
            x[0], -math.inf, j.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))
        ),
        Library("max_pool", (1, 64, 112, 112, 3, 2, 1)),
        lane_operations=64 * 56 * 56 * 9.0,
        out=False,
    )


topics = (transposes, gathers, windows)
