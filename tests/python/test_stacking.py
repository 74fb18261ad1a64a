"""Tensors stacked along the last axis, which lie side by side in memory: vectors of each are woven into whole ones."""

import ctypes
import mmap
import sys

import numpy as np
import pytest

import lathe

rng = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("n", [1, 5, 16, 37, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_computed_tensors_are_stacked(count, n, dtype):
    x, y = normal(3, n, dtype=dtype), normal(3, n, dtype=dtype)
    stacked = lathe.jit(lambda x, y: lathe.stack([x * k + y for k in range(count)], axis=-1))
    tolerance = 1e-2 if dtype is np.float16 else 1e-5
    expected = np.stack([x * dtype(k) + y for k in range(count)], -1)
    np.testing.assert_allclose(stacked(x, y), expected, rtol=tolerance, atol=tolerance)


def test_what_is_stacked_in_pairs_is_computed_in_vectors():
    polar = lathe.jit(lambda t: lathe.stack([lathe.sin(t), lathe.cos(t)], axis=-1))
    t = normal(1000)
    np.testing.assert_allclose(polar(t), np.stack([np.sin(t), np.cos(t)], -1), rtol=1e-5, atol=1e-6)
    text = polar.lower(t).text("scheduled")
    assert "alloc" not in text and "unrolled for i1 in [0, 2)" in text


def test_pairs_of_an_axis_are_rotated():
    def rotated(x, c, s):
        even, odd = x[..., 0::2], x[..., 1::2]
        return lathe.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(x.shape)

    x, c, s = normal(2, 7, 64), normal(7, 32), normal(7, 32)
    even, odd = x[..., 0::2], x[..., 1::2]
    expected = np.stack([even * c - odd * s, even * s + odd * c], -1).reshape(x.shape)
    np.testing.assert_allclose(lathe.jit(rotated)(x, c, s), expected, rtol=1e-5, atol=1e-6)
    assert "alloc" not in lathe.jit(rotated).lower(x, c, s).text("scheduled")


def test_pairs_are_woven_into_memory_that_is_read():
    x = normal(33, 2)
    z = x.copy()
    square = lathe.jit(lambda x: lathe.stack([x[:, 0] ** 2 - x[:, 1] ** 2, 2 * x[:, 0] * x[:, 1]], axis=-1))
    square(z, out=z)
    expected = (x[:, 0] + 1j * x[:, 1]) ** 2
    np.testing.assert_allclose(z, np.stack([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("n", [3, 28, 37, 1000])
def test_rows_that_lie_apart_are_woven(count, n):
    x = np.random.default_rng(0).random((5, count, n), np.float32)
    out = np.empty((5, n, count), np.float32)
    lathe.jit(lambda x: lathe.permute_dims(x, (0, 2, 1)) * 2 + 1)(x, out=out)
    np.testing.assert_array_equal(out, np.swapaxes(x, 1, 2) * 2 + 1)


def test_rows_that_lie_apart_are_woven_in_registers():
    x, out = np.ones((5, 2, 64), np.float32), np.empty((5, 64, 2), np.float32)
    f = lathe.jit(lambda x: lathe.exp(lathe.permute_dims(x, (0, 2, 1))))
    f(x, out=out)
    assert "vectorized" in f.lower(x).text("scheduled")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("repeats, others", [(8, 8), (8, 5), (16, 16), (16, 3), (4, 4), (32, 7)])
def test_one_element_repeated_beside_others(repeats, others, dtype):
    y, x = np.array([7], dtype), np.arange(others).astype(dtype)
    joined = np.concatenate([np.broadcast_to(y, (repeats,)), x])
    f = lathe.jit(lambda y, x: lathe.concat([lathe.broadcast_to(y, (repeats,)), x]))
    np.testing.assert_array_equal(f(y, x), joined)
    g = lathe.jit(lambda y, x: lathe.sum(lathe.concat([lathe.broadcast_to(y, (repeats,)), x]), axis=()))
    np.testing.assert_array_equal(g(y, x), joined)
    h = lathe.jit(lambda y, x: lathe.sum(lathe.concat([x, lathe.broadcast_to(y, (repeats,))])))
    assert h(y, x) == joined.sum()


@pytest.mark.parametrize("rows", [1, 4])
def test_woven_operands_of_a_product(rows):
    """Numbers of four bits, two a byte: what is woven is made before it is multiplied, however often it is read."""
    x = normal(rows, 256)
    packed, scales = rng.integers(0, 256, (96, 128)).astype(np.uint8), normal(96, 8)

    @lathe.jit
    def product(x, packed, scales):
        low, high = lathe.astype(packed & 15, lathe.float32) - 8, lathe.astype(packed >> 4, lathe.float32) - 8
        weights = lathe.reshape(lathe.stack([low, high], axis=-1), (96, 8, 32)) * lathe.expand_dims(scales, axis=-1)
        return x @ lathe.reshape(weights, (96, 256)).mT

    weights = np.stack([packed & 15, packed >> 4], -1).reshape(96, 8, 32).astype(np.float64) - 8
    weights *= scales[..., None]
    np.testing.assert_allclose(product(x, packed, scales), x @ weights.reshape(96, 256).T, rtol=1e-4, atol=1e-3)
    block = product.lower(x, packed, scales).text("scheduled").rsplit("reducer", 1)[1]
    assert "%" not in block.split("}")[1], "the product reads its weights as they lie"


def adjugate(lib, a):
    (p, q, r), (s, t, v), (w, x, y) = [[a[:, i, j] for j in range(3)] for i in range(3)]
    first = [t * y - v * x, v * w - s * y, s * x - t * w]
    rows = [first[0], r * x - q * y, q * v - r * t, first[1], p * y - r * w, r * s - p * v]
    rows += [first[2], q * w - p * x, p * t - q * s]
    scale = 1.0 / (p * first[0] + q * first[1] + r * first[2])
    return lib.stack([row * scale for row in rows], axis=1).reshape((a.shape[0], 3, 3))


def rotations(lib, a):
    q = a.reshape((a.shape[0], 9))[:, :4]
    q = q * (1.0 / lib.sqrt(lib.sum(q * q, axis=1)))[:, None]
    w, x, y, z = [q[:, i] for i in range(4)]
    rows = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z)]
    rows += [1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x)]
    return lib.stack([*rows, 1 - 2 * (x * x + y * y)], axis=1)


@pytest.mark.parametrize("n", [1, 7, 64, 1001])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [adjugate, rotations])
def test_rows_longer_than_a_vector_that_choose_are_woven(function, n, dtype):
    """What is computed for each row stands in a loop of its own, beside which only the row would have vectors."""
    a = normal(n, 3, 3, dtype=dtype) + 4 * np.eye(3, dtype=dtype)
    compiled = lathe.jit(lambda a: function(lathe, a))
    tolerance = 1e-4 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(compiled(a), function(np, a), rtol=tolerance, atol=tolerance)
    # Rows of nine are not woven of four doubles at a time.
    wide = dtype is np.float32 or "avx512f" in lathe.device_info()["features"]
    if n == 1001 and wide:
        assert "unrolled for i1" in compiled.lower(a).text("scheduled")


@pytest.mark.parametrize("n", [1, 2, 19, 203])
@pytest.mark.parametrize("side", [2, 4, 5, 6, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_matrices_are_made_of_numbers(n, side, dtype):
    """Vectors along a matrix know which of the numbers each lane is."""

    def flat(lib, m):
        numbers = [m[:, i, j] + 2 * m[:, j, i] * m[:, i, 0] for i in range(side) for j in range(side)]
        return lib.stack(numbers, axis=-1).reshape((n, side, side))

    def nested(lib, m):
        rows = [[m[:, i, j] + m[:, j, i] for j in range(side)] for i in range(side)]
        return lib.stack([lib.stack(row, axis=-1) for row in rows], axis=-2)

    def lower(lib, m):
        return lib.stack(
            [m[:, i, j] * 2 if j <= i else m[:, 0, 0] * 0 for i in range(side) for j in range(side)], axis=-1
        )

    m = normal(n, side, side, dtype=dtype)
    for function in (flat, nested, lower):
        compiled = lathe.jit(lambda m, function=function: function(lathe, m))
        np.testing.assert_allclose(compiled(m), function(np, m), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 33, 500])
def test_stacks_of_stacks_are_divided_by_a_number_of_their_row(n):
    def candidates(lib, r, q):
        rows = [[r[:, i % 3, j % 3] - r[:, j % 3, i % 3] for j in range(4)] for i in range(4)]
        stacked = lib.stack([lib.stack(row, axis=-1) for row in rows], axis=-2)
        return stacked / (2 * lib.maximum(q, 0.1 if lib is lathe else np.float32(0.1))[:, :, None])

    r, q = normal(n, 3, 3), normal(n, 4)
    np.testing.assert_allclose(
        lathe.jit(lambda r, q: candidates(lathe, r, q))(r, q), candidates(np, r, q), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("shape", [(1, 3), (7, 3), (501, 3), (5, 6, 7, 3), (100, 2), (33, 5), (9, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_vectors_are_stacked(shape, axis, dtype):
    def differences(lib, a, b, c):
        return lib.stack([a - b, b - c, c - a], axis=axis)

    a, b, c = (normal(*shape, dtype=dtype) for _ in range(3))
    compiled = lathe.jit(lambda a, b, c: differences(lathe, a, b, c))
    np.testing.assert_allclose(compiled(a, b, c), differences(np, a, b, c), rtol=1e-6, atol=1e-6)
    # Vectors of two doubles are not woven.
    wide = dtype is np.float32 or "avx2" in lathe.device_info()["features"]
    if shape == (501, 3) and axis == -1 and wide:
        assert "unrolled for i2 in [0, 3)" in compiled.lower(a, b, c).text("scheduled")


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (5, 7, 37), (4, 3, 64)])
def test_gradients_and_curls_of_fields_with_their_components_last(shape):
    def gradient(lib, u):
        return lib.stack([lib.roll(u, -1, k) - u for k in range(3)], axis=-1)

    def curl(lib, e):
        d = lambda k, a: lib.roll(e[..., k], -1, a) - e[..., k]  # noqa: E731
        return lib.stack([d(2, 1) - d(1, 2), d(0, 2) - d(2, 0), d(1, 0) - d(0, 1)], axis=-1)

    u = normal(*shape, 3)
    for function in (gradient, curl):
        compiled = lathe.jit(lambda u, function=function: function(lathe, u))
        np.testing.assert_allclose(compiled(u), function(np, u), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 7, 8, 33, 1003])
@pytest.mark.parametrize("columns", [3, 9, 17, 36])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_chains_over_the_columns_of_rows(n, columns, dtype, name):
    """Squares of neighbouring columns are turned around in registers; NaN and zeros of either sign are NumPy's."""
    x = normal(n, columns, dtype=dtype)
    special = np.random.default_rng(n * columns)
    x[special.random(x.shape) < 0.1] = 0.0
    x[special.random(x.shape) < 0.1] = -0.0
    x[special.random(x.shape) < 0.02] = np.nan

    def chain(lib, x):
        pick = getattr(lib, name)
        result = x[:, 0]
        for j in range(1, columns):
            result = pick(result, x[:, j]) + x[:, j // 2] if j % 5 == 4 else pick(result, x[:, j])
        return result

    with np.errstate(invalid="ignore"):
        expected = chain(np, x)
    np.testing.assert_allclose(lathe.jit(lambda x: chain(lathe, x))(x), expected, rtol=1e-4, atol=1e-5)
    extreme = lathe.jit(lambda x: getattr(lathe, name)(getattr(lathe, name)(x[:, 0], x[:, 1]), x[:, 2]))
    zeros = np.array([[a, b, c] for a in (0.0, -0.0) for b in (0.0, -0.0) for c in (0.0, -0.0)], dtype)
    negative = np.signbit(zeros).all(1) if name == "maximum" else np.signbit(zeros).any(1)
    np.testing.assert_array_equal(np.signbit(extreme(zeros)), negative)


def test_masks_of_lanes_that_are_off_keep_loads_within_an_array():
    """The last vectors of reversed pairs reach over the end of the array, behind which no memory may be read."""
    if not sys.platform.startswith("linux"):
        pytest.skip("pages are protected as Linux does")
    count = 370
    size = (count * 4 + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + size), mmap.PAGESIZE, 0) == 0
    x = np.frombuffer(memory, np.float32, count, size - count * 4).reshape(37, 5, 2)
    x[...] = normal(37, 5, 2)
    reversed_pairs = x[..., ::-1]
    stacked = lathe.jit(lambda e: lathe.stack([e - 1, e * 2, e + e], axis=-1))
    expected = np.stack([reversed_pairs - 1, reversed_pairs * 2, reversed_pairs * 2], -1)
    np.testing.assert_allclose(stacked(reversed_pairs), expected, rtol=1e-6)


@pytest.mark.parametrize("columns", [8, 20, 36, 130])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.int64, np.float16])
def test_sums_over_the_columns_of_rows_of_integers_and_halves(columns, dtype):
    x = rng.integers(0, 3, (1001, columns)).astype(dtype)

    def chain(x):
        result = x[:, 0]
        for j in range(1, columns):
            result = result + x[:, j]
        return result

    np.testing.assert_array_equal(lathe.jit(chain)(x), chain(x))
