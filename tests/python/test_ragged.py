"""Reductions whose axes are as long as data or other indices say, against NumPy: they end there, check what they read, and no more."""

import numpy as np
import pytest

import lathe

COUNTS = {
    "short": [3, 0, 1, 7, 2, 0, 5],
    "empty": [0, 0, 0],
    "one": [9],
    "long": [40, 0, 129, 64, 1, 300],
}


def offsets_of(counts, dtype=np.int64):
    return np.concatenate([[0], np.cumsum(counts)]).astype(dtype)


def numbers(*shape, dtype=np.float32):
    """Whole numbers, whose sums are exact in every order."""
    values = np.random.default_rng(3).integers(-4, 5, shape)
    return values.astype(dtype)


def row_ends(f, *arrays):
    """The ends of the loops that the schedule ends early."""
    text = f.lower(*arrays).text("scheduled")
    return [line for line in text.splitlines() if " in [0, max(min(" in line]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("most", [16, 70, 1000])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_sums_of_ragged_rows(counts, most, dtype):
    if sum(counts) > np.iinfo(dtype).max:
        pytest.skip("more elements than the offsets count")
    o, rows = offsets_of(counts, dtype), len(counts)
    x = numbers(o[-1] + 1)

    @lathe.jit
    def f(o, x):
        return lathe.compute(
            (rows,), lambda i: lathe.reduce("sum", lathe.minimum(o[i + 1] - o[i], most), lambda k: x[o[i] + k])
        )

    expected = [x[a : min(b, a + most)].sum() for a, b in zip(o[:-1].astype(int), o[1:].astype(int), strict=True)]
    np.testing.assert_array_equal(f(o, x), np.asarray(expected, np.float32))


@pytest.mark.parametrize("name, fold", [("max", np.max), ("min", np.min), ("prod", np.prod), ("any", np.any)])
def test_other_folds_of_ragged_rows(name, fold):
    counts = COUNTS["long"]
    o = offsets_of(counts)
    x = numbers(o[-1]) if name != "any" else numbers(o[-1]) > 3
    x = np.where(x == 0, 1, np.sign(x)).astype(x.dtype) if name == "prod" else x
    f = lathe.jit(
        lambda o, x: lathe.compute(
            (len(counts),), lambda i: lathe.reduce(name, lathe.minimum(o[i + 1] - o[i], 400), lambda k: x[o[i] + k])
        )
    )
    empty = {"max": -np.inf, "min": np.inf, "prod": 1, "any": False}[name]
    expected = [fold(x[a:b]) if b > a else empty for a, b in zip(o, o[1:], strict=False)]
    np.testing.assert_array_equal(f(o, x), np.asarray(expected, x.dtype))


def sparse(rows, columns, counts, dtype):
    o = offsets_of(counts)
    rng = np.random.default_rng(4)
    places, values = rng.integers(0, columns, o[-1]), numbers(o[-1], dtype=dtype)
    dense = np.zeros((rows, columns), dtype)
    for i in range(rows):
        np.add.at(dense[i], places[o[i] : o[i + 1]], values[o[i] : o[i + 1]])
    return o, places, values, dense


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("width", [None, 1, 7, 24, 65])
@pytest.mark.parametrize("most", [16, 33, 500])
def test_products_of_sparse_rows(most, width, dtype):
    counts = [3, 0, 16, 1, 9, 12, 0, 5, 2]
    o, places, values, dense = sparse(9, 31, counts, dtype)
    x = numbers(31, dtype=dtype) if width is None else numbers(31, width, dtype=dtype)

    @lathe.jit
    def f(o, places, values, x):
        def element(i, *c):
            length = lathe.minimum(o[i + 1] - o[i], most)
            return lathe.reduce("sum", length, lambda k: values[o[i] + k] * x[(places[o[i] + k], *c)])

        return lathe.compute((9, *x.shape[1:]), element)

    np.testing.assert_array_equal(f(o, places, values, x), dense @ x)
    if most > 33:
        assert row_ends(f, o, places, values, x)


@pytest.mark.parametrize("sizes", [(101, 10), (47, 7), (29, 6), (5, 9), (16, 1)])
def test_windows_of_computed_lengths(sizes):
    size, parts = sizes
    x = numbers(3, size, size)

    def begin(i):
        return i * size // parts

    def end(i):
        return ((i + 1) * size + parts - 1) // parts

    @lathe.jit
    def f(x):
        def window(c, i, j):
            extents = end(i) - begin(i), end(j) - begin(j)
            return lathe.reduce("sum", extents, lambda m, n: x[c, begin(i) + m, begin(j) + n])

        return lathe.compute((3, parts, parts), window)

    expected = [
        [[x[c, begin(i) : end(i), begin(j) : end(j)].sum() for j in range(parts)] for i in range(parts)]
        for c in range(3)
    ]
    np.testing.assert_array_equal(f(x), np.asarray(expected))


@pytest.mark.parametrize("width", [None, 5, 64])
def test_triangles(width):
    a = numbers(77, 77)
    x = numbers(77) if width is None else numbers(77, width)

    @lathe.jit
    def f(a, x):
        def element(i, *c):
            return lathe.reduce("sum", i + 1, lambda k: a[i, k] * x[(k, *c)])

        return lathe.compute((77, *x.shape[1:]), element)

    np.testing.assert_array_equal(f(a, x), np.tril(a) @ x)


def test_what_is_not_finite_behind_an_end_is_not_read():
    o = np.array([0, 2, 5])
    x = np.array([1, 2, 3, 4, 5, np.nan, np.inf], np.float32)
    f = lathe.jit(
        lambda o, x: lathe.compute(
            (2,), lambda i: lathe.reduce("sum", lathe.minimum(o[i + 1] - o[i], 90), lambda k: x[o[i] + k])
        )
    )
    np.testing.assert_array_equal(f(o, x), np.float32([3, 12]))


@pytest.mark.parametrize("width", [None, 20])
@pytest.mark.parametrize("most", [16, 90])
def test_places_are_checked_up_to_the_end_and_not_behind(most, width):
    o = np.array([0, 2, 5])
    x = numbers(10) if width is None else numbers(10, width)

    @lathe.jit
    def f(o, places, x):
        def element(i, *c):
            length = lathe.minimum(o[i + 1] - o[i], most)
            return lathe.reduce("sum", length, lambda k: x[(places[o[i] + k], *c)])

        return lathe.compute((2, *x.shape[1:]), element)

    places = np.array([1, 2, 3, 4, 5, 999, -1])
    np.testing.assert_array_equal(f(o, places, x), [x[1:3].sum(0), x[3:6].sum(0)])
    for at in (0, 4):
        wrong = places.copy()
        wrong[at] = 10
        with pytest.raises(IndexError, match="10"):
            f(o, wrong, x)
    with pytest.raises(IndexError):
        f(np.array([0, 2, 9]), places, x)


def test_rows_of_lengths_that_go_on_backwards_are_empty():
    o, x = np.array([5, 3, 6]), numbers(8)
    f = lathe.jit(
        lambda o, x: lathe.compute(
            (2,), lambda i: lathe.reduce("sum", lathe.minimum(o[i + 1] - o[i], 50), lambda k: x[o[i] + k])
        )
    )
    np.testing.assert_array_equal(f(o, x), [0, x[3:6].sum()])


def test_an_axis_is_as_long_as_an_integer_says():
    x = numbers(8)
    f = lathe.jit(lambda x: lathe.compute((3,), lambda i: lathe.reduce("sum", x[i], lambda k: x[k])))
    with pytest.raises(TypeError, match=r"an axis is as long as an integer says; given x0\[i0\], of type f32"):
        f(x)


def test_rows_as_long_as_they_may_be_at_most_take_no_time():
    """A row of three of at most a million elements: the loop along it ends."""
    o, x = np.array([0, 3, 6]), numbers(1_000_000)
    f = lathe.jit(
        lambda o, x: lathe.compute(
            (2,), lambda i: lathe.reduce("sum", lathe.minimum(o[i + 1] - o[i], 1_000_000), lambda k: x[o[i] + k])
        )
    )
    assert row_ends(f, o, x)
    np.testing.assert_array_equal(f(o, x), [x[:3].sum(), x[3:6].sum()])


LIMITS = [np.iinfo(np.int64).max, np.iinfo(np.int64).max - 1, np.iinfo(np.int64).min, 0, 2, 100]


@pytest.mark.parametrize("last", LIMITS)
def test_masks_by_the_greatest_integers_end_nothing(last):
    x = numbers(4, 64)

    @lathe.jit
    def f(n, x):
        below = lathe.compute(
            (1, 64), lambda i, j: lathe.reduce("sum", 4, lambda k: lathe.where(k < n[i], x[k, j], 0.0))
        )
        most = lathe.compute(
            (1, 64), lambda i, j: lathe.reduce("sum", 4, lambda k: lathe.where(k <= n[i], x[k, j], 0.0))
        )
        least = lathe.compute(
            (1, 64), lambda i, j: lathe.reduce("sum", 4, lambda k: lathe.where(n[i] >= k, x[k, j], 0.0))
        )
        return below, most, least

    below, most, least = f(np.array([last]), x)
    k = np.arange(4)[:, None]
    np.testing.assert_array_equal(below[0], np.where(k < last, x, 0).sum(0))
    np.testing.assert_array_equal(most[0], np.where(k <= last, x, 0).sum(0))
    np.testing.assert_array_equal(least, most)


def test_sums_that_wrap_in_a_mask_end_nothing():
    x = numbers(64)

    @lathe.jit
    def f(o, x):
        def term(k):
            return lathe.where(lathe.maximum(o[0], 0) + k < 10, x[k], 0.0)

        return lathe.compute((1,), lambda i: lathe.reduce("sum", 64, term))

    # All but the first place wrap to less than 10.
    assert f(np.array([np.iinfo(np.int64).max]), x)[0] == x[1:].sum()
    assert f(np.array([4]), x)[0] == x[:6].sum()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint32])
def test_integers_wrap_behind_an_end(dtype):
    """What is 0 behind the end counts there, as 0 less the least integer is not what it is without a limit."""
    n, x = np.array([3, 10]), np.ones((2, 64), dtype)
    least = int(np.iinfo(dtype).min) or 1

    @lathe.jit
    def f(n, x):
        def term(i, k):
            return lathe.where(lathe.where(k < n[i], x[i, k], 0) - least < 1, 1, 0)

        return lathe.compute((2,), lambda i: lathe.reduce("sum", 64, lambda k: term(i, k)))

    masked = np.where(np.arange(64) < n[:, None], x, dtype(0))
    with np.errstate(over="ignore"):
        expected = (masked - dtype(least) < 1).sum(1)
    np.testing.assert_array_equal(f(n, x), expected)


def test_what_is_folded_within_a_row_ends_with_it():
    o, places = np.array([0, 2, 5]), np.array([1, 2, 0, 1, 2, 99, -1])
    y = numbers(4, 3)

    @lathe.jit
    def f(o, places, y):
        def row(i, k):
            return lathe.reduce("sum", 3, lambda m: y[places[o[i] + k], m])

        def element(i):
            return lathe.reduce("sum", lathe.minimum(o[i + 1] - o[i], 8), lambda k: row(i, k))

        return lathe.compute((2,), element)

    np.testing.assert_array_equal(f(o, places, y), [y[places[:2]].sum(), y[places[2:5]].sum()])
    with pytest.raises(IndexError, match="99"):
        f(np.array([0, 2, 6]), places, y)


@pytest.mark.parametrize("e", [np.iinfo(np.int64).max - 1, np.iinfo(np.int64).min + 2, -2, 0])
def test_masks_whose_sums_wrap_stay_as_they_are(e):
    """`k + e < 4` is not `k < 4 - e` where either wraps, also where the operand is padded in a copy."""
    x, y = numbers(6, 40, dtype=np.int32), numbers(40, 48, dtype=np.int32)

    @lathe.jit
    def f(e, x, y):
        def element(i, j):
            return lathe.reduce("sum", 40, lambda k: lathe.where(k + e[0] < 4, x[i, k], 0) * y[k, j])

        return lathe.compute((6, 48), element)

    e = np.array([e])
    with np.errstate(over="ignore"):
        kept = np.arange(40) + e[0] < 4
    np.testing.assert_array_equal(f(e, x, y), np.where(kept, x, 0) @ y)


@pytest.mark.parametrize("length", [1, 7, 400])
def test_rows_that_data_finds_are_widened_as_they_are_read(length):
    """A table is not widened as a whole for as many rows as there could be; each row is walked once."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(length)
    table = torch.from_numpy(rng.integers(-4, 5, (211, 96)).astype(np.float32)).to(torch.bfloat16)
    counts = rng.integers(0, 9, 23)
    rows, offsets = torch.from_numpy(rng.integers(0, 211, counts.sum())), torch.from_numpy(offsets_of(counts))

    @lathe.jit
    def bags(table, rows, offsets):
        def element(b, d):
            count = lathe.minimum(offsets[b + 1] - offsets[b], length)
            return lathe.reduce("sum", count, lambda k: table[rows[offsets[b] + k], d])

        return lathe.compute((23, 96), element)

    expected = torch.stack(
        [table[rows[a : min(a + length, b)]].float().sum(0) for a, b in zip(offsets, offsets[1:], strict=False)]
    )
    torch.testing.assert_close(bags(table, rows, offsets).float(), expected, rtol=1e-2, atol=0)
    text = bags.lower(table, rows, offsets).text("scheduled")
    assert "x0_f32" not in text


@pytest.mark.parametrize("e", [np.iinfo(np.int64).min, -3, 5])
def test_masks_of_negated_places(e):
    x, w = numbers(1, 32), numbers(11)

    @lathe.jit
    def f(e, x, w):
        def element(i, j):
            return lathe.reduce("sum", 11, lambda t: lathe.where(-(j + t) < e[0], x[i, j + t], 0.0) * w[t])

        return lathe.compute((1, 16), element)

    kept = [[x[0, j + t] if -(j + t) < e else 0 for t in range(11)] for j in range(16)]
    np.testing.assert_array_equal(f(np.array([e]), x, w)[0], np.array(kept) @ w)
