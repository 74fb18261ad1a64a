"""Folds, their places, statistics, scans and norms, over every axis of odd shapes."""

import torch

import lathe

from .form import Form, name_of, normal, positive, typed

KIND = "reduction"
F = torch.nn.functional
SHAPES = (7, 1000), (1000, 7), (513, 777), (64, 100, 50), (32, 33, 34, 35), (5000, 16), (2, 4096), (1000, 3)
DTYPES = torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64
# Lathe's name, PyTorch's, and whether its call takes out=.
FOLDS = (("sum", torch.sum), ("max", torch.amax), ("argmax", torch.argmax))


def label(shape):
    return "x".join(map(str, shape))


def axes(rng):
    for shape in SHAPES:
        x = normal(rng, *shape)
        for axis in range(len(shape)):
            for name, theirs in FOLDS:
                yield Form(
                    f"{name} {label(shape)} axis {axis}",
                    KIND,
                    [x],
                    lambda x, n=name, axis=axis: getattr(lathe, n)(x, axis=axis),
                    lambda x, out, f=theirs, axis=axis: f(x, axis, out=out),
                )
        yield Form(
            f"var {label(shape)}",
            KIND,
            [x],
            lambda x: lathe.var(x, axis=-1),
            lambda x, out: torch.var(x, -1, correction=0, out=out),
        )
        yield Form(
            f"std {label(shape)} axis 0",
            KIND,
            [x],
            lambda x: lathe.std(x, axis=0),
            lambda x, out: torch.std(x, 0, correction=0, out=out),
        )


def several_axes(rng):
    for shape, over in (
        ((8, 50, 28, 28), (2, 3)),
        ((8, 50, 28, 28), (0, 2, 3)),
        ((20, 30, 40), (0, 2)),
        ((20, 30, 40), (0, 1)),
        ((300, 777), (0, 1)),
        ((5, 7, 11, 13, 17), (1, 3)),
    ):
        x = normal(rng, *shape)
        text = f"{label(shape)} axes {','.join(map(str, over))}"
        for name, theirs in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax)):
            yield Form(
                f"{name} {text}",
                KIND,
                [x],
                lambda x, n=name, over=over: getattr(lathe, n)(x, axis=over),
                lambda x, out, f=theirs, over=over: f(x, over, out=out),
            )
        yield Form(
            f"var {text}",
            KIND,
            [x],
            lambda x, over=over: lathe.var(x, axis=over),
            lambda x, out, over=over: torch.var(x, over, correction=0, out=out),
        )
    x = normal(rng, 300, 777)
    yield Form(
        "sum keepdims", KIND, [x], lambda x: lathe.sum(x, axis=1, keepdims=True), lambda x: x.sum(1, keepdim=True)
    )
    yield Form("argmax of all", KIND, [x], lambda x: lathe.argmax(x), lambda x: x.argmax())
    yield Form("argmin rows", KIND, [x], lambda x: lathe.argmin(x, axis=1), lambda x: x.argmin(1))
    yield Form("prod rows", KIND, [x], lambda x: lathe.prod(x, axis=1), lambda x: x.prod(1))
    yield Form(
        "max and argmax",
        KIND,
        [x],
        lambda x: (lathe.max(x, axis=1), lathe.argmax(x, axis=1)),
        lambda x: tuple(x.max(1)),
    )
    yield Form(
        "min and max",
        KIND,
        [x],
        lambda x: (lathe.min(x, axis=1), lathe.max(x, axis=1)),
        lambda x: tuple(torch.aminmax(x, dim=1)),
    )
    for count in (100, 5000, 40000, 1 << 20):
        y = normal(rng, count)
        yield Form(f"sum {count}", KIND, [y], lambda x: lathe.sum(x), lambda x: x.sum())
        yield Form(f"max {count}", KIND, [y], lambda x: lathe.max(x), lambda x: x.amax())
        yield Form(f"mean {count}", KIND, [y], lambda x: lathe.mean(x), lambda x: x.mean())


def dtypes(rng):
    for dtype in DTYPES:
        x, name = typed(rng, dtype, 300, 777), name_of(dtype)
        for axis in (0, 1):
            yield Form(
                f"sum {name} axis {axis}", KIND, [x], lambda x, a=axis: lathe.sum(x, axis=a), lambda x, a=axis: x.sum(a)
            )
            yield Form(
                f"max {name} axis {axis}",
                KIND,
                [x],
                lambda x, a=axis: lathe.max(x, axis=a),
                lambda x, a=axis: x.amax(a),
            )
        yield Form(f"argmax {name}", KIND, [x], lambda x: lathe.argmax(x, axis=1), lambda x: x.argmax(1))
    flags = typed(rng, torch.bool, 300, 777)
    for axis in (0, 1, None):
        for name in ("any", "all"):
            yield Form(
                f"{name} axis {axis}",
                KIND,
                [flags if name == "all" else flags & False],
                lambda x, n=name, a=axis: getattr(lathe, n)(x, axis=a),
                lambda x, n=name, a=axis: getattr(x, n)() if a is None else getattr(x, n)(a),
            )
    x = normal(rng, 300, 777)
    yield Form(
        "count above",
        KIND,
        [x],
        lambda x: lathe.sum(lathe.astype(x > 1.0, lathe.int32), axis=1),
        lambda x: (x > 1.0).sum(1),
    )
    yield Form("any above", KIND, [x], lambda x: lathe.any(x > 9.0, axis=1), lambda x: (x > 9.0).any(1))


def views(rng):
    x = normal(rng, 700, 900)
    for name, view in (
        ("transposed", x.T),
        ("every second column", x[:, ::2]),
        ("every second row", x[::2]),
        ("a block", x[5:605, 3:803]),
    ):
        for axis in (0, 1):
            yield Form(
                f"sum of {name} axis {axis}",
                KIND,
                [view],
                lambda x, a=axis: lathe.sum(x, axis=a),
                lambda x, out, a=axis: torch.sum(x, a, out=out),
            )
        yield Form(f"softmax of {name}", KIND, [view], lathe.softmax, lambda x, out: torch.softmax(x, -1, out=out))
    y = normal(rng, 4, 64, 28, 28).to(memory_format=torch.channels_last)
    yield Form("mean of channels last", KIND, [y], lambda x: lathe.mean(x, axis=(2, 3)), lambda x: x.mean((2, 3)))


def scans(rng):
    for shape in ((300, 777), (1000, 33), (5, 100000), (100000,), (3000, 7), (20, 30, 40)):
        x = normal(rng, *shape)
        for axis in range(len(shape)):
            yield Form(
                f"cumsum {label(shape)} axis {axis}",
                KIND,
                [x],
                lambda x, a=axis: lathe.cumulative_sum(x, axis=a),
                lambda x, out, a=axis: torch.cumsum(x, a, out=out),
            )
    x = normal(rng, 300, 777)
    yield Form(
        "cumprod 300x777",
        KIND,
        [x * 0.01 + 1],
        lambda x: lathe.cumulative_prod(x, axis=1),
        lambda x, out: torch.cumprod(x, 1, out=out),
    )
    for dtype in (torch.int32, torch.int64, torch.float64, torch.bfloat16):
        yield Form(
            f"cumsum {name_of(dtype)}",
            KIND,
            [typed(rng, dtype, 300, 777)],
            lambda x: lathe.cumulative_sum(x, axis=1),
            lambda x: x.cumsum(1),
        )


def softmaxes(rng):
    for shape in (*SHAPES, (3, 50257), (12, 8, 65, 65)):
        x = normal(rng, *shape)
        for axis in range(len(shape)):
            yield Form(
                f"softmax {label(shape)} axis {axis}",
                KIND,
                [x],
                lambda x, a=axis: lathe.softmax(x, axis=a),
                lambda x, out, a=axis: torch.softmax(x, a, out=out),
            )
        yield Form(
            f"log_softmax {label(shape)}",
            KIND,
            [x],
            lathe.log_softmax,
            lambda x, out: torch.log_softmax(x, -1, out=out),
        )
    x, mask = normal(rng, 300, 777), typed(rng, torch.bool, 300, 777)
    yield Form(
        "masked softmax",
        KIND,
        [x, mask],
        lambda x, m: lathe.softmax(lathe.where(m, x, -1e9)),
        lambda x, m: torch.where(m, x, -1e9).softmax(-1),
    )
    yield Form("logsumexp 1000x33", KIND, [normal(rng, 1000, 33)], lambda x: lathe.logsumexp(x, axis=-1),
               lambda x: torch.logsumexp(x, -1))  # fmt: skip
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        yield Form(f"softmax {name_of(dtype)}", KIND, [x.to(dtype)], lathe.softmax, lambda x: x.softmax(-1))
    target = torch.from_numpy(rng.integers(0, 777, 300))
    yield Form(
        "cross entropy 300x777",
        KIND,
        [x, target],
        lambda x, t: lathe.mean(
            lathe.logsumexp(x, axis=-1) - lathe.take_along_axis(x, lathe.expand_dims(t, 1), axis=1)[:, 0]
        ),
        F.cross_entropy,
    )
    yield Form(
        "kl divergence",
        KIND,
        [x, normal(rng, 300, 777)],
        lambda p, q: lathe.sum(lathe.softmax(p) * (lathe.log_softmax(p) - lathe.log_softmax(q)), axis=-1),
        lambda p, q: (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1),
    )


def norms(rng):
    for shape in ((7, 1000), (1000, 7), (513, 777), (64, 100, 50), (300, 64), (17, 5000)):
        x, w, b = normal(rng, *shape), normal(rng, shape[-1]), normal(rng, shape[-1])
        yield Form(
            f"layer_norm {label(shape)}",
            KIND,
            [x, w, b],
            lambda x, w, b: lathe.layer_norm(x, w, b),
            lambda x, w, b: F.layer_norm(x, w.shape, w, b),
        )
        yield Form(
            f"rms_norm {label(shape)}",
            KIND,
            [x, w],
            lambda x, w: lathe.rms_norm(x, w),
            lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
        )
    x = normal(rng, 4, 64, 28, 28)
    w, b, m, v = normal(rng, 64), normal(rng, 64), normal(rng, 64), positive(rng, 64)

    def across(t):
        return lathe.reshape(t, (-1, 1, 1))

    yield Form(
        "batch norm, inference",
        "element-wise",
        [x, m, v, w, b],
        lambda x, m, v, w, b: (x - across(m)) / lathe.sqrt(across(v) + 1e-5) * across(w) + across(b),
        F.batch_norm,
    )
    yield Form(
        "batch norm, training",
        KIND,
        [x, w, b],
        lambda x, w, b: lathe.layer_norm(x, across(w), across(b), axis=(0, 2, 3)),
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    )
    yield Form(
        "instance norm",
        KIND,
        [x, w, b],
        lambda x, w, b: lathe.layer_norm(x, across(w), across(b), axis=(2, 3)),
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    )
    yield Form(
        "group norm 8",
        KIND,
        [x, w, b],
        lambda x, w, b: (
            lathe.reshape(lathe.layer_norm(lathe.reshape(x, (4, 8, -1))), (4, 64, 28, 28)) * across(w) + across(b)
        ),
        lambda x, w, b: F.group_norm(x, 8, w, b),
    )
    y = normal(rng, 1000, 100)
    yield Form(
        "l2 normalize",
        KIND,
        [y],
        lambda x: x / lathe.sqrt(lathe.sum(x * x, axis=-1, keepdims=True)),
        lambda x: F.normalize(x, dim=-1),
    )
    yield Form(
        "standardize columns",
        KIND,
        [y],
        lambda x: (x - lathe.mean(x, axis=0)) / lathe.std(x, axis=0),
        lambda x: (x - x.mean(0)) / x.std(0, correction=0),
    )


def losses(rng):
    a, b = normal(rng, 300, 777), normal(rng, 300, 777)
    yield Form("mean squared error", KIND, [a, b], lambda a, b: lathe.mean((a - b) ** 2), F.mse_loss)
    yield Form("mean absolute error", KIND, [a, b], lambda a, b: lathe.mean(lathe.abs(a - b)), F.l1_loss)
    yield Form(
        "cosine similarity",
        KIND,
        [a, b],
        lambda a, b: (
            lathe.sum(a * b, axis=-1) / (lathe.sqrt(lathe.sum(a * a, axis=-1)) * lathe.sqrt(lathe.sum(b * b, axis=-1)))
        ),
        lambda a, b: F.cosine_similarity(a, b, dim=-1),
    )
    yield Form("vecdot 300x777", KIND, [a, b], lathe.vecdot, lambda a, b: torch.linalg.vecdot(a, b))
    yield Form(
        "euclidean distances",
        KIND,
        [a, b],
        lambda a, b: lathe.sqrt(lathe.sum((a - b) ** 2, axis=-1)),
        lambda a, b: F.pairwise_distance(a, b, eps=0.0),
    )


def crossed(rng):
    """Operands that lie across each other."""
    for rows, columns in ((300, 300), (65, 1000), (1000, 1200)):
        a, b = normal(rng, rows, columns), normal(rng, columns, rows)
        name = f"{rows}x{columns} beside its transpose"
        yield Form(
            f"trace of a product {name}", KIND, [a, b], lambda a, b: lathe.sum(a * b.T), lambda a, b: (a * b.T).sum()
        )
        yield Form(
            f"greatest difference {name}",
            KIND,
            [a, b],
            lambda a, b: lathe.max(lathe.abs(a - b.T)),
            lambda a, b: (a - b.T).abs().max(),
        )
        yield Form(
            f"argmax {name}", KIND, [a, b], lambda a, b: lathe.argmax(a + b.T, axis=1), lambda a, b: (a + b.T).argmax(1)
        )
        yield Form(
            f"softmax {name}", KIND, [a, b], lambda a, b: lathe.softmax(a + b.T), lambda a, b: (a + b.T).softmax(-1)
        )
        yield Form(
            f"running sums {name}",
            KIND,
            [a, b],
            lambda a, b: lathe.cumulative_sum(a + b.T, axis=1),
            lambda a, b: (a + b.T).cumsum(1),
        )


topics = (axes, several_axes, dtypes, views, scans, softmaxes, norms, losses, crossed)
