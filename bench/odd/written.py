"""What users write themselves: borders, recurrences, iterated maps, norms, losses, quantized weights, geometry, images."""

import torch

import lathe

from .form import Form, indices, normal, positive, tensor, typed

F = torch.nn.functional
f32 = lathe.float32


def newton(x):
    y = x * 0.5 + 0.5
    for _ in range(6):
        y = 0.5 * (y + x / y)
    return y


def escape(re, im, escaped):
    """How many of eight steps z * z + c stay within 2."""
    u, v, steps = re * 0.0, im * 0.0, re * 0.0
    for _ in range(8):
        a, b = u * u, v * v
        steps = steps + escaped(a + b < 4.0)
        u, v = a - b + re, 2.0 * u * v + im
    return steps


SORTING = (1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3), (5, 8), (4, 7), (3, 6), (1, 4)
SORTING += (2, 5), (4, 7), (4, 2), (6, 4), (4, 2)


def median(x, least, greatest):
    rows, columns = x.shape[0] - 2, x.shape[1] - 2
    v = [x[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    for a, b in SORTING:
        v[a], v[b] = least(v[a], v[b]), greatest(v[a], v[b])
    return v[4]


def iterations(rng):
    kind = "element-wise"
    yield Form("newton 6 steps", kind, [positive(rng, 100003)], newton, newton)
    re, im = normal(rng, 300, 300), normal(rng, 300, 300)
    yield Form("mandelbrot 8 steps", kind, [re, im], lambda a, b: escape(a, b, lambda c: c.astype(f32)),
               lambda a, b: escape(a, b, lambda c: c.float()))  # fmt: skip
    for dtype in (torch.float32, torch.uint8):
        yield Form(f"median 3x3 {str(dtype)[6:]}", kind, [typed(rng, dtype, 240, 320)],
                   lambda x: median(x, lathe.minimum, lathe.maximum),
                   lambda x: median(x, torch.minimum, torch.maximum))  # fmt: skip
    yield Form("complex product of pairs", kind, [normal(rng, 50000, 2), normal(rng, 50000, 2)],
               lambda a, b: lathe.stack([a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1], a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]],
                                        axis=-1),
               lambda a, b: torch.view_as_real(torch.view_as_complex(a) * torch.view_as_complex(b)))  # fmt: skip


def turned_pairs(x, c, s, stack):
    even, odd = x[..., 0::2], x[..., 1::2]
    return stack([even * c - odd * s, even * s + odd * c]).reshape(x.shape)


def stacks(rng):
    kind = "element-wise"
    x, c, s = normal(rng, 2, 50, 8, 64), normal(rng, 50, 1, 32), normal(rng, 50, 1, 32)
    yield Form("rotary embedding by pairs", kind, [x, c, s],
               lambda x, c, s: turned_pairs(x, c, s, lambda parts: lathe.stack(parts, axis=-1)),
               lambda x, c, s: turned_pairs(x, c, s, lambda parts: torch.stack(parts, -1)))  # fmt: skip
    yield Form("sines beside cosines", kind, [normal(rng, 20000)],
               lambda t: lathe.stack([lathe.sin(t), lathe.cos(t)], axis=-1),
               lambda t: torch.stack([t.sin(), t.cos()], -1))  # fmt: skip
    x, m = normal(rng, 4, 100, 256), positive(rng, 256)
    yield Form("rows mixed with those before", kind, [x, m],
               lambda x, m: x * m + lathe.pad(x, [(0, 0), (1, 0), (0, 0)])[:, :-1] * (1.0 - m),
               lambda x, m: x * m + F.pad(x, (0, 0, 1, -1)) * (1.0 - m))  # fmt: skip


def scores(rng):
    kind = "reduction"
    logits, before = normal(rng, 4, 8, 1000), normal(rng, 4, 8)
    yield Form("best of beams 4x8x1000", kind, [logits, before],
               lambda x, s: lathe.argmax((lathe.log_softmax(x) + s[..., None]).reshape((4, 8000)), axis=1),
               lambda x, s: (x.log_softmax(-1) + s[..., None]).reshape(4, 8000).argmax(1))  # fmt: skip
    s, t = normal(rng, 64, 30), normal(rng, 30, 30)
    yield Form("forward step of a Markov chain", kind, [s, t], lambda s, t: lathe.logsumexp(s[:, :, None] + t[None], axis=1),
               lambda s, t: (s[:, :, None] + t[None]).logsumexp(1))  # fmt: skip


def near(t, count):
    return lathe.clip(t, 0, count - 1)


def windows(place, width):
    """Sums over windows of rows whose elements are at `place`, weighted."""
    before = width // 2
    return lambda x, w: lathe.compute(
        x.shape, lambda i, t: lathe.reduce("sum", width, lambda r: place(x, i, t + r - before) * w[r])
    )


def padded_windows(x, w, mode):
    before = w.shape[0] // 2
    return F.conv1d(F.pad(x[:, None], (before, before), mode=mode), w[None, None])[:, 0]


def convolution_with_zeros(x, w):
    def element(c, i, j):
        inside = (i >= 0) & (i < 60) & (j >= 0) & (j < 60)
        return lathe.where(inside, x[c, near(i, 60), near(j, 60)], 0.0)

    return lathe.compute(
        (4, 60, 60),
        lambda o, i, j: lathe.reduce(
            "sum", (8, 3, 3), lambda c, a, b: element(c, i + a - 1, j + b - 1) * w[o, c, a, b]
        ),
    )


def causal(x, w):
    """A depthwise convolution along time that looks four steps back."""

    def element(b, c, t):
        return lathe.where(t >= 0, x[b, c, lathe.maximum(t, 0)], 0.0)

    return lathe.compute(x.shape, lambda b, c, t: lathe.reduce("sum", 4, lambda r: element(b, c, t + r - 3) * w[c, r]))


def borders(rng):
    x, w = normal(rng, 64, 1000), normal(rng, 7)
    for name, mode, place in (
        ("zero", "constant", lambda x, i, t: lathe.where((t >= 0) & (t < 1000), x[i, near(t, 1000)], 0.0)),
        ("edge", "replicate", lambda x, i, t: x[i, near(t, 1000)]),
        ("wrapped", "circular", lambda x, i, t: x[i, (t + 1000) % 1000]),
        ("reflected", "reflect", lambda x, i, t: x[i, lathe.where(t < 0, -t, lathe.where(t < 1000, t, 1998 - t))]),
    ):
        yield Form(f"windows of 7, border {name}", "reduction", [x, w], windows(place, 7),
                   lambda x, w, mode=mode: padded_windows(x, w, mode))  # fmt: skip
    yield Form("conv 8-4 3x3 by where", "convolution", [normal(rng, 8, 60, 60), normal(rng, 4, 8, 3, 3)],
               convolution_with_zeros, lambda x, w: F.conv2d(x[None], w, padding=1)[0])  # fmt: skip
    yield Form("causal depthwise by where", "convolution", [normal(rng, 2, 256, 300), normal(rng, 256, 4)], causal,
               lambda x, w: F.conv1d(F.pad(x, (3, 0)), w[:, None], groups=256))  # fmt: skip
    yield Form("erosion 3x3", "reduction", [normal(rng, 240, 320)],
               lambda x: lathe.compute(x.shape, lambda i, j: lathe.reduce(
                   "min", (3, 3), lambda a, b: x[near(i + a - 1, 240), near(j + b - 1, 320)])),
               lambda x: -F.max_pool2d(-x[None], 3, 1, 1)[0])  # fmt: skip


def recurrence(decay, x):
    step = lathe.Reducer(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (1.0, 0.0), (f32, f32))
    return lathe.scan(x.shape, 1, step, lambda *i: (decay[i], x[i]))[1]


def recurrence_by_steps(decay, x):
    state, states = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + x[:, t]
        states.append(state)
    return torch.stack(states, 1)


def two_greatest(x):
    least = float("-inf")
    two = lathe.Reducer(
        lambda a, b: (lathe.maximum(a[0], b[0]), lathe.maximum(lathe.minimum(a[0], b[0]), lathe.maximum(a[1], b[1]))),
        (least, least),
        (f32, f32),
    )
    return lathe.compute(x.shape[:1], lambda i: lathe.reduce(two, x.shape[1], lambda j: (x[i, j], least)))


def tuples(rng):
    yield Form("recurrence 4x128x64", "reduction", [positive(rng, 4, 128, 64) * 0.3, normal(rng, 4, 128, 64)], recurrence,
               recurrence_by_steps)  # fmt: skip
    yield Form("two greatest of 300x500", "reduction", [normal(rng, 300, 500)], two_greatest,
               lambda x: x.topk(2, -1)[0].unbind(-1))  # fmt: skip
    yield Form("extremes of 333x777", "reduction", [normal(rng, 333, 777)],
               lambda x: (lathe.min(x, axis=1), lathe.max(x, axis=1)), lambda x: torch.aminmax(x, dim=1))  # fmt: skip


def standardized(x, axes, epsilon=1e-5):
    centered = x - lathe.mean(x, axis=axes, keepdims=True)
    return centered * lathe.rsqrt(lathe.var(x, axis=axes, keepdims=True) + epsilon)


def norms(rng):
    kind, x = "reduction", normal(rng, 2, 64, 28, 28)
    yield Form("group norm 8 of 64 at 28", kind, [x],
               lambda x: standardized(x.reshape(2, 8, 8, 28, 28), (2, 3, 4)).reshape(x.shape),
               lambda x: F.group_norm(x, 8))  # fmt: skip
    yield Form("instance norm 64 at 28", kind, [x], lambda x: standardized(x, (2, 3)), F.instance_norm)
    yield Form("batch norm 64 at 28", kind, [x], lambda x: standardized(x, (0, 2, 3)),
               lambda x: F.batch_norm(x, None, None, training=True))  # fmt: skip
    logits, labels = normal(rng, 512, 1000), indices(rng, 1000, 512)
    yield Form("cross entropy 512x1000", kind, [logits, labels],
               lambda x, y: lathe.mean(lathe.logsumexp(x, axis=-1) - lathe.take_along_axis(x, y[:, None], axis=1)[:, 0]),
               F.cross_entropy)  # fmt: skip
    y = tensor((rng.random((300, 500)) < 0.5).astype("float32"))
    yield Form("binary cross entropy 300x500", kind, [normal(rng, 300, 500), y],
               lambda x, y: lathe.mean(lathe.relu(x) - x * y + lathe.log1p(lathe.exp(-lathe.abs(x)))),
               F.binary_cross_entropy_with_logits)  # fmt: skip


def products(rng):
    kind, x, scale = "gemm", normal(rng, 16, 512), positive(rng, 768)
    bytes_ = typed(rng, torch.int8, 512, 768)
    yield Form("int8 weights 16x768x512", kind, [x, bytes_, scale], lambda x, q, s: x @ (q.astype(f32) * s),
               lambda x, q, s: x @ (q.float() * s))  # fmt: skip
    a, b = normal(rng, 512, 8), normal(rng, 8, 768)
    yield Form("low-rank update 16x768x512", kind, [x, normal(rng, 512, 768), a, b],
               lambda x, w, a, b: x @ w + (x @ a) @ b, lambda x, w, a, b: x @ w + (x @ a) @ b)  # fmt: skip
    p, q = normal(rng, 200, 16), normal(rng, 300, 16)
    yield Form("radial basis 200x300x16", kind, [p, q],
               lambda p, q: lathe.exp(-0.5 * lathe.sum((p[:, None] - q[None]) ** 2, axis=-1)),
               lambda p, q: torch.exp(-0.5 * torch.cdist(p, q) ** 2))  # fmt: skip
    yield Form("assignment 1000x16x32", kind, [normal(rng, 1000, 32), normal(rng, 16, 32)],
               lambda x, c: lathe.argmin(lathe.sum(c * c, axis=1)[None] - 2.0 * (x @ c.T), axis=1),
               lambda x, c: torch.cdist(x, c).argmin(1))  # fmt: skip


topics = (iterations, stacks, scores, borders, tuples, norms, products)
