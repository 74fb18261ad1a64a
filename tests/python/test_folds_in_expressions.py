"""Reductions as parts of a body's expressions: beside elements, within functions, conditions, places and each other."""

import numpy as np
import pytest

import lathe

rng = np.random.default_rng(7)
a = rng.standard_normal((13, 37), dtype=np.float32)
b = rng.standard_normal(13, dtype=np.float32)
c = rng.standard_normal((9, 37), dtype=np.float32)
n, m = a.shape


def arg_greatest():
    return lathe.Reducer(
        lambda p, q: (lathe.where(q[0] > p[0], q[0], p[0]), lathe.where(q[0] > p[0], q[1], p[1])),
        (-lathe.inf, 0),
        (lathe.float32, lathe.int64),
    )


def total(x, i):
    return lathe.reduce("sum", x.shape[1], lambda k: x[i, k])


def greatest(x, i):
    return lathe.reduce("max", x.shape[1], lambda k: x[i, k])


def squares(x, y, i, j):
    return lathe.reduce("sum", x.shape[1], lambda k: (x[i, k] - y[j, k]) ** 2)


DISTANCES = ((a[:, None] - c) ** 2).sum(-1)
FORMS = {
    "beside an element": (lambda x, y, z: lambda i: y[i] + total(x, i), a.sum(1) + b),
    "by a number": (lambda x, y, z: lambda i: total(x, i) / 4, a.sum(1) / 4),
    "from a number": (lambda x, y, z: lambda i: 1 - total(x, i), 1 - a.sum(1)),
    "negative": (lambda x, y, z: lambda i: -abs(total(x, i)), -abs(a.sum(1))),
    "within a function": (lambda x, y, z: lambda i: lathe.relu(total(x, i)), np.maximum(a.sum(1), 0)),
    "two": (lambda x, y, z: lambda i: total(x, i) / greatest(x, i), a.sum(1) / a.max(1)),
    "in a condition": (
        lambda x, y, z: lambda i: lathe.where(lathe.reduce("any", m, lambda k: x[i, k] > 2.0), y[i], 0.0),
        np.where((a > 2).any(1), b, 0),
    ),
    "compared": (lambda x, y, z: lambda i: lathe.where(total(x, i) > greatest(x, i), 1.0, y[i]), None),
    "of two indices, folded again": (
        lambda x, y, z: lambda i: lathe.sqrt(lathe.reduce("min", 9, lambda j: squares(x, z, i, j))),
        np.sqrt(DISTANCES.min(1)),
    ),
    "within the terms alone": (
        lambda x, y, z: lambda i: lathe.reduce("min", 9, lambda j: squares(x, z, i, j)),
        DISTANCES.min(1),
    ),
    "of no index": (
        lambda x, y, z: lambda i: y[i] / lathe.reduce("sum", (n, m), lambda j, k: x[j, k]),
        b / a.sum(),
    ),
    "as a place": (
        lambda x, y, z: lambda i: x[i, lathe.reduce(arg_greatest(), m, lambda k: (x[i, k] ** 2, k))[1]],
        a[np.arange(n), (a * a).argmax(1)],
    ),
    "one of a tuple": (
        lambda x, y, z: lambda i: y[i] * lathe.reduce(arg_greatest(), m, lambda k: (x[i, k], k))[0],
        b * a.max(1),
    ),
    "of another type": (lambda x, y, z: lambda i: total(x, i).astype(lathe.int32), a.sum(1).astype(np.int32)),
}
FORMS["compared"] = (FORMS["compared"][0], np.where(a.sum(1) > a.max(1), 1, b))


@pytest.mark.parametrize("form", FORMS)
def test_a_reduction_is_a_value(form):
    of, expected = FORMS[form]
    result = lathe.jit(lambda x, y, z: lathe.compute((n,), of(x, y, z)))(a, b, c)
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


def test_softmax_in_a_body():
    f = lathe.jit(
        lambda x: lathe.compute(
            x.shape,
            lambda i, k: (
                lathe.exp(x[i, k] - greatest(x, i))
                / lathe.reduce("sum", m, lambda q: lathe.exp(x[i, q] - greatest(x, i)))
            ),
        )
    )
    powers = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(f(a), powers / powers.sum(1, keepdims=True), rtol=2e-5)


def test_a_convolution_with_its_bias_in_the_body():
    image, weights, bias = (rng.standard_normal(s, dtype=np.float32) for s in ((3, 9, 11), (4, 3, 3, 3), (4,)))

    def convolved(x, w, bias):
        return lathe.compute(
            (4, 7, 9),
            lambda o, i, j: lathe.relu(
                bias[o] + lathe.reduce("sum", (3, 3, 3), lambda ch, p, q: x[ch, i + p, j + q] * w[o, ch, p, q])
            ),
        )

    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
    expected = np.maximum(np.einsum("cijpq,ocpq->oij", windows, weights) + bias[:, None, None], 0)
    np.testing.assert_allclose(lathe.jit(convolved)(image, weights, bias), expected, rtol=2e-4, atol=2e-4)


def test_f16_is_folded_in_f32_and_rounded_once():
    h = a.astype(np.float16)
    result = lathe.jit(lambda x: lathe.compute((n,), lambda i: total(x, i) * x[i, 0]))(h)
    assert result.dtype == np.float16
    expected = h.astype(np.float32).sum(1).astype(np.float16) * h[:, 0]
    np.testing.assert_allclose(result, expected, rtol=2e-3)


def test_a_reduction_of_places_that_data_gives_checks_them():
    f = lathe.jit(lambda x, at: lathe.compute((n,), lambda i: 1.0 + lathe.reduce("sum", 3, lambda k: x[i, at[i, k]])))
    at = rng.integers(0, m, (n, 3))
    np.testing.assert_allclose(f(a, at), 1 + np.take_along_axis(a, at, 1).sum(1), rtol=2e-5)
    at[4, 1] = m
    with pytest.raises(IndexError, match=f"index {m}"):
        f(a, at)


def test_rows_that_are_taken_are_checked_once_where_they_are_folded():
    def g(x, rows):
        taken = lathe.take(x, rows, axis=0)
        return lathe.compute((5,), lambda i: 2 * total(taken, i))

    f = lathe.jit(g)
    np.testing.assert_allclose(f(a, np.arange(5)), 2 * a[:5].sum(1), rtol=2e-5)
    with pytest.raises(IndexError, match="index 96"):
        f(a, np.arange(5) + 96)


def test_scans_take_reductions_as_terms():
    f = lathe.jit(lambda x: lathe.scan((n,), 0, "sum", lambda i: 2 * greatest(x, i)))
    np.testing.assert_allclose(f(a), np.cumsum(2 * a.max(1)), rtol=2e-5)


@pytest.mark.parametrize("shape", [(1, 37), (13, 1), (0, 5), (3, 0), (1, 1)])
def test_extents_of_one_and_none(shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    f = lathe.jit(lambda x: lathe.compute((shape[0],), lambda i: 3 + lathe.reduce("sum", shape[1], lambda k: x[i, k])))
    np.testing.assert_allclose(f(x), 3 + x.sum(1), rtol=1e-5)


def test_a_reduction_that_is_used_twice():
    def g(x):
        def body(i):
            s = total(x, i)
            return s * s + lathe.reduce("sum", 3, lambda j: s * x[i, j])

        return lathe.compute((n,), body)

    s = a.sum(1)
    np.testing.assert_allclose(lathe.jit(g)(a), s * s + s * a[:, :3].sum(1), rtol=2e-4, atol=2e-4)


LENGTHS = np.array([0, 37, 3, 4, 1, 2, 90, 5, 6, 36, 35, 7, 8])
LENGTH_FORMS = {
    "of the index": (lambda i, t: i + 1, lambda i: i + 1),
    "down to none": (lambda i, t: i - 3, lambda i: max(i - 3, 0)),
    "from the end": (lambda i, t: 37 - i, lambda i: 37 - i),
    "bounded": (lambda i, t: lathe.minimum(i + 1, 5), lambda i: min(i + 1, 5)),
    "of data": (lambda i, t: lathe.minimum(t[i], m), lambda i: min(LENGTHS[i], m)),
    "of data by data": (lambda i, t: lathe.minimum(t[t[i] % n], m), lambda i: min(LENGTHS[LENGTHS[i] % n], m)),
}


@pytest.mark.parametrize("form", LENGTH_FORMS)
@pytest.mark.parametrize("reducer", ["sum", "max"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_reduction_as_long_as_its_index_says(form, reducer, times):
    length, expected = LENGTH_FORMS[form]

    def g(x, t):
        def body(i):
            folded = lathe.reduce(reducer, length(i, t), lambda k: x[i, k])
            return folded if times == 1 else folded * times

        return lathe.compute((n,), body)

    fold = {"sum": np.sum, "max": lambda row: np.max(row, initial=-np.inf)}[reducer]
    rows = np.array([times * fold(a[i, : expected(i)]) for i in range(n)])
    np.testing.assert_allclose(lathe.jit(g)(a, LENGTHS), rows, rtol=2e-5, atol=2e-5)


def test_two_lengths_and_lengths_within_lengths():
    f = lathe.jit(
        lambda x: lathe.compute((7,), lambda i: lathe.reduce("sum", (i + 1, i + 2), lambda j, k: x[j, k])),
    )
    np.testing.assert_allclose(f(a), [a[: i + 1, : i + 2].sum() for i in range(7)], rtol=2e-5)
    f = lathe.jit(
        lambda x: lathe.compute(
            (7,),
            lambda i: lathe.reduce("sum", i + 1, lambda j: lathe.reduce("sum", j + 1, lambda k: x[j, k])),
        ),
    )
    np.testing.assert_allclose(f(a), [sum(a[j, : j + 1].sum() for j in range(i + 1)) for i in range(7)], rtol=2e-5)


@pytest.mark.parametrize("columns", [1, 4, 33])
@pytest.mark.parametrize("offsets", [[0, 4, 7, 10], [0, 0, 10], [3, 4, 10], [10, 10]])
def test_segments_by_offsets_end_where_their_array_ends(columns, offsets):
    x, o = rng.standard_normal((10, columns), dtype=np.float32), np.array(offsets)

    def g(x, o):
        return lathe.compute(
            (len(offsets) - 1, columns),
            lambda i, j: lathe.reduce("sum", lathe.minimum(o[i + 1] - o[i], 20), lambda r: x[o[i] + r, j]),
        )

    f = lathe.jit(g)
    np.testing.assert_allclose(
        f(x, o), [x[p:q].sum(0) for p, q in zip(offsets, offsets[1:], strict=False)], rtol=1e-4, atol=1e-5
    )
    o[-1] = 11
    with pytest.raises(IndexError, match="index 10 is out of range on axis 0"):
        f(x, o)


def test_an_extent_that_nothing_bounds_is_refused():
    with pytest.raises(ValueError, match="bound it with lathe.minimum"):
        lathe.jit(lambda x, t: lathe.compute((n,), lambda i: lathe.reduce("sum", t[i], lambda k: x[i, k])))(a, LENGTHS)


def test_a_tensor_made_in_a_body_is_one_for_all_its_elements():
    f = lathe.jit(lambda x: lathe.compute((n,), lambda i: lathe.compute((2,), lambda j: x[i, j])[1] * x[i, 0]))
    with pytest.raises(ValueError, match="an index of the body around it"):
        f(a)
