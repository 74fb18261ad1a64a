"""Products by weights of 4 bits, two in a byte, which are unpacked on the way: the same results as NumPy's."""

import re

import numpy as np
import pytest
from explanations import explained

import lathe


def product(x, packed):
    pairs, columns = packed.shape
    low, high = lathe.bitwise_and(packed, 15), lathe.bitwise_right_shift(packed, 4)
    whole = lathe.reshape(lathe.stack([low, high], axis=1), (2 * pairs, columns))
    return lathe.matmul(x, lathe.astype(whole, lathe.float32) - 8.0)


def arrays(rows, columns, depth):
    rng = np.random.default_rng(7)
    return rng.standard_normal((rows, depth), np.float32), rng.integers(0, 256, (depth // 2, columns), np.uint8)


@pytest.mark.parametrize(
    "rows, columns, depth", [(1, 64, 32), (4, 33, 64), (16, 101, 48), (16, 561, 1152), (20, 7, 10)]
)
def test_beside_numpy(rows, columns, depth):
    x, packed = arrays(rows, columns, depth)
    whole = np.stack([packed & 15, packed >> 4], 1).reshape(depth, columns).astype(np.float64) - 8
    np.testing.assert_allclose(lathe.jit(product)(x, packed), x @ whole, rtol=1e-4, atol=1e-3)


def test_rows_of_bytes_fill_vectors_where_there_are_no_masks(tmp_path):
    """A tile has six columns with AVX2, and bytes have no masks there: a copy for each would go lane by lane."""
    decisions = explained(lathe.jit(product).lower(*arrays(16, 561, 1152)), tmp_path)
    assert "tile matmul_rf: 6 rows" in decisions
    under = re.findall(r"# compute \w+ under (\w+)", decisions)
    assert under and not any(loop.startswith("i1") for loop in under), under


def grouped(x, packed, scales, halves):
    """x by weights of groups, each with a scale: halves of a group side by side, or nibbles in turn."""
    (rows, count), (_, groups) = packed.shape, scales.shape
    size = 2 * count // groups
    parts = lathe.reshape(packed, (rows, groups, size // 2)) if halves else packed
    low, high = (lathe.astype(part, lathe.float32) - 8.0 for part in (parts & 15, parts >> 4))
    whole = lathe.concat([low, high], axis=-1) if halves else lathe.stack([low, high], axis=-1)
    whole = lathe.reshape(whole, (rows, groups, size)) * lathe.reshape(scales, (rows, groups, 1))
    return lathe.matmul(x, lathe.reshape(whole, (rows, 2 * count)).T)


@pytest.mark.parametrize("halves", [True, False])
@pytest.mark.parametrize("rows, columns, groups, size", [(1, 48, 4, 32), (1, 33, 6, 16), (5, 64, 4, 32), (1, 7, 3, 10)])
def test_groups_beside_numpy(rows, columns, groups, size, halves):
    rng = np.random.default_rng(11)
    x = rng.standard_normal((rows, groups * size), np.float32)
    packed = rng.integers(0, 256, (columns, groups * size // 2), np.uint8)
    scales = rng.standard_normal((columns, groups), np.float32)
    parts = packed.reshape(columns, groups, size // 2)
    low, high = (parts & 15) - 8.0, (parts >> 4) - 8.0
    whole = np.concatenate([low, high], -1) if halves else np.stack([low, high], -1).reshape(columns, groups, size)
    expected = x @ (whole * scales[:, :, None]).reshape(columns, -1).T
    f = lathe.jit(lambda x, packed, scales: grouped(x, packed, scales, halves))
    np.testing.assert_allclose(f(x, packed, scales), expected, rtol=1e-4, atol=1e-3)


def test_halves_are_walked_one_after_another(tmp_path):
    x, packed, scales = np.ones((1, 2048), np.float32), np.ones((512, 1024), np.uint8), np.ones((512, 64), np.float32)
    low = lathe.jit(lambda x, packed, scales: grouped(x, packed, scales, True)).lower(x, packed, scales)
    decisions = explained(low, tmp_path)
    assert "split the axes that matmul joins" in decisions
    assert "dot products" in decisions


@pytest.mark.parametrize(("rows", "steps", "columns", "group"), [(1, 512, 128, 128), (1, 96, 33, 16), (7, 64, 20, 32)])
def test_weights_of_four_bits_take_vectors_across_their_columns(rows, steps, columns, group):
    """Two steps of a product in each byte, with a scale and a zero point for each group of steps, cast beside it."""
    rng = np.random.default_rng(steps)
    x = rng.standard_normal((rows, steps), np.float32)
    packed = rng.integers(0, 256, (steps // 2, columns), np.uint8)
    scale = rng.random((steps // group, columns), np.float32)
    zero = rng.integers(0, 16, (steps // group, columns), np.uint8)

    def weights(lib, packed, scale, zero):
        wide = lib.astype(lib.reshape(lib.stack([packed & 15, packed >> 4], axis=1), (steps, columns)), lib.float32)
        parts = lib.reshape(wide, (steps // group, group, columns)) - lib.astype(zero, lib.float32)[:, None, :]
        return lib.reshape(parts * scale[:, None, :], (steps, columns))

    product = lathe.jit(lambda x, *packed: lathe.matmul(x, weights(lathe, *packed)))
    expected = x.astype(np.float64) @ weights(np, packed, scale, zero)
    np.testing.assert_allclose(product(x, packed, scale, zero), expected, rtol=1e-4, atol=1e-3)
    if rows == 1 and columns == 128:
        text = product.lower(x, packed, scale, zero).text("scheduled")
        assert "reduce_add" not in text
