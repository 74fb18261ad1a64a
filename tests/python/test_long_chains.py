"""Chains of operators that each read what is below several times, or at an index that each makes twice as long: what
tracing, scheduling and lowering take grows with the chain, and does not double with each operator."""

import numpy as np
import pytest

import lathe

LENGTH = 28
SHAPES = [(30, 42), (60, 21), (35, 36), (28, 45)]


def chain(step):
    def f(x):
        for k in range(LENGTH):
            x = step(x, k)
        return x

    return f


def lathe_and_numpy():
    """By name: a step in lathe, the same in NumPy, and the shape that it begins with."""
    return {
        "rolls along rows": (lambda x, k: lathe.roll(x, 3, axis=1), lambda x, k: np.roll(x, 3, 1), (4, 64)),
        "two slices joined": (
            lambda x, k: lathe.concat([x[3:], x[:3]], axis=0),
            lambda x, k: np.concatenate([x[3:], x[:3]]),
            (32, 8),
        ),
        "rows unstacked and stacked": (
            lambda x, k: lathe.stack(lathe.unstack(x, axis=0)[::-1], axis=0),
            lambda x, k: x[::-1],
            (4, 16),
        ),
        "halves changed places": (
            lambda x, k: lathe.concat(lathe.split(x, 2, axis=1)[::-1], axis=1),
            lambda x, k: np.concatenate(np.split(x, 2, 1)[::-1], 1),
            (4, 32),
        ),
        "borders that go around": (
            lambda x, k: lathe.concat([x[:, -1:], x, x[:, :1]], axis=1),
            lambda x, k: np.pad(x, ((0, 0), (1, 1)), mode="wrap"),
            (3, 16),
        ),
        "borders that repeat": (
            lambda x, k: lathe.concat([x[:1], x, x[-1:]], axis=0),
            lambda x, k: np.pad(x, ((1, 1), (0, 0)), mode="edge"),
            (8, 5),
        ),
        "rows turned around and cut anew": (
            lambda x, k: lathe.reshape(x.T, SHAPES[k % 4]),
            lambda x, k: x.T.reshape(SHAPES[k % 4]),
            SHAPES[3],
        ),
        "the same, and a sum": (
            lambda x, k: lathe.reshape(x.T, SHAPES[k % 4]) + 1,
            lambda x, k: x.T.reshape(SHAPES[k % 4]) + 1,
            SHAPES[3],
        ),
        "rows cut anew, and a sum": (
            lambda x, k: lathe.reshape(x, SHAPES[k % 4]) + 1,
            lambda x, k: x.reshape(SHAPES[k % 4]) + 1,
            SHAPES[3],
        ),
        "digits that change places": (
            lambda x, k: lathe.permute_dims(lathe.reshape(x, (4, 16, 64)), (1, 0, 2)).reshape((64, 64)) + 1,
            lambda x, k: x.reshape(4, 16, 64).transpose(1, 0, 2).reshape(64, 64) + 1,
            (64, 64),
        ),
    }


@pytest.mark.parametrize("name", lathe_and_numpy())
def test_a_chain_compiles_in_a_time_that_grows_with_its_length(name):
    step, expected, shape = lathe_and_numpy()[name]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    y = lathe.jit(chain(step))(x)
    for k in range(LENGTH):
        x = expected(x, k)
    np.testing.assert_array_equal(y, x)


def test_a_value_that_a_body_computes_from_itself():
    def f(x):
        def element(i):
            y = x[i]
            for _ in range(60):
                y = y * y * 0.5 + y
            return y

        return lathe.compute(x.shape, element)

    def folded(x):
        def term(i, r):
            y = x[i, r]
            for _ in range(60):
                y = lathe.where(y > 1, y * 0.5, y + 0.25)
            return y

        return lathe.compute((x.shape[0],), lambda i: lathe.reduce("sum", x.shape[1], lambda r: term(i, r)))

    x = np.linspace(-0.5, 0, 77, dtype=np.float32)
    y, z = x.copy(), x.reshape(7, 11).copy()
    for _ in range(60):
        y, z = y * y * np.float32(0.5) + y, np.where(z > 1, z * np.float32(0.5), z + np.float32(0.25))
    np.testing.assert_allclose(lathe.jit(f)(x), y, rtol=1e-5)
    np.testing.assert_allclose(lathe.jit(folded)(x.reshape(7, 11)), z.sum(1), rtol=1e-5)


def test_a_number_that_is_computed_from_itself():
    def f(x, s):
        for _ in range(40):
            s = s * s + s
        return x * s

    x, s = np.arange(5, dtype=np.float32), 0.001
    y = s
    for _ in range(40):
        y = y * y + y
    np.testing.assert_allclose(lathe.jit(f)(x, s), x * y, rtol=1e-5)


def test_what_many_tensors_make_up_is_computed_once_however_wide():
    xs = [np.full((2, 8), k, np.float32) for k in range(100)]
    f = lathe.jit(lambda xs: lathe.concat(xs, axis=0) + 1)
    assert f.lower(xs).text("traced").count("block ") == 3  # the root, what is joined and the sum
    np.testing.assert_array_equal(f(xs), np.concatenate(xs) + 1)


@pytest.mark.parametrize("links", [1, 5, 28])
def test_a_value_that_says_also_where_the_next_is_found(links):
    """As of a checksum by table, of which each step reads the last twice."""
    table = (np.arange(256, dtype=np.int64) * 2654435761) % 2**32
    data = np.random.default_rng(0).integers(0, 256, (37, links))

    def checksum(data, table):
        c = lathe.zeros((data.shape[0],), dtype=lathe.int64) + 4294967295
        for k in range(links):
            c = (c >> 8) ^ lathe.take(table, (c ^ data[:, k]) & 255, axis=0)
        return c

    expected = np.full(37, 4294967295)
    for k in range(links):
        expected = (expected >> 8) ^ table[(expected ^ data[:, k]) & 255]
    np.testing.assert_array_equal(lathe.jit(checksum)(data, table), expected)


@pytest.mark.parametrize("links", [2, 28])
def test_places_in_a_table_of_places(links):
    """Computed tables as well, and places under a condition."""
    x = np.random.default_rng(1).integers(0, 50, 50)

    def follow(x):
        table, place = x * 3 % 50, x
        for _ in range(links):
            place = lathe.where(place > 10, lathe.take(table, place, axis=0), place + 1)
        return place

    table, place = x * 3 % 50, x
    for _ in range(links):
        place = np.where(place > 10, table[place], place + 1)
    np.testing.assert_array_equal(lathe.jit(follow)(x), place)


@pytest.mark.parametrize(
    "follow",
    [
        lambda take, p: take(p * 2, p),
        lambda take, p: take((p * 2 + 1) % 37, p),
        lambda take, p: take(take(p, p) + p, take(p + 1 - p[::-1] * 0, p) - 1),
        lambda take, p: take(p[::-1] * 2, take(p * 3 % 37, (p + 1) % 37)),
    ],
)
def test_tables_and_places_computed_of_one_tensor(follow):
    x = np.random.default_rng(2).permutation(37)

    def f(x):
        return follow(lambda table, places: lathe.take(table, places, axis=0), x * 3 % 37)

    np.testing.assert_array_equal(lathe.jit(f)(x), follow(np.take, x * 3 % 37))
