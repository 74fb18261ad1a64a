"""Sums of which all terms are zero but those of one residue, as transposed convolutions are written, against NumPy."""

import numpy as np
import pytest

import lathe


def extent(size, kernel, stride, pad, more, dilation):
    return (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + more + 1


def expected(x, w, stride, pad, more, dilation):
    """Scatters each element's products into the output, float64."""
    n, c, height, width = x.shape
    _, k, r, s = w.shape
    rows = extent(height, r, stride, pad, more, dilation)
    columns = extent(width, s, stride, pad, more, dilation)
    out = np.zeros((n, k, rows + 2 * pad, columns + 2 * pad))
    for i in range(r):
        for j in range(s):
            product = np.einsum("nchw,ck->nkhw", x.astype(np.float64), w[:, :, i, j].astype(np.float64))
            top, left = i * dilation, j * dilation
            out[:, :, top : top + height * stride : stride, left : left + width * stride : stride][
                :, :, :height, :width
            ] += product
    return out[:, :, pad : pad + rows, pad : pad + columns]


def widened(x, kernel, stride, dilation):
    """x with enough zeros around that no index leaves it, and how many on each side."""
    margin = dilation * (max(kernel) - 1) // stride + 2
    return lathe.pad(x, [(0, 0), (0, 0), (margin, margin), (margin, margin)]), margin


def gathered(x, w, stride, pad, more, dilation):
    """Each output chooses the elements that reach it."""
    n, c, height, width = x.shape
    _, k, r, s = w.shape
    x, margin = widened(x, (r, s), stride, dilation)

    def term(b, f, i, j, ci, ri, si):
        p, q = i + pad - dilation * ri, j + pad - dilation * si
        element = x[b, ci, p // stride + margin, q // stride + margin]
        return lathe.select((p % stride == 0) & (q % stride == 0), element, 0.0) * w[ci, f, ri, si]

    shape = (n, k, extent(height, r, stride, pad, more, dilation), extent(width, s, stride, pad, more, dilation))
    return lathe.compute(shape, lambda *at: lathe.reduce("sum", (c, r, s), lambda *by: term(*at, *by)))


def chosen(x, w, stride, pad, more, dilation):
    """Each output chooses the products that reach it; no element beside x is read."""
    n, c, height, width = x.shape
    _, k, r, s = w.shape

    def term(b, f, i, j, ci, ri, si):
        p, q = i + pad - dilation * ri, j + pad - dilation * si
        reaches = (p % stride == 0) & (q % stride == 0) & (p >= 0) & (q >= 0)
        reaches = reaches & (p // stride < height) & (q // stride < width)
        return lathe.where(reaches, x[b, ci, p // stride, q // stride] * w[ci, f, ri, si], 0.0)

    shape = (n, k, extent(height, r, stride, pad, more, dilation), extent(width, s, stride, pad, more, dilation))
    return lathe.compute(shape, lambda *at: lathe.reduce("sum", (c, r, s), lambda *by: term(*at, *by)))


def convolved(wide, w, rows, columns, dilation):
    c, k, r, s = w.shape
    return lathe.compute(
        (wide.shape[0], k, rows, columns),
        lambda b, f, i, j: lathe.reduce(
            "sum",
            (c, r, s),
            lambda ci, ri, si: wide[b, ci, i + dilation * ri, j + dilation * si] * w[ci, f, r - 1 - ri, s - 1 - si],
        ),
    )


def spread(x, w, stride, pad, more, dilation):
    """A plain convolution over x with zeros between its elements."""
    n, c, height, width = x.shape
    _, _, r, s = w.shape
    rows, columns = extent(height, r, stride, pad, more, dilation), extent(width, s, stride, pad, more, dilation)
    top, left = dilation * (r - 1) - pad, dilation * (s - 1) - pad
    x, margin = widened(x, (r, s), stride, dilation)

    def element(b, ci, i, j):
        p, q = i - top, j - left
        value = x[b, ci, p // stride + margin, q // stride + margin]
        return lathe.select((p % stride == 0) & (q % stride == 0), value, 0.0)

    wide = lathe.compute((n, c, rows + dilation * (r - 1), columns + dilation * (s - 1)), element)
    return convolved(wide, w, rows, columns, dilation)


def laid_out(x, w, stride, pad, more, dilation):
    """Zeros between the elements and around them by pads and reshapes alone, then a plain convolution."""
    n, c, height, width = x.shape
    _, _, r, s = w.shape
    rows, columns = extent(height, r, stride, pad, more, dilation), extent(width, s, stride, pad, more, dilation)
    top, left = dilation * (r - 1) - pad, dilation * (s - 1) - pad
    between = [(0, 0), (0, 0), (0, 0), (0, stride - 1), (0, 0), (0, stride - 1)]
    wide = lathe.pad(x.reshape((n, c, height, 1, width, 1)), between).reshape((n, c, height * stride, width * stride))
    wide = wide[:, :, : (height - 1) * stride + 1, : (width - 1) * stride + 1]
    below, right = dilation * (r - 1) - pad + more, dilation * (s - 1) - pad + more
    wide = lathe.pad(wide, [(0, 0), (0, 0), (top, below), (left, right)])
    return convolved(wide, w, rows, columns, dilation)


# x, w, stride, pad, output padding, dilation
cases = [
    ((1, 8, 9, 9), (8, 16, 4, 4), 2, 1, 0, 1),
    ((2, 8, 9, 7), (8, 16, 3, 3), 2, 1, 1, 1),
    ((1, 8, 9, 28), (8, 24, 3, 3), 2, 1, 0, 1),
    ((1, 4, 7, 20), (4, 8, 3, 5), 3, 1, 0, 1),
    ((1, 4, 7, 20), (4, 8, 3, 3), 3, 1, 1, 1),
    ((1, 8, 8, 8), (8, 8, 5, 5), 2, 2, 1, 1),
    ((1, 8, 8, 8), (8, 8, 3, 3), 2, 1, 0, 3),
    ((1, 4, 5, 5), (4, 4, 7, 7), 4, 3, 1, 1),
    ((1, 32, 28, 28), (32, 32, 4, 4), 2, 1, 0, 1),
    ((1, 64, 28, 28), (64, 64, 2, 8), 2, 1, 0, 1),
    ((1, 64, 28, 28), (64, 64, 4, 8), 4, 0, 0, 1),
    # Results without terms: more steps between elements than taps, or a divisor of the step and the dilation.
    ((1, 4, 5, 5), (4, 4, 1, 1), 2, 0, 0, 1),
    ((2, 16, 7, 7), (16, 32, 1, 1), 2, 0, 1, 1),
    ((1, 4, 5, 5), (4, 4, 3, 3), 2, 1, 0, 2),
    ((1, 8, 9, 6), (8, 16, 3, 3), 5, 1, 0, 2),
    ((1, 8, 6, 9), (8, 16, 2, 3), 4, 0, 2, 6),
]


@pytest.mark.parametrize("form", [gathered, chosen, spread, laid_out])
@pytest.mark.parametrize("case", cases, ids=str)
def test_each_residue_is_a_dense_sum(case, form):
    x_shape, w_shape, *placement = case
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(x_shape, np.float32), rng.standard_normal(w_shape, np.float32)
    f = lathe.jit(lambda x, w: form(x, w, *placement))
    assert "_dense" in f.lower(x, w).text("scheduled")
    np.testing.assert_allclose(f(x, w), expected(x, w, *placement), rtol=1e-4, atol=1e-4)


def test_weights_are_turned_around_for_short_rows_too():
    """Rows of seven columns a residue: half a vector of AVX-512, so that each weight is loaded as often as by twice as many."""
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((1, 64, 7, 7), (64, 64, 5, 5)))
    f = lathe.jit(lambda x, w: spread(x, w, 3, 1, 0, 1))
    np.testing.assert_allclose(f(x, w), expected(x, w, 3, 1, 0, 1), rtol=1e-4, atol=1e-3)
    if "avx512f" in lathe.device_info()["features"]:
        assert "x1_global: f32[5, 5, 64, 64]" in f.lower(x, w).text("scheduled")


@pytest.mark.parametrize("placement", [(2, 1, 0, 1), (4, 0, 0, 1), (2, 1, 0, 2)], ids=str)
def test_zero_times_what_is_not_finite_is_nan(placement):
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 4, 6, 6), np.float32), rng.standard_normal((4, 20, 3, 3), np.float32)
    w[1, 7, 0, 1], w[2, 18, 2, 2] = np.inf, np.nan
    f = lathe.jit(lambda x, w: spread(x, w, *placement))
    stride, pad, more, dilation = placement
    reference = np.empty((1, 20, *(extent(6, 3, stride, pad, more, dilation),) * 2), np.float32)
    lathe.interpret(f.lower(x, w).func, [x, w, reference])
    found = f(x, w)
    assert np.isnan(reference).sum() > 100
    assert (np.isnan(found) == np.isnan(reference)).all()
    finite = np.isfinite(reference)
    np.testing.assert_allclose(found[finite], reference[finite], rtol=1e-4, atol=1e-4)
    assert (found[np.isinf(reference)] == reference[np.isinf(reference)]).all()


def test_the_primitive_by_hand():
    def line(x, w):
        return lathe.compute(
            (10,),
            lambda i: lathe.reduce("sum", (4,), lambda k: lathe.select((i + k) % 2 == 0, x[(i + k) // 2], 0.0) * w[k]),
        )

    rng = np.random.default_rng(5)
    x, w = rng.standard_normal(7).astype(np.float32), rng.standard_normal(4).astype(np.float32)
    before = lathe.jit(line).lower(x, w).func
    s = lathe.Schedule(before)
    assert s.split_residues("compute").name == "compute_dense"
    again = lathe.Schedule(before)
    again.replay(s.record)
    assert str(again.func) == str(s.func)
    found, reference = np.empty(10, np.float32), np.empty(10, np.float32)
    lathe.compile(s.func)(x, w, found)
    lathe.interpret(before, [x, w, reference])
    np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("remainder", [-1, 3, 4, 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_remainder_that_no_number_has(remainder, sign):
    x, w = np.ones(100, np.float32), np.ones(12, np.float32)

    def line(x, w):
        def term(h, r):
            place = h + sign * r
            return lathe.select(place % 4 == remainder, x[h + r], 0.0) * w[r]

        return lathe.compute((40,), lambda h: lathe.reduce("sum", 12, lambda r: term(h, r)))

    places = np.arange(40)[:, None] + sign * np.arange(12)
    np.testing.assert_array_equal(lathe.jit(line)(x, w), (places % 4 == remainder).sum(1))


@pytest.mark.parametrize("taps, pad", [(4, 0), (5, 1), (3, 0)])
def test_places_that_a_remainder_keeps_inside_are_not_checked(taps, pad):
    """(i - top) // 2 + 1 under (i - top) % 2 == 0, over an image with one zero around it."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 8, 9, 9)).astype("float32")
    w = rng.standard_normal((8, 12, taps, taps)).astype("float32")
    size, top = extent(9, taps, 2, pad, 0, 1), taps - 1 - pad

    def narrow(x, w):
        x = lathe.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        wide = lathe.compute(
            (1, 8, size + taps - 1, size + taps - 1),
            lambda b, c, i, j: lathe.select(
                ((i - top) % 2 == 0) & ((j - top) % 2 == 0), x[b, c, (i - top) // 2 + 1, (j - top) // 2 + 1], 0.0
            ),
        )
        return convolved(wide, w, size, size, 1)

    function = lathe.jit(narrow)
    assert "assert" not in function.lower(x, w).text("traced")
    np.testing.assert_allclose(function(x, w), expected(x, w, 2, pad, 0, 1), rtol=1e-4, atol=1e-5)


def test_products_that_are_skipped_may_be_anything():
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 32, 20, 20), np.float32), rng.standard_normal((32, 17, 4, 4), np.float32)
    x[0, 3, 0, 0], w[4, 5, 0, 0] = np.inf, np.nan
    f = lathe.jit(lambda x, w: chosen(x, w, 2, 1, 0, 1))
    with np.errstate(invalid="ignore"):
        want = expected(x, w, 2, 1, 0, 1)
    assert 0 < np.isfinite(want).sum() < want.size
    np.testing.assert_allclose(f(x, w), want, rtol=1e-4, atol=1e-4)
    if "avx512f" in lathe.device_info()["features"]:
        assert ", l0" in f.lower(x, w).text("end")
