"""What is computed of elements that are picked by index: checked, wherever the check runs."""

import numpy as np
import pytest

import lathe

rng = np.random.default_rng(3)


def places(count, *shape):
    return np.random.default_rng(len(shape)).integers(-count, count, shape)


def table(*shape):
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


COMPUTED = {
    "copy": (lambda t, i: t[i], lambda t, i: t[i]),
    "tanh": (lambda t, i: lathe.tanh(lathe.take(t, i, axis=0)), lambda t, i: np.tanh(t[i])),
    "two": (lambda t, i: lathe.take(t, i, axis=0) * lathe.take(t, i + 0, axis=0), lambda t, i: t[i] * t[i]),
    "sum": (lambda t, i: lathe.sum(lathe.take(t, i, axis=0), axis=-1), lambda t, i: t[i].sum(-1)),
    "sum of functions": (
        lambda t, i: lathe.sum(lathe.exp(lathe.take(t, i, axis=0)), axis=0),
        lambda t, i: np.exp(t[i]).sum(0),
    ),
    "softmax": (
        lambda t, i: lathe.softmax(lathe.take(t, i, axis=0)),
        lambda t, i: np.exp(t[i]) / np.exp(t[i]).sum(-1, keepdims=True),
    ),
    "greatest": (lambda t, i: lathe.argmax(lathe.take(t, i, axis=0), axis=-1), lambda t, i: t[i].argmax(-1)),
}


@pytest.mark.parametrize("shape", [(3,), (100,), (5000,), (7, 5), (12, 100), (3, 4, 33), (2, 3000)], ids=str)
@pytest.mark.parametrize("name", COMPUTED)
def test_picked_elements(name, shape):
    ours, theirs = COMPUTED[name]
    t, i = table(50), places(50, *shape)
    f = lathe.jit(ours)
    np.testing.assert_allclose(f(t, i), theirs(t, i), rtol=1e-4, atol=1e-5)
    for spot in (0, i.size // 2, i.size - 1):  # within a vector, and in the last lane of a masked one
        for wrong in (50, -51):
            bad = i.copy()
            bad.flat[spot] = wrong
            with pytest.raises(IndexError, match=f"index {wrong} is out of range on axis 0"):
                f(t, bad)


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_along_an_axis(axis):
    x, i = table(37, 83), places(37, 37, 83)
    f = lathe.jit(lambda x, i: lathe.exp(lathe.take_along_axis(x, i, axis=axis)))
    np.testing.assert_allclose(f(x, i), np.exp(np.take_along_axis(x, i, axis)), rtol=1e-5)


def test_checks_leave_functions_their_vectors():
    t, i = table(500), places(500, 12, 100)
    text = lathe.jit(COMPUTED["tanh"][0]).lower(t, i).text("scheduled")
    assert text.count("vectorized") == 2


def test_places_of_few_bits_are_none_from_behind():
    i = np.random.default_rng(1).integers(0, 256, (30, 40)).astype(np.uint8)
    t = table(256)
    f = lathe.jit(lambda t, i: lathe.compute(i.shape, lambda a, b: t[lathe.astype(i[a, b], lathe.int64)]))
    np.testing.assert_array_equal(f(t, i), t[i])
    assert "assert" not in f.lower(t, i).text("traced")


@pytest.mark.parametrize("length", [2, 16, 20, 32, 33, 40, 64, 128, 256])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "float16", "int32", "float32", "float64"])
def test_short_tables(dtype, length):
    t = rng.integers(0, 120, length).astype(dtype)
    f = lathe.jit(lambda t, i: lathe.take(t, i, axis=0))
    codes = rng.integers(0, length, 777).astype(np.uint8)
    np.testing.assert_array_equal(f(t, codes), t[codes])
    i = places(length, 777)
    np.testing.assert_array_equal(f(t, i), t[i])
    for spot in (0, 500, 776):
        bad = i.copy()
        bad[spot] = length
        with pytest.raises(IndexError, match=f"index {length} is out of range on axis 0"):
            f(t, bad)


def test_short_tables_across_shapes_and_in_stacks():
    x = rng.integers(0, 256, (37, 41, 3)).astype(np.uint8)
    t, codes = rng.integers(0, 256, 256).astype(np.uint8), rng.standard_normal(16).astype(np.float32)
    f = lathe.jit(lambda t, x: lathe.take(t, lathe.reshape(x, (37 * 41 * 3,)), axis=0))
    np.testing.assert_array_equal(f(t, x), t[x.ravel()])
    g = lathe.jit(lambda t, x: lathe.stack([lathe.take(t, x & 15, axis=0), lathe.take(t, x >> 4, axis=0)], axis=1))
    np.testing.assert_array_equal(g(codes, x.ravel()), np.stack([codes[x.ravel() & 15], codes[x.ravel() >> 4]], 1))


def test_bytes_of_rows_by_columns():
    x = rng.integers(0, 256, (333, 8)).astype(np.uint8)
    f = lathe.jit(lambda x: lathe.astype(x[:, 5], lathe.int32) * 3 + lathe.astype(x[:, 0], lathe.int32))
    np.testing.assert_array_equal(f(x), x[:, 5].astype(np.int32) * 3 + x[:, 0])


@pytest.mark.parametrize("columns", [1, 2, 5, 16, 26, 64, 100, 300, 1024])
@pytest.mark.parametrize("bags", [(1, 3), (40, 5), (33, 20), (7, 300), (50, 8)])
def test_sums_of_picked_rows(bags, columns):
    """Indices are checked together, few or many to a bag; a row is summed in one piece, or in panels."""
    x = rng.standard_normal((90, columns)).astype(np.float32)
    i, w = places(90, bags[0] * bags[1]).reshape(bags), rng.standard_normal(bags).astype(np.float32)
    weighted = lathe.jit(lambda x, i, w: lathe.sum(lathe.take(x, i, axis=0) * w[:, :, None], axis=1))
    np.testing.assert_allclose(weighted(x, i, w), (x[i] * w[:, :, None]).sum(1), rtol=1e-3, atol=1e-3)
    greatest = lathe.jit(lambda x, i: lathe.max(lathe.take(x, i, axis=0), axis=1))
    np.testing.assert_array_equal(greatest(x, i), x[i].max(1))
    bad = i.copy()
    bad[-1, -1] = 90
    with pytest.raises(IndexError, match="index 90 is out of range on axis 0"):
        greatest(x, bad)


@pytest.mark.parametrize(("shape", "picked"), [((8, 197, 64), 49), ((3, 7, 5), 9), ((2, 11, 33), 1), ((4, 5, 1), 5)])
def test_rows_are_picked_by_indices_that_are_broadcast_over_them(shape, picked):
    rng = np.random.default_rng(picked)
    x = rng.standard_normal(shape, np.float32)
    i = rng.integers(-shape[1], shape[1], (shape[0], picked))
    wide = (shape[0], picked, shape[2])
    pick = lathe.jit(lambda x, i: lathe.take_along_axis(x, lathe.broadcast_to(i[:, :, None] + 0, wide), axis=1))
    np.testing.assert_array_equal(pick(x, i), np.take_along_axis(x, i[:, :, None], axis=1))
    if shape[2] > 1:
        assert f"take_along_axis_index: i64[{shape[0]}, {picked}, 1]" in pick.lower(x, i).text("scheduled")
    i[-1, -1] = shape[1]
    with pytest.raises(IndexError):
        pick(x, i)


@pytest.mark.parametrize(("rows", "length", "taken"), [(8, 300, 200), (1, 17, 17), (3, 40, 1), (5, 70, 33)])
def test_windows_that_data_moves_are_checked_once_and_walked_in_vectors(rows, length, taken):
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, length), np.float32)
    starts = rng.integers(0, length - taken + 1, rows)
    add = lathe.jit(
        lambda x, s: lathe.compute((taken,), lambda n: lathe.reduce("sum", rows, lambda m: x[m, n + s[m]])),
    )
    expected = sum(row[start : start + taken].astype(np.float64) for row, start in zip(x, starts, strict=True))
    np.testing.assert_allclose(add(x, starts), expected, rtol=1e-5, atol=1e-5)
    backwards = lathe.jit(lambda x, s: lathe.compute((rows, taken), lambda m, n: x[m, s[m] - 2 * n]))
    ends = rng.integers(2 * (taken - 1), length, rows) if 2 * taken <= length else None
    if ends is not None:
        places = ends[:, None] - 2 * np.arange(taken)
        np.testing.assert_array_equal(backwards(x, ends), np.take_along_axis(x, places, axis=1))
    if rows == 8:
        assert "compute_index: i64[8]" in add.lower(x, starts).text("traced")
    for wrong, reached in ((-1, -1), (length - taken + 1, length), (2**63 - 1, None), (-(2**63), None)):
        starts[-1] = wrong
        with pytest.raises(IndexError, match=str(reached) if reached is not None else "index"):
            add(x, starts)


def test_windows_longer_than_what_they_move_in_are_refused_wherever_they_begin():
    x = np.ones(5, np.float32)
    window = lathe.jit(lambda x, s: lathe.compute((6,), lambda n: x[n + s[0]]))
    for start in (-1, 0, 1):
        with pytest.raises(IndexError):
            window(x, np.array([start]))


@pytest.mark.parametrize("n", [8, 100, 251])
def test_computed_places_are_checked_only_where_there_are_elements(n):
    packed = np.random.default_rng(n).standard_normal(n * (n + 1) // 2, np.float32)

    def place(i, j):
        row = lathe.minimum(i, j)
        return row * n - row * (row - 1) // 2 + lathe.maximum(i, j) - row

    unpack = lathe.jit(lambda v: lathe.compute((n, n), lambda i, j: v[place(i, j)]))
    expected = np.zeros((n, n), np.float32)
    expected[np.triu_indices(n)] = packed
    np.testing.assert_array_equal(unpack(packed), expected + np.triu(expected, 1).T)
    with pytest.raises(IndexError, match=str(n * (n + 1) // 2 - 1)):
        unpack(packed[:-1])


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("entries", [16, 256, 1000])
def test_decoded_weights_are_looked_up_once_for_all_rows(rows, entries):
    rng = np.random.default_rng(rows)
    x, t = rng.standard_normal((rows, 96), np.float32), rng.standard_normal(entries, np.float32)
    w = rng.integers(0, entries, (70, 96), np.uint8 if entries <= 256 else np.int32)
    f = lathe.jit(lambda x, w, t: lathe.matmul(x, lathe.take(t, w).T))
    np.testing.assert_allclose(f(x, w, t), x.astype(np.float64) @ t.astype(np.float64)[w].T, rtol=1e-4, atol=1e-4)
    if rows in (3, 33) and entries == 256:
        assert "_reindex: f32[70, 96]" in f.lower(x, w, t).text("scheduled")
    if entries < 1000:
        return
    w[-1, -1] = entries
    with pytest.raises(IndexError, match="1000"):
        f(x, w, t)


@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=str)
@pytest.mark.parametrize("per_row", [1, 2, 3, 6, 7, 11, 16, 40])
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 1000])
def test_few_places_a_row(rows, per_row, dtype):
    rng = np.random.default_rng(per_row)
    v, x = rng.standard_normal((rows, per_row)), rng.standard_normal(rows)
    c = rng.integers(-rows, rows, (rows, per_row), dtype)
    f = lathe.jit(
        lambda v, x, c: (
            lathe.sum(v * lathe.take(x, c), axis=1),
            lathe.max(lathe.take(x, c), axis=1),
            lathe.any(lathe.take(x > 1.0, c), axis=1),
        ),
    )
    total, greatest, found = f(v, x, c)
    np.testing.assert_allclose(total, (v * x[c]).sum(1), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(greatest, x[c].max(1))
    np.testing.assert_array_equal(found, (x[c] > 1.0).any(1))
    c[-1, -1] = rows
    with pytest.raises(IndexError, match=str(rows)):
        f(v, x, c)


def test_places_that_are_sums_of_their_own_are_read_as_they_lie():
    x = np.arange(503, dtype=np.float32)

    def places(rows, columns, step, sign=1, start=0):
        return start + step * lathe.arange(rows)[:, None] + sign * lathe.arange(columns)[None, :]

    for rows, columns, step, sign, start in (
        (301, 203, 1, 1, 0),
        (90, 90, -1, 1, 100),
        (13, 40, 16, 1, 5),
        (40, 50, 2, -1, 60),
    ):
        f = lathe.jit(lambda x: lathe.take(x, places(rows, columns, step, sign, start)))  # noqa: B023
        at = start + step * np.arange(rows)[:, None] + sign * np.arange(columns)[None, :]
        np.testing.assert_array_equal(f(x), x[at])
        assert "index" not in f.lower(x).text("traced")
    backwards = lathe.jit(lambda x: lathe.take(x, 502 - 3 * lathe.arange(160)))
    np.testing.assert_array_equal(backwards(x), x[502::-3][:160])
    beyond = lathe.jit(lambda x: lathe.take(x, lathe.arange(300)[:, None] + lathe.arange(205)[None, :]))
    with pytest.raises(IndexError):
        beyond(x)
    wrapped = lathe.jit(lambda x: lathe.take(x, lathe.arange(4)[:, None] - lathe.arange(3)[None, :]))
    np.testing.assert_array_equal(wrapped(x), x[np.arange(4)[:, None] - np.arange(3)[None, :]])


@pytest.mark.parametrize(
    ("size", "kernel", "step"), [((29, 31), 3, 2), ((27, 25), 2, 2), ((41, 43), 5, 2), ((20, 50), 7, 3)]
)
def test_gradients_of_maxima_ask_each_window_that_meets_a_place(size, kernel, step):
    h, w = size
    rng = np.random.default_rng(kernel)
    oh, ow = (h - kernel) // step + 1, (w - kernel) // step + 1
    x, d = rng.standard_normal((3, h, w), np.float32), rng.standard_normal((3, oh, ow), np.float32)
    at = np.empty((3, oh, ow), np.int64)
    expected = np.zeros((3, h, w))
    for c, i, j in np.ndindex(3, oh, ow):
        u, v = np.unravel_index(x[c, step * i :, step * j :][:kernel, :kernel].argmax(), (kernel, kernel))
        at[c, i, j] = (step * i + u) * w + step * j + v
        expected[c, step * i + u, step * j + v] += d[c, i, j]
    q = -(-kernel // step)

    def ask(d, at):
        def term(c, y, z, u, v):
            i, j = y // step - u, z // step - v
            inside = (i >= 0) & (i < oh) & (j >= 0) & (j < ow)
            i, j = lathe.clip(i, 0, oh - 1), lathe.clip(j, 0, ow - 1)
            return lathe.where(inside & (at[c, i, j] == y * w + z), d[c, i, j], 0.0)

        return lathe.compute((3, h, w), lambda c, y, z: lathe.reduce("sum", (q, q), lambda u, v: term(c, y, z, u, v)))

    np.testing.assert_allclose(lathe.jit(ask)(d, at), expected, rtol=1e-6, atol=1e-6)


SUBSCRIPTS = {
    "[:, j]": lambda x, i, j, k, m: x[:, j],
    "[i, j]": lambda x, i, j, k, m: x[i, j],
    "[..., m]": lambda x, i, j, k, m: x[..., m],
    "[:, :, k, m]": lambda x, i, j, k, m: x[:, :, k, m],
    "[i, :, :, column]": lambda x, i, j, k, m: x[i, :, :, m[0, :1]],
    "[1:3, j, None, ::2]": lambda x, i, j, k, m: x[1:3, j, None, ::2],
    "[0, j]": lambda x, i, j, k, m: x[0, j],
    "[None, i, j, 1:]": lambda x, i, j, k, m: x[None, i, j, 1:],
    "[:, j, ::-1]": lambda x, i, j, k, m: x[:, j, ::-1],
    "[:, j, 3, m]": lambda x, i, j, k, m: x[:, j[:8], 3, m.T],
}


@pytest.mark.parametrize("subscript", SUBSCRIPTS)
def test_tensors_among_subscripts_pick_as_in_numpy(subscript):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((5, 6, 7, 4), np.float32)
    given = (x, rng.integers(-5, 5, 9), rng.integers(0, 6, 9), rng.integers(-7, 7, (3, 1)), rng.integers(0, 4, (1, 8)))
    np.testing.assert_array_equal(lathe.jit(SUBSCRIPTS[subscript])(*given), SUBSCRIPTS[subscript](*given))


def test_tensors_among_subscripts_are_checked():
    x = np.ones((5, 6), np.float32)
    pick = lathe.jit(lambda x, i, j: x[i, j])
    for wrong in ([5, 0], [0, -7]):
        with pytest.raises(IndexError, match=str(wrong[0] or wrong[1])):
            pick(x, np.array(wrong[:1]), np.array(wrong[1:]))
    rows = lathe.jit(lambda x, y: x[lathe.arange(5), y])
    np.testing.assert_array_equal(rows(x * np.arange(6, dtype=np.float32), np.array([5, 0, 3, 3, 1])), [5, 0, 3, 3, 1])
    with pytest.raises(ValueError, match="slice between"):
        lathe.jit(lambda x, i: x[None][0, :, i])(x, np.array([1]))
    with pytest.raises(TypeError, match="mask"):
        lathe.jit(lambda x: x[:, x > 0])(x)
    with pytest.raises(ValueError, match="broadcast"):
        lathe.jit(lambda x, i, j: x[i, j])(x, np.arange(2), np.arange(3))


@pytest.mark.parametrize("operator", ["remainder", "floor_divide"])
def test_narrow_places_of_scattered_elements(operator):
    x = np.repeat(np.arange(257, dtype=np.float32), 2)[::2]

    def places(lib, length):
        return lib.astype(lib.arange(length), lib.int8)

    def computed(lib):
        at = places(lib, 65)[:, None] * 4 + places(lib, 16)[None, :] * -2 + 88
        return at % 100 if operator == "remainder" else at // 3

    f = lathe.jit(lambda x: lathe.sum(lathe.take(x, computed(lathe)), axis=-1))
    with np.errstate(over="ignore"):
        i, j = np.arange(65, dtype=np.int8)[:, None], np.arange(16, dtype=np.int8)[None, :]
        at = i * np.int8(4) + j * np.int8(-2) + np.int8(88)
    at = at % np.int8(100) if operator == "remainder" else at // np.int8(3)
    np.testing.assert_array_equal(f(x), x[at].sum(-1))


@pytest.mark.parametrize(
    ("weights", "rows", "entries"), [((700, 33), 8, 16), ((257, 31), 16, 16), ((512, 17), 4, 2), ((33, 700), 5, 300)]
)
def test_looked_up_weights_of_odd_rows(weights, rows, entries):
    rng = np.random.default_rng(rows)
    w = rng.integers(0, entries, weights, np.uint16)
    x, t = rng.standard_normal((rows, weights[1])), rng.standard_normal(entries)
    f = lathe.jit(lambda x, w, t: lathe.matmul(x, lathe.take(t, w).T))
    np.testing.assert_allclose(f(x, w, t), x @ t[w].T, rtol=1e-12, atol=1e-12)
    w[-1, -1] = entries
    with pytest.raises(IndexError, match=str(entries)):
        f(x, w, t)


def test_places_that_data_moves_are_kept_within_a_row():
    x, w = table(12, 200), table(24, 12, 5)
    moved = np.random.default_rng(8).integers(-60, 60, (5, 200))

    @lathe.jit
    def f(x, w, moved):
        def tap(o, i):
            return lambda c, t: x[c, lathe.clip(i + moved[t, i], 0, 199)] * w[o, c, t]

        return lathe.compute((24, 200), lambda o, i: lathe.reduce("sum", (12, 5), tap(o, i)))

    picked = x[:, np.clip(np.arange(200) + moved, 0, 199)]
    np.testing.assert_allclose(f(x, w, moved), np.einsum("cti,oct->oi", picked, w), rtol=1e-4, atol=1e-4)
    assert "_reindex" in f.lower(x, w, moved).text("scheduled")
    far = moved.copy()
    far[0, 1:3] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    picked = x[:, np.clip(np.arange(200) + far, 0, 199)]  # both wrap alike
    np.testing.assert_allclose(f(x, w, far), np.einsum("cti,oct->oi", picked, w), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("windows", [1, 16])
def test_a_bias_that_windows_share_is_looked_up_once(windows):
    s, t, i = table(windows, 3, 20, 20), table(3, 50), places(50, 20, 20)
    f = lathe.jit(lambda s, t, i: s + t[:, i])
    np.testing.assert_array_equal(f(s, t, i), s + t[:, i])
    assert ("reindex" in f.lower(s, t, i).text("scheduled")) == (windows > 1)
    wrong = i.copy()
    wrong[7, 7] = 50
    with pytest.raises(IndexError, match="50"):
        f(s, t, wrong)
