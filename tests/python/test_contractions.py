"""Contractions of shapes that the scheduler treats differently, against float64 NumPy."""

import re

import numpy as np
import pytest
from explanations import explained

import lathe

rng = np.random.default_rng(3)


def operand(rows, columns, layout):
    """A float32 matrix: compact, transposed in memory, or every other element of a larger one."""
    if layout == "transposed":
        return rng.standard_normal((columns, rows), dtype=np.float32).T
    if layout == "strided":
        return rng.standard_normal((2 * rows, 3 * columns), dtype=np.float32)[::2, ::3]
    return rng.standard_normal((rows, columns), dtype=np.float32)


def check(a, b, bias=None):
    def product(x, y, z=None):
        return lathe.matmul(x, y) if z is None else lathe.relu(lathe.matmul(x, y) + z)

    arguments = [a, b] if bias is None else [a, b, bias]
    result = lathe.jit(product, name="product")(*arguments)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + 1e-30
    if bias is not None:
        expected, scale = np.maximum(expected + bias, 0), scale + np.abs(bias)
    assert result.shape == expected.shape
    # Rounding grows with the length of a sum, in whatever order it is taken.
    assert np.all(np.abs(result - expected) <= scale * np.finfo(np.float32).eps * (2 + a.shape[1] ** 0.5))


@pytest.mark.parametrize("layouts", ["nn", "nt", "tn", "tt", "sn", "ns"])
@pytest.mark.parametrize(
    "shape", [(1, 17, 33), (5, 3, 40), (33, 2, 70), (40, 40, 40), (2, 100, 3), (64, 1, 64), (1, 1, 200)]
)
def test_small(shape, layouts):
    m, n, k = shape
    names = {"n": "compact", "t": "transposed", "s": "strided"}
    check(operand(m, k, names[layouts[0]]), operand(k, n, names[layouts[1]]))


@pytest.mark.parametrize("shape", [(1, 2100, 1031), (3, 1025, 1024), (8, 1100, 515), (1, 1000, 3000), (2100, 1, 1031)])
@pytest.mark.parametrize("layouts", ["nn", "tn", "nt"])
def test_more_than_the_caches_hold(shape, layouts):
    m, n, k = shape
    names = {"n": "compact", "t": "transposed"}
    check(
        operand(m, k, names[layouts[0]]),
        operand(k, n, names[layouts[1]]),
        rng.standard_normal(n, dtype=np.float32),
    )


@pytest.mark.parametrize("shape", [(600, 300, 300), (517, 131, 263)])
@pytest.mark.parametrize("layouts", ["nn", "tn", "nt", "tt"])
def test_packed(shape, layouts):
    m, n, k = shape
    names = {"n": "compact", "t": "transposed"}
    a, b = operand(m, k, names[layouts[0]]), operand(k, n, names[layouts[1]])
    check(a, b, rng.standard_normal(n, dtype=np.float32))
    # The same where the operator turns compact operands around.
    result = lathe.jit(lambda x, y: lathe.matmul(lathe.matrix_transpose(x), lathe.matrix_transpose(y)), name="product")(
        np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    )
    assert np.allclose(result, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


@pytest.mark.parametrize(
    "shape",
    [(16, 77, 130), (24, 300, 96), (32, 97, 301), (40, 800, 300), (48, 500, 64), (64, 203, 515), (32, 1100, 515)],
)
def test_few_rows_beside_weights_along_the_sum(shape):
    m, n, k = shape
    x, w, b = operand(m, k, "compact"), operand(n, k, "compact"), rng.standard_normal(n, dtype=np.float32)
    check(x, w.T, b)
    expected = x.astype(np.float64) @ w.T + b
    scale = np.abs(x.astype(np.float64)) @ np.abs(w.T) + np.abs(b)
    # Stored as they are, and read back by a long epilogue.
    result = lathe.jit(lambda x, w, b: lathe.silu(lathe.matmul(x, lathe.matrix_transpose(w)) + b))(x, w, b)
    assert np.all(np.abs(result - expected / (1 + np.exp(-expected))) <= 4e-6 * scale)
    views = lathe.jit(lambda x, w: lathe.matmul(x, lathe.matrix_transpose(w)))(
        operand(m, 2 * k, "compact")[:, :k], operand(n, k, "compact")
    )
    assert views.shape == (m, n)


@pytest.mark.parametrize("layouts", ["nn", "nt", "tn"])
@pytest.mark.parametrize("shape", [(64, 48, 4096), (37, 100, 3001), (128, 200, 20000), (48, 48, 1031)])
def test_long_sums_are_as_accurate_as_others_make_them(shape, layouts):
    m, n, k = shape
    # All of one sign: each rounding of one long sum goes the same way for long.
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)

    def error(result):
        return np.sqrt(np.mean((result / expected - 1) ** 2))

    def laid(x, layout):
        return np.ascontiguousarray(x.T).T if layout == "t" else x

    x, y = laid(a, layouts[0]), laid(b, layouts[1])
    assert error(lathe.jit(lathe.matmul)(x, y)) <= max(2 * error(a @ b), 3e-7)
    # The same under a long epilogue, which is 1 to the last place here.
    assert error(lathe.jit(lambda x, y: lathe.silu(lathe.matmul(x, y)))(x, y)) <= max(2 * error(a @ b), 3e-7)


@pytest.mark.parametrize("axes", [(2, 3), (7, 13), (3, 1), (2, 3, 4), (4, 16), (0, 5)])
def test_batches_of_rows_beside_one_matrix(axes):
    x, w, b = rng.standard_normal((*axes, 96), np.float32), operand(96, 70, "compact"), operand(1, 70, "compact")[0]
    mask = rng.standard_normal((axes[0], *[1] * len(axes)), np.float32)
    expected = x.astype(np.float64) @ w + b
    near = {"rtol": 1e-4, "atol": 1e-4}
    assert np.allclose(lathe.jit(lambda x, w, b: x @ w + b)(x, w, b), expected, **near)
    assert np.allclose(lathe.jit(lambda x, w, b, m: (x @ w + b) * m)(x, w, b, mask), expected * mask, **near)
    turned = lathe.jit(lambda x, w, b: x @ lathe.matrix_transpose(w) + b)(x, np.ascontiguousarray(w.T), b)
    assert np.allclose(turned, expected, **near)
    sums = lathe.jit(lambda x, w, b: lathe.sum(x @ w + b, axis=-1))(x, w, b)
    assert np.allclose(sums, expected.sum(-1), rtol=1e-3, atol=1e-2)
    wide = rng.standard_normal((*axes, 192), np.float32)[..., :96]
    assert np.allclose(lathe.jit(lambda x, w: x @ w)(wide, w), wide.astype(np.float64) @ w, **near)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 5, 0)])
def test_empty(shape):
    m, n, k = shape
    check(operand(m, k, "compact"), operand(k, n, "compact"))


@pytest.mark.parametrize("columns", [1, 8, 64])
def test_no_columns_of_a_large_array_are_summed(columns):
    x, w = np.ones((3000, 300), np.float32), np.ones((300, columns), np.float32)
    assert not np.asarray(lathe.jit(lambda x, w: lathe.matmul(x[:, 3:3], w[3:3]))(x, w)).any()


@pytest.mark.parametrize("taps, step", [(1, 2), (1, 3), (2, 2), (3, 3), (8, 8), (7, 5)])
@pytest.mark.parametrize("filters, depth, pixels", [(33, 20, False), (64, 3, False), (40, 3, True)])
def test_windows_that_hardly_overlap(taps, step, filters, depth, pixels):
    """Images of channels, or of pixels, whose weights lie along the reduction too."""
    side = 11
    size = (side - 1) * step + taps
    x = rng.standard_normal((2, depth, size, size), dtype=np.float32)
    w = rng.standard_normal((filters, depth, taps, taps), dtype=np.float32)

    def of_channels(x, w):
        return lathe.compute(
            (2, filters, side, side),
            lambda b, f, i, j: lathe.reduce(
                "sum", (depth, taps, taps), lambda c, r, s: x[b, c, i * step + r, j * step + s] * w[f, c, r, s]
            ),
        )

    def of_pixels(x, w):
        return lathe.compute(
            (2, side, side, filters),
            lambda b, i, j, f: lathe.reduce(
                "sum", (taps, taps, depth), lambda r, s, c: x[b, i * step + r, j * step + s, c] * w[f, r, s, c]
            ),
        )

    def last(a):
        return np.ascontiguousarray(np.moveaxis(a, 1, -1))

    if pixels:
        result = np.moveaxis(lathe.jit(of_pixels)(last(x), last(w)), -1, 1)
    else:
        result = lathe.jit(of_channels)(x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (taps, taps), axis=(2, 3))
    expected = np.einsum("bcijrs,fcrs->bfij", windows[:, :, ::step, ::step], w)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", ["ij,jk->ki", "ki,jk->ij", "bij,bjk->bki", "kji,lkj->il", "kji,jlk->il"])
@pytest.mark.parametrize("sizes", [(33, 40, 50), (64, 48, 32), (5, 3, 70), (130, 17, 9)])
def test_no_operand_lies_along_the_output_and_another_along_the_reduction(spec, sizes):
    rng = np.random.default_rng(3)
    extents = dict(zip("ijk", sizes, strict=True)) | {"b": 3, "l": 21}
    a, b = (rng.standard_normal([extents[c] for c in term], np.float32) for term in spec.split("->")[0].split(","))
    kernel = lathe.jit(lambda a, b: lathe.einsum(spec, a, b))
    np.testing.assert_allclose(kernel(a, b), np.einsum(spec, a, b), rtol=1e-4, atol=1e-4)
    assert "vectorized" in kernel.lower(a, b).text("scheduled")


@pytest.mark.parametrize("subscripts", ["ac,cb->ab", "ac,cb->ba", "ca,bc->ab"])
def test_strided_operands_are_copied_once(subscripts):
    """Arrays of which no axis is contiguous: vectors walk compact copies of them, and scalars of several panels too."""
    rng = np.random.default_rng(3)
    extents = {"a": 120, "b": 133, "c": 19}
    x, y = (
        rng.standard_normal([2 * extents[letter] for letter in letters], np.float32)[::2, ::2]
        for letters in subscripts.split("->")[0].split(",")
    )
    f = lathe.jit(lambda x, y: lathe.einsum(subscripts, x, y))
    np.testing.assert_allclose(f(x, y), np.einsum(subscripts, x, y), rtol=1e-4, atol=1e-5)
    text = f.lower(x, y).text("scheduled")
    assert "x0_global" in text and "x1_global" in text
    assert "vectorized" in text


GROUPED = [
    # subscripts, extents, which operands are strided, what the scheduler is to decide
    ("abe,cde->cabd", dict(a=6, b=9, c=10, d=12, e=40), "", "group the axes"),
    ("cabe,de->dbca", dict(a=1, b=32, c=24, d=13, e=50), "", "group the axes"),
    ("cabe,de->dbca", dict(a=1, b=32, c=24, d=13, e=50), "x", "group the axes"),
    ("bace,ade->cadb", dict(a=13, b=20, c=7, d=18, e=8), "xy", "turn squares of x0_reindex"),
    ("adc,dcb->ba", dict(a=50, b=4, c=17, d=20), "", "vectors along the reduction"),
    ("adbe,ecd->cba", dict(a=16, b=12, c=8, d=7, e=96), "", "dot products"),
    ("bea,ced->bcda", dict(a=2, b=16, c=63, d=16, e=31), "", "weave einsum_copy"),
    ("ceba,ed->dacb", dict(a=24, b=3, c=4, d=64, e=24), "", "turn squares of einsum_copy"),
    ("bea,aecd->dcab", dict(a=20, b=12, c=7, d=16, e=33), "", "group the axes"),
    ("bea,aecd->dcab", dict(a=20, b=12, c=7, d=16, e=33), "xy", "group the axes"),
    ("edba,daec->cba", dict(a=64, b=9, c=4, d=6, e=20), "", "vectors along the batch"),
    ("bcea,deab->bcda", dict(a=17, b=17, c=12, d=6, e=12), "", "lanes of either operand"),
    ("ceda,cdbe->ab", dict(a=12, b=31, c=8, d=5, e=17), "", "group the axes"),
    ("dba,dc->acb", dict(a=64, b=128, c=5, d=50), "", "group the axes"),
    # The columns e stay apart from d, so that the result is stored as it lies.
    (
        "acbf,efad->ecbda",
        dict(a=31, b=7, c=12, d=13, e=5, f=5),
        "xy",
        "84 x 13 x 5, 155 times, vectors along the batch",
    ),
    # Rows of 50 lie behind each other: vectors would begin in one panel and end in the next.
    ("da,bdc->abc", dict(a=31, b=16, c=50, d=12), "", "vectorize x1_reindex"),
    ("ad,bcd->acb", dict(a=24, b=31, c=41, d=16), "", "turn squares of x1_reindex"),
    # The outermost axis of the result stays apart, so that none but the operand of d is read anew for each.
    ("bcea,ed->cdba", dict(a=4, b=20, c=3, d=31, e=16), "", "31 x 80 x 16, 3 times"),
    # Vectors of rows of 100 elements straddle lines, those of the copy do not.
    ("caeb,dea->cdba", dict(a=100, b=7, c=3, d=48, e=31), "", "keep rows of einsum near"),
]


@pytest.mark.parametrize("subscripts, extents, strided, decision", GROUPED)
def test_axes_in_any_order_are_grouped(subscripts, extents, strided, decision, tmp_path):
    inputs, _ = subscripts.split("->")
    rng = np.random.default_rng(1)
    arrays = []
    for name, letters in zip("xy", inputs.split(","), strict=True):
        step = 2 if name in strided else 1
        shape = [extents[letter] for letter in letters]
        shape[-1] *= step
        arrays.append(rng.standard_normal(shape, np.float32)[..., ::step])
    f = lathe.jit(lambda x, y: lathe.einsum(subscripts, x, y))
    expected = np.einsum(subscripts, *(a.astype(np.float64) for a in arrays))
    np.testing.assert_allclose(f(*arrays), expected, rtol=1e-4, atol=1e-4)
    g = lathe.jit(lambda x, y: lathe.relu(lathe.einsum(subscripts, x, y) * 2 + 1))
    np.testing.assert_allclose(g(*arrays), np.maximum(expected * 2 + 1, 0), rtol=1e-4, atol=2e-4)
    decisions = explained(f.lower(*arrays), tmp_path)
    assert decision in decisions
    assert "# pad x" not in decisions, "what joined axes read is no border"


@pytest.mark.parametrize("taps", [2, 4, 7, 16])
@pytest.mark.parametrize("batch, channels, side, filters", [(1, 3, 4, 50), (2, 5, 3, 96)])
def test_patches_as_the_rows_of_a_matrix(batch, channels, side, filters, taps):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((batch, channels, side * taps, side * taps), np.float32)
    w = rng.standard_normal((filters, channels, taps, taps), np.float32)

    def embed(lib, x, w, channels_last):
        patches = lib.reshape(x, (batch, channels, side, taps, side, taps))
        order = (0, 2, 4, 3, 5, 1) if channels_last else (0, 2, 4, 1, 3, 5)
        patches = lib.reshape(lib.permute_dims(patches, order), (batch * side * side, -1))
        weights = lib.permute_dims(w, (0, 2, 3, 1)) if channels_last else w
        rows = patches @ lib.permute_dims(lib.reshape(weights, (filters, -1)), (1, 0))
        return lib.permute_dims(lib.reshape(rows, (batch, side * side, filters)), (0, 2, 1))

    for channels_last in (False, True):
        f = lathe.jit(lambda x, w, last=channels_last: embed(lathe, x, w, last))
        expected = embed(np, x.astype(np.float64), w.astype(np.float64), channels_last)
        np.testing.assert_allclose(f(x, w), expected, rtol=1e-4, atol=1e-3)


def halves_turned(lib, x, cos, sin):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return lib.concat([a * cos - b * sin, b * cos + a * sin], axis=-1)


def pairs_turned(lib, x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return lib.reshape(lib.stack([a * cos - b * sin, a * sin + b * cos], axis=-1), x.shape)


@pytest.mark.parametrize("turn", [halves_turned, pairs_turned], ids=["halves", "pairs"])
@pytest.mark.parametrize("rows, width", [(1, 8), (37, 64), (130, 48)])
def test_products_of_what_is_joined_along_rows(turn, rows, width):
    rng = np.random.default_rng(8)
    q, k = (rng.standard_normal((2, rows, width), np.float32) for _ in range(2))
    cos, sin = (rng.standard_normal((rows, width // 2), np.float32) for _ in range(2))
    w = rng.standard_normal((2 * width, 40), np.float32)
    scores = lathe.jit(
        lambda q, k, cos, sin: turn(lathe, q, cos, sin) @ lathe.matrix_transpose(turn(lathe, k, cos, sin))
    )
    expected = turn(np, q, cos, sin) @ turn(np, k, cos, sin).swapaxes(-1, -2)
    np.testing.assert_allclose(scores(q, k, cos, sin), expected, rtol=1e-4, atol=1e-3)
    joined = lathe.jit(lambda q, k, w: lathe.concat([q, k], axis=-1) @ w)
    np.testing.assert_allclose(joined(q, k, w), np.concatenate([q, k], -1) @ w, rtol=1e-4, atol=1e-3)
    summed = lathe.jit(lambda q, k, w: lathe.einsum("bij,jk->ik", lathe.concat([q, k], axis=-1), w))
    np.testing.assert_allclose(summed(q, k, w), (np.concatenate([q, k], -1) @ w).sum(0), rtol=1e-4, atol=1e-3)
    below = lathe.jit(lambda q, k: lathe.concat([q, k], axis=1) @ lathe.matrix_transpose(q))
    np.testing.assert_allclose(below(q, k), np.concatenate([q, k], 1) @ q.swapaxes(1, 2), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("first", [1, 40, 200])
def test_products_of_what_is_joined_along_either_axis(first):
    rng = np.random.default_rng(9)
    a, b, w = (rng.standard_normal(shape, np.float32) for shape in [(first, 96), (120, 96), (96, 80)])
    rows = lathe.jit(lambda a, b, w: lathe.concat([a, b], axis=0) @ w)
    np.testing.assert_allclose(rows(a, b, w), np.concatenate([a, b]) @ w, rtol=1e-4, atol=1e-3)
    steps = lathe.jit(lambda a, b, w: lathe.matrix_transpose(w) @ lathe.matrix_transpose(lathe.concat([a, b], axis=0)))
    np.testing.assert_allclose(steps(a, b, w), w.T @ np.concatenate([a, b]).T, rtol=1e-4, atol=1e-3)
    along = lathe.jit(lambda a, b: lathe.matrix_transpose(lathe.concat([a, b], axis=0)) @ lathe.concat([a, b], axis=0))
    both = np.concatenate([a, b])
    np.testing.assert_allclose(along(a, b), both.T @ both, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("axis", [0, 1])
def test_products_that_are_joined(axis):
    """Each has a nest of its own, which walks no further than its results."""
    rng = np.random.default_rng(10)
    a, b, w = (rng.standard_normal(shape, np.float32) for shape in [(64, 96), (160, 96), (96, 80)])
    if axis == 1:
        a, b, w = w.T @ a.T, w.T @ b.T, np.eye(80, dtype=np.float32)
        joined = lathe.jit(lambda a, b, w: lathe.concat([w @ a, w @ b], axis=1))
        expected = np.concatenate([w @ a, w @ b], 1)
    else:
        joined = lathe.jit(lambda a, b, w: lathe.concat([a @ w, b @ w], axis=0))
        expected = np.concatenate([a @ w, b @ w])
    np.testing.assert_allclose(joined(a, b, w), expected, rtol=1e-4, atol=1e-3)
    text = joined.lower(a, b, w).text("scheduled")
    registers = re.findall(r"alloc (\w+): .* @register", text)
    choices = [line for line in text.splitlines() if "select(" in line]
    assert registers and not any(f"{name}[" in line for name in registers for line in choices)


@pytest.mark.parametrize("size", [(40, 40, 40), (97, 97, 70), (130, 64, 200), (7, 9, 11)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triangles_are_masked_once(size, dtype):
    rows, steps, columns = size
    rng = np.random.default_rng(rows)
    a, b = rng.standard_normal((rows, steps)).astype(dtype), rng.standard_normal((steps, columns)).astype(dtype)
    product = lathe.jit(lambda a, b: lathe.triu(lathe.matmul(lathe.triu(a), lathe.tril(b, 2)), -1))
    expected = np.triu(np.triu(a).astype(np.float64) @ np.tril(b, 2).astype(np.float64), -1)
    np.testing.assert_allclose(product(a, b), expected, rtol=1e-4, atol=1e-4)
    if rows == 130:
        assert "x0_reindex" in product.lower(a, b).text("scheduled")


@pytest.mark.parametrize("n", [5, 64, 100, 143])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_triangle_by_itself(n, transposed):
    a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(np.float32)

    @lathe.jit
    def f(a):
        lower = lathe.tril(a)
        return lower.T @ lower if transposed else lower @ lower.T

    lower = np.tril(a)
    np.testing.assert_array_equal(f(a), lower.T @ lower if transposed else lower @ lower.T)


@pytest.mark.parametrize(("rows", "others"), [(14, 2), (2, 14), (28, 12)])
def test_tiles_of_lanes_stay_in_registers(rows, others):
    """The operand of more rows is walked: its vectors follow each other, and only the other's are held."""
    if "avx512f" not in lathe.device_info()["features"]:
        pytest.skip("tiles are for 32 registers")
    x, y = rng.standard_normal((rows, 7, 160), np.float32), rng.standard_normal((others, 7, 160), np.float32)
    product = lathe.jit(lambda x, y: lathe.einsum("rkb,okb->rob", x, y))
    assert not re.search(r"%zmm\d+, -?\d*\(%rsp\)", product.lower(x, y).text("asm"))
    np.testing.assert_allclose(product(x, y), np.einsum("rkb,okb->rob", x, y), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("channels", "filters", "side"), [(64, 3, 11), (33, 2, 9), (96, 1, 8), (16, 4, 13), (128, 5, 7)])
def test_windows_of_few_filters_take_dot_products_along_the_channels(channels, filters, side, tmp_path):
    x, w = rng.standard_normal((1, side, side, channels), np.float32), rng.standard_normal(
        (3, 3, channels, filters), np.float32
    )

    def conv(x, w):
        padded = lathe.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        return lathe.compute(
            (1, side, side, filters),
            lambda n, i, j, o: lathe.reduce(
                "sum", (3, 3, channels), lambda r, s, c: padded[n, i + r, j + s, c] * w[r, s, c, o]
            ),
        )

    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    expected = sum(
        padded[:, r : r + side, s : s + side] @ w[r, s].astype(np.float64) for r in range(3) for s in range(3)
    )
    compiled = lathe.jit(conv)
    np.testing.assert_allclose(compiled(x, w), expected, rtol=1e-4, atol=1e-3)
    if filters == 3:
        assert "dot products" in explained(compiled.lower(x, w), tmp_path)
