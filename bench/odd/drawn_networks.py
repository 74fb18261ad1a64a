"""Layers of networks with what follows them: convolutions of one to three dimensions and products, then activations, pools, norms
and reductions, one to four of them."""

import math

import torch
from suite.convolutions import convolution, extent

import lathe

from .drawing import pick
from .form import Form, normal, positive
from .written import standardized

F = torch.nn.functional


def extents_of(size, taps, stride, pad, dilation):
    return tuple(extent(s, t, stride, pad, dilation) for s, t in zip(size, taps, strict=True))


def padded(x, pad, value=0.0):
    return lathe.pad(x, [(0, 0), (0, 0), *[(pad, pad)] * (len(x.shape) - 2)], value=value) if pad else x


def transposed(x, w, stride, pad, dilation):
    """Every output sums the elements that reach it."""
    channels, filters, *taps = w.shape
    size = x.shape[2:]
    out = tuple((s - 1) * stride - 2 * pad + dilation * (t - 1) + 1 for s, t in zip(size, taps, strict=True))

    def term(b, f, at, c, by):
        reaches, places = True, []
        for o, t, s in zip(at, by, size, strict=True):
            q = o + pad - t * dilation
            reaches = (q % stride == 0) & (q >= 0) & (q <= (s - 1) * stride) & reaches
            places.append(lathe.clip(q // stride, 0, s - 1))
        return lathe.select(reaches, x[(b, c, *places)], 0.0) * w[(c, f, *by)]

    return lathe.compute(
        (x.shape[0], filters, *out),
        lambda b, f, *at: lathe.reduce("sum", (channels, *taps), lambda c, *by: term(b, f, at, c, by)),
    )


def pooled(x, side, stride, pad, op):
    rank = len(x.shape) - 2
    out = extents_of(x.shape[2:], (side,) * rank, stride, pad, 1)
    x = padded(x, pad, -math.inf if op == "max" else 0.0)
    return lathe.compute(
        (*x.shape[:2], *out),
        lambda b, c, *at: lathe.reduce(
            op, (side,) * rank, lambda *by: x[(b, c, *(o * stride + t for o, t in zip(at, by, strict=True)))]
        ),
    )


def grouped(x, groups):
    b, c, *size = x.shape
    axes = tuple(range(2, 3 + len(size)))
    return standardized(x.reshape((b, groups, c // groups, *size)), axes).reshape(x.shape)


def mish(x):
    return x * lathe.tanh(lathe.softplus(x))


def shaped(parameter, x):
    """One of each channel."""
    return parameter.reshape((1, -1, *(1,) * (len(x.shape) - 2)))


ACTIVATIONS = (
    ("relu", lathe.relu, torch.relu),
    ("leaky relu", lambda x: lathe.where(x > 0, x, x * 0.01), F.leaky_relu),
    ("gelu", lathe.gelu, F.gelu),
    ("silu", lathe.silu, F.silu),
    ("mish", mish, F.mish),
    ("hardswish", lambda x: x * lathe.clip(x + 3.0, 0.0, 6.0) * (1.0 / 6.0), F.hardswish),
    ("tanh", lathe.tanh, torch.tanh),
    ("sigmoid", lathe.sigmoid, torch.sigmoid),
    ("clip", lambda x: lathe.clip(x, -1.0, 1.0), lambda x: x.clamp(-1.0, 1.0)),
    ("scale", lambda x: (x - 0.5) * 2.0, lambda x: (x - 0.5) * 2.0),
)


def draw_layer(rng):
    """Its name, inputs, both functions, and the shape of what comes out."""
    batch, channels, filters = (
        pick(rng, (1, 2, 8)),
        pick(rng, (3, 8, 16, 32, 64, 96)),
        pick(rng, (8, 16, 24, 32, 64, 128)),
    )
    kind = pick(rng, ("linear", "conv", "conv", "conv", "transposed"))
    if kind == "linear":
        rows, depth = pick(rng, (16, 64, 128, 200)), pick(rng, (64, 200, 512))
        inputs = [normal(rng, rows, depth), normal(rng, filters, depth) * depth**-0.5]
        name = f"linear {rows}x{filters}x{depth}"
        return name, inputs, lambda x, w: lathe.matmul(x, lathe.matrix_transpose(w)), F.linear, (rows, filters)
    rank = pick(rng, (1, 2, 2, 2, 3))
    size = tuple(pick(rng, ((40, 100, 128), (7, 14, 19, 28), (5, 8, 12))[rank - 1]) for _ in range(rank))
    taps = tuple(pick(rng, (1, 3, 3, 5)) for _ in range(rank))
    stride, pad, dilation = pick(rng, (1, 1, 2)), pick(rng, (0, 1, 2)), pick(rng, (1, 1, 1, 2))
    groups = pick(rng, (1, 1, 1, 4, channels)) if kind == "conv" and channels % 8 == 0 else 1
    filters = -(-filters // groups) * groups
    how = dict(stride=stride, pad=pad, dilation=dilation)
    theirs = dict(stride=stride, padding=pad, dilation=dilation)
    reach = math.prod(taps) * channels / groups
    name = f"{kind} {batch}x{channels}-{filters} {taps}/{stride} at {size}, pad {pad}, dilation {dilation}"
    x = normal(rng, batch, channels, *size)
    if kind == "conv":
        function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        w = normal(rng, filters, channels // groups, *taps) * reach**-0.5
        return (
            f"{name}, groups {groups}",
            [x, w],
            lambda x, w: convolution(x, w, groups=groups, **how),
            lambda x, w: function(x, w, groups=groups, **theirs),
            (batch, filters, *extents_of(size, taps, **how)),
        )
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    w = normal(rng, channels, filters, *taps) * reach**-0.5
    out = tuple((s - 1) * stride - 2 * pad + dilation * (t - 1) + 1 for s, t in zip(size, taps, strict=True))
    return (
        name,
        [x, w],
        lambda x, w: transposed(x, w, **how),
        lambda x, w: function(x, w, **theirs),
        (batch, filters, *out),
    )


def draw_step(rng, shape):
    """The same of what follows: functions of the tensor, and of a parameter where there is one."""
    rank, axes = len(shape) - 2, tuple(range(2, len(shape)))
    kind = pick(
        rng, ("activation", "activation", "activation", "bias", "residual", "pool", "norm", "softmax", "reduction")
    )
    if kind == "activation":
        name, own, theirs = pick(rng, ACTIVATIONS)
        return name, [], own, theirs, shape
    if kind == "bias":
        own = lambda x, b: x + shaped(b, x)  # noqa: E731
        return "bias", [normal(rng, shape[1])], own, own, shape
    if kind == "residual":
        return "residual", [normal(rng, *shape)], lambda x, y: x + y, lambda x, y: x + y, shape
    if kind == "pool" and rank > 0:
        side, stride, pad = pick(rng, ((2, 2, 0), (3, 2, 1), (3, 1, 0)))
        if min(shape[2:]) < 3:
            return None
        out = (*shape[:2], *extents_of(shape[2:], (side,) * rank, stride, pad, 1))
        if rng.random() < 0.5:
            most = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
            own = lambda x: pooled(x, side, stride, pad, "max")  # noqa: E731
            return f"max pool {side}/{stride}", [], own, lambda x: most(x, side, stride, pad), out
        mean = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
        own = lambda x: pooled(x, side, stride, pad, "sum") * side**-rank  # noqa: E731
        return f"average pool {side}/{stride}", [], own, lambda x: mean(x, side, stride, pad), out
    if kind == "norm":
        groups = pick(rng, (4, 8))
        over = pick(rng, ("batch", "instance", "group", "rms"))
        if over == "batch" and math.prod((shape[0], *shape[2:])) > 1:
            own = lambda x: standardized(x, (0, *axes))  # noqa: E731
            return "batch norm", [], own, lambda x: F.batch_norm(x, None, None, training=True), shape
        if over == "instance" and math.prod(shape[2:]) > 1:
            return "instance norm", [], lambda x: standardized(x, axes), F.instance_norm, shape
        if over == "group" and shape[1] % groups == 0 and math.prod(shape[2:]) * shape[1] > groups:
            return f"group norm {groups}", [], lambda x: grouped(x, groups), lambda x: F.group_norm(x, groups), shape
        own = lambda x, w: x * lathe.rsqrt(lathe.mean(x * x, axis=1, keepdims=True) + 1e-5) * shaped(w, x)  # noqa: E731
        theirs = lambda x, w: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * shaped(w, x)  # noqa: E731
        return "rms norm", [positive(rng, shape[1])], own, theirs, shape
    if kind == "softmax":
        return "softmax", [], lambda x: lathe.softmax(x, axis=1), lambda x: x.softmax(1), shape
    if kind == "reduction":
        name, own, theirs = pick(
            rng,
            (
                (
                    "logsumexp",
                    lambda x, a: lathe.logsumexp(x, axis=a, keepdims=True),
                    lambda x, a: x.logsumexp(a, True),
                ),
                ("least", lambda x, a: lathe.min(x, axis=a, keepdims=True), lambda x, a: x.amin(a, True)),
                ("mean", lambda x, a: lathe.mean(x, axis=a, keepdims=True), lambda x, a: x.mean(a, True)),
            ),
        )
        over = axes if rank > 0 and rng.random() < 0.5 else (1,)
        out = tuple(1 if d in over else s for d, s in enumerate(shape))
        return f"{name} over {over}", [], lambda x: own(x, over), lambda x: theirs(x, over), out
    return None


def networks(rng):
    """The first argument of every step is what came before; the others follow the layer's, in order."""
    while True:
        name, inputs, own, theirs, shape = draw_layer(rng)
        work = (
            2.0 * math.prod(shape) * math.prod(inputs[1].shape) / inputs[1].shape[0 if "transposed" not in name else 1]
        )
        if min(shape) < 1 or not 1e5 < work < 4e8:
            continue
        steps = []
        for _ in range(int(rng.integers(1, 5))):
            step = draw_step(rng, shape)
            if step:
                shape = step[-1]
                steps.append((step, len(inputs)))
                inputs = inputs + step[1]

        def run(layer, which, *given, steps=tuple(steps)):
            y = layer(*given[:2])
            for step, first in steps:
                y = step[which](y, *given[first : first + len(step[1])])
            return y

        names = " + ".join([name] + [step[0] for step, _ in steps])
        yield Form(
            names,
            "convolution",
            inputs,
            lambda *given, own=own, run=run: run(own, 2, *given),
            lambda *given, theirs=theirs, run=run: run(theirs, 3, *given),
        )
