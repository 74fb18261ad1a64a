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


@pytest.mark.parametrize("rows, columns, depth", [(1, 64, 32), (4, 33, 64), (16, 101, 48), (16, 561, 1152), (20, 7, 10)])
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
