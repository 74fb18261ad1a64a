"""Element-wise operators, normalizations and reductions.

`lane_operations` counts the fewest vector instructions an element that we know of, times the elements. An exponential
takes 10 (two to split the argument, five for a polynomial within 2 ULP in f32, three to scale the result); tanh and
erf 16, whose polynomials are longer or end in a division; a division or a root counts 4, for it holds its port so long.
"""

import lathe

from .case import Case, Library, aligned, f32

EXP, TANH, ERF, DIVIDE = 10, 16, 16, 4


def normalizations(rng):
    for rows, columns, axis in ((128, 1024, 1), (4096, 4096, 1), (4096, 4096, 0)):
        yield Case(
            f"softmax {rows}x{columns} axis {axis}",
            "other",
            [f32(rng, rows, columns)],
            lambda x, axis=axis: lathe.softmax(x, axis=axis),
            lambda t, x, out, axis=axis: t.softmax(x[0], axis, out=out),
            lambda j, x, axis=axis: j.nn.softmax(x[0], axis=axis),
            Library("softmax", (rows, columns, axis)),
            lane_operations=rows * columns * (EXP + 4.0),  # and the maximum, its difference, the sum, the product
        )
    yield Case(
        "layer norm 512x768",
        "other",
        [f32(rng, 512, 768), f32(rng, 768), f32(rng, 768)],
        lambda x, w, b: lathe.layer_norm(x, w, b),
        lambda t, x, out: t.nn.functional.layer_norm(x[0], (768,), x[1], x[2]),
        jax_layer_norm,
        Library("layer_norm", (512, 768)),
        lane_operations=512 * 768 * 5.0,
        out=False,
    )
    yield Case(
        "rms norm 2048x4096",
        "other",
        [f32(rng, 2048, 4096), f32(rng, 4096)],
        lambda x, w: lathe.rms_norm(x, w),
        lambda t, x, out: t.nn.functional.rms_norm(x[0], (4096,), x[1], 1e-6),
        lambda j, x: x[0] * j.lax.rsqrt(j.numpy.mean(x[0] * x[0], 1, keepdims=True) + 1e-6) * x[1],
        lane_operations=2048 * 4096 * 3.0,
        out=False,
    )
    yield Case(
        "logsumexp 512x4096",
        "other",
        [f32(rng, 512, 4096)],
        lambda x: lathe.logsumexp(x, axis=1),
        lambda t, x, out: t.logsumexp(x[0], 1, out=out),
        lambda j, x: j.nn.logsumexp(x[0], axis=1),
        lane_operations=512 * 4096 * (EXP + 3.0),
    )
    yield Case(
        "cumsum 512x4096",
        "other",
        [f32(rng, 512, 4096)],
        lambda x: lathe.cumulative_sum(x, axis=1),
        lambda t, x, out: t.cumsum(x[0], 1, out=out),
        lambda j, x: j.numpy.cumsum(x[0], axis=1),
        lane_operations=512 * 4096 * 1.0,
    )


def jax_layer_norm(j, x):
    mean = j.numpy.mean(x[0], 1, keepdims=True)
    centred = x[0] - mean
    variance = j.numpy.mean(centred * centred, 1, keepdims=True)
    return centred * j.lax.rsqrt(variance + 1e-5) * x[1] + x[2]


def elementwise(rng):
    for count, name in ((1000, "1k"), (1 << 20, "1M")):
        yield Case(
            f"add {name}",
            "other",
            [f32(rng, count), f32(rng, count)],
            lambda x, y: x + y,
            lambda t, x, out: t.add(*x, out=out),
            lambda j, x: x[0] + x[1],
            Library("add", (count,)),
            lane_operations=1.0 * count,
        )
    count = 1 << 20
    yield Case(
        "multiply 1M, denormal inputs",
        "other",
        [aligned(f32(rng, count) * 1e-39), f32(rng, count)],
        lambda x, y: x * y,
        lambda t, x, out: t.mul(*x, out=out),
        lambda j, x: x[0] * x[1],
        Library("multiply", (count,)),
        lane_operations=1.0 * count,
    )
    for name, cost in (("exp", EXP), ("tanh", TANH), ("erf", ERF)):
        yield Case(
            f"{name} 1M",
            "other",
            [f32(rng, count)],
            getattr(lathe, name),
            lambda t, x, out, name=name: getattr(t, name)(x[0], out=out),
            lambda j, x, name=name: j.lax.erf(x[0]) if name == "erf" else getattr(j.numpy, name)(x[0]),
            Library(name, (count,)) if name != "erf" else None,
            lane_operations=float(cost * count),
        )
    yield Case(
        "gelu(x*y+1)*y 1M",
        "other",
        [f32(rng, count), f32(rng, count)],
        lambda x, y: lathe.gelu(x * y + 1) * y,
        lambda t, x, out: t.mul(t.nn.functional.gelu(t.mul(*x).add_(1)), x[1], out=out),
        lambda j, x: j.nn.gelu(x[0] * x[1] + 1, approximate=False) * x[1],
        lane_operations=(ERF + 5.0) * count,
    )
    yield Case(
        "swiglu 512x4096",
        "other",
        [f32(rng, 512, 4096), f32(rng, 512, 4096)],
        lambda x, y: lathe.silu(x) * y,
        lambda t, x, out: t.mul(t.nn.functional.silu(x[0]), x[1], out=out),
        lambda j, x: j.nn.silu(x[0]) * x[1],
        lane_operations=(EXP + DIVIDE + 2.0) * 512 * 4096,
    )
    yield Case(
        "bias + relu + residual 64x56x56",
        "other",
        [f32(rng, 64, 56, 56), f32(rng, 64), f32(rng, 64, 56, 56)],
        lambda x, b, y: lathe.relu(x + lathe.reshape(b, (64, 1, 1))) + y,
        lambda t, x, out: t.add(t.relu_(x[0] + x[1][:, None, None]), x[2], out=out),
        lambda j, x: j.nn.relu(x[0] + x[1][:, None, None]) + x[2],
        lane_operations=3.0 * 64 * 56 * 56,
    )


def reductions(rng):
    x = f32(rng, 4096, 1024)
    for axis in (0, 1, None):
        yield Case(
            f"sum 4096x1024 axis {'all' if axis is None else axis}",
            "other",
            [x],
            lambda x, axis=axis: lathe.sum(x, axis=axis),
            lambda t, x, out, axis=axis: t.sum(x[0], (0, 1) if axis is None else axis, out=out),
            lambda j, x, axis=axis: j.numpy.sum(x[0], axis=axis),
            Library("sum", (4096, 1024, -1 if axis is None else axis)),
            lane_operations=4096 * 1024.0,
        )
    yield Case(
        "argmax 512x4096",
        "other",
        [f32(rng, 512, 4096)],
        lambda x: lathe.argmax(x, axis=1),
        lambda t, x, out: t.argmax(x[0], 1, out=out),
        lambda j, x: j.numpy.argmax(x[0], axis=1),
        Library("argmax", (512, 4096)),
        lane_operations=2.0 * 512 * 4096,
    )
    yield Case(
        "mean and variance 512x4096",
        "other",
        [f32(rng, 512, 4096)],
        lambda x: (lathe.mean(x, axis=1), lathe.var(x, axis=1)),
        lambda t, x, out: t.var_mean(x[0], 1, correction=0)[::-1],
        lambda j, x: (j.numpy.mean(x[0], 1), j.numpy.var(x[0], 1)),
        lane_operations=3.0 * 512 * 4096,
        out=False,
    )


topics = (normalizations, elementwise, reductions)
