"""Matrix products of every kind, and attention."""

import math

import numpy as np

import lathe

from .case import Case, Library, aligned, bf16, f32, seeded
from .vectors import ERF, EXP

TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 3, "i8": 4}  # as library.h counts them


def product_library(batch, m, n, k, a_transposed=False, b_transposed=False, dtype="f32", bias_gelu=False):
    return Library("matmul", (batch, m, n, k, int(a_transposed), int(b_transposed), TYPES[dtype], int(bias_gelu)))


def product(rng, m, n, k, a_transposed=False, b_transposed=False):
    a = f32(rng, k, m).T if a_transposed else f32(rng, m, k)
    b = f32(rng, n, k).T if b_transposed else f32(rng, k, n)
    marks = ("t" if a_transposed else "n") + ("t" if b_transposed else "n")
    return Case(
        f"gemm {m}x{n}x{k}" + ("" if marks == "nn" else f" {marks}"),
        "compute",
        [a, b],
        lathe.matmul,
        lambda t, x, out: t.matmul(*x, out=out),
        lambda j, x: j.numpy.matmul(*x),
        product_library(1, m, n, k, a_transposed, b_transposed),
        flops=2.0 * m * n * k,
    )


def products(rng):
    for side in (16, 64, 128, 256, 512, 1000, 1024, 2048):
        yield product(rng, side, side, side)
    for m, n, k in ((127, 129, 131), (1, 4096, 4096), (8, 4096, 1024), (4096, 16, 4096), (32, 1024, 1024)):
        yield product(rng, m, n, k)
    yield product(rng, 512, 512, 512, a_transposed=True)
    yield product(rng, 512, 512, 512, b_transposed=True)


def odd_products(count=200, seed=1):
    """Seeded odd, skinny and tiny products: one entry of the suite, the geometric mean of all."""
    rng = seeded(seed)
    for _ in range(count):
        m, n, k = (max(1, int(2 ** rng.uniform(0, 9.5))) for _ in range(3))
        yield product(rng, m, n, k)


def widened(x, y):
    """i8 times i8, summed in i32."""
    return lathe.matmul(lathe.astype(x, lathe.int32), lathe.astype(y, lathe.int32))


def types(rng):
    def case(side, dtype, x, y, **options):
        return Case(
            f"gemm {dtype} {side}",
            "compute",
            [x, y],
            options.pop("lathe", lathe.matmul),
            options.pop("torch", lambda t, x, out: t.matmul(*x, out=out)),
            options.pop("jax", lambda j, x: j.numpy.matmul(*x)),
            product_library(1, side, side, side, dtype=dtype),
            flops=2.0 * side**3,
            arithmetic=dtype,
            **options,
        )

    for side in (256, 1024):
        a, b = rng.standard_normal((side, side)), rng.standard_normal((side, side))
        yield case(side, "f64", aligned(a), aligned(b))
        yield case(side, "f16", aligned(a.astype(np.float16)), aligned(b.astype(np.float16)))
        yield case(side, "bf16", bf16(a), bf16(b), bfloat16=True)
        p, q = (aligned(rng.integers(-100, 100, (side, side), dtype=np.int8)) for _ in range(2))
        yield case(
            side,
            "i8",
            p,
            q,
            lathe=widened,
            torch=lambda t, x, out: t._int_mm(*x, out=out),
            jax=lambda j, x: j.numpy.matmul(*x, preferred_element_type="int32"),
            # Without VNNI oneDNN multiplies pairs into 16 bits, which saturate.
            exact=lambda x, y: x.astype(np.int32) @ y.astype(np.int32),
        )


def batched(rng):
    for b, m, n, k in ((16, 64, 64, 64), (12, 128, 64, 128)):
        yield Case(
            f"batched {b}x{m}x{n}x{k}",
            "compute",
            [f32(rng, b, m, k), f32(rng, b, k, n)],
            lathe.matmul,
            lambda t, x, out: t.bmm(*x, out=out),
            lambda j, x: j.numpy.matmul(*x),
            product_library(b, m, n, k),
            flops=2.0 * b * m * n * k,
        )
    yield Case(
        "linear + gelu 128x3072x768",
        "compute",
        [f32(rng, 128, 768), f32(rng, 3072, 768), f32(rng, 3072)],
        lambda x, w, b: lathe.gelu(lathe.matmul(x, lathe.matrix_transpose(w)) + b),
        lambda t, x, out: t.nn.functional.gelu(t.nn.functional.linear(*x)),
        lambda j, x: j.nn.gelu(j.numpy.matmul(x[0], x[1].T) + x[2], approximate=False),
        product_library(1, 128, 3072, 768, b_transposed=True, bias_gelu=True),
        flops=2.0 * 128 * 3072 * 768,
        lane_operations=128 * 3072 * (ERF + 4.0),  # and the bias, a sum and two products
        out=False,
    )


def attention(q, k, v, causal=False):
    """softmax(q kᵀ / √width) v; where causal, a row sees the columns up to its own."""
    scores = lathe.matmul(q, lathe.matrix_transpose(k)) * (1.0 / math.sqrt(q.shape[-1]))
    if causal:
        rows, columns = scores.shape[-2:]
        allowed = lathe.compute((rows, columns), lambda i, j: j <= i)
        scores = lathe.where(allowed, scores, -math.inf)
    return lathe.matmul(lathe.softmax(scores), v)


def jax_attention(j, x, causal):
    q, k, v = x
    scores = j.numpy.matmul(q, k.swapaxes(-1, -2)) * (1.0 / math.sqrt(q.shape[-1]))
    if causal:
        scores = j.numpy.where(j.numpy.tril(j.numpy.ones(scores.shape[-2:], bool)), scores, -math.inf)
    return j.numpy.matmul(j.nn.softmax(scores), v)


def attentions(rng):
    for heads, length, width, causal in ((12, 128, 64, False), (8, 1024, 64, False), (8, 1024, 64, True)):
        scores = heads * length * length / (2 if causal else 1)
        yield Case(
            f"attention {'causal ' * causal}{heads}x{length}x{width}",
            "compute",
            [f32(rng, 1, heads, length, width) for _ in range(3)],
            lambda q, k, v, causal=causal: attention(q, k, v, causal),
            lambda t, x, out, causal=causal: t.nn.functional.scaled_dot_product_attention(*x, is_causal=causal),
            lambda j, x, causal=causal: jax_attention(j, x, causal),
            flops=4.0 * scores * width,
            lane_operations=scores * (EXP + 3.0),  # and maximum, difference, sum
            out=False,
        )


topics = (products, types, batched, attentions)
