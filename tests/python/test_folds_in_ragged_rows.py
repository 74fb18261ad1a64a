"""Folds within rows that end early, against NumPy: they end there too, check what they read, and no more."""

import numpy as np
import pytest

import lathe


def numbers(*shape, dtype=np.float32):
    """Whole numbers, whose sums are exact in every order."""
    values = np.random.default_rng(3).integers(-4, 5, shape)
    return values.astype(dtype)


@pytest.mark.parametrize("first", [lambda begin, k: begin + k, lambda begin, k: k + begin])
def test_rows_of_rows(first):
    """The greatest of a document's sentences' sums."""
    documents, sentences, x = np.array([0, 2, 3]), np.array([0, 3, 5, 9]), numbers(9)

    @lathe.jit
    def f(d, s, x):
        def sentence(at):
            return lathe.reduce("sum", lathe.minimum(s[at + 1] - s[at], 5), lambda m: x[s[at] + m])

        def document(i):
            return lathe.reduce("max", lathe.minimum(d[i + 1] - d[i], 4), lambda k: sentence(first(d[i], k)))

        return lathe.compute((2,), document)

    sums = [x[a:b].sum() for a, b in zip(sentences, sentences[1:], strict=False)]
    np.testing.assert_array_equal(f(documents, sentences, x), [max(sums[:2]), sums[2]])
    with pytest.raises(IndexError, match="out of range"):
        f(np.array([0, 2, 4]), sentences, x)
    with pytest.raises(IndexError, match="out of range"):
        f(np.array([10**9, 10**9 + 2, 10**9 + 3]), sentences, x)


@pytest.mark.parametrize(
    "place", [lambda d, i: 1 + d[i], lambda d, i: d[i] + 1, lambda d, i: d[i] + i, lambda d, i: d[i] * 2 - d[i]]
)
def test_lengths_found_at_places_outside(place):
    d, lengths, x = np.array([7, 8]), np.array([0, 0, 2]), numbers(3)

    @lathe.jit
    def f(d, lengths, x):
        return lathe.compute(
            (1,), lambda i: lathe.reduce("sum", lathe.minimum(lengths[place(d, i)], 3), lambda m: x[m])
        )

    with pytest.raises(IndexError, match="out of range"):
        f(d, lengths, x)


@pytest.mark.parametrize("extents", [1, (), (1, 1)])
def test_single_steps_within_rows_that_end(extents):
    offsets, rows, y = np.array([0, 2, 5]), np.array([1, 2, 0, 1, 2, 99]), numbers(4, 3)

    @lathe.jit
    def f(o, rows, y):
        def row(i):
            def one(k):
                return lathe.reduce("sum", extents, lambda *at: y[rows[o[i] + k], sum(at, 0)])

            return lathe.reduce("sum", lathe.minimum(o[i + 1] - o[i], 4), one)

        return lathe.compute((2,), row)

    np.testing.assert_allclose(f(offsets, rows, y), [y[[1, 2], 0].sum(), y[[0, 1, 2], 0].sum()], rtol=1e-6)


def test_what_hangs_on_columns_alone_is_folded_once_for_each():
    """Ends of rows do not make what is folded for each column one of every row."""
    lengths, x = np.array([3, 0, 5, 40]), numbers(4, 40)

    @lathe.jit
    def f(lengths, x):
        def greatest(k):
            return lathe.reduce("max", 4, lambda m: x[m, k])

        def row(i):
            return lathe.reduce("sum", lathe.minimum(lengths[i], 40), lambda k: x[i, k] * greatest(k))

        return lathe.compute((4,), row)

    products = x * x.max(0)
    np.testing.assert_allclose(
        f(lengths, x), [row[:n].sum() for row, n in zip(products, lengths, strict=True)], rtol=1e-5
    )
    assert "compute_reduce: f32[40]" in f.lower(lengths, x).text("traced")


def test_places_within_rows_that_end_early():
    """What lies outside behind a row's end alone is neither refused nor read."""
    lengths, y = np.array([3, 5, 0, 6]), numbers(10)

    @lathe.jit
    def f(lengths, y):
        def row(i):
            return lathe.reduce(
                "sum", lathe.minimum(lengths[i], 40), lambda k: lathe.reduce("sum", 4, lambda m: y[k + m])
            )

        return lathe.compute((4,), row)

    np.testing.assert_array_equal(f(lengths, y), [sum(y[k : k + 4].sum() for k in range(n)) for n in lengths])


@pytest.mark.parametrize("place", [lambda i, k, m: (m, k), lambda i, k, m: (m + i, 0)])
def test_rows_of_no_length_look_nothing_up(place):
    lengths, found, y = np.zeros(4, np.int64), np.full(10, 99), numbers(4, 10)

    @lathe.jit
    def f(lengths, found, y):
        def term(i, k, m):
            at, column = place(i, k, m)
            return y[found[at], column]

        def row(i):
            fold = lambda k: lathe.reduce("sum", 4, lambda m: term(i, k, m))  # noqa: E731
            return lathe.reduce("sum", lathe.minimum(lengths[i], 10), fold)

        return lathe.compute((4,), row)

    np.testing.assert_array_equal(f(lengths, found, y), np.zeros(4))
    with pytest.raises(IndexError, match="99 is out of range"):
        f(np.array([0, 1, 0, 0]), found, y)
