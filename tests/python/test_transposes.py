"""Axes that change places, in shapes that squares of registers cover wholly, in part, or not at all."""

import itertools

import numpy as np
import pytest

import lathe

SHAPES = [(16, 16), (17, 33), (40, 50), (128, 64), (15, 70), (3, 20, 37), (2, 17, 1, 48), (2, 16, 5, 32), (0, 40), (1, 64)]
DTYPES = [np.float32, np.float64, np.float16, np.int8, np.uint16, np.int64, np.bool_]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_permuted_axes(shape, dtype):
    x = (np.random.default_rng(1).standard_normal(shape) * 50).astype(dtype)
    for axes in itertools.permutations(range(len(shape))):
        permute = lathe.jit(lambda x, axes=axes: lathe.permute_dims(x, axes))
        np.testing.assert_array_equal(permute(x), x.transpose(axes))
        np.testing.assert_array_equal(permute(x[..., ::-1]), x[..., ::-1].transpose(axes))


def test_within_an_expression_and_in_place():
    x, y = np.random.default_rng(2).standard_normal((2, 48, 48), dtype=np.float32)
    add = lathe.jit(lambda x, y: lathe.matrix_transpose(x) + y)
    np.testing.assert_array_equal(add(x, y), x.T + y)
    expected = x.T + y
    add(x, y, out=x)  # overlaps what is read by columns
    np.testing.assert_array_equal(x, expected)


LARGE = [(512, 600), (1024, 1030), (1023, 1024), (70, 2048), (2048, 513), (2100, 2048)]


@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8], ids=lambda d: d.__name__)
def test_rows_that_meet_in_one_set_of_a_cache(shape, dtype):
    x = (np.random.default_rng(3).standard_normal(shape) * 50).astype(dtype)
    turn = lathe.jit(lambda x: lathe.positive(lathe.matrix_transpose(x)))
    np.testing.assert_array_equal(turn(x), x.T)
    add = lathe.jit(lambda x, y: lathe.matrix_transpose(x) + lathe.matrix_transpose(y) + lathe.matrix_transpose(x[::-1]))
    y = x + np.ones_like(x)
    np.testing.assert_array_equal(add(x, y), (x + y + x[::-1]).T)


def test_an_output_past_the_caches():
    x = np.arange(3000 * 2048, dtype=np.float32).reshape(3000, 2048)
    start = np.empty(3000 * 2048 + 16, np.float32)
    out = start[-start.ctypes.data % 64 // 4 :][: x.size].reshape(2048, 3000)
    turn = lathe.jit(lambda x: lathe.positive(lathe.matrix_transpose(x)))
    np.testing.assert_array_equal(turn(x, out=out), x.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint8], ids=lambda d: d.__name__)
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_few_channels_inside_of_pixels_and_in_planes(channels, dtype):
    to_end = lathe.jit(lambda x: lathe.permute_dims(x, (0, 2, 3, 1)) * 2 + 1)
    to_planes = lathe.jit(lambda x: lathe.permute_dims(x, (0, 3, 1, 2)) * 2 + 1)
    for height, width in [(2, 100), (3, 16), (1, 31), (5, 3)]:
        planes = (np.random.default_rng(4).standard_normal((2, channels, height, width)) * 20).astype(dtype)
        pixels = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(to_end(planes), pixels * 2 + 1)
        np.testing.assert_array_equal(to_planes(pixels), planes * 2 + 1)
    wide = np.zeros((2, channels, 4, 100), dtype)
    assert "vectorized" in to_end.lower(wide).text("scheduled")


@pytest.mark.parametrize("shape", [(40, 50), (64, 300), (17, 33), (9, 8), (3, 40, 37), (1024, 130)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int16, np.uint8], ids=lambda d: d.__name__)
def test_functions_of_what_lies_across(shape, dtype):
    rng = np.random.default_rng(4)
    x, y = ((rng.random(shape) * 50).astype(dtype) for _ in range(2))
    z = np.ascontiguousarray((rng.random(shape) * 50).astype(dtype).swapaxes(-1, -2))
    if np.issubdtype(dtype, np.floating):
        f = lathe.jit(lambda x, z: lathe.exp(lathe.matrix_transpose(x) * -0.1) + z)
        expected = np.exp(x.swapaxes(-1, -2).astype(np.float64) * -0.1) + z
        np.testing.assert_allclose(f(x, z), expected, rtol=1e-2 if dtype is np.float16 else 1e-5)
    sums = lathe.jit(lambda x, y: lathe.positive(lathe.matrix_transpose(x + y)))
    np.testing.assert_array_equal(sums(x, y), (x + y).swapaxes(-1, -2))
    narrow = lathe.jit(lambda x: lathe.astype(lathe.matrix_transpose(x), lathe.float16) * 2)
    np.testing.assert_array_equal(narrow(x), x.swapaxes(-1, -2).astype(np.float16) * np.float16(2))
