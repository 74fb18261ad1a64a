"""What a region hint gains on a gather, and what its check costs at run time."""

import functools
import time

import numpy as np

import lathe

WINDOW = """func window(x: f32[{r}, {n}], p: i64[{m}], y: f32[{r}, {m}]) stage begin {{
  block root() {{
    for r in [0, {r}) {{
      for i in [0, {m}) {{
        block take(space vr in [0, {r}) = r, space vi in [0, {m}) = i)
            reads x[vr, ..], p[vi] writes y[vr, vi] {{
          let a: f32 = x[vr, p[vi]]
          y[vr, vi] = a * a + 1.0f32
        }}
      }}
    }}
  }}
}}
"""


def kernel(rows, n, m, hint, tile=256, lanes=16):
    """Copies the window of a tile of columns before it gathers; without a hint ("") it gathers from x."""
    s = lathe.Schedule(lathe.ir.parse(WINDOW.format(r=rows, n=n, m=m)))
    if hint:
        s.annotate_buffer_access(
            "take", "x", "read", lambda r, i: [(r, r + 1), (2 * i - 8, 2 * i + 8)], trusted=hint == "trusted"
        )
    r, i = s.loops("take")
    io, ii = s.split(i, tile)
    s.reorder(io, r, ii)
    if hint:
        copy = s.cache_read("take", "x", "global")
        s.compute_at(copy, io)
        s.vectorize(s.split(s.loops(copy)[-1], lanes)[1])
    for block in s.blocks:
        if block.name.startswith("take"):
            s.vectorize(s.split(s.loops(block)[-1], lanes)[1])
    return lathe.compile(s.func)


def run():
    print("hints: a gather within 8 of 2i, in tiles of 256 columns; medians of calls taken in turns, us")
    rng = np.random.default_rng(0)
    for rows, m in [(1, 65536), (8, 65536), (64, 8192), (256, 2048)]:
        n = 2 * m
        p = np.clip(2 * np.arange(m) + rng.integers(-8, 8, m), 0, n - 1)
        astray = p.copy()
        astray[::256] = n - 1 - astray[::256]  # one index a tile outside of its window
        x, y = rng.standard_normal((rows, n), np.float32), np.empty((rows, m), np.float32)
        kernels = {name: kernel(rows, n, m, name) for name in ("trusted", "checked")}
        kernels["no copy"] = kernel(rows, n, m, "")
        calls = {name: functools.partial(k, x, p, y) for name, k in kernels.items()}
        calls["astray"] = functools.partial(kernels["checked"], x, astray, y)
        samples = {name: [] for name in calls}
        for name, call in calls.items():
            call()
            expected = x[:, astray if name == "astray" else p]
            np.testing.assert_allclose(y, expected * expected + 1, rtol=1e-6)
        for _ in range(60):
            for name, call in calls.items():
                start = time.perf_counter_ns()
                call()
                samples[name].append(1e-3 * (time.perf_counter_ns() - start))
        medians = {name: float(np.median(s)) for name, s in samples.items()}
        text = "   ".join(f"{name} {us:8.1f}" for name, us in medians.items())
        print(f"  {rows:3} x {m:<6} {text}   check {100 * (medians['checked'] / medians['trusted'] - 1):5.1f} %")
