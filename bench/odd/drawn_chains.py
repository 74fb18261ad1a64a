"""Forms drawn by a seed: steps one after the other, several results of one tensor, and tables that indices choose rows of."""

import torch

import lathe

from .drawing import box, extent, lying, pick
from .form import Form, indices, name_of, normal

F = torch.nn.functional

# Each a step from a tensor and an axis of it to a tensor of the same shape, in Lathe and in PyTorch.
STEPS = {
    "softmax": (lambda x, d: lathe.softmax(x, axis=d), lambda x, d: x.softmax(d)),
    "log softmax": (lambda x, d: lathe.log_softmax(x, axis=d), lambda x, d: x.log_softmax(d)),
    "less the mean": (lambda x, d: x - lathe.mean(x, axis=d, keepdims=True), lambda x, d: x - x.mean(d, keepdim=True)),
    "over the sum": (
        lambda x, d: x / (lathe.sum(abs(x), axis=d, keepdims=True) + 1.0),
        lambda x, d: x / (x.abs().sum(d, keepdim=True) + 1.0),
    ),
    "less the greatest": (
        lambda x, d: x - lathe.max(x, axis=d, keepdims=True),
        lambda x, d: x - x.amax(d, keepdim=True),
    ),
    "standardized": (
        lambda x, d: (x - lathe.mean(x, axis=d, keepdims=True)) / (lathe.std(x, axis=d, keepdims=True) + 0.1),
        lambda x, d: (x - x.mean(d, keepdim=True)) / (x.std(d, correction=0, keepdim=True) + 0.1),
    ),
    "cumsum": (lambda x, d: lathe.cumulative_sum(x, axis=d) * 0.1, lambda x, d: x.cumsum(d) * 0.1),
    "gated": (lambda x, d: x * lathe.sigmoid(x), lambda x, d: F.silu(x)),
    "relu": (lambda x, d: lathe.relu(x), lambda x, d: x.relu()),
    "tanh": (lambda x, d: lathe.tanh(x), lambda x, d: x.tanh()),
    "rolled": (lambda x, d: x + lathe.roll(x, 1, axis=d), lambda x, d: x + x.roll(1, d)),
    "flipped": (lambda x, d: x - lathe.flip(x, axis=d), lambda x, d: x - x.flip(d)),
    "differences": (lambda x, d: x - lathe.roll(x, 2, axis=d) * 0.5, lambda x, d: x - x.roll(2, d) * 0.5),
}

# What a chain ends in: sums of what has a mean of zero would be rounding alone.
FINAL = {
    "": (lambda x, d: x, lambda x, d: x),
    "sum of sizes": (lambda x, d: lathe.sum(abs(x), axis=d), lambda x, d: x.abs().sum(d)),
    "max": (lambda x, d: lathe.max(x, axis=d), lambda x, d: x.amax(d)),
    "mean of squares": (lambda x, d: lathe.mean(x * x, axis=d), lambda x, d: (x * x).mean(d)),
    "total": (lambda x, d: lathe.sum(x * x), lambda x, d: (x * x).sum()),
    "argmax": (lambda x, d: lathe.argmax(x, axis=d), lambda x, d: x.argmax(d)),
}


def chains(rng):
    """Two to four steps, each along an axis of its own, and what is reduced of them, of tensors that lie in several ways."""
    while True:
        shape = box(rng, pick(rng, (2, 2, 3, 4)), pick(rng, (2e4, 1e5, 1e6)))
        x, lies = lying(rng, pick(rng, (torch.float32, torch.float32, torch.float64)), shape)
        steps = [(pick(rng, tuple(STEPS)), int(rng.integers(len(shape)))) for _ in range(int(rng.integers(2, 5)))]
        end, last = pick(rng, tuple(FINAL)), int(rng.integers(len(shape)))

        def run(x, which, steps=steps, end=end, last=last):
            for name, axis in steps:
                x = STEPS[name][which](x, axis)
            return FINAL[end][which](x, last)

        yield Form(
            f"chain {name_of(x.dtype)} {lies}: {', '.join(f'{name} {axis}' for name, axis in steps)}{f', {end} {last}' * bool(end)}",
            "reduction",
            [x],
            lambda x, run=run: run(x, 0),
            lambda x, run=run: run(x, 1),
        )


# Each a result of a tensor and an axis.
RESULTS = {
    "sum": (lambda x, d: lathe.sum(x, axis=d), lambda x, d: x.sum(d)),
    "greatest": FINAL["max"],
    "least": (lambda x, d: lathe.min(x, axis=d), lambda x, d: x.amin(d)),
    "mean": (lambda x, d: lathe.mean(x, axis=d), lambda x, d: x.mean(d)),
    "variance": (lambda x, d: lathe.var(x, axis=d), lambda x, d: x.var(d, correction=0)),
    "argmax": (lambda x, d: lathe.argmax(x, axis=d), lambda x, d: x.argmax(d)),
    "norm": (
        lambda x, d: lathe.sqrt(lathe.sum(x * x, axis=d)),
        lambda x, d: torch.linalg.vector_norm(x, dim=d),
    ),
    "logsumexp": (lambda x, d: lathe.logsumexp(x, axis=d), lambda x, d: x.logsumexp(d)),
    "softmax": STEPS["softmax"],
    "square": (lambda x, d: x * x, lambda x, d: x * x),
    "mask": (lambda x, d: x > 0.5, lambda x, d: x > 0.5),
    "cumsum": (lambda x, d: lathe.cumulative_sum(x, axis=d), lambda x, d: x.cumsum(d)),
    "total": FINAL["total"],
    "turned": (
        lambda x, d: lathe.positive(lathe.moveaxis(x, d, 0)),
        lambda x, d: x.movedim(d, 0).clone(memory_format=torch.contiguous_format),
    ),
}


def several(rng):
    """Two to four results of one tensor that lies in several ways, each along an axis of its own."""
    while True:
        shape = box(rng, pick(rng, (2, 2, 3, 4)), pick(rng, (2e4, 1e5, 1e6)))
        results = [(pick(rng, tuple(RESULTS)), int(rng.integers(len(shape)))) for _ in range(int(rng.integers(2, 5)))]
        dtype = pick(rng, (torch.float32, torch.float32, torch.float64))
        x, lies = lying(rng, dtype, shape)
        yield Form(
            f"results {name_of(dtype)} {lies}: {', '.join(f'{name} {axis}' for name, axis in results)}",
            "reduction",
            [x],
            *(
                lambda x, which=which, results=results: tuple(RESULTS[name][which](x, axis) for name, axis in results)
                for which in (0, 1)
            ),
        )


def tables(rng):
    """Rows that indices choose, summed, weighted, added up by other indices, and beside each other."""
    while True:
        rows, width, count = extent(rng, 4, 20000), extent(rng, 1, 800), extent(rng, 4, 20000)
        if not 2e4 < (rows + count) * width < 2e6:
            continue
        kind = pick(
            rng,
            (
                "bag sum", "bag mean", "bag max", "weighted bag", "segment sum", "messages", "two tables", "cross entropy",
                "chosen product", "norm of rows", "dot of rows", "scattered", "pooled counts",
            ),
        )  # fmt: skip
        table, name, sort = normal(rng, rows, width), f"{kind} of {count} in {rows}x{width}", "reduction"
        places = indices(rng, rows, count)
        if "bag" in kind:
            bag = extent(rng, 2, 50)
            bags = indices(rng, rows, max(1, count // bag), bag)
            name += f" by {bag}"
            weights = normal(rng, *bags.shape)
            own, theirs, inputs = {
                "bag sum": (
                    lambda t, i: lathe.sum(lathe.take(t, i, axis=0), axis=1),
                    lambda t, i: F.embedding_bag(i, t, mode="sum"),
                    [table, bags],
                ),
                "bag mean": (
                    lambda t, i: lathe.mean(lathe.take(t, i, axis=0), axis=1),
                    lambda t, i: F.embedding_bag(i, t, mode="mean"),
                    [table, bags],
                ),
                "bag max": (
                    lambda t, i: lathe.max(lathe.take(t, i, axis=0), axis=1),
                    lambda t, i: F.embedding_bag(i, t, mode="max"),
                    [table, bags],
                ),
                "weighted bag": (
                    lambda t, i, w: lathe.sum(lathe.take(t, i, axis=0) * w[:, :, None], axis=1),
                    lambda t, i, w: F.embedding_bag(i, t, per_sample_weights=w, mode="sum"),
                    [table, bags, weights],
                ),
            }[kind]
        elif kind == "segment sum":
            source = normal(rng, count, width)
            own, theirs, inputs = lathe.index_add, lambda t, i, s: t.index_add(0, i, s), [table, places, source]
        elif kind == "messages":
            to, weights = indices(rng, rows, count), normal(rng, count, 1)
            own = lambda t, i, j, w: lathe.index_add(lathe.zeros_like(t), j, lathe.take(t, i, axis=0) * w)  # noqa: E731
            theirs = lambda t, i, j, w: torch.zeros_like(t).index_add(0, j, t[i] * w)  # noqa: E731
            inputs = [table, places, to, weights]
        elif kind == "two tables":
            other, others = normal(rng, 50, width), indices(rng, 50, count)
            own = lambda t, i, o, j: lathe.take(t, i, axis=0) + lathe.take(o, j, axis=0)  # noqa: E731
            theirs = lambda t, i, o, j: t[i] + o[j]  # noqa: E731
            inputs, sort = [table, places, other, others], "element-wise"
        elif kind == "cross entropy":
            own = lambda t, i: lathe.mean(  # noqa: E731
                lathe.logsumexp(t, axis=1) - lathe.reshape(lathe.take_along_axis(t, i[:, None], axis=1), (t.shape[0],))
            )
            theirs, inputs = lambda t, i: F.cross_entropy(t, i), [table, indices(rng, width, rows)]
            name = f"{kind} {rows}x{width}"
        elif kind == "chosen product":
            to = extent(rng, 1, 64)
            own, theirs = lambda t, i, w: lathe.take(t, i, axis=0) @ w, lambda t, i, w: t[i] @ w  # noqa: E731
            inputs, name = [table, places, normal(rng, width, to)], f"{name} to {to}"
        elif kind == "norm of rows":
            own = lambda t, i: lathe.sqrt(lathe.sum(lathe.square(lathe.take(t, i, axis=0)), axis=1))  # noqa: E731
            theirs, inputs = lambda t, i: torch.linalg.vector_norm(t[i], dim=1), [table, places]
        elif kind == "dot of rows":
            other = indices(rng, rows, count)
            own = lambda t, i, j: lathe.sum(lathe.take(t, i, axis=0) * lathe.take(t, j, axis=0), axis=1)  # noqa: E731
            theirs, inputs = lambda t, i, j: (t[i] * t[j]).sum(1), [table, places, other]
        elif kind == "scattered":
            own = lambda i, x, rows=rows: lathe.index_add(lathe.zeros((rows,)), i, x)  # noqa: E731
            theirs = lambda i, x, rows=rows: torch.zeros(rows).index_add(0, i, x)  # noqa: E731
            count *= 10
            inputs, name = [indices(rng, rows, count), normal(rng, count)], f"{kind} {count} to {rows}"
        else:
            own = lambda i, rows=rows: lathe.index_add(lathe.zeros((rows,)), i, lathe.ones((i.shape[0],)))  # noqa: E731
            theirs = lambda i, rows=rows: torch.bincount(i, minlength=rows).float()  # noqa: E731
            count *= 10
            inputs, name = [indices(rng, rows, count)], f"{kind} {count} to {rows}"
        yield Form(name, sort, inputs, own, theirs)
