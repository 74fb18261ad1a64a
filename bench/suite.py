"""The operator suite that Lathe and its peers run: each case once, for all of them.

A case has inputs, what it computes in Lathe's functions, and what a user of PyTorch would call for it. `kind` tells
what bounds it: "compute" for contractions, "other" for what memory or vector units bound. `work` is the floating-point
operations of a contraction; `bytes` the compulsory traffic, each input read and each output written once.
"""

import dataclasses
import functools
import math

import numpy as np

import lathe


@dataclasses.dataclass
class Case:
    name: str
    kind: str
    inputs: list
    lathe: callable
    torch: callable  # of (torch, inputs, out); out is None where the call has no out=
    work: float = 0.0
    out: bool = True  # does torch's call take out=?

    @functools.cached_property
    def function(self):
        return lathe.jit(self.lathe, name="kernel")


def cases(seed=0):
    """Every case, made one at a time: their inputs together would fill the memory of a small machine."""
    for make in (gemms, gemm_types, batched, convolutions, attentions, normalizations, elementwise, reductions, movement):
        yield from make(np.random.default_rng(seed))


def f32(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def matmul_case(rng, m, n, k, a_transposed=False, b_transposed=False):
    a = f32(rng, k, m).T if a_transposed else f32(rng, m, k)
    b = f32(rng, n, k).T if b_transposed else f32(rng, k, n)
    marks = "t" * a_transposed + "n" * (not a_transposed) + "t" * b_transposed + "n" * (not b_transposed)
    name = f"gemm {m}x{n}x{k}" + ("" if marks == "nn" else f" {marks}")
    return Case(name, "compute", [a, b], lathe.matmul, lambda t, x, out: t.matmul(*x, out=out), 2.0 * m * n * k)


def gemms(rng):
    for side in (16, 64, 128, 256, 512, 1000, 1024, 2048):
        yield matmul_case(rng, side, side, side)
    for m, n, k in ((127, 129, 131), (1, 4096, 4096), (8, 4096, 1024), (4096, 16, 4096), (32, 1024, 1024)):
        yield matmul_case(rng, m, n, k)
    yield matmul_case(rng, 512, 512, 512, a_transposed=True)
    yield matmul_case(rng, 512, 512, 512, b_transposed=True)


def odd_gemms(count=200, seed=1):
    """Seeded odd, skinny and tiny products: one entry of the suite, the geometric mean of all."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m, n, k = (max(1, int(2 ** rng.uniform(0, 9.5))) for _ in range(3))
        yield matmul_case(rng, m, n, k)


def gemm_types(rng):
    for side in (256, 1024):
        a, b = rng.standard_normal((side, side)), rng.standard_normal((side, side))
        work = 2.0 * side**3
        yield Case(f"gemm f64 {side}", "compute", [a, b], lathe.matmul, lambda t, x, out: t.matmul(*x, out=out), work)
        x, y = a.astype(np.float16), b.astype(np.float16)
        yield Case(f"gemm f16 {side}", "compute", [x, y], lathe.matmul, lambda t, x, out: t.matmul(*x, out=out), work)
        p, q = (rng.integers(-100, 100, (side, side), dtype=np.int8) for _ in range(2))
        yield Case(
            f"gemm i8 {side}",
            "compute",
            [p, q],
            lambda p, q: lathe.matmul(lathe.astype(p, lathe.int32), lathe.astype(q, lathe.int32)),
            lambda t, x, out: t._int_mm(*x, out=out),
            work,
        )


def batched(rng):
    for b, m, n, k in ((16, 64, 64, 64), (12, 128, 64, 128)):
        x, y = f32(rng, b, m, k), f32(rng, b, k, n)
        yield Case(
            f"batched {b}x{m}x{n}x{k}", "compute", [x, y], lathe.matmul, lambda t, x, out: t.bmm(*x, out=out), 2.0 * b * m * n * k
        )
    x, w, b = f32(rng, 128, 768), f32(rng, 3072, 768), f32(rng, 3072)
    yield Case(
        "linear + gelu 128x3072x768",
        "compute",
        [x, w, b],
        lambda x, w, b: lathe.gelu(lathe.matmul(x, lathe.matrix_transpose(w)) + b),
        lambda t, x, out: t.nn.functional.gelu(t.nn.functional.linear(*x)),
        2.0 * 128 * 3072 * 768,
        False,
    )


def convolution(x, w, stride=1, pad=0, dilation=1, groups=1):
    """NCHW convolution by its definition."""
    n, c, h, width = x.shape
    k, per_group, r, s = w.shape
    if pad:
        x = lathe.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    rows = (h + 2 * pad - dilation * (r - 1) - 1) // stride + 1
    columns = (width + 2 * pad - dilation * (s - 1) - 1) // stride + 1
    kernels = k // groups
    return lathe.compute(
        (n, k, rows, columns),
        lambda b, f, i, j: lathe.reduce(
            "sum",
            (per_group, r, s),
            lambda ci, ri, si: x[
                b,
                ci if groups == 1 else f // kernels * per_group + ci,
                i * stride + ri * dilation,
                j * stride + si * dilation,
            ]
            * w[f, ci, ri, si],
        ),
    )


def conv_case(rng, name, x_shape, w_shape, kind="compute", **options):
    x, w = f32(rng, *x_shape), f32(rng, *w_shape)
    torch_options = {"padding" if key == "pad" else key: value for key, value in options.items()}
    span = [options.get("dilation", 1) * (w_shape[d] - 1) + 1 for d in (2, 3)]
    outputs = [(x_shape[d] + 2 * options.get("pad", 0) - span[d - 2]) // options.get("stride", 1) + 1 for d in (2, 3)]
    return Case(
        f"conv {name}",
        kind,
        [x, w],
        lambda x, w: convolution(x, w, **options),
        lambda t, x, out: t.nn.functional.conv2d(*x, **torch_options),
        2.0 * x_shape[0] * math.prod(w_shape) * math.prod(outputs),
        False,
    )


def convolutions(rng):
    yield conv_case(rng, "3-64 7x7/2 224", (1, 3, 224, 224), (64, 3, 7, 7), stride=2, pad=3)
    for batch in (1, 8):
        yield conv_case(rng, f"64-64 3x3 56 b{batch}", (batch, 64, 56, 56), (64, 64, 3, 3), pad=1)
    yield conv_case(rng, "64-256 1x1 56", (1, 64, 56, 56), (256, 64, 1, 1))
    yield conv_case(rng, "128-128 3x3 28", (1, 128, 28, 28), (128, 128, 3, 3), pad=1)
    yield conv_case(rng, "256-256 3x3 14", (1, 256, 14, 14), (256, 256, 3, 3), pad=1)
    yield conv_case(rng, "512-512 3x3 7", (1, 512, 7, 7), (512, 512, 3, 3), pad=1)
    yield conv_case(rng, "depthwise 96 3x3 56", (1, 96, 56, 56), (96, 1, 3, 3), kind="other", pad=1, groups=96)
    yield conv_case(rng, "dilated 64-64 3x3 56", (1, 64, 56, 56), (64, 64, 3, 3), pad=2, dilation=2)
    yield conv_case(rng, "grouped 4 64-64 3x3 56", (1, 64, 56, 56), (64, 16, 3, 3), pad=1, groups=4)
    case = conv_case(rng, "64-64 3x3 56", (1, 64, 56, 56), (64, 64, 3, 3), pad=1)
    bias, residual = f32(rng, 64), f32(rng, 1, 64, 56, 56)
    yield Case(
        "conv + bias + relu + residual",
        "compute",
        [*case.inputs, bias, residual],
        lambda x, w, b, y: lathe.relu(convolution(x, w, pad=1) + lathe.reshape(b, (1, 64, 1, 1)) + y),
        lambda t, x, out: t.relu_(t.nn.functional.conv2d(x[0], x[1], x[2], padding=1).add_(x[3])),
        case.work,
        False,
    )


def attention(q, k, v, causal=False):
    scores = lathe.matmul(q, lathe.matrix_transpose(k)) * (1.0 / math.sqrt(q.shape[-1]))
    if causal:
        rows, columns = scores.shape[-2:]
        allowed = lathe.compute((rows, columns), lambda i, j: j <= i)
        scores = lathe.where(allowed, scores, -math.inf)
    return lathe.matmul(lathe.softmax(scores), v)


def attentions(rng):
    for heads, length, width, causal in ((12, 128, 64, False), (8, 1024, 64, False), (8, 1024, 64, True)):
        inputs = [f32(rng, 1, heads, length, width) for _ in range(3)]
        yield Case(
            f"attention {'causal ' * causal}{heads}x{length}x{width}",
            "compute",
            inputs,
            lambda q, k, v, causal=causal: attention(q, k, v, causal),
            lambda t, x, out, causal=causal: t.nn.functional.scaled_dot_product_attention(*x, is_causal=causal),
            4.0 * heads * length * length * width / (2 if causal else 1),
            False,
        )


def normalizations(rng):
    for rows, columns, axis in ((128, 1024, 1), (4096, 4096, 1), (4096, 4096, 0)):
        yield Case(
            f"softmax {rows}x{columns} axis {axis}",
            "other",
            [f32(rng, rows, columns)],
            lambda x, axis=axis: lathe.softmax(x, axis=axis),
            lambda t, x, out, axis=axis: t.softmax(x[0], axis, out=out),
        )
    yield Case(
        "layer norm 512x768",
        "other",
        [f32(rng, 512, 768), f32(rng, 768), f32(rng, 768)],
        lambda x, w, b: lathe.layer_norm(x, w, b),
        lambda t, x, out: t.nn.functional.layer_norm(x[0], (768,), x[1], x[2]),
        out=False,
    )
    yield Case(
        "rms norm 2048x4096",
        "other",
        [f32(rng, 2048, 4096), f32(rng, 4096)],
        lambda x, w: lathe.rms_norm(x, w),
        lambda t, x, out: t.nn.functional.rms_norm(x[0], (4096,), x[1]),
        out=False,
    )
    yield Case(
        "logsumexp 512x4096",
        "other",
        [f32(rng, 512, 4096)],
        lambda x: lathe.logsumexp(x, axis=1),
        lambda t, x, out: t.logsumexp(x[0], 1, out=out),
    )


def elementwise(rng):
    for count, name in ((1000, "1k"), (1 << 20, "1M")):
        yield Case(
            f"add {name}",
            "other",
            [f32(rng, count), f32(rng, count)],
            lambda x, y: x + y,
            lambda t, x, out: t.add(*x, out=out),
        )
    for name in ("exp", "tanh", "erf"):
        yield Case(
            f"{name} 1M",
            "other",
            [f32(rng, 1 << 20)],
            getattr(lathe, name),
            lambda t, x, out, name=name: getattr(t, name)(x[0], out=out),
        )
    yield Case(
        "gelu(x*y+1)*y 1M",
        "other",
        [f32(rng, 1 << 20), f32(rng, 1 << 20)],
        lambda x, y: lathe.gelu(x * y + 1) * y,
        lambda t, x, out: t.mul(t.nn.functional.gelu(t.mul(*x).add_(1)), x[1], out=out),
    )
    yield Case(
        "swiglu 512x4096",
        "other",
        [f32(rng, 512, 4096), f32(rng, 512, 4096)],
        lambda x, y: lathe.silu(x) * y,
        lambda t, x, out: t.mul(t.nn.functional.silu(x[0]), x[1], out=out),
    )
    yield Case(
        "bias + relu + residual 64x56x56",
        "other",
        [f32(rng, 64, 56, 56), f32(rng, 64), f32(rng, 64, 56, 56)],
        lambda x, b, y: lathe.relu(x + lathe.reshape(b, (64, 1, 1))) + y,
        lambda t, x, out: t.add(t.relu_(x[0] + x[1][:, None, None]), x[2], out=out),
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
        )
    yield Case(
        "argmax 512x4096",
        "other",
        [f32(rng, 512, 4096)],
        lambda x: lathe.argmax(x, axis=1),
        lambda t, x, out: t.argmax(x[0], 1, out=out),
    )


def movement(rng):
    yield Case(
        "transpose + add 1024",
        "other",
        [f32(rng, 1024, 1024), f32(rng, 1024, 1024)],
        lambda x, y: lathe.matrix_transpose(x) + y,
        lambda t, x, out: t.add(x[0].T, x[1], out=out),
    )
    yield Case(
        "nchw to nhwc 8x64x56x56",
        "other",
        [f32(rng, 8, 64, 56, 56)],
        lambda x: lathe.positive(lathe.permute_dims(x, (0, 2, 3, 1))),
        lambda t, x, out: out.copy_(x[0].permute(0, 2, 3, 1)),
    )
    yield Case(
        "gather 512 of 50000x768",
        "other",
        [f32(rng, 50000, 768), rng.integers(0, 50000, 512)],
        lambda x, i: lathe.take(x, i, axis=0),
        lambda t, x, out: t.index_select(x[0], 0, x[1], out=out),
    )
    yield Case(
        "max pool 3x3/2 64x112x112",
        "other",
        [f32(rng, 1, 64, 112, 112)],
        max_pool,
        lambda t, x, out: t.nn.functional.max_pool2d(x[0], 3, 2, 1),
        out=False,
    )


def max_pool(x):
    n, c, h, w = x.shape
    padded = lathe.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], value=-math.inf)
    return lathe.compute(
        (n, c, h // 2, w // 2),
        lambda b, f, i, j: lathe.reduce("max", (3, 3), lambda r, s: padded[b, f, 2 * i + r, 2 * j + s]),
    )
