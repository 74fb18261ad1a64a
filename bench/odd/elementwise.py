"""Element by element: functions, dtypes, broadcasts, casts, strides, and sizes from one vector to past the caches."""

import torch

import lathe

from .form import Form, name_of, normal, positive, tensor, typed

KIND = "element-wise"
FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh asin acos atan asinh atanh sqrt rsqrt reciprocal "
    "sigmoid erf floor ceil trunc round abs sign negative square isnan isfinite"
).split()
ACTIVATIONS = ("relu", "gelu", "silu", "softplus")
ARITHMETIC = ("add", "multiply", "maximum", "minimum")
DTYPES = (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
EACH = torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64, torch.bool


def functions(rng):
    x = positive(rng, 100003) * 0.4
    for name in FUNCTIONS:
        if name not in ("isnan", "isfinite"):
            yield Form(f"{name} 100003", KIND, [x], getattr(lathe, name), getattr(torch, name))
    for name in ACTIVATIONS:
        yield Form(
            f"{name} 300x777", KIND, [normal(rng, 300, 777)], getattr(lathe, name), getattr(torch.nn.functional, name)
        )
    y = normal(rng, 100003)
    for name in ("pow", "atan2", "hypot", "logaddexp", "copysign", "nextafter"):
        yield Form(f"{name} 100003", KIND, [x, y], getattr(lathe, name), getattr(torch, name))


def sizes(rng):
    for count in (1, 17, 1000, 4099, 32768, 262147, 1 << 20, 5000011):
        a, b = normal(rng, count), normal(rng, count)
        yield Form(f"add {count}", KIND, [a, b], lambda a, b: a + b, lambda a, b, out: torch.add(a, b, out=out))
        yield Form(f"copy {count}", KIND, [a], lathe.positive, lambda a, out: out.copy_(a))
    for shape in ((3, 5), (7, 3, 2), (2, 3, 4, 5, 6), (999, 1), (1, 999), (5, 1, 777), (4000, 3)):
        a, b = normal(rng, *shape), normal(rng, *shape)
        label = "x".join(map(str, shape))
        yield Form(f"multiply {label}", KIND, [a, b], lambda a, b: a * b, lambda a, b, out: torch.mul(a, b, out=out))


def dtypes(rng):
    for dtype in DTYPES:
        a, b = typed(rng, dtype, 300, 777), typed(rng, dtype, 300, 777)
        for name in ARITHMETIC:
            yield Form(f"{name} {name_of(dtype)}", KIND, [a, b], getattr(lathe, name), getattr(torch, name))
        if dtype.is_floating_point:
            for name in ("exp", "gelu", "sin", "sqrt", "relu"):
                theirs = getattr(torch, name, None) or torch.nn.functional.gelu
                yield Form(f"{name} {name_of(dtype)}", KIND, [a.abs() + 0.25], getattr(lathe, name), theirs)
        else:
            c = b.clamp(1, 50)
            yield Form(f"floor_divide {name_of(dtype)}", KIND, [a, c], lambda a, b: a // b, lambda a, b: a // b)
            yield Form(f"remainder {name_of(dtype)}", KIND, [a, c], lambda a, b: a % b, lambda a, b: a % b)
            yield Form(f"and {name_of(dtype)}", KIND, [a, b], lambda a, b: a & b, lambda a, b: a & b)
            yield Form(f"shift {name_of(dtype)}", KIND, [a, c % 7], lambda a, b: a << b, lambda a, b: a << b)
    p, q = typed(rng, torch.bool, 300, 777), typed(rng, torch.bool, 300, 777)
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield Form(f"{name} 300x777", KIND, [p, q], getattr(lathe, name), getattr(torch, name))
    yield Form("logical_not 300x777", KIND, [p], lathe.logical_not, torch.logical_not)


def casts(rng):
    for source in EACH:
        for target in EACH:
            if source is not target:
                x = typed(rng, source, 300, 777)
                yield Form(
                    f"{name_of(source)} to {name_of(target)}",
                    KIND,
                    [x],
                    lambda x, to=target: lathe.astype(x, getattr(lathe, name_of(to))),
                    lambda x, to=target: x.to(to),
                )
    half, bits = typed(rng, torch.bfloat16, 300, 777), typed(rng, torch.uint8, 300, 777)
    single = normal(rng, 300, 777)
    yield Form("bf16 + f32", KIND, [half, single], lambda a, b: a + b, lambda a, b: a + b)
    yield Form(
        "dequantize u8",
        KIND,
        [bits],
        lambda x: (lathe.astype(x, lathe.float32) - 128.0) * 0.02,
        lambda x: (x.float() - 128.0) * 0.02,
    )
    yield Form(
        "quantize to u8",
        KIND,
        [single],
        lambda x: lathe.astype(lathe.clip(lathe.round(x * 30.0 + 128.0), 0, 255), lathe.uint8),
        lambda x: (x * 30.0 + 128.0).round().clamp(0, 255).to(torch.uint8),
    )


def comparisons(rng):
    a, b = normal(rng, 777, 555), normal(rng, 777, 555)
    mask = typed(rng, torch.bool, 777, 555)
    yield Form("less 777x555", KIND, [a, b], lambda a, b: a < b, lambda a, b: a < b)
    yield Form("equal 777x555", KIND, [a, b], lambda a, b: a == b, lambda a, b: a == b)
    yield Form("isnan 777x555", KIND, [a], lathe.isnan, torch.isnan)
    yield Form("where 777x555", KIND, [mask, a, b], lathe.where, torch.where)
    yield Form(
        "where with number", KIND, [mask, a], lambda m, a: lathe.where(m, a, 0.0), lambda m, a: torch.where(m, a, 0.0)
    )
    yield Form("clip 777x555", KIND, [a], lambda a: lathe.clip(a, -1, 1), lambda a: a.clamp(-1, 1))
    yield Form("between", KIND, [a, b], lambda a, b: (a < b) & (a > -1.0), lambda a, b: (a < b) & (a > -1.0))


def broadcasts(rng):
    a = normal(rng, 777, 555)
    row, column, one = normal(rng, 555), normal(rng, 777, 1), normal(rng, 1)
    for name, other in (("row", row), ("column", column), ("one", one)):
        yield Form(f"add {name}", KIND, [a, other], lambda a, b: a + b, lambda a, b, out: torch.add(a, b, out=out))
    yield Form("row times column", KIND, [row, column], lambda a, b: a * b, lambda a, b, out: torch.mul(a, b, out=out))
    x = normal(rng, 8, 50, 28, 28)
    for name, shape in (("channel", (50, 1, 1)), ("batch", (8, 1, 1, 1)), ("middle", (1, 28, 1)), ("row", (28,))):
        yield Form(
            f"add {name} 8x50x28x28",
            KIND,
            [x, normal(rng, *shape)],
            lambda a, b: a + b,
            lambda a, b, out: torch.add(a, b, out=out),
        )
    yield Form("expand 1000 to 500x1000", KIND, [normal(rng, 1000)], lambda a: lathe.broadcast_to(a, (500, 1000)) + 0.0,
               lambda a: a.expand(500, 1000) + 0.0)  # fmt: skip
    yield Form("expand 500x1 to 500x1000", KIND, [normal(rng, 500, 1)], lambda a: lathe.broadcast_to(a, (500, 1000)) + 0.0,
               lambda a: a.expand(500, 1000) + 0.0)  # fmt: skip


def strides(rng):
    x, y = normal(rng, 700, 1100), normal(rng, 700, 1100)
    views = {
        "transposed": x.T,
        "every second column": x[:, ::2],
        "every third column": x[:, ::3],
        "every fifth column": x[:, ::5],
        "every second row": x[::2],
        "a block": x[3:603, 5:805],
        "permuted": normal(rng, 20, 30, 40).permute(1, 0, 2),
        "channels last": normal(rng, 4, 30, 28, 28).to(memory_format=torch.channels_last),
    }
    for name, view in views.items():
        yield Form(f"exp of {name}", KIND, [view], lathe.exp, lambda a, out: torch.exp(a, out=out))
        yield Form(f"copy of {name}", KIND, [view], lathe.positive, lambda a, out: out.copy_(a))
    yield Form("a + b.T", KIND, [x[:, :700], y[:, :700].T], lambda a, b: a + b, lambda a, b: a + b)
    yield Form("a.T + b.T", KIND, [x.T, y.T], lambda a, b: a + b, lambda a, b, out: torch.add(a, b, out=out))
    yield Form("real of pairs", KIND, [x], lambda a: a[:, 0::2] * a[:, 1::2], lambda a: a[:, 0::2] * a[:, 1::2])


def chains(rng):
    x, y, z = (normal(rng, 300, 777) for _ in range(3))
    row = positive(rng, 777)
    yield Form("a*b + c", KIND, [x, y, z], lambda a, b, c: a * b + c, lambda a, b, c: torch.addcmul(c, a, b))
    yield Form("lerp", KIND, [x, y], lambda a, b: a + 0.3 * (b - a), lambda a, b: torch.lerp(a, b, 0.3))
    yield Form(
        "(x - m) / s", KIND, [x, normal(rng, 777), row], lambda x, m, s: (x - m) / s, lambda x, m, s: (x - m) / s
    )
    yield Form(
        "hard swish", KIND, [x], lambda x: x * lathe.clip(x + 3.0, 0, 6) * (1 / 6), torch.nn.functional.hardswish
    )
    yield Form("leaky relu", KIND, [x], lambda x: lathe.where(x > 0, x, 0.01 * x), torch.nn.functional.leaky_relu)
    yield Form("elu", KIND, [x], lambda x: lathe.where(x > 0, x, lathe.expm1(x)), torch.nn.functional.elu)
    yield Form("mish", KIND, [x], lambda x: x * lathe.tanh(lathe.softplus(x)), torch.nn.functional.mish)
    yield Form(
        "adam step",
        KIND,
        [x, y, normal(rng, 300, 777), positive(rng, 300, 777)],
        lambda p, g, m, v: p - 1e-3 * (0.9 * m + 0.1 * g) / (lathe.sqrt(0.999 * v + 0.001 * g * g) + 1e-8),
        lambda p, g, m, v: p - 1e-3 * (0.9 * m + 0.1 * g) / (torch.sqrt(0.999 * v + 0.001 * g * g) + 1e-8),
    )
    angle = normal(rng, 64, 40)
    rotated = normal(rng, 2, 12, 64, 80)
    yield Form(
        "rotary embedding",
        KIND,
        [rotated, angle],
        lambda x, a: lathe.concat(
            [
                x[..., :40] * lathe.cos(a) - x[..., 40:] * lathe.sin(a),
                x[..., 40:] * lathe.cos(a) + x[..., :40] * lathe.sin(a),
            ],
            axis=-1,
        ),
        lambda x, a: torch.cat(
            [x[..., :40] * a.cos() - x[..., 40:] * a.sin(), x[..., 40:] * a.cos() + x[..., :40] * a.sin()], -1
        ),
    )
    keep = tensor(rng.random((300, 777)) > 0.2)
    yield Form(
        "dropout",
        KIND,
        [x, keep],
        lambda x, m: lathe.where(m, x * 1.25, 0.0),
        lambda x, m: torch.where(m, x * 1.25, 0.0),
    )


topics = (functions, sizes, dtypes, casts, comparisons, broadcasts, strides, chains)
