"""Many tensors joined, in short parts: alone, and read by what wants them together."""

import numpy as np
import pytest

import lathe

PARTS = [(3,) * 12, (1,) * 20, (5, 30, 7, 64, 2), (33, 1, 33), (1, 0, 2), (16,) * 26, (2, 2), (1,) * 70]
DTYPES = ["float32", "float64", "int16", "uint8"]


def drawn(dtype, rows, widths):
    rng = np.random.default_rng(3)
    return [rng.uniform(0, 9, (rows, width)).astype(dtype) for width in widths]


@pytest.mark.parametrize("widths", PARTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_copies(widths, dtype, rows):
    xs = drawn(dtype, rows, widths)
    actual = lathe.jit(lambda *xs: lathe.concat(list(xs), axis=1))(*xs)
    np.testing.assert_array_equal(actual, np.concatenate(xs, axis=1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("count", [3, 12, 40])
def test_stacks(dtype, axis, count):
    xs = [x.reshape(9, 7) for x in drawn(dtype, 9, (7,) * count)]
    actual = lathe.jit(lambda *xs: lathe.stack(list(xs), axis=axis))(*xs)
    np.testing.assert_array_equal(actual, np.stack(xs, axis=axis))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


READERS = {
    "sum": (lambda x: lathe.sum(x, axis=1), lambda x: x.sum(axis=1)),
    "columns": (lambda x: lathe.sum(x, axis=0), lambda x: x.sum(axis=0)),
    "place": (lambda x: lathe.argmax(x, axis=1), lambda x: x.argmax(axis=1)),
    "running": (lambda x: lathe.cumulative_sum(x, axis=1), lambda x: x.cumsum(axis=1)),
    "softmax": (lathe.softmax, softmax),
    "function": (lathe.tanh, np.tanh),
    "product": (lambda x: lathe.matmul(x, lathe.matrix_transpose(x)), lambda x: x @ x.T),
    "turned": (lambda x: lathe.matrix_transpose(x) * 2.0, lambda x: x.T * 2),
    "slice": (lambda x: x[:, 2:-1] + 1.0, lambda x: x[:, 2:-1] + 1),
    "backwards": (lambda x: lathe.flip(x, axis=1), lambda x: x[:, ::-1]),
    "neighbours": (lambda x: x[:, 1:] - x[:, :-1], lambda x: x[:, 1:] - x[:, :-1]),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("widths", [(3,) * 12, (5, 30, 7, 64, 2), (1, 20, 1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_is_read_together(name, widths, axis):
    of_lathe, of_numpy = READERS[name]
    xs = drawn("float32", 50, widths)
    if axis == 0:
        xs = [x.T.copy() for x in xs]
    actual = lathe.jit(lambda *xs: of_lathe(lathe.concat(list(xs), axis=axis)))(*xs)
    np.testing.assert_allclose(actual, of_numpy(np.concatenate(xs, axis=axis)), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("shape", [(40, 3), (1, 3), (100, 2), (33, 5)])
def test_functions_of_short_rows(shape):
    x = np.random.default_rng(1).uniform(-3, 3, shape).astype("float32")
    np.testing.assert_allclose(lathe.jit(lambda x: lathe.exp(x) * lathe.tanh(x))(x), np.exp(x) * np.tanh(x), rtol=1e-5)
    actual = lathe.jit(lambda x: lathe.concat([lathe.sin(x), x, lathe.cos(x), lathe.exp(x)], axis=-1))(x)
    np.testing.assert_allclose(
        actual, np.concatenate([np.sin(x), x, np.cos(x), np.exp(x)], axis=-1), rtol=1e-5, atol=1e-6
    )


def test_of_several_dtypes():
    xs = [np.arange(12, dtype=dtype).reshape(4, 3) for dtype in ("int8", "int32", "int16", "int64")]
    actual = lathe.jit(lambda *xs: lathe.concat(list(xs), axis=1))(*xs)
    assert actual.dtype == np.int64
    np.testing.assert_array_equal(actual, np.concatenate(xs, axis=1))


def test_sums_of_more_than_a_reduction_unfolds():
    xs = [x[::2, ::2] for x in drawn("float32", 32, (6,) * 66)]
    actual = lathe.jit(lambda *xs: lathe.mean(lathe.mean(lathe.stack(list(xs), axis=2), axis=2), axis=0))(*xs)
    np.testing.assert_allclose(actual, np.stack(xs, axis=2).mean(axis=2).mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_slice_copies_nothing_else(axis):
    xs = drawn("float32", 200, (200, 200, 200))
    whole = lathe.jit(lambda *xs: lathe.tanh(lathe.concat(list(xs), axis=axis)))
    part = lathe.jit(lambda *xs: lathe.tanh(lathe.take(lathe.concat(list(xs), axis=axis), 3, axis=axis)))
    assert "alloc concat" in whole.lower(*xs).text("scheduled")
    assert "alloc concat" not in part.lower(*xs).text("scheduled")
    joined = np.concatenate(xs, axis=axis)
    np.testing.assert_allclose(whole(*xs), np.tanh(joined), rtol=1e-5)
    np.testing.assert_allclose(part(*xs), np.tanh(np.take(joined, 3, axis=axis)), rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "max"])
@pytest.mark.parametrize("shape", [(33, 16, 96), (5, 3, 300), (8, 2, 40)])
def test_neighbours_among_results_of_a_reduction(name, shape):
    x = np.random.default_rng(2).uniform(-1, 1, shape).astype("float32")

    def rows(reduced):
        return reduced[1:] - reduced[:-1]

    actual = lathe.jit(lambda x: rows(getattr(lathe, name)(x, axis=0)))(x)
    np.testing.assert_allclose(actual, rows(getattr(x, name)(axis=0)), rtol=1e-4, atol=1e-5)


STEPS = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]


@pytest.mark.parametrize(("rows", "columns"), [(60, 70), (128, 130), (5, 3), (1, 40), (33, 1)])
@pytest.mark.parametrize("computes", [False, True])
def test_planes_each_rolled_its_own_way(rows, columns, computes):
    """The planes are told apart first, then where each of them begins anew."""

    def streamed(lib, x):
        y = [lib.exp(x[k]) * k + x[0] if computes else x[k] for k in range(len(STEPS))]
        return lib.stack([lib.roll(plane, step, axis=(0, 1)) for plane, step in zip(y, STEPS, strict=True)], axis=0)

    x = np.random.default_rng(5).standard_normal((len(STEPS), rows, columns), np.float32)
    stream = lathe.jit(lambda x: streamed(lathe, x))
    np.testing.assert_allclose(stream(x), streamed(np, x), rtol=1e-5, atol=1e-6)
    if columns == 130 and not computes:
        assert "select" not in stream.lower(x).text("scheduled")


@pytest.mark.parametrize("shape", [(3, 2), (8, 5), (4, 3, 6)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_what_is_rolled_beside_others_in_columns(shape, axis):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    joined = lathe.jit(lambda x: lathe.concat([x, lathe.roll(x, 1, axis=axis), lathe.roll(x, -1, axis=axis)], axis=axis))
    expected = np.concatenate([x, np.roll(x, 1, axis), np.roll(x, -1, axis)], axis)
    np.testing.assert_array_equal(joined(x), expected)
    np.testing.assert_array_equal(joined(np.asfortranarray(x)), expected)


@pytest.mark.parametrize("shape", [(50, 8), (8, 15, 8), (64, 64)])
@pytest.mark.parametrize("count", [3, 4, 8, 14])
@pytest.mark.parametrize("axis", [0, -1, -2])
def test_stacks_of_what_chooses_itself(shape, count, axis):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    rolls = lathe.jit(lambda x: lathe.stack([lathe.roll(x, k, axis=-1) for k in range(count)], axis=axis))
    np.testing.assert_array_equal(rolls(x), np.stack([np.roll(x, k, -1) for k in range(count)], axis))
    if shape == (50, 8) and axis == -1 and count == 4:
        assert rolls.lower(x).text("scheduled").count("block concat") >= count, "cut where they jump"
