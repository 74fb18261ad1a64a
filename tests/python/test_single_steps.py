"""Reductions of one step along each of their axes, which are element-wise."""

import numpy as np
import pytest

import lathe

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -3.5]
ONE_AXIS = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "argmax": np.argmax,
    "argmin": np.argmin,
}


def values(shape, dtype="float32"):
    rng = np.random.default_rng(0)
    array = rng.standard_normal(shape).astype(dtype)
    array.reshape(-1)[: len(SPECIAL)] = SPECIAL[: array.size]
    return array


def reduces(function, *arrays):
    """Is anything summed once the program is traced?"""
    return "reducer" in lathe.jit(function).lower(*arrays).text("traced")


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize(("shape", "axis"), [((37, 1), 1), ((1, 50), 0), ((5, 1, 33), 1), ((1,), 0)])
def test_one_axis(name, shape, axis):
    x = values(shape)
    f = lathe.jit(lambda x: getattr(lathe, name)(x, axis=axis))
    result, expected = f(x), ONE_AXIS[name](x, axis=axis)
    np.testing.assert_array_equal(result, expected)
    if name == "sum":
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
    assert not reduces(lambda x: getattr(lathe, name)(x, axis=axis), x)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float64"])
def test_other_dtypes(dtype):
    x = np.arange(40).astype(dtype).reshape(40, 1)
    for name in ("sum", "max"):
        result = lathe.jit(lambda x, name=name: getattr(lathe, name)(x, axis=1))(x)
        np.testing.assert_array_equal(result, ONE_AXIS[name](x, axis=1))
        assert result.dtype == ONE_AXIS[name](x, axis=1).dtype


def test_several_axes_of_which_one_has_a_single_step():
    x = values((6, 1, 20))
    x[~np.isfinite(x)] = 2.0
    np.testing.assert_allclose(lathe.jit(lambda x: lathe.sum(x, axis=(1, 2)))(x), x.sum((1, 2)), rtol=1e-6)
    assert not reduces(lambda x: lathe.max(x, axis=(1,)), x)
    assert reduces(lambda x: lathe.max(x, axis=(1, 2)), x)


@pytest.mark.parametrize("shape", [(129, 65), (1, 7), (64, 1)])
def test_products_of_one_step(shape):
    rows, columns = shape
    a, b = values((rows, 1)), values((1, columns))
    a[np.isnan(a)] = 4.0
    b[~np.isfinite(b)] = -0.0
    with np.errstate(invalid="ignore"):
        expected = np.float32(0) + a * b
    result = lathe.jit(lathe.matmul)(a, b)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[~np.isnan(expected)]), np.signbit(expected[~np.isnan(expected)]))
    assert not reduces(lathe.matmul, a, b)


def test_a_contraction_of_one_step_in_any_order():
    x, y = values((1, 6, 5, 7)), values((1, 4))
    y[~np.isfinite(y)] = 1.5
    with np.errstate(invalid="ignore"):
        expected = np.einsum("ebca,ed->dcba", x, y)
    np.testing.assert_array_equal(lathe.jit(lambda x, y: lathe.einsum("ebca,ed->dcba", x, y))(x, y), expected)


def test_softmax_and_norms_over_one_element():
    x = np.random.default_rng(1).standard_normal((300, 1), np.float32)
    np.testing.assert_array_equal(lathe.jit(lambda x: lathe.softmax(x, axis=1))(x), np.ones_like(x))
    np.testing.assert_array_equal(lathe.jit(lambda x: lathe.logsumexp(x, axis=1))(x), x[:, 0])


def test_of_a_body_of_ones_own():
    x = values((17, 4))
    double = lathe.jit(
        lambda x: lathe.compute((17, 4), lambda i, j: lathe.reduce("sum", (1, 1), lambda r, s: x[i + r, j + s] * 2.0))
    )
    np.testing.assert_array_equal(double(x), x * 2)


@pytest.mark.parametrize("axis", [(1, 2), (0, -1), (0, 1, 2), [2], 1])
def test_softmax_over_several_axes(axis):
    x = np.random.default_rng(0).standard_normal((5, 7, 19)).astype(np.float32)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else axis
    powers = np.exp(x - x.max(axis=axes, keepdims=True))
    expected = powers / powers.sum(axis=axes, keepdims=True)
    np.testing.assert_allclose(lathe.jit(lambda x: lathe.softmax(x, axis=axis))(x), expected, rtol=1e-5)
    np.testing.assert_allclose(
        lathe.jit(lambda x: lathe.log_softmax(x, axis=axis))(x), np.log(expected), rtol=1e-5, atol=1e-5
    )
