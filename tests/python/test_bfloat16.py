"""NumPy arrays of ml_dtypes.bfloat16; skipped where that is not installed."""

import numpy as np
import pytest

import lathe

bfloat16 = pytest.importorskip("ml_dtypes").bfloat16


def sample(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(bfloat16)


def test_arrays_in_and_out():
    affine = lathe.jit(lambda x, y: x * y + 1, precision="strict")
    x, y = sample(4, 7), sample(4, 7, seed=1)
    result = affine(x, y)
    assert result.dtype == bfloat16 and type(result) is np.ndarray
    np.testing.assert_array_equal(result, x * y + np.ones((), bfloat16))
    out = np.empty((7, 4), bfloat16).T
    assert affine(x, y, out=out) is out
    np.testing.assert_array_equal(out, result)
    transposed = affine(x.T, y.T)
    np.testing.assert_array_equal(transposed, result.T)
    assert transposed.strides == result.T.strides


def test_from_and_to_other_types():
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    rounded = lathe.jit(lambda x: lathe.astype(x, lathe.bfloat16))(x)
    assert rounded.dtype == bfloat16
    np.testing.assert_array_equal(rounded, x.astype(bfloat16))
    np.testing.assert_array_equal(lathe.jit(lambda x: lathe.astype(x, "float32"))(rounded), rounded.astype(np.float32))
    by_type = lathe.jit(lambda x: (lathe.astype(x, bfloat16), lathe.astype(x, np.dtype(bfloat16))))
    for result in by_type(x):
        np.testing.assert_array_equal(result, rounded)


def test_products():
    a, b = sample(33, 40), sample(40, 17, seed=1)
    result = lathe.jit(lambda a, b: a @ b)(a, b)
    assert result.dtype == bfloat16
    np.testing.assert_allclose(result.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), rtol=2**-7, atol=2**-6)


def test_captured_and_broadcast():
    scale = sample(7)
    np.testing.assert_array_equal(lathe.jit(lambda x: x * scale)(sample(4, 7)), sample(4, 7) * scale)
    assert lathe.jit(lambda x: x + 1)(sample(0, 3)).shape == (0, 3)


def test_other_added_types_are_refused():
    import ml_dtypes

    with pytest.raises(TypeError, match="is a NumPy array of dtype float8_e4m3fn, which Lathe has no type for"):
        lathe.jit(lambda x: x)(np.ones(3, ml_dtypes.float8_e4m3fn))
