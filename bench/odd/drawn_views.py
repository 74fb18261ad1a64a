"""Forms drawn by a seed: views that lie in several ways, neighbours, pairs, choices and joins, and what reads them."""

import math

import torch

import lathe

from .drawing import box, extent, lying, pick, times
from .form import Form, name_of, normal, tensor, typed


def viewed(rng, dtype, shape):
    """A tensor of the shape or one that broadcasts to it, and how it lies."""
    return lying(rng, dtype, tuple(d if rng.random() < 0.85 else 1 for d in shape))


# Of two or three tensors, in both alike.
COMBINED = {
    "a + b": lambda a, b, c: a + b,
    "a * b": lambda a, b, c: a * b,
    "a - b": lambda a, b, c: a - b,
    "a * b + c": lambda a, b, c: a * b + c,
    "(a - b) ** 2": lambda a, b, c: (a - b) * (a - b),
    "a + b + c": lambda a, b, c: a + b + c,
    "|a - b| * c": lambda a, b, c: abs(a - b) * c,
}

# Of what is combined, over one or more axes.
ENDS = {
    "": (lambda s, axes: s, lambda s, axes: s),
    "sum": (lambda s, axes: lathe.sum(s, axis=axes), torch.sum),
    "max": (lambda s, axes: lathe.max(s, axis=axes), torch.amax),
    "mean": (lambda s, axes: lathe.mean(s, axis=axes), torch.mean),
    "argmax": (lambda s, axes: lathe.argmax(s, axis=axes[0]), lambda s, axes: s.argmax(axes[0])),
    "softmax": (lambda s, axes: lathe.softmax(s, axis=axes[0]), lambda s, axes: s.softmax(axes[0])),
    "logsumexp": (lambda s, axes: lathe.logsumexp(s, axis=axes[0]), lambda s, axes: s.logsumexp(axes[0])),
    "variance": (lambda s, axes: lathe.var(s, axis=axes), lambda s, axes: s.var(axes, correction=0)),
    "cumsum": (lambda s, axes: lathe.cumulative_sum(s, axis=axes[0]), lambda s, axes: s.cumsum(axes[0])),
    "less the mean": (
        lambda s, axes: s - lathe.mean(s, axis=axes, keepdims=True),
        lambda s, axes: s - s.mean(axes, keepdim=True),
    ),
    "l2 normalized": (
        lambda s, axes: s / lathe.sqrt(lathe.sum(s * s, axis=axes, keepdims=True) + 1e-6),
        lambda s, axes: s / torch.sqrt((s * s).sum(axes, keepdim=True) + 1e-6),
    ),
}


def compounds(rng):
    """Views that lie in several ways, combined element by element and then reduced."""
    while True:
        shape = box(rng, pick(rng, (2, 2, 3, 4)), pick(rng, (2e4, 1e5, 1e6)))
        dtype = pick(rng, (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16))
        expression, end = pick(rng, tuple(COMBINED)), pick(rng, tuple(ENDS))
        if dtype is torch.bfloat16 and ("c" in expression or end == "argmax"):
            continue  # PyTorch rounds what lies between, Lathe does not
        operands = 3 if "c" in expression else 2
        inputs, names = zip(*(viewed(rng, dtype, shape) for _ in range(operands)), strict=True)
        if torch.broadcast_shapes(*(x.shape for x in inputs)) != shape:
            continue
        axes = tuple(int(d) for d in rng.permutation(len(shape))[: pick(rng, (1, 1, 1, 2))])
        combined, (own, theirs) = COMBINED[expression], ENDS[end]
        yield Form(
            f"{end} of {expression}: {name_of(dtype)} {', '.join(names)}" + (f", axes {axes}" if end else ""),
            "reduction" if end else "element-wise",
            list(inputs),
            lambda a, b, c=None, combined=combined, own=own, axes=axes: own(combined(a, b, c), axes),
            lambda a, b, c=None, combined=combined, theirs=theirs, axes=axes: theirs(combined(a, b, c), axes),
        )


PAIRED = {
    "product": lambda x, y: x * y,
    "square of the difference": lambda x, y: (x - y) * (x - y),
    "distance": lambda x, y: abs(x - y),
    "sum": lambda x, y: x + y,
}


def pairs(rng):
    """All pairs of rows of two tensors, reduced over what they share, over one of them, or not at all."""
    while True:
        n, m, width = (extent(rng, 2, 400) for _ in range(3))
        if not 2e4 < n * m * width < 2e7:
            continue
        name, end = pick(rng, tuple(PAIRED)), pick(rng, ("sum", "max", "mean", "argmax", "logsumexp", "sum"))
        axis, turns = pick(rng, (0, 1, 2, 2, 2)), [rng.random() < 0.3 for _ in range(2)]
        dtype = pick(rng, (torch.float32, torch.float32, torch.float64))
        x, y = (
            typed(rng, dtype, width, k).T if turn else typed(rng, dtype, k, width)
            for k, turn in zip((n, m), turns, strict=True)
        )
        combined, (own, theirs) = PAIRED[name], ENDS[end]
        yield Form(
            f"{end} of {name} of pairs {name_of(dtype)} {n}x{m}x{width}{' turned' * turns[0]},{' turned' * turns[1]} axis {axis}",
            "reduction",
            [x, y],
            lambda x, y, combined=combined, own=own, axis=axis: own(combined(x[:, None, :], y[None, :, :]), (axis,)),
            lambda x, y, combined=combined, theirs=theirs, axis=axis: theirs(
                combined(x[:, None, :], y[None, :, :]), (axis,)
            ),
        )


def neighbours(rng):
    """Sums, extremes or squares of what lies a few steps away, over one to three axes, and what these give reduced."""
    while True:
        rank = pick(rng, (1, 2, 2, 3))
        shape = box(rng, rank, pick(rng, (2e4, 1e5, 1e6)))
        if min(shape) < 6:
            continue
        places = [tuple(int(d) for d in rng.integers(0, 3, rank)) for _ in range(int(rng.integers(2, 7)))]
        weights = [round(float(w), 2) for w in rng.uniform(-1, 1, len(places))]
        combine = pick(rng, ("weighted", "weighted", "greatest", "steepest"))
        dtype = pick(rng, (torch.float32, torch.float32, torch.float64))
        end, axes = pick(rng, ("", "", "sum", "max", "softmax")), (int(rng.integers(rank)),)

        def around(lib, x, places=places, weights=weights, combine=combine, shape=shape):
            parts = [x[tuple(slice(d, s - 2 + d) for d, s in zip(place, shape, strict=True))] for place in places]
            total = parts[0] * weights[0] if combine == "weighted" else parts[0]
            for part, weight in zip(parts[1:], weights[1:], strict=True):
                if combine == "weighted":
                    total = total + part * weight
                elif combine == "greatest":
                    total = lib.maximum(total, part)
                else:
                    total = lib.maximum(total, abs(part - parts[0]))
            return total

        own, theirs = ENDS[end]
        yield Form(
            f"{end} of {combine} neighbours {name_of(dtype)} {times(shape)} at {' '.join(''.join(map(str, p)) for p in places)}, {axes}",
            "reduction" if end else "element-wise",
            [typed(rng, dtype, *shape)],
            lambda x, around=around, own=own, axes=axes: own(around(lathe, x), axes),
            lambda x, around=around, theirs=theirs, axes=axes: theirs(around(torch, x), axes),
        )


def choices(rng):
    """What masks, thresholds and indices choose, and what is reduced of it."""
    while True:
        shape = box(rng, pick(rng, (2, 3)), pick(rng, (2e4, 1e5, 1e6)))
        dtype = pick(rng, (torch.float32, torch.float32, torch.float64, torch.int32, torch.int64))
        end, axes = pick(rng, ("", "sum", "max", "argmax", "cumsum")), (int(rng.integers(len(shape))),)
        x, y = typed(rng, dtype, *shape), typed(rng, dtype, *shape)
        kind = pick(rng, ("mask", "rows of a mask", "above", "rows at places", "columns at places", "both padded"))
        own, theirs = ENDS[end]
        inputs = [x, y]
        if kind in ("mask", "rows of a mask"):
            mask = tensor(rng.random(shape if kind == "mask" else (*shape[:-1], 1)) < 0.6)
            inputs.append(mask)
            choose = lambda lib, x, y, m: lib.where(m, x, y)  # noqa: E731
        elif kind == "above":
            choose = lambda lib, x, y: lib.where(x > y, x - y, y)  # noqa: E731
        elif kind == "both padded":
            inputs = [x]

            def choose(lib, x, shape=shape):
                return (
                    lathe.pad(x, [(0, 0)] * (len(shape) - 1) + [(2, 3)])
                    if lib is lathe
                    else torch.nn.functional.pad(x, (2, 3))
                )

        else:
            axis = 0 if kind == "rows at places" else len(shape) - 1
            inputs = [x, tensor(rng.integers(0, shape[axis], extent(rng, 1, shape[axis] + 1)))]

            def choose(lib, x, i, axis=axis):
                return lathe.take(x, i, axis=axis) if lib is lathe else torch.index_select(x, axis, i)

        yield Form(
            f"{end} of {kind} {name_of(dtype)} {times(shape)}, {axes}",
            "reduction" if end else "element-wise",
            inputs,
            lambda *a, choose=choose, own=own, axes=axes: own(choose(lathe, *a), axes),
            lambda *a, choose=choose, theirs=theirs, axes=axes: theirs(choose(torch, *a), axes),
        )


# Of what is joined, along the axis or another.
JOINED = {
    "": (lambda s, axis, w: s, lambda s, axis, w: s),
    "sum": (lambda s, axis, w: lathe.sum(s, axis=axis), lambda s, axis, w: s.sum(axis)),
    "softmax": (lambda s, axis, w: lathe.softmax(s, axis=axis), lambda s, axis, w: s.softmax(axis)),
    "argmax": (lambda s, axis, w: lathe.argmax(s, axis=axis), lambda s, axis, w: s.argmax(axis)),
    "cumsum": (lambda s, axis, w: lathe.cumulative_sum(s, axis=axis), lambda s, axis, w: s.cumsum(axis)),
    "sigmoid": (lambda s, axis, w: lathe.sigmoid(s), lambda s, axis, w: s.sigmoid()),
    "twice": (lambda s, axis, w: s * 2.0 + 1.0, lambda s, axis, w: s * 2.0 + 1.0),
    "product": (lambda s, axis, w: s @ w, lambda s, axis, w: s @ w),
}


def joins(rng):
    """Up to forty tensors joined in parts of any width, or stacked, and what reads them together."""
    while True:
        rank, count = pick(rng, (2, 2, 3)), extent(rng, 2, 40)
        name, axis, other = pick(rng, tuple(JOINED)), int(rng.integers(rank)), int(rng.integers(rank))
        stacks, dtype = rng.random() < 0.25, pick(rng, (torch.float32, torch.float32, torch.float64, torch.uint8))
        if dtype is torch.uint8 and name not in ("", "argmax"):
            dtype = torch.float32
        shape = [extent(rng, 1, 300) for _ in range(rank)]
        widest = extent(rng, 1, 100)
        widths = (
            [shape[axis]] * count if stacks else [extent(rng, 1, widest) if widest > 1 else 1 for _ in range(count)]
        )
        shapes = [(*shape[:axis], width, *shape[axis + 1 :]) for width in widths]
        elements = sum(math.prod(s) for s in shapes)
        if not 2e3 < elements < 4e5:
            continue
        if stacks:
            joined = (*shape[:axis], count, *shape[axis:])
        else:
            joined = (*shape[:axis], sum(widths), *shape[axis + 1 :])
        xs = [typed(rng, dtype, *s) for s in shapes]
        w = normal(rng, joined[-1], 64).to(dtype) if name == "product" else normal(rng, 1)
        of_lathe, of_torch = JOINED[name]
        join, same = (lathe.stack, torch.stack) if stacks else (lathe.concat, torch.cat)
        yield Form(
            f"{name} of {count} {'stacked' if stacks else 'joined'} {name_of(dtype)} to {times(joined)}, axis {axis}"
            f"{f', over {other}' * (name in ('sum', 'softmax', 'argmax', 'cumsum'))}",
            {"": "element-wise", "sigmoid": "element-wise", "twice": "element-wise", "product": "gemm"}.get(
                name, "reduction"
            ),
            [*xs, w],
            lambda *a, f=of_lathe, join=join, axis=axis, other=other: f(join(list(a[:-1]), axis=axis), other, a[-1]),
            lambda *a, f=of_torch, join=same, axis=axis, other=other: f(join(a[:-1], axis), other, a[-1]),
        )
