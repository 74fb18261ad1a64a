"""Sums by an index that is loaded, with what stands around them, against NumPy."""

import numpy as np
import pytest

import lathe

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def added(x, indices, source):
    result = np.array(x, np.float64)
    np.add.at(result, indices, source)
    return result


@pytest.mark.parametrize("width", [1, 3, 16, 37, 64, 300])
@pytest.mark.parametrize("count, segments", [(0, 5), (1, 1), (1, 7), (50, 7), (1000, 300)])
def test_sums_of_segments(count, segments, width):
    x, ids = normal(count, width), RNG.integers(0, segments, count)
    f = lathe.jit(lambda x, ids: lathe.index_add(lathe.zeros((segments, width)), ids, x))
    np.testing.assert_allclose(f(x, ids), added(np.zeros((segments, width)), ids, x), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(f(x, np.sort(ids)), added(np.zeros((segments, width)), np.sort(ids), x), rtol=1e-5, atol=1e-4)


def test_means_of_segments_and_what_is_read_of_them():
    x, ids = normal(500, 24), RNG.integers(0, 40, 500)

    @lathe.jit
    def f(x, ids):
        sums = lathe.index_add(lathe.zeros((40, 24)), ids, x * 2 + 1)
        counts = lathe.index_add(lathe.zeros((40, 1)), ids, 1.0)
        means = sums / lathe.maximum(counts, 1.0)
        return means, lathe.abs(x - lathe.take(means, ids, axis=0)), lathe.sum(sums, axis=0)

    sums, counts = added(np.zeros((40, 24)), ids, x * 2 + 1), np.bincount(ids, minlength=40)[:, None]
    means = sums / np.maximum(counts, 1)
    for found, expected in zip(f(x, ids), (means, np.abs(x - means[ids]), sums.sum(0)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_two_sums_from_the_same_beginning():
    x, y, a, b = normal(60, 8), normal(60, 8), RNG.integers(0, 9, 60), RNG.integers(0, 9, 60)

    @lathe.jit
    def f(x, y, a, b):
        start = lathe.zeros((9, 8))
        first = lathe.index_add(start, a, x)
        return first, lathe.index_add(start, b, y), lathe.index_add(first, b, y), start

    first, second = added(np.zeros((9, 8)), a, x), added(np.zeros((9, 8)), b, y)
    for found, expected in zip(f(x, y, a, b), (first, second, first + second, np.zeros((9, 8))), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_messages_of_a_graph():
    nodes, edges, width = 50, 300, 20
    x, source, target, weight = normal(nodes, width), RNG.integers(0, nodes, edges), RNG.integers(0, nodes, edges), normal(edges)

    @lathe.jit
    def attend(x, source, target, score):
        power = lathe.exp(score)
        share = power / lathe.index_add(lathe.zeros((nodes,)), target, power)[target]
        return lathe.relu(lathe.index_add(lathe.zeros_like(x), target, x[source] * lathe.expand_dims(share, axis=1)))

    power = np.exp(weight.astype(np.float64))
    share = power / added(np.zeros(nodes), target, power)[target]
    expected = np.maximum(added(np.zeros((nodes, width)), target, x[source] * share[:, None]), 0)
    np.testing.assert_allclose(attend(x, source, target, weight), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_from_any_layout(axis):
    x = normal(6, 7, 8)
    ids = RNG.integers(-x.shape[axis], x.shape[axis], 11)
    shape = list(x.shape)
    shape[axis] = 11
    source = normal(*shape)
    expected = np.moveaxis(added(np.moveaxis(x, axis, 0), ids, np.moveaxis(source, axis, 0)), 0, axis)
    f = lathe.jit(lambda x, ids, source: lathe.index_add(x, ids, source, axis=axis))
    np.testing.assert_allclose(f(x, ids, source), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(f(np.asfortranarray(x), ids, np.asfortranarray(source)), expected, rtol=1e-5, atol=1e-5)
    out = np.empty_like(x)
    np.testing.assert_allclose(f(x, ids, source, out=out), expected, rtol=1e-5, atol=1e-5)
    again = x.copy()
    f(again, ids, source, out=again)
    np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-5)


def test_known_places_need_no_check():
    x = normal(40, 6)
    f = lathe.jit(lambda x: lathe.index_add(lathe.zeros((10, 6)), lathe.arange(40) // 4, x))
    assert "assert" not in f.lower(x).text("traced")
    np.testing.assert_allclose(f(x), x.reshape(10, 4, 6).sum(1), rtol=1e-5, atol=1e-5)


def test_an_index_outside_stops_the_kernel():
    x = normal(3, 4)
    for bad in (3, -4):
        with pytest.raises(IndexError, match="index_add.*axis 0"):
            lathe.jit(lambda x, i: lathe.index_add(x, i, x))(x, np.array([0, bad, 1]))


@pytest.mark.parametrize("n", [0, 1, 5, 31, 32, 33, 1003])
@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_counts_of_what_is_seen(n, dtype):
    x = np.random.default_rng(9).integers(0, 200, n).astype(dtype)
    zeros, ones = (lambda shape, fill=fill: fill(shape, dtype=lathe.int64) for fill in (lathe.zeros, lathe.ones))
    count = lathe.jit(lambda x: lathe.index_add(zeros((256,)), lathe.astype(x, lathe.int64), ones(x.shape)))
    np.testing.assert_array_equal(count(x), np.bincount(x, minlength=256))
    if n == 1003 and dtype == "uint8":
        assert "unrolled for i0" in count.lower(x).text("scheduled")


@pytest.mark.parametrize("count", [0, 1, 511, 512, 1024, 1025, 5003])
def test_places_and_values_that_are_computed_are_computed_in_vectors(count):
    keys = RNG.integers(0, 2**32, count, dtype=np.uint32)
    x = RNG.standard_normal(count)

    def placed(lib, keys):
        mixed = ((keys ^ 61) ^ (keys >> 16)) * 9
        return lib.astype((mixed ^ (mixed >> 4)) >> 26, lib.int64)

    def value(lib, x):
        return lib.exp(x) * lib.abs(x) + 1.0

    f = lathe.jit(
        lambda keys, x: lathe.index_add(lathe.zeros((64,), dtype=lathe.float64), placed(lathe, keys), value(lathe, x))
    )
    with np.errstate(over="ignore"):
        places = placed(np, keys)
    np.testing.assert_allclose(f(keys, x), added(np.zeros(64), places, value(np, x)), rtol=1e-12)
    if count == 5003:
        text = f.lower(keys, x).text("scheduled")
        assert "vectorized for" in text[: text.index("exp(")]


@pytest.mark.parametrize("count", [100, 3000])
def test_computed_places_are_checked_a_block_at_a_time(count):
    a, b = RNG.integers(0, 21, count), RNG.integers(0, 21, count)
    f = lathe.jit(lambda a, b: lathe.index_add(lathe.zeros((441,)), a * 21 + b, 1.0))
    np.testing.assert_array_equal(f(a, b), np.bincount(a * 21 + b, minlength=441))
    a[-1] = 21
    b[-1] = 3
    with pytest.raises(IndexError, match="444"):
        f(a, b)
