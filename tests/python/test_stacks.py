"""Tensors stacked along an axis: of results, where vectors are woven, and of reductions, which take one a step."""
import numpy as np
import pytest

import lathe


def parts(x, count):
    return [x[:, i % x.shape[1]] + x[:, (i + 1) % x.shape[1]] for i in range(count)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int8])
@pytest.mark.parametrize("count", [2, 3, 5, 6, 7, 8, 9, 12, 15, 16, 17])
def test_stacks_of_many(dtype, count):
    for rows in (1, 5, 16, 33):
        x = (np.random.default_rng(rows).standard_normal((rows, 5)) * 20).astype(dtype)
        expected = np.stack(parts(x, count), axis=1)
        np.testing.assert_array_equal(lathe.jit(lambda x: lathe.stack(parts(x, count), axis=1))(x), expected)
        if count % 3 == 0:
            shape = (rows, 3, count // 3)
            f = lathe.jit(lambda x, shape=shape: lathe.reshape(lathe.stack(parts(x, count), axis=1), shape))
            np.testing.assert_array_equal(f(x), expected.reshape(shape))


@pytest.mark.parametrize("count", [2, 5, 33])
def test_reductions_over_stacks(count):
    x = np.random.default_rng(count).standard_normal((19, 40)).astype(np.float32)

    def windows(x):
        return [x[:, i : i + 7] * float(i + 1) for i in range(count)]

    for name in ("sum", "max", "mean"):
        f = lathe.jit(lambda x, name=name: getattr(lathe, name)(lathe.stack(windows(x), axis=0), axis=0))
        expected = getattr(np, name)(np.stack(windows(x)), axis=0)
        np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-5)
    f = lathe.jit(lambda x: lathe.sum(lathe.stack(windows(x), axis=0), axis=(0, 2)))
    np.testing.assert_allclose(f(x), np.stack(windows(x)).sum(axis=(0, 2)), rtol=1e-4, atol=1e-4)


def test_a_reduction_over_a_stack_takes_one_tensor_a_step():
    x = np.zeros((8, 300), np.float32)
    f = lathe.jit(lambda x: lathe.sum(lathe.stack([x[:, i : i + 256] * float(i) for i in range(20)], axis=0), axis=0))
    text = f.lower(x).text("scheduled")
    assert "reducer" not in text
    assert "select" not in text
