"""Elements that change places: permutes, joins, gathers, windows, resizing."""

import math

import torch
from suite.movement import max_pool, resize

import lathe

from .form import Form, indices, name_of, normal, tensor, typed

KIND = "element-wise"
F = torch.nn.functional


def permutes(rng):
    for shape, order in (
        ((1001, 1003), (1, 0)),
        ((512, 512), (1, 0)),
        ((2048, 1024), (1, 0)),
        ((1000, 3), (1, 0)),
        ((3, 1000), (1, 0)),
        ((4, 1000, 3), (0, 2, 1)),
        ((64, 100, 50), (2, 1, 0)),
        ((64, 100, 50), (0, 2, 1)),
        ((64, 100, 50), (1, 0, 2)),
        ((32, 33, 34, 35), (3, 1, 2, 0)),
        ((32, 33, 34, 35), (0, 2, 3, 1)),
        ((8, 128, 12, 64), (0, 2, 1, 3)),
        ((8, 12, 128, 64), (0, 1, 3, 2)),
        ((1, 3, 224, 224), (0, 2, 3, 1)),
        ((1, 224, 224, 3), (0, 3, 1, 2)),
        ((4, 56, 56, 64), (0, 3, 1, 2)),
        ((2, 256, 14, 14), (0, 2, 3, 1)),
    ):
        yield Form(
            f"permute {'x'.join(map(str, shape))} to {''.join(map(str, order))}",
            KIND,
            [normal(rng, *shape)],
            lambda x, order=order: lathe.positive(lathe.permute_dims(x, order)),
            lambda x, out, order=order: out.copy_(x.permute(order)),
        )
    for dtype in (torch.float16, torch.float64, torch.int8, torch.int32, torch.int64):
        yield Form(
            f"transpose {name_of(dtype)}",
            KIND,
            [typed(rng, dtype, 700, 900)],
            lambda x: lathe.positive(lathe.matrix_transpose(x)),
            lambda x, out: out.copy_(x.T),
        )


def joins(rng):
    a, b, c = normal(rng, 512, 300), normal(rng, 512, 77), normal(rng, 77, 300)
    yield Form(
        "concat last", KIND, [a, b], lambda a, b: lathe.concat([a, b], axis=-1), lambda a, b: torch.cat([a, b], -1)
    )
    yield Form("concat first", KIND, [a, c], lambda a, b: lathe.concat([a, b], axis=0), lambda a, b: torch.cat([a, b]))
    parts = [normal(rng, 4, n, 28, 28) for n in (16, 8, 24, 8)]
    yield Form("concat channels", KIND, parts, lambda *x: lathe.concat(x, axis=1), lambda *x: torch.cat(x, 1))
    same = [normal(rng, 300, 400) for _ in range(3)]
    for axis in (0, 1, 2):
        yield Form(
            f"stack axis {axis}",
            KIND,
            same,
            lambda x, y, z, a=axis: lathe.stack([x, y, z], axis=a),
            lambda x, y, z, a=axis: torch.stack([x, y, z], a),
        )
    x = normal(rng, 300, 768)
    yield Form(
        "split in 3",
        KIND,
        [x],
        lambda x: tuple(lathe.positive(part) for part in lathe.split(x, 3, axis=1)),
        lambda x: tuple(part.clone() for part in x.split(256, 1)),
    )
    yield Form(
        "split and multiply",
        KIND,
        [x],
        lambda x: lathe.silu(x[:, :384]) * x[:, 384:],
        lambda x: F.silu(x[:, :384]) * x[:, 384:],
    )
    y = normal(rng, 8, 50, 28, 28)
    yield Form(
        "pad 1", KIND, [y], lambda x: lathe.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]), lambda x: F.pad(x, (1, 1, 1, 1))
    )
    yield Form("pad rows", KIND, [x], lambda x: lathe.pad(x, [(3, 2), (0, 0)]), lambda x: F.pad(x, (0, 0, 3, 2)))
    yield Form("pad columns", KIND, [x], lambda x: lathe.pad(x, [(0, 0), (5, 7)]), lambda x: F.pad(x, (5, 7)))
    yield Form(
        "tile 3x2",
        KIND,
        [normal(rng, 200, 150)],
        lambda x: lathe.compute((600, 300), lambda i, j: x[i % 200, j % 150]),
        lambda x: x.tile(3, 2),
    )
    yield Form(
        "repeat each 4 times",
        KIND,
        [normal(rng, 200, 150)],
        lambda x: lathe.compute((200, 600), lambda i, j: x[i, j // 4]),
        lambda x: x.repeat_interleave(4, 1),
    )


def moves(rng):
    x = normal(rng, 777, 555)
    for axis in (0, 1):
        yield Form(f"flip axis {axis}", KIND, [x], lambda x, a=axis: lathe.positive(lathe.flip(x, axis=a)),
                   lambda x, a=axis: x.flip(a))  # fmt: skip
        yield Form(
            f"roll axis {axis}", KIND, [x], lambda x, a=axis: lathe.roll(x, 5, axis=a), lambda x, a=axis: x.roll(5, a)
        )
    yield Form("roll both", KIND, [x], lambda x: lathe.roll(x, (3, -7), axis=(0, 1)), lambda x: x.roll((3, -7), (0, 1)))
    yield Form("tril", KIND, [x], lathe.tril, torch.tril)
    yield Form("triu 3", KIND, [x], lambda x: lathe.triu(x, 3), lambda x: x.triu(3))
    yield Form(
        "diagonal", KIND, [x], lambda x: lathe.compute((555,), lambda i: x[i, i]), lambda x: x.diagonal().clone()
    )
    yield Form(
        "pixel shuffle 2",
        KIND,
        [normal(rng, 2, 64, 40, 40)],
        lambda x: lathe.reshape(
            lathe.permute_dims(lathe.reshape(x, (2, 16, 2, 2, 40, 40)), (0, 1, 4, 2, 5, 3)), (2, 16, 80, 80)
        ),
        lambda x: F.pixel_shuffle(x, 2),
    )
    yield Form(
        "patches 16",
        KIND,
        [normal(rng, 2, 3, 224, 224)],
        lambda x: lathe.reshape(
            lathe.permute_dims(lathe.reshape(x, (2, 3, 14, 16, 14, 16)), (0, 2, 4, 1, 3, 5)), (2, 196, 768)
        ),
        lambda x: x.reshape(2, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(2, 196, 768),
    )
    yield Form(
        "channel shuffle 4",
        KIND,
        [normal(rng, 2, 64, 28, 28)],
        lambda x: lathe.reshape(
            lathe.permute_dims(lathe.reshape(x, (2, 4, 16, 28, 28)), (0, 2, 1, 3, 4)), (2, 64, 28, 28)
        ),
        lambda x: F.channel_shuffle(x, 4),
    )
    yield Form(
        "unfold 3x3",
        KIND,
        [normal(rng, 1, 16, 30, 30)],
        lambda x: lathe.compute((16, 3, 3, 28, 28), lambda c, r, s, i, j: x[0, c, i + r, j + s]),
        lambda x: F.unfold(x, 3).reshape(16, 3, 3, 28, 28),
    )


def gathers(rng):
    table = normal(rng, 1000, 100)
    rows, columns = indices(rng, 1000, 5000), indices(rng, 1000, 3000)
    yield Form("take rows of 100", KIND, [table, rows], lambda a, i: lathe.take(a, i, axis=0),
               lambda a, i, out: torch.index_select(a, 0, i, out=out))  # fmt: skip
    yield Form("take columns", KIND, [table.T.contiguous(), columns], lambda a, i: lathe.take(a, i, axis=1),
               lambda a, i, out: torch.index_select(a, 1, i, out=out))  # fmt: skip
    yield Form("take of a vector", KIND, [normal(rng, 50000), indices(rng, 50000, 30000)],
               lambda a, i: lathe.take(a, i, axis=0), lambda a, i, out: torch.index_select(a, 0, i, out=out))  # fmt: skip
    for width in (3, 16, 33):
        yield Form(
            f"take rows of {width}",
            KIND,
            [normal(rng, 1000, width), rows],
            lambda a, i: lathe.take(a, i, axis=0),
            lambda a, i, out: torch.index_select(a, 0, i, out=out),
        )
    batch = indices(rng, 1000, 20, 128)
    yield Form(
        "embedding 20x128", KIND, [table, batch], lambda a, i: lathe.take(a, i, axis=0), lambda a, i: F.embedding(i, a)
    )
    yield Form(
        "embedding sum of 20",
        "reduction",
        [table, indices(rng, 1000, 300, 20)],
        lambda a, i: lathe.sum(lathe.take(a, i, axis=0), axis=1),
        lambda a, i: F.embedding_bag(i, a, mode="sum"),
    )
    x = normal(rng, 300, 777)
    for axis in (0, 1):
        yield Form(
            f"take along axis {axis}",
            KIND,
            [x, indices(rng, 300, 300, 777)],
            lambda x, i, a=axis: lathe.take_along_axis(x, i, axis=a),
            lambda x, i, out, a=axis: torch.gather(x, a, i, out=out),
        )
    yield Form(
        "one hot 1000x50",
        KIND,
        [indices(rng, 50, 1000)],
        lambda i: lathe.one_hot(i, 50),
        lambda i: F.one_hot(i, 50),
    )
    yield Form("lookup of bytes", KIND, [normal(rng, 256), tensor(rng.integers(0, 256, (300, 777)))],
               lambda a, i: lathe.take(a, i, axis=0), lambda a, i: a[i])  # fmt: skip


def average_pool(x, size, stride):
    n, c, height, width = x.shape
    sums = lathe.compute(
        (n, c, (height - size) // stride + 1, (width - size) // stride + 1),
        lambda b, f, i, j: lathe.reduce("sum", (size, size), lambda r, s: x[b, f, stride * i + r, stride * j + s]),
    )
    return sums * (1.0 / size**2)


def windows(rng):
    for side, size, stride, pad in (
        (112, 3, 2, 1),
        (57, 3, 2, 0),
        (56, 2, 2, 0),
        (29, 3, 1, 1),
        (30, 5, 3, 2),
        (14, 7, 7, 0),
    ):
        x = normal(rng, 2, 32, side, side)
        yield Form(
            f"max pool {size}x{size}/{stride} at {side}",
            "reduction",
            [x],
            lambda x, a=(size, stride, pad): max_pool(x, *a),
            lambda x, a=(size, stride, pad): F.max_pool2d(x, *a),
        )
    for side, size, stride in ((56, 2, 2), (57, 3, 2), (29, 3, 1), (30, 5, 3), (14, 7, 7)):
        x = normal(rng, 2, 32, side, side)
        yield Form(
            f"average pool {size}x{size}/{stride} at {side}",
            "reduction",
            [x],
            lambda x, a=(size, stride): average_pool(x, *a),
            lambda x, a=(size, stride): F.avg_pool2d(x, *a),
        )
    yield Form(
        "average pool 1d 4/4",
        "reduction",
        [normal(rng, 20, 30, 400)],
        lambda x: lathe.mean(lathe.reshape(x, (20, 30, 100, 4)), axis=-1),
        lambda x: F.avg_pool1d(x, 4),
    )
    yield Form(
        "global average pool",
        "reduction",
        [normal(rng, 8, 512, 7, 7)],
        lambda x: lathe.mean(x, axis=(2, 3)),
        lambda x: F.adaptive_avg_pool2d(x, 1)[:, :, 0, 0],
    )


def nearest(x, rows, columns):
    n, c, height, width = x.shape
    return lathe.compute((n, c, rows, columns), lambda b, f, i, j: x[b, f, i * height // rows, j * width // columns])


def resizes(rng):
    for side, to in ((200, 100), (50, 100), (100, 133), (133, 100), (64, 224), (7, 14)):
        x = normal(rng, 1, 32, side, side)
        yield Form(
            f"bilinear {side} to {to}",
            KIND,
            [x],
            lambda x, to=to: resize(x, to, to),
            lambda x, to=to: F.interpolate(x, size=(to, to), mode="bilinear", align_corners=False),
        )
        if math.gcd(side, to) > 1:  # PyTorch's rounds the scale to a float
            yield Form(
                f"nearest {side} to {to}",
                KIND,
                [x],
                lambda x, to=to: nearest(x, to, to),
                lambda x, to=to: F.interpolate(x, size=(to, to), mode="nearest"),
            )


topics = (permutes, joins, moves, gathers, windows, resizes)
