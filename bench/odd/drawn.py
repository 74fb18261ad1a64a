"""Forms drawn by a seed: what models ask for, at shapes, options and dtypes that nobody chose.

./dev bench sweep --drawn 7 --count 25      25 forms of each topic
"""

import math

import numpy as np
import torch
from suite.contractions import attention
from suite.convolutions import convolution, transposed_convolution
from suite.movement import max_pool

import lathe

from . import drawn_chains, drawn_networks, drawn_views
from .drawing import box, extent, pick, times
from .form import Form, name_of, normal, positive, tensor, typed
from .movement import average_pool

F = torch.nn.functional
CHANNELS = (3, 8, 16, 24, 32, 40, 64, 80, 96, 128, 160, 192, 256, 320, 480, 512, 960)
SIDES = (7, 10, 14, 17, 20, 28, 32, 40, 56, 64, 80, 112, 160)
WIDTHS = (16, 32, 40, 64, 80, 96, 128)
LENGTHS = (16, 49, 64, 77, 100, 128, 197, 256, 300, 384, 512, 577, 1000, 1024)
NARROW = (torch.bfloat16, torch.float16)
turned = lathe.matrix_transpose


def convolutions(rng):
    while True:
        size, taps, stride, dilation = pick(rng, SIDES), pick(rng, (1, 1, 3, 3, 3, 5, 7)), pick(rng, (1, 1, 1, 2)), 1
        if stride == 1 and taps > 1:
            dilation = pick(rng, (1, 1, 1, 1, 2, 3))
        groups, batch = pick(rng, (1, 1, 1, 1, 2, 4, 32, "depthwise")), pick(rng, (1, 1, 1, 4, 8))
        channels, filters = pick(rng, CHANNELS), pick(rng, CHANNELS)
        if groups == "depthwise":
            groups = filters = channels
        pad = pick(rng, (0, dilation * (taps - 1) // 2))
        side = (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
        work = 2 * batch * filters * side**2 * (channels // groups) * taps**2
        if channels % groups or filters % groups or side < 1 or not 1e5 < work < 6e8:
            continue
        dtype = pick(rng, (torch.float32, torch.float32, torch.float32, torch.float64, *NARROW))
        x, w = (
            typed(rng, dtype, batch, channels, size, size),
            typed(rng, dtype, filters, channels // groups, taps, taps),
        )
        last = rng.random() < 0.25
        if last:
            x = x.to(memory_format=torch.channels_last)
        options = {"stride": stride, "dilation": dilation, "groups": groups}
        yield Form(
            f"conv {name_of(dtype)} {batch}x{channels}-{filters} {taps}x{taps}/{stride} at {size}, dilation {dilation}, "
            f"groups {groups}, pad {pad}{', channels last' * last}",
            "convolution",
            [x, w],
            lambda x, w, options=options, pad=pad: convolution(x, w, pad=pad, **options),
            lambda x, w, options=options, pad=pad: F.conv2d(x, w, padding=pad, **options),
        )


def transposed(rng):
    while True:
        channels, filters, size = (
            pick(rng, (16, 32, 64, 128)),
            pick(rng, (8, 16, 32, 64)),
            pick(rng, (7, 14, 16, 28, 32)),
        )
        taps, stride = pick(rng, (2, 3, 4, 5)), pick(rng, (1, 2, 2, 3))
        pad = pick(rng, (0, 1)) if taps > 2 else 0
        if not 0 <= taps - 1 - pad <= stride <= taps:
            continue
        yield Form(
            f"conv transposed {channels}-{filters} {taps}x{taps}/{stride} at {size}, pad {pad}",
            "convolution",
            [normal(rng, 1, channels, size, size), normal(rng, channels, filters, taps, taps)],
            lambda x, w, stride=stride, pad=pad: transposed_convolution(x, w, stride, pad),
            lambda x, w, stride=stride, pad=pad: F.conv_transpose2d(x, w, stride=stride, padding=pad),
        )


def products(rng):
    while True:
        m, n, k, batch = (
            extent(rng, 1, 3000),
            extent(rng, 1, 3000),
            extent(rng, 1, 3000),
            pick(rng, (1, 1, 1, 2, 12, 64)),
        )
        if not 1e4 < 2 * batch * m * n * k < 1e9 or batch * (m * k + n * k + m * n) > 2e7:
            continue
        dtype = pick(rng, (torch.float32, torch.float32, torch.float32, torch.float64, *NARROW))
        lead, layout = (batch,) if batch > 1 else (), pick(rng, ("nn", "nt", "tn", "own"))
        x = typed(rng, dtype, *lead, k, m).mT if layout == "tn" else typed(rng, dtype, *lead, m, k)
        if layout == "own":
            yield Form(
                f"matmul {name_of(dtype)} {batch}x{m}x{m}x{k} by its own",
                "gemm",
                [x],
                lambda x: lathe.matmul(turned(x), x),
                lambda x: torch.matmul(x.mT, x),
            )
            continue
        y = typed(rng, dtype, *lead, n, k).mT if layout == "nt" else typed(rng, dtype, *lead, k, n)
        yield Form(f"matmul {name_of(dtype)} {layout} {batch}x{m}x{n}x{k}", "gemm", [x, y], lathe.matmul, torch.matmul)


def layers(rng):
    """Few rows or many by weights as they are kept: plain, in 8 bits, in 4, in 16."""
    while True:
        m, n, k = pick(rng, (1, 4, 16, 64, 197)), extent(rng, 64, 2000), 8 * extent(rng, 8, 200)
        x, kept = normal(rng, m, k), pick(rng, ("f32", "f32", "bytes", "halves", "nibbles"))
        if kept == "f32":
            name, own, theirs = pick(
                rng,
                (("relu", lathe.relu, F.relu), ("gelu", lathe.gelu, F.gelu), ("sigmoid", lathe.sigmoid, F.sigmoid)),
            )
            yield Form(
                f"linear + {name} {m}x{n}x{k}",
                "gemm",
                [x, normal(rng, n, k), normal(rng, n)],
                lambda x, w, b, own=own: own(lathe.matmul(x, turned(w)) + b),
                lambda x, w, b, theirs=theirs: theirs(F.linear(x, w, b)),
            )
        elif kept == "nibbles":

            def unpacked(x, w, n=n, k=k):
                low, high = lathe.bitwise_and(w, 15), lathe.bitwise_right_shift(w, 4)
                whole = lathe.reshape(lathe.stack([low, high], axis=1), (k, n))
                return lathe.matmul(x, lathe.astype(whole, lathe.float32) - 8.0)

            yield Form(
                f"weights of 4 bits {m}x{n}x{k}",
                "gemm",
                [x, typed(rng, torch.uint8, k // 2, n)],
                unpacked,
                lambda x, w, n=n, k=k: x @ (torch.stack([w & 15, w >> 4], 1).view(k, n).float() - 8),
            )
        else:
            dtype = torch.int8 if kept == "bytes" else torch.bfloat16
            yield Form(
                f"weights of {name_of(dtype)} {m}x{n}x{k}",
                "gemm",
                [x, typed(rng, dtype, n, k), positive(rng, n)],
                lambda x, w, s: lathe.matmul(x, turned(lathe.astype(w, lathe.float32))) * s,
                lambda x, w, s: F.linear(x, w.float()) * s,
            )


def attentions(rng):
    while True:
        batch, heads, width = pick(rng, (1, 1, 2, 4)), pick(rng, (1, 4, 8, 12, 32)), pick(rng, WIDTHS)
        rows = pick(rng, LENGTHS)
        kind = pick(rng, ("plain", "causal", "narrow", "padding", "bias", "one token"))
        keys = rows if kind == "causal" else pick(rng, (rows, rows, *LENGTHS))
        shared = pick(rng, (1, 2, 4)) if kind == "one token" and heads % 4 == 0 else 1
        rows = 1 if kind == "one token" else rows
        if not 1e6 < 4 * batch * heads * rows * keys * width < 1e9:
            continue
        q = normal(rng, batch, heads, rows, width)
        k, v = (normal(rng, batch, heads // shared, keys, width) for _ in range(2))
        name = f"attention, {kind}, {batch}x{heads}x{rows}x{keys}x{width}"

        def scores(q, k, width=width):
            return lathe.matmul(q, turned(k)) * (1.0 / math.sqrt(width))

        if kind in ("plain", "narrow"):
            if kind == "narrow":
                q, k, v = (x.bfloat16() for x in (q, k, v))
            yield Form(name, "attention", [q, k, v], attention, F.scaled_dot_product_attention)
        elif kind == "causal":
            yield Form(
                name,
                "attention",
                [q, k, v],
                lambda q, k, v: attention(q, k, v, causal=True),
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            )
        elif kind == "one token":

            def grouped(q, k, v, batch=batch, heads=heads, shared=shared, width=width, scores=scores):
                q = lathe.reshape(q, (batch, heads // shared, shared, width))
                mixed = lathe.matmul(lathe.softmax(scores(q, k)), v)
                return lathe.reshape(mixed, (batch, heads, 1, width))

            yield Form(
                f"{name}, {shared} heads to each key",
                "attention",
                [q, k, v],
                grouped,
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            )
        else:
            mask = typed(rng, torch.bool, batch, 1, 1, keys) if kind == "padding" else normal(rng, rows, keys)

            def masked(q, k, v, mask, kind=kind, scores=scores):
                s = scores(q, k)
                return lathe.matmul(lathe.softmax(lathe.where(mask, s, -1e30) if kind == "padding" else s + mask), v)

            yield Form(
                name,
                "attention",
                [q, k, v, mask],
                masked,
                lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
            )


REDUCTIONS = {
    "sum": (lathe.sum, torch.sum),
    "max": (lathe.max, torch.amax),
    "mean": (lathe.mean, torch.mean),
    "argmax": (lathe.argmax, torch.argmax),
    "variance": (lathe.var, lambda x, axis: torch.var(x, axis, correction=0)),
    "logsumexp": (lathe.logsumexp, torch.logsumexp),
    "softmax": (lathe.softmax, torch.softmax),
    "log_softmax": (lathe.log_softmax, torch.log_softmax),
    "cumsum": (lathe.cumulative_sum, torch.cumsum),
    "norm": (lambda x, axis: lathe.sqrt(lathe.sum(x * x, axis=axis)), lambda x, axis: x.norm(dim=axis)),
}


def reductions(rng):
    while True:
        shape = box(rng, pick(rng, (1, 2, 2, 2, 3, 3, 4)), pick(rng, (1e4, 1e5, 1e6, 4e6)))
        name, axis = pick(rng, tuple(REDUCTIONS)), int(rng.integers(len(shape)))
        own, theirs = REDUCTIONS[name]
        dtype = pick(rng, (torch.float32, torch.float32, torch.float32, torch.float64, *NARROW))
        yield Form(
            f"{name} {name_of(dtype)} {times(shape)} axis {axis}",
            "reduction",
            [typed(rng, dtype, *shape)],
            lambda x, own=own, axis=axis: own(x, axis=axis),
            lambda x, theirs=theirs, axis=axis: theirs(x, axis),
        )


def norms(rng):
    while True:
        rows, width = box(rng, 2, pick(rng, (1e5, 1e6, 4e6)))
        kind = pick(rng, ("layer norm", "rms norm", "gradient of layer", "gradient of softmax"))
        x, g, w = normal(rng, rows, width), normal(rng, rows, width), normal(rng, width)
        mean = lambda x: lathe.mean(x, axis=-1, keepdims=True)  # noqa: E731
        name = f"{kind} {rows}x{width}"
        if kind == "layer norm":
            yield Form(
                name,
                "reduction",
                [x, w],
                lambda x, w, mean=mean: (x - mean(x)) * lathe.rsqrt(mean(lathe.square(x - mean(x))) + 1e-5) * w,
                lambda x, w: F.layer_norm(x, w.shape, w),
            )
        elif kind == "rms norm":
            yield Form(
                name,
                "reduction",
                [x, w],
                lambda x, w, mean=mean: x * lathe.rsqrt(mean(x * x) + 1e-5) * w,
                lambda x, w: F.rms_norm(x, w.shape, w, 1e-5),
            )
        elif kind == "gradient of softmax":
            yield Form(
                name,
                "reduction",
                [torch.softmax(x, -1), g],
                lambda y, g: y * (g - lathe.sum(y * g, axis=-1, keepdims=True)),
                lambda y, g: torch.ops.aten._softmax_backward_data(g, y, -1, torch.float32),
            )
        else:
            m, r = x.mean(-1, keepdim=True), torch.rsqrt(x.var(-1, correction=0, keepdim=True) + 1e-5)

            def gradient(x, g, w, m, r, mean=mean):
                h, gw = (x - m) * r, g * w
                return r * (gw - mean(gw) - h * mean(gw * h)), lathe.sum(g * h, axis=0), lathe.sum(g, axis=0)

            yield Form(
                name,
                "reduction",
                [x, g, w, m, r],
                gradient,
                lambda x, g, w, m, r: torch.ops.aten.native_layer_norm_backward(g, x, w.shape, m, r, w, w, [True] * 3),
            )


def contractions(rng):
    """Two operands whose axes, their order and the result's are drawn."""
    while True:
        extents = {axis: pick(rng, (1, 2, 3, 5, 8, 12, 16, 17, 32, 33, 48, 64, 100)) for axis in "abcde"}
        left, right = (list(rng.permutation(list(extents))[: int(rng.integers(2, 4))]) for _ in range(2))
        shared = set(left) & set(right)
        result = [axis for axis in dict.fromkeys(left + right) if axis not in shared or rng.random() < 0.3]
        if not shared or not result or not 1e4 < math.prod(extents[axis] for axis in {*left, *right}) < 1e8:
            continue
        rng.shuffle(result)
        equation = f"{''.join(left)},{''.join(right)}->{''.join(result)}"
        sizes = " ".join(f"{axis}={extents[axis]}" for axis in sorted({*left, *right}))
        yield Form(
            f"einsum {equation} {sizes}",
            "gemm",
            [normal(rng, *(extents[axis] for axis in axes)) for axes in (left, right)],
            lambda a, b, equation=equation: lathe.einsum(equation, a, b),
            lambda a, b, equation=equation: torch.einsum(equation, a, b),
        )


def windows(rng):
    while True:
        batch, channels, size = pick(rng, (1, 4, 8)), pick(rng, (16, 32, 64, 192)), pick(rng, (14, 15, 28, 35, 56, 112))
        side, stride = pick(rng, ((2, 2), (3, 2), (3, 1), (5, 1)))
        if batch * channels * size**2 > 4e6:
            continue
        name, own, theirs = pick(
            rng,
            (
                ("max", lambda x, k, s: max_pool(x, k, s, 0), F.max_pool2d),
                ("average", average_pool, F.avg_pool2d),
            ),
        )
        yield Form(
            f"{name} pool {side}/{stride} {batch}x{channels}x{size}",
            "reduction",
            [normal(rng, batch, channels, size, size)],
            lambda x, own=own, side=side, stride=stride: own(x, side, stride),
            lambda x, theirs=theirs, side=side, stride=stride: theirs(x, side, stride),
        )


def moves(rng):
    while True:
        shape = box(rng, pick(rng, (2, 3, 4)), pick(rng, (1e5, 1e6, 3e6)))
        axis, order = int(rng.integers(len(shape))), tuple(map(int, rng.permutation(len(shape))))
        dtype = pick(rng, (torch.float32, torch.float32, torch.bfloat16, torch.uint8, torch.int64))
        x = typed(rng, dtype, *shape)
        kind = pick(rng, ("permute", "add permuted", "add broadcast", "concat", "roll", "take"))
        if kind == "permute":
            how, inputs = "".join(map(str, order)), [x]
            own = lambda x, order=order: lathe.positive(lathe.permute_dims(x, order))  # noqa: E731
            theirs = lambda x, order=order: x.permute(order).clone(memory_format=torch.contiguous_format)  # noqa: E731
        elif kind == "add permuted":
            how, inputs = "".join(map(str, order)), [x, typed(rng, dtype, *(shape[d] for d in order))]
            own = lambda x, y, order=order: lathe.permute_dims(x, order) + y  # noqa: E731
            theirs = lambda x, y, order=order: x.permute(order) + y  # noqa: E731
        elif kind == "add broadcast":
            inputs = [x, typed(rng, dtype, *(d if rng.random() < 0.5 else 1 for d in shape))]
            how, own, theirs = times(inputs[1].shape), lathe.add, torch.add
        elif kind == "concat":
            how, inputs = f"axis {axis}", [x, x]
            own = lambda x, y, axis=axis: lathe.concat([x, y], axis=axis)  # noqa: E731
            theirs = lambda x, y, axis=axis: torch.cat([x, y], axis)  # noqa: E731
        elif kind == "roll":
            how, inputs = f"axis {axis}", [x]
            own = lambda x, axis=axis: lathe.roll(x, 3, axis=axis)  # noqa: E731
            theirs = lambda x, axis=axis: x.roll(3, axis)  # noqa: E731
        else:
            places = tensor(rng.integers(0, shape[0], extent(rng, 1, shape[0] + 1)))
            how, inputs = f"of {len(places)}", [x, places]
            own = lambda x, places: lathe.take(x, places, axis=0)  # noqa: E731
            theirs = lambda x, places: torch.index_select(x, 0, places)  # noqa: E731
        yield Form(f"{kind} {name_of(dtype)} {times(shape)}, {how}", "element-wise", inputs, own, theirs)


topics = (
    convolutions,
    transposed,
    products,
    layers,
    attentions,
    reductions,
    norms,
    contractions,
    windows,
    moves,
    drawn_views.compounds,
    drawn_views.pairs,
    drawn_views.neighbours,
    drawn_views.choices,
    drawn_views.joins,
    drawn_chains.chains,
    drawn_chains.several,
    drawn_chains.tables,
    drawn_networks.networks,
)


def forms(seed, count):
    """So many of each topic, one at a time."""
    for number, make in enumerate(topics):
        made = make(np.random.default_rng([seed, number]))
        for _ in range(count):
            yield next(made)
