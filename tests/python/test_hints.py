"""Region hints: given from Python, checked where they cannot be proved, replayed on another shape."""

import pathlib

import numpy as np
import pytest

import lathe

HERE = pathlib.Path(__file__).parent
RESIZE = (HERE.parent / "schedule" / "programs" / "resize.tir").read_text()

GATHER = """func window(x: f32[{r}, {n}], p: i64[{m}], y: f32[{r}, {m}]) stage begin {{
  block root() {{
    for r in [0, {r}) {{
      for i in [0, {m}) {{
        block take(space vr in [0, {r}) = r, space vi in [0, {m}) = i) reads x[vr, ..], p[vi] writes y[vr, vi] {{
          y[vr, vi] = x[vr, p[vi]] * 2.0f32
        }}
      }}
    }}
  }}
}}
"""


def run(func, arrays, out):
    """The result of the interpreter, equal to that of the compiled kernel."""
    results = []
    for call in (lambda *a: lathe.interpret(func, a), lathe.compile(func)):
        y = np.full(out, np.nan, np.float32)
        call(*arrays, y)
        results.append(y)
    np.testing.assert_array_equal(*results)
    return results[0]


def compacted(func):
    for name in ("lower_reductions", "lower_blocks", "place_allocations", "compact_buffers"):
        func = getattr(lathe.passes, name)(func)
    return func


def tiled_resize(text, hint):
    s = lathe.Schedule(lathe.ir.parse(text))
    c = s.block("resize")
    if hint:
        s.annotate_buffer_access(
            c, "x", "read", lambda n, c, h, w: [(n, n + 1), (c, c + 1), (2 * h - 3, 2 * h + 3), (2 * w - 3, 2 * w + 3)]
        )
    copy = s.cache_read(c, "x", "global")
    n, ch, h, w = s.loops(c)
    ho, hi = s.split(h, [None, 10])
    wo, wi = s.split(w, [None, 10])
    s.reorder(ho, wo, hi, wi)
    s.compute_at(copy, wo)
    return s


@pytest.mark.parametrize(
    "floats,hint,shape",
    [(1, True, (1, 1, 24, 24)), (1, False, (1, 1, 19, 19)), (0, True, (1, 1, 24, 24)), (0, False, (1, 1, 200, 200))],
)
def test_a_hint_shrinks_the_copy_of_a_resize(floats, hint, shape):
    text = RESIZE.replace("stage begin", "stage begin attrs {float_intervals: %d}" % floats)
    s = tiled_resize(text, hint)
    s.func.verify()
    assert compacted(s.func).buffers["x_global"].shape == shape
    x = np.random.default_rng(0).standard_normal((1, 3, 200, 200), np.float32)
    np.testing.assert_array_equal(run(s.func, [x], (1, 3, 100, 100)), x[:, :, ::2, ::2])


def tiled_gather(r, n, m, hint, tile=64, lanes=16):
    s = lathe.Schedule(lathe.ir.parse(GATHER.format(r=r, n=n, m=m)))
    if hint:
        s.annotate_buffer_access("take", "x", "read", lambda r, i: [(r, r + 1), (2 * i - 4, 2 * i + 4)])
    copy = s.cache_read("take", "x", "global")
    rows, i = s.loops("take")
    io, ii = s.split(i, tile)
    s.reorder(io, rows, ii)
    s.compute_at(copy, io)
    *_, columns = s.loops(copy)
    s.vectorize(s.split(columns, lanes)[1])
    for block in s.blocks:
        if block.name.startswith("take"):
            s.vectorize(s.split(s.loops(block)[-1], lanes)[1])
    return s


def test_a_hint_shrinks_the_copy_of_a_gather():
    r, n, m = 3, 1024, 512
    rng = np.random.default_rng(1)
    p = np.clip(2 * np.arange(m) + rng.integers(-4, 4, m), 0, n - 1)
    x = rng.standard_normal((r, n), np.float32)
    hinted, plain = tiled_gather(r, n, m, True), tiled_gather(r, n, m, False)
    for s in (hinted, plain):
        s.func.verify()
        np.testing.assert_array_equal(run(s.func, [x, p], (r, m)), x[:, p] * 2)
    assert compacted(plain.func).buffers["x_global"].shape == (r, n)
    assert compacted(hinted.func).buffers["x_global"].shape == (r, 2 * 63 + 8)
    for at, index in [(0, n - 1), (m - 1, 0), (100, 2 * 100 + 4), (100, 2 * 100 - 5), (63, 2 * 63 + 4), (64, 2 * 64 - 5)]:
        planted = p.copy()
        planted[at] = index
        np.testing.assert_array_equal(run(hinted.func, [x, planted], (r, m)), x[:, planted] * 2)
