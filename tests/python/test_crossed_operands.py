"""Reductions and scans of operands that lie across each other."""

import numpy as np
import pytest

import lathe


def greatest(s):
    return s.max(axis=1, keepdims=True)


FORMS = {
    "all": (lambda a, b: lathe.sum(a * b), lambda a, b: (a * b).sum()),
    "rows": (lambda a, b: lathe.sum(a * b, axis=1), lambda a, b: (a * b).sum(axis=1)),
    "columns": (lambda a, b: lathe.sum(a * b, axis=0), lambda a, b: (a * b).sum(axis=0)),
    "greatest": (lambda a, b: lathe.max(lathe.abs(a - b)), lambda a, b: np.abs(a - b).max()),
    "place": (lambda a, b: lathe.argmax(a + b, axis=1), lambda a, b: (a + b).argmax(axis=1)),
    "equal": (lambda a, b: lathe.all(a == b), lambda a, b: (a == b).all()),
    "variance": (lambda a, b: lathe.var(a * b, axis=1), lambda a, b: (a * b).var(axis=1)),
    "running": (lambda a, b: lathe.cumulative_sum(a * b, axis=1), lambda a, b: (a * b).cumsum(axis=1)),
    "less": (
        lambda a, b: a + b - lathe.max(a + b, axis=1, keepdims=True),
        lambda a, b: a + b - greatest(a + b),
    ),
    "softmax": (
        lambda a, b: lathe.softmax(a + b),
        lambda a, b: np.exp(a + b - greatest(a + b)) / np.exp(a + b - greatest(a + b)).sum(axis=1, keepdims=True),
    ),
}
SHAPES = [(8, 8), (40, 33), (33, 128), (7, 70), (300, 9), (128, 257), (0, 16), (1, 20)]


def drawn(dtype, *shape):
    return np.random.default_rng(5).uniform(-2, 2, shape).astype(dtype)


def near(actual, expected):
    if actual.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_of_a_matrix_beside_a_transposed_one(form, shape, dtype):
    if shape == (0, 16) and form == "greatest":
        return
    own, numpys = FORMS[form]
    a, b = drawn(dtype, *shape), drawn(dtype, *shape[::-1])
    near(lathe.jit(lambda a, b: own(a, lathe.matrix_transpose(b)))(a, b), numpys(a, b.T))
    near(lathe.jit(own)(a, b.T), numpys(a, b.T))
    if shape[0] == shape[1]:
        near(lathe.jit(lambda a: own(a, lathe.matrix_transpose(a)))(a), numpys(a, a.T))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.bool_])
def test_of_other_elements(dtype):
    a, b = (drawn(np.float32, 50, 70) * 30).astype(dtype), (drawn(np.float32, 70, 50) * 30).astype(dtype)
    same = lathe.jit(lambda a, b: lathe.sum((a == lathe.matrix_transpose(b)).astype(lathe.int32), axis=1))
    np.testing.assert_array_equal(same(a, b), (a == b.T).sum(axis=1))


@pytest.mark.parametrize("axes", [None, 0, 1, (2, 3), (0, 2, 3)], ids=str)
def test_of_channels_first_beside_channels_last(axes):
    a, b = drawn(np.float32, 3, 10, 9, 12), drawn(np.float32, 3, 9, 12, 10)
    squares = lathe.jit(lambda a, b: lathe.sum((a - lathe.permute_dims(b, (0, 3, 1, 2))) ** 2, axis=axes))
    near(squares(a, b), ((a - b.transpose(0, 3, 1, 2)) ** 2).sum(axis=axes))


def test_of_three_that_all_lie_otherwise():
    a, b, c = drawn(np.float32, 20, 24, 28), drawn(np.float32, 28, 24, 20), drawn(np.float32, 24, 28, 20)
    total = lathe.jit(
        lambda a, b, c: lathe.sum(a * lathe.permute_dims(b, (2, 1, 0)) * lathe.permute_dims(c, (2, 0, 1)), axis=1)
    )
    near(total(a, b, c), (a * b.transpose(2, 1, 0) * c.transpose(2, 0, 1)).sum(axis=1))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("turned", ["x", "y", "both"])
def test_places_of_pairs_of_rows(turned, axis):
    x, y = drawn(np.float32, 24, 40), drawn(np.float32, 30, 40)
    if turned != "y":
        x = np.asfortranarray(x)
    if turned != "x":
        y = np.asfortranarray(y)
    nearest = lathe.jit(lambda x, y: lathe.argmin(abs(x[:, None, :] - y[None, :, :]), axis=axis))
    np.testing.assert_array_equal(nearest(x, y), abs(x[:, None, :] - y[None, :, :]).argmin(axis=axis))
