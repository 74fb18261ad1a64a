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


def run(func, arrays, out, interpreted=None):
    """The result of the interpreter, equal to that of the compiled kernel."""
    results = []
    for call in (lambda *a: lathe.interpret(interpreted or func, a), lathe.compile(func)):
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
    text = RESIZE.replace("stage begin", f"stage begin attrs {{float_intervals: {floats}}}")
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


POOL = """func pool(x: f32[{c}, {n}], p: i64[{m}], y: f32[{c}, {m}]) stage begin {{
  block root() {{
    for c in [0, {c}) {{
      for i in [0, {m}) {{
        for k in [0, 3) {{
          block pool(space vc in [0, {c}) = c, space vi in [0, {m}) = i, reduce vk in [0, 3) = k)
              reads x[vc, ..], p[vi], y[vc, vi] writes y[vc, vi] {{
            reducer (lhs: f32) (rhs: f32) {{max(lhs, rhs)}} identity {{-inf(f32)}}
            init {{
              y[vc, vi] = -inf(f32)
            }}
            let l: f32 = y[vc, vi]
            let t: f32 = x[vc, p[vi] + vk]
            y[vc, vi] = max(l, t)
          }}
        }}
      }}
    }}
  }}
}}
"""


def pooled(c=4, n=300, m=64, tile=16):
    s = lathe.Schedule(lathe.ir.parse(POOL.format(c=c, n=n, m=m)))
    s.annotate_buffer_access("pool", "x", "read", lambda c, i, k: [(c, c + 1), (4 * i + k, 4 * i + k + 5)])
    copy = s.cache_read("pool", "x", "global")
    c, i, k = s.loops("pool")
    io, ii = s.split(i, tile)
    s.reorder(io, c, ii, k)
    s.compute_at(copy, io)
    return s


def test_a_hint_on_a_block_with_a_reduction():
    s = pooled()
    s.func.verify()
    assert compacted(s.func).buffers["x_global"].shape == (4, 4 * 15 + 2 + 5)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 300), np.float32)
    p = 4 * np.arange(64) + rng.integers(0, 5, 64)
    for at, index in [(5, p[5]), (5, 297), (63, 0), (0, 5), (16, 63)]:
        p[at] = index
        expected = np.stack([x[:, i : i + 3].max(axis=1) for i in p], axis=1)
        np.testing.assert_array_equal(run(s.func, [x, p], (4, 64)), expected)


def test_a_reduction_that_goes_on_around_the_tile_is_refused():
    s = lathe.Schedule(lathe.ir.parse(POOL.format(c=4, n=300, m=64)))
    s.annotate_buffer_access("pool", "x", "read", lambda c, i, k: [(c, c + 1), (4 * i + k, 4 * i + k + 5)])
    copy = s.cache_read("pool", "x", "global")
    c, i, k = s.loops("pool")
    s.reorder(k, c, i)
    before = s.func
    with pytest.raises(lathe.Refusal, match="condition 6.*no reduction starts below loop and goes on around it"):
        s.compute_at(copy, c)
    assert s.func == before
    s.decompose_reduction("pool", k)
    s.compute_at(copy, c)
    s.func.verify()
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 300), np.float32)
    for p in (4 * np.arange(64) + 3, rng.integers(0, 297, 64)):
        expected = np.stack([x[:, i : i + 3].max(axis=1) for i in p], axis=1)
        np.testing.assert_array_equal(run(s.func, [x, p], (4, 64)), expected)


MATMUL = """func product(a: f32[24, 20], b: f32[20, 40], q: i64[20], c: f32[24, 40]) stage begin {
  block root() {
    for i in [0, 24) {
      for j in [0, 40) {
        for k in [0, 20) {
          block dot(space vi in [0, 24) = i, space vj in [0, 40) = j, reduce vk in [0, 20) = k)
              reads a[vi, vk], q[vk], b[.., vj], c[vi, vj] writes c[vi, vj] {
            reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
            init {
              c[vi, vj] = 0.0f32
            }
            let l: f32 = c[vi, vj]
            let t: f32 = a[vi, vk] * b[q[vk], vj]
            c[vi, vj] = l + t
          }
        }
      }
    }
  }
}
"""


@pytest.mark.parametrize("parallel", [False, True])
def test_hints_on_a_panel_of_a_matrix_product(parallel):
    """Several on one block: a is proved, b checked; q picks rows of b near the k-th."""
    s = lathe.Schedule(lathe.ir.parse(MATMUL))
    s.annotate_buffer_access("dot", "a", "read", lambda i, j, k: [(i, i + 1), (k - 1, k + 2)])
    s.annotate_buffer_access("dot", "b", "read", lambda i, j, k: [(k - 2, k + 3), (j, j + 1)])
    panels = [s.cache_read("dot", name, "global") for name in "ab"]
    i, j, k = s.loops("dot")
    io, ii = s.split(i, 8)
    jo, ji = s.split(j, 16)
    ko, ki = s.split(k, 5)
    s.reorder(io, jo, ko, ki, ii, ji)
    s.decompose_reduction("dot", ko)
    for panel in panels:
        s.compute_at(panel, ko)
    if parallel:
        s.parallel(io)
    s.func.verify()
    buffers = compacted(s.func).buffers
    assert buffers["a_global"].shape == (8, 7) and buffers["b_global"].shape == (9, 16)
    rng = np.random.default_rng(4)
    a, b = rng.integers(-3, 4, (24, 20)).astype(np.float32), rng.integers(-3, 4, (20, 40)).astype(np.float32)
    q = np.clip(np.arange(20) + rng.integers(-2, 3, 20), 0, 19)
    for at, index in [(0, q[0]), (7, 4), (19, 0)]:
        q[at] = index
        # Where allocations stand in the loops, the interpreter sees what each task has for itself.
        np.testing.assert_array_equal(run(s.func, [a, b, q], (24, 40), compacted(s.func)), a @ b[q])


SCATTER = """func scatter(x: f32[{n}], p: i64[{n}], y: f32[{n}]) stage begin {{
  block root() {{
    for i in [0, {n}) {{
      block fill(space vi in [0, {n}) = i) writes y[vi] {{
        y[vi] = 0.0f32
      }}
    }}
    for j in [0, {n}) {{
      block put(ordered vj in [0, {n}) = j) reads x[vj], p[vj] writes y[..] {{
        y[p[vj]] = x[vj]
      }}
    }}
  }}
}}
"""


def test_a_write_hint_stops_the_kernel_before_a_store_outside():
    s = lathe.Schedule(lathe.ir.parse(SCATTER.format(n=40)))
    s.annotate_buffer_access("put", "y", "write", lambda j: [(j - 2, j + 3)])
    s.split(s.loops("put")[0], 16)
    s.func.verify()
    rng = np.random.default_rng(5)
    x = rng.standard_normal(40, np.float32)
    p = np.clip(np.arange(40) + rng.integers(-2, 3, 40), 0, 39)
    expected = np.zeros(40, np.float32)
    expected[p] = x
    np.testing.assert_array_equal(run(s.func, [x, p], 40), expected)
    message = r"put: a store must keep to its hint \[vj - 2, \+5\), and index 10\d* is out of range on dimension 0 of y"
    for bad in (10, 10**12):  # the second one is no element of y either
        p[17] = bad
        for call in (lambda *a: lathe.interpret(s.func, a), lathe.compile(s.func)):
            y = np.full(40, np.nan, np.float32)
            with pytest.raises(IndexError, match=message):
                call(x, p, y)
            np.testing.assert_array_equal(y[20:], 0)  # what comes behind it has not run


def test_a_record_with_hints_replays_on_another_shape_and_other_names():
    s = pooled()
    record = lathe.Record.parse(str(s.record))
    assert 'annotate_buffer_access(pool, "x", "read", "[i0, +1), [i1 * 4 + i2, +5)")' in str(record)
    text = POOL.format(c=2, n=200, m=40)
    for name, other in [("block pool(", "block most("), ("x[", "image["), ("x:", "image:"), ("vi", "at"), ("p[", "q["), ("p:", "q:")]:
        text = text.replace(name, other)
    again = lathe.Schedule(lathe.ir.parse(text))
    again.replay(record)
    again.func.verify()
    assert compacted(again.func).buffers["image_global"].shape == (2, 67)
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 200), np.float32)
    p = 4 * np.arange(40) + rng.integers(0, 5, 40)
    expected = np.stack([x[:, i : i + 3].max(axis=1) for i in p], axis=1)
    np.testing.assert_array_equal(run(again.func, [x, p], (2, 40)), expected)


def test_bad_hints_leave_the_schedule_as_it_was():
    s = lathe.Schedule(lathe.ir.parse(RESIZE))
    before = s.func
    for region, error, message in [
        (lambda n, c, h, w: [(n, n + 1)], lathe.Refusal, "condition 2.*has a hint of 1 ranges for x, which has 4"),
        (lambda n, c, h, w: [n, c, h, w], TypeError, r"the region is one \(begin, end\)"),
        (lambda n, c, h, w: [(n, 1.5), (c, c), (h, h), (w, w)], TypeError, ""),
        (lambda n, c, h, w: [(n, n + 1), (c, c + 1), (2 * h, 2 * h + 1), (w, w + 1)], lathe.Refusal,
         "condition 4.*in dimension 3 where n = 0, c = 0, h = 0, w = 99"),
        (lambda n, c, h, w: [(n, n + 1), (c, c + 1), (2 * h, 2 * h), (2 * w, 2 * w + 1)], lathe.Refusal, "condition 3"),
        (lambda n, c, h: [], TypeError, "positional"),
    ]:
        with pytest.raises(error, match="(?s)" + message):
            s.annotate_buffer_access("resize", "x", "read", region)
        assert s.func == before and len(s.record) == 0
    with pytest.raises(ValueError, match='expected "read" or "write"'):
        s.annotate_buffer_access("resize", "x", "reads", lambda *v: [])


def test_a_hint_goes_by_the_name_of_what_was_copied():
    s = lathe.Schedule(lathe.ir.parse(RESIZE))
    n, c, h, w = s.loops("resize")
    s.compute_at(s.cache_read("resize", "x", "global"), w)
    s.annotate_buffer_access(
        "resize", "x", "read", lambda n, c, h, w: [(n, n + 1), (c, c + 1), (2 * h, 2 * h + 1), (2 * w, 2 * w + 1)]
    )
    assert 'x_global[0, vc, vh * 2, vw * 2] inferred "resize"' in str(s.func)
    assert compacted(s.func).buffers["x_global"].shape == (1, 1, 1, 1)


NESTED = """func nested(x: f32[{r}, {n}], p: i64[{m}], y: f32[{r}, {m}]) stage begin {{
  block root() {{
    for io in [0, {t}) {{
      block tile(space vio in [0, {t}) = io)
          reads x[..], p[vio * 8 :+ 8] writes y[.., vio * 8 :+ 8] {{
        for r in [0, {r}) {{
          for ii in [0, 8) {{
            block take(space vr in [0, {r}) = r, space vi in [0, {m}) = vio * 8 + ii)
                reads x[vr, ..], p[vi] writes y[vr, vi] {{
              y[vr, vi] = x[vr, p[vi]] - 1.0f32
            }}
          }}
        }}
      }}
    }}
  }}
}}
"""


def test_a_hint_above_nested_blocks():
    """The outer block's hint survives: the copy for one tile is as large as it says, whatever the inner one reads."""
    r, m, n = 3, 40, 80
    s = lathe.Schedule(lathe.ir.parse(NESTED.format(r=r, n=n, m=m, t=m // 8)))
    s.annotate_buffer_access("tile", "x", "read", lambda t: [(0, r), (16 * t - 2, 16 * t + 18)])
    copy = s.cache_read("tile", "x", "global")
    s.compute_at(copy, s.loops("tile")[0])
    s.func.verify()
    assert compacted(s.func).buffers["x_global"].shape == (r, 20)
    rng = np.random.default_rng(7)
    x = rng.standard_normal((r, n), np.float32)
    p = np.clip(2 * np.arange(m) + rng.integers(-2, 4, m), 0, n - 1)
    for at, index in [(0, p[0]), (0, n - 1), (17, 2)]:
        p[at] = index
        np.testing.assert_array_equal(run(s.func, [x, p], (r, m)), x[:, p] - 1)


def test_a_hint_on_tiles_that_blockize_made():
    s = lathe.Schedule(lathe.ir.parse(GATHER.format(r=2, n=64, m=32)))
    r, i = s.loops("take")
    io, ii = s.split(i, 8)
    s.reorder(io, r, ii)
    tile = s.blockize(r)
    s.annotate_buffer_access(tile, "x", "read", lambda t: [(0, 2), (16 * t - 2, 16 * t + 18)])
    s.compute_at(s.cache_read(tile, "x", "global"), io)
    s.func.verify()
    assert compacted(s.func).buffers["x_global"].shape == (2, 20)
    rng = np.random.default_rng(8)
    x = rng.standard_normal((2, 64), np.float32)
    for p in (2 * np.arange(32), rng.integers(0, 64, 32)):
        np.testing.assert_array_equal(run(s.func, [x, p], (2, 32)), x[:, p] * 2)


def test_a_trusted_hint_is_not_checked():
    s = lathe.Schedule(lathe.ir.parse(GATHER.format(r=2, n=64, m=32)))
    s.annotate_buffer_access("take", "x", "read", lambda r, i: [(r, r + 1), (2 * i - 1, 2 * i + 2)], trusted=True)
    copy = s.cache_read("take", "x", "global")
    io, ii = s.split(s.loops("take")[1], 8)
    s.compute_at(copy, io)
    assert "trusted" in str(s.func) and "inspect" not in str(s.func)
    assert compacted(s.func).buffers["x_global"].shape == (1, 17)
    assert '"trusted")' in str(s.record)
    x, p = np.random.default_rng(9).standard_normal((2, 64), np.float32), 2 * np.arange(32) + 1
    np.testing.assert_array_equal(run(s.func, [x, p], (2, 32)), x[:, p] * 2)
    wrong = lathe.Schedule(lathe.ir.parse(RESIZE))
    with pytest.raises(lathe.Refusal, match="condition 4"):  # nobody is trusted against a witness
        wrong.annotate_buffer_access(
            "resize", "x", "read", lambda n, c, h, w: [(n, n + 1), (c, c + 1), (2 * h, 2 * h + 1), (w, w + 1)], trusted=True
        )


@pytest.mark.parametrize("make", [lambda: tiled_gather(3, 256, 128, True), pooled])
def test_the_scheduler_takes_a_program_with_hints(make):
    func = make().func
    again = lathe.passes.auto_schedule(func)
    shapes = [tuple(buffer.shape) for buffer in func.buffers.values()][:3]
    rng = np.random.default_rng(10)
    x = rng.standard_normal(shapes[0], np.float32)
    for p in (2 * np.arange(shapes[1][0]), rng.integers(0, shapes[0][1] - 3, shapes[1][0])):
        before, after = (np.full(shapes[2], np.nan, np.float32) for _ in range(2))
        lathe.compile(func)(x, p, before)
        lathe.compile(again)(x, p, after)
        np.testing.assert_array_equal(before, after)
