"""Schedules, passes, compilation and interpretation of programs from Python."""

import numpy as np
import pytest

import lathe

MATMUL = """func {name}(a: f32[{m}, {k}], b: f32[{k}, {n}], c: f32[{m}, {n}]) stage begin {{
  block root() {{
    for i in [0, {m}) {{
      for j in [0, {n}) {{
        for r in [0, {k}) {{
          block {block}(space vi in [0, {m}) = i, space vj in [0, {n}) = j, reduce vr in [0, {k}) = r)
              reads a[vi, vr], b[vr, vj], c[vi, vj]
              writes c[vi, vj]
          {{
            reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
            init {{
              c[vi, vj] = 0.0f32
            }}
            let l: f32 = c[vi, vj]
            let t: f32 = a[vi, vr] * b[vr, vj]
            c[vi, vj] = l + t
          }}
        }}
      }}
    }}
  }}
}}
"""


def matmul(m, n, k, name="product", block="dot"):
    return lathe.ir.parse(MATMUL.format(m=m, n=n, k=k, name=name, block=block))


def tile(s, block):
    i, j, r = s.loops(block)
    io, ii = s.split(i, [None, 4])
    jo, ji = s.split(j, 8)
    s.reorder(io, jo, r, ii, ji)
    s.decompose_reduction(block, r)
    panel = s.cache_read(block, "b", "global")
    s.compute_at(panel, jo)
    return panel


def check(func, m, n, k):
    rng = np.random.default_rng(m * n + k)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    expected = a.astype(np.float64) @ b
    for run in (lambda *arrays: lathe.interpret(func, arrays), lathe.compile(func)):
        c = np.full((m, n), np.nan, np.float32)
        run(a, b, c)
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m,n,k", [(8, 16, 5), (7, 13, 3), (1, 1, 1)])
def test_a_scheduled_program_computes_the_same(m, n, k):
    s = lathe.Schedule(matmul(m, n, k))
    tile(s, "dot")
    s.func.verify()
    check(s.func, m, n, k)


def test_split_takes_several_factors():
    s = lathe.Schedule(matmul(24, 16, 4))
    i, j, r = s.loops("dot")
    assert [s.extent(loop) for loop in s.split(i, [2, None, 4])] == [2, 3, 4]
    assert [s.extent(loop) for loop in s.split(j, [4, 4])] == [4, 4]
    check(s.func, 24, 16, 4)
    before = s.func
    for factors in ([0, None], [None, None], [-1, 4], [2], [3, 1], 0):
        with pytest.raises((ValueError, lathe.Refusal)):
            s.split(r, factors)
        assert s.func == before


def test_a_record_replays_on_another_shape_and_other_names(tmp_path):
    s = lathe.Schedule(matmul(8, 16, 5))
    tile(s, "dot")
    path = tmp_path / "tile.sched"
    s.record.save(path.as_posix())
    record = lathe.Record.load(path.as_posix())
    assert str(record) == str(s.record) == str(lathe.Record.parse(str(record)))
    assert len(record) > 5
    renamed = matmul(11, 9, 6, name="other", block="accumulate")
    renamed = lathe.ir.parse(str(renamed).replace("b[", "weights[").replace("b:", "weights:"))
    again = lathe.Schedule(renamed)
    again.replay(record)
    assert "weights" in again.func.buffers and len(again.blocks) == len(s.blocks)
    check(again.func, 11, 9, 6)


def test_a_record_of_another_operator_is_refused(tmp_path):
    s = lathe.Schedule(matmul(8, 16, 5))
    tile(s, "dot")
    other = lathe.Schedule(lathe.ir.parse(MATMUL.format(m=8, n=16, k=5, name="p", block="dot").replace("* b", "- b")))
    before = other.func
    with pytest.raises(ValueError, match="the recording is of another operator"):
        other.replay(s.record)
    assert other.func == before and len(other.record) == 0
    with pytest.raises(SyntaxError, match="<text>:1: expected a line that begins with 'operation'"):
        lathe.Record.parse("nonsense")


def test_handles_compare_with_anything():
    s = lathe.Schedule(matmul(8, 8, 8))
    block, loop = s.block("dot"), s.loops("dot")[0]
    assert block == s.block("dot") and loop == s.loops(block)[0] != s.loops(block)[1]
    assert block != "dot" and loop != 0 and block != loop


def test_a_handle_of_another_schedule_is_refused():
    func = matmul(8, 8, 8)
    one, two = lathe.Schedule(func), lathe.Schedule(func)
    loop = one.loops("dot")[0]
    for use in (lambda: two.split(loop, 2), lambda: two.compute_inline(one.block("dot"))):
        with pytest.raises(ValueError, match="is a handle of another schedule"):
            use()
    one.split(loop, 2)
    with pytest.raises(ValueError):
        one.unroll(loop)
    with pytest.raises(ValueError, match="unknown block 'dott'; did you mean 'dot'"):
        one.block("dott")


def test_passes_run_one_by_one():
    func = matmul(4, 4, 4)
    for name in lathe.passes.names:
        func = getattr(lathe.passes, name)(func)
    assert func.stage == "end"
    assert func == lathe.lower(matmul(4, 4, 4))
    check(func, 4, 4, 4)


def test_passes_show_what_became_of_a_buffer():
    s = lathe.Schedule(matmul(8, 16, 5))
    tile(s, "dot")
    func = lathe.lower(s.func, stop_after="tiling")
    for name in ("lower_blocks", "place_allocations", "compact_buffers"):
        func = getattr(lathe.passes, name)(func)
    assert func.buffers["b_global"].shape == (5, 8)


def test_scalars_are_given_by_name():
    func = lathe.ir.parse("""func scale(x: f32[n], n: i64, f: f32, y: f32[n]) stage begin facts { n in [0, 100] } {
      block root() { for i in [0, n) { block s(space v in [0, n) = i) reads x[v] writes y[v] { y[v] = x[v] * f } } } }""")
    x, y = np.arange(5, dtype=np.float32), np.empty(5, np.float32)
    for run in (lathe.compile(func, schedule=True), lambda *arrays, **scalars: lathe.interpret(func, arrays, **scalars)):
        y[:] = -1
        run(x, y, n=5, f=2.5)
        np.testing.assert_array_equal(y, x * np.float32(2.5))
        with pytest.raises(ValueError, match="scalar f needs a value"):
            run(x, y, n=5)
        with pytest.raises(ValueError, match="unknown scalar 'm'"):
            run(x, y, n=5, f=1.0, m=1)


def test_a_traced_function_gives_its_program():
    f = lathe.jit(lambda x: lathe.exp(x) + 1)
    x = np.zeros((3, 5), np.float32)
    s = lathe.Schedule(f.lower(x).func)
    assert [block.name for block in s.blocks]
    out = np.empty_like(x)
    lathe.compile(s.func)(x, out)
    np.testing.assert_allclose(out, 2)


PADDED = """func padded(x: f32[6, {n}], y: f32[6, {n}]) stage begin {{
  block root() reads x[..] writes y[..] {{
    alloc p: f32[6, {p}]
    alloc d: f32[6, {p}]
    for i in [0, 6) {{
      for j in [0, {p}) {{
        block pad(space vi in [0, 6) = i, space vj in [0, {p}) = j) reads x[..] writes p[vi, vj] {{
          p[vi, vj] = x[vi, vj - 1 if vj >= 1 && vj < {n} + 1]
        }}
      }}
    }}
    for i1 in [0, 6) {{
      for j1 in [0, {p}) {{
        block twice(space wi in [0, 6) = i1, space wj in [0, {p}) = j1) reads p[wi, wj] writes d[wi, wj] {{
          d[wi, wj] = p[wi, wj] * 2.0f32
        }}
      }}
    }}
    for i2 in [0, 6) {{
      for j2 in [0, {n}) {{
        block sum(space ui in [0, 6) = i2, space uj in [0, {n}) = j2)
            reads d[ui, uj], d[ui, uj + 2]
            writes y[ui, uj]
        {{
          y[ui, uj] = d[ui, uj] + d[ui, uj + 2]
        }}
      }}
    }}
  }}
}}
"""


def padded(n):
    return lathe.ir.parse(PADDED.format(n=n, p=n + 2))


def check_padded(func, n):
    x = np.random.default_rng(n).standard_normal((6, n), np.float32)
    around = np.pad(x * 2, ((0, 0), (1, 1)))
    for run in (lambda *arrays: lathe.interpret(func, arrays), lathe.compile(func)):
        y = np.full_like(x, np.nan)
        run(x, y)
        np.testing.assert_array_equal(y, around[:, :-2] + around[:, 2:])


def replays(s, other, n):
    again = lathe.Schedule(other)
    again.replay(lathe.Record.parse(str(s.record)))
    again.func.verify()
    check_padded(again.func, n)


def test_consumers_move_to_their_producers():
    s = lathe.Schedule(padded(9))
    s.reverse_compute_inline("twice")
    s.reverse_compute_at("sum", s.loops("pad")[0])
    assert [loop.name for loop in s.loops("sum")][:1] == ["i"]
    with pytest.raises(lathe.Refusal, match=r"reverse_compute_at\(sum, pad.0\) refused: condition 2"):
        s.reverse_compute_at("sum", s.loops("sum")[0])
    check_padded(s.func, 9)
    replays(s, padded(12), 12)


def test_padding_is_filled_apart_and_its_loop_partitioned():
    s = lathe.Schedule(padded(16))
    fill = s.decompose_padding("pad", s.loops("pad")[0])
    assert fill.name == "pad_fill" and fill in s.blocks
    _, inner = s.split(s.loops("twice")[1], [None, 8])
    main, rest = s.partition(s.loops("twice")[1])
    assert (s.extent(main), s.extent(rest)) == (2, 1)
    first, second = s.partition(s.loops("sum")[0], 4)
    assert (s.extent(first), s.extent(second)) == (4, 2)
    with pytest.raises(lathe.Refusal, match="partition.*condition 2"):
        s.partition(first, 4)
    check_padded(s.func, 16)
    replays(s, padded(17), 17)


def test_an_iter_becomes_two():
    s = lathe.Schedule(padded(12))
    rows = s.extent(s.loops("twice")[0])
    outer, inner = s.split_iter("twice", s.loops("twice")[0], 3)
    assert (s.extent(outer), s.extent(inner)) == (rows // 3, 3)
    with pytest.raises(lathe.Refusal, match="split_iter.*condition 3"):
        s.split_iter("twice", s.loops("twice")[0], 3)
    assert s.extent(s.join_iters("twice", outer, inner)) == rows
    check_padded(s.func, 12)


def test_a_block_becomes_two():
    s = lathe.Schedule(padded(9))
    rest = s.split_domain("twice", s.loops("twice")[0], 1)
    assert rest in s.blocks and s.extent(s.loops("twice")[0]) == 1
    with pytest.raises(lathe.Refusal, match="split_domain.*condition 3"):
        s.split_domain("twice", s.loops("twice")[0], 1)
    check_padded(s.func, 9)
    replays(s, padded(12), 12)


def test_layouts_of_intermediates_change():
    s = lathe.Schedule(padded(9))
    s.storage_align("pad", "p", 0, 8, 1)
    assert s.func.buffers["p"].strides == (17, 1)
    copy = s.reindex("twice", "p")
    s.compute_at(copy, s.loops("twice")[0])
    assert s.func.buffers["p_reindex"].shape == (6, 11)
    with pytest.raises(lathe.Refusal, match="storage_align.*condition 2"):
        s.storage_align("pad", "p", 1, 8)
    with pytest.raises(lathe.Refusal, match="reindex.*condition 1"):
        s.reindex("twice", "x")
    check_padded(s.func, 9)
    replays(s, padded(10), 10)


def test_layouts_are_given_by_functions_or_text(tmp_path):
    packed = []
    for layout in (lambda i, j: (j // 4, i, j % 4), "i, j -> j // 4, i, j % 4"):
        s = lathe.Schedule(padded(9))
        s.transform_layout("pad", "p", layout)
        assert s.func.buffers["p"].shape == (3, 6, 4)
        check_padded(s.func, 9)
        path = (tmp_path / "layout.sched").as_posix()
        s.record.save(path)
        assert str(lathe.Record.load(path)) == str(s.record)
        replays(s, padded(12), 12)
        packed.append(s.func)
    assert packed[0] == packed[1]
    with pytest.raises(lathe.Refusal, match="transform_layout.*condition 3"):
        s.transform_layout("twice", "d", lambda i, j: i + j)
    for wrong, error in ((7, TypeError), ("i, j", SyntaxError), (lambda i, j: (i, "j"), TypeError)):
        with pytest.raises(error):
            s.transform_layout("twice", "d", wrong)


def test_a_contraction_is_padded():
    s = lathe.Schedule(matmul(7, 13, 3))
    s.pad_einsum("dot", [4, 8, 4])
    assert s.func.buffers["a_pad"].shape == (8, 4) and s.func.buffers["c_pad"].shape == (8, 16)
    i, j, r = s.loops("dot")
    s.split(j, [None, 8])
    check(s.func, 7, 13, 3)
    again = lathe.Schedule(matmul(8, 5, 9))
    again.replay(s.record)
    check(again.func, 8, 5, 9)


def test_a_loop_is_bound_to_a_thread_axis():
    s = lathe.Schedule(matmul(4, 4, 4))
    s.bind(s.loops("dot")[0], "core")
    assert 'bound("core") for i' in str(s.func)
    with pytest.raises(lathe.Refusal, match="bind.*condition 2"):
        s.bind(s.loops("dot")[1], "core")


def lowered_shape(func, name):
    func = lathe.lower(func, stop_after="tiling")
    for step in ("lower_blocks", "place_allocations", "compact_buffers"):
        func = getattr(lathe.passes, step)(func)
    return func.buffers[name].shape


def test_a_panel_is_double_buffered():
    def apply(s, block):
        r = s.loops(block)[2]
        ro, ri = s.split(r, [None, 4])
        i, j = s.loops(block)[:2]
        s.reorder(ro, i, j, ri)
        s.decompose_reduction(block, ro)
        panel = s.cache_read(block, "b", "global")
        s.compute_at(panel, ro)
        return s.double_buffer(panel, ro)

    for m, n, k in ((6, 8, 12), (3, 5, 10)):
        s = lathe.Schedule(matmul(m, n, k))
        assert apply(s, "dot").name == "b_copy_first"
        assert lowered_shape(s.func, "b_global") == (2, 4, n)
        check(s.func, m, n, k)
    again = lathe.Schedule(matmul(4, 4, 5))
    again.replay(s.record)
    check(again.func, 4, 4, 5)


def test_a_window_of_rows_rolls():
    s = lathe.Schedule(lathe.ir.parse("""func stencil(x: f32[40, 6], y: f32[38, 6]) stage begin {
      block root() reads x[..] writes y[..] {
        alloc t: f32[40, 6]
        for i in [0, 40) { for j in [0, 6) {
          block t(space vi in [0, 40) = i, space vj in [0, 6) = j) reads x[vi, vj] writes t[vi, vj] {
            t[vi, vj] = x[vi, vj] * x[vi, vj] } } }
        for i1 in [0, 38) { for j1 in [0, 6) {
          block s(space wi in [0, 38) = i1, space wj in [0, 6) = j1) reads t[wi, wj], t[wi + 2, wj] writes y[wi, wj] {
            y[wi, wj] = t[wi, wj] + t[wi + 2, wj] } } } } }"""))
    rows = s.loops("s")[0]
    s.compute_at("t", rows)
    assert s.rolling_buffer("t", rows).name == "t_first"
    assert lowered_shape(s.func, "t") == (3, 6)
    x = np.random.default_rng(0).standard_normal((40, 6), np.float32)
    for run in (lambda *arrays: lathe.interpret(s.func, arrays), lathe.compile(s.func)):
        y = np.full((38, 6), np.nan, np.float32)
        run(x, y)
        np.testing.assert_allclose(y, x[:-2] ** 2 + x[2:] ** 2, rtol=1e-6)


BIAS = """func biased(a: f32[{m}, {k}], b: f32[{k}, {n}], bias: f32[{n}], c: f32[{m}, {n}]) stage begin {{
  block root() reads a[..], b[..], bias[..] writes c[..] {{
    alloc t: f32[{m}, {n}]
    for i in [0, {m}) {{ for j in [0, {n}) {{ for r in [0, {k}) {{
      block dot(space vi in [0, {m}) = i, space vj in [0, {n}) = j, reduce vr in [0, {k}) = r)
          reads a[vi, vr], b[vr, vj], t[vi, vj] writes t[vi, vj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ t[vi, vj] = 0.0f32 }}
        let l: f32 = t[vi, vj]
        let q: f32 = a[vi, vr] * b[vr, vj]
        t[vi, vj] = l + q }} }} }} }}
    for i1 in [0, {m}) {{ for j1 in [0, {n}) {{
      block add(space wi in [0, {m}) = i1, space wj in [0, {n}) = j1) reads t[wi, wj], bias[wj] writes c[wi, wj] {{
        c[wi, wj] = t[wi, wj] + bias[wj] }} }} }} }} }}"""


DOT2 = """func dot2(a: f32[2], b: f32[2] strides [s], c: f32[], s: i64) {
  for t in [0, 2) { c[] = c[] + a[t] * b[t] } }"""


def test_tiles_become_instances_of_an_instruction():
    def tiles(s, steps):
        ro, ri = s.split(s.loops("dot")[2], [None, steps])
        s.decompose_reduction("dot", ro)
        return s.blockize(ri)

    dot2 = lathe.ir.parse(DOT2)
    s = lathe.Schedule(lathe.ir.parse(BIAS.format(m=4, n=6, k=8)))
    tile = tiles(s, 4)
    before = s.func
    with pytest.raises(lathe.Refusal, match=r"the intrinsic has 'for t in \[0, 2\) \{', the block has 'for ri in \[0, 4\)"):
        s.tensorize(tile, dot2)
    assert s.func == before

    s = lathe.Schedule(lathe.ir.parse(BIAS.format(m=4, n=6, k=8)))
    s.tensorize(tiles(s, 2), dot2)
    assert 'tensorize: "dot2"' in str(s.func)
    again = lathe.Schedule(lathe.ir.parse(BIAS.format(m=3, n=5, k=10)))
    again.replay(lathe.Record.parse(str(s.record)))
    assert 'tensorize: "dot2"' in str(again.func)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, 10), np.float32), rng.standard_normal((10, 5), np.float32)
    bias = rng.standard_normal(5, np.float32)
    for run in (lambda *arrays: lathe.interpret(again.func, arrays), lathe.compile(again.func)):
        c = np.full((3, 5), np.nan, np.float32)
        run(a, b, bias, c)
        np.testing.assert_allclose(c, a @ b + bias, rtol=1e-5, atol=1e-5)


def test_a_contraction_starts_from_its_bias_and_is_cut_into_tiles():
    def apply(s):
        s.fuse_reduction_epilogue("dot", "add")
        i, j, r = s.loops("dot")
        io, ii = s.split(i, [None, 2])
        jo, ji = s.split(j, [None, 8])
        ro, ri = s.split(r, [None, 4])
        s.reorder(io, jo, ro, ii, ri, ji)
        s.decompose_reduction("dot", ro)
        tile = s.blockize(ii)
        s.vectorize(ji)
        s.parallel(io)
        return tile

    for m, n, k in ((4, 16, 8), (5, 13, 7)):
        s = lathe.Schedule(lathe.ir.parse(BIAS.format(m=m, n=n, k=k)))
        assert apply(s).name == "dot_tile"
        again = lathe.Schedule(lathe.ir.parse(BIAS.format(m=m, n=n, k=k)))
        again.replay(s.record)
        assert again.func == s.func
        s.func.verify()
        rng = np.random.default_rng(m)
        a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
        bias = rng.standard_normal(n, np.float32)
        for run in (lambda *arrays, f=s.func: lathe.interpret(f, arrays), lathe.compile(s.func)):
            c = np.full((m, n), np.nan, np.float32)
            run(a, b, bias, c)
            np.testing.assert_allclose(c, a @ b + bias, rtol=1e-5, atol=1e-5)


def test_reductions_run_in_one_walk_over_blocks_of_rows_and_of_the_axis():
    def attend(scores, values):
        weights = lathe.exp(scores - lathe.max(scores, axis=1, keepdims=True))
        return lathe.matmul(weights, values), lathe.sum(weights, axis=1)

    rng = np.random.default_rng(3)
    for rows, keys, width, step in ((5, 12, 3, 4), (8, 10, 1, 10), (3, 7, 40, 1)):
        scores, values = rng.standard_normal((rows, keys), np.float32), rng.standard_normal((keys, width), np.float32)
        scores[1, : keys // 2] = scores[2] = -np.inf
        before = lathe.jit(attend).lower(scores, values).func
        s = lathe.Schedule(before)
        s.compute_inline("subtract")
        assert s.fuse_reductions("max", "sum", "matmul", step=step).name == "max"
        again = lathe.Schedule(before)
        again.replay(s.record)
        assert str(again.func) == str(s.func)
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - scores.max(1, keepdims=True))
        for run in (lambda f, *a: lathe.interpret(f, list(a)), lambda f, *a: lathe.compile(f)(*a)):
            out, total = np.empty((rows, width), np.float32), np.empty(rows, np.float32)
            run(s.func, scores, values, out, total)
            np.testing.assert_allclose(out, weights @ values, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(total, weights.sum(1), rtol=1e-5)


def test_a_factor_that_stays_the_same_is_taken_out_of_a_sum():
    def weighted(scores, values):
        return lathe.matmul(lathe.softmax(scores), values)

    rng = np.random.default_rng(4)
    scores, values = rng.standard_normal((5, 9), np.float32), rng.standard_normal((9, 3), np.float32)
    before = lathe.jit(weighted).lower(scores, values).func
    s = lathe.Schedule(before)
    s.compute_inline("softmax")
    assert s.hoist_factor("matmul", "softmax_scale").name == "matmul_scaled"
    again = lathe.Schedule(before)
    again.replay(s.record)
    assert str(again.func) == str(s.func)
    found, expected = np.empty((5, 3), np.float32), np.empty((5, 3), np.float32)
    lathe.compile(s.func)(scores, values, found)
    lathe.interpret(before, [scores, values, expected])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
