"""Folds of every second or third element, and of parts of longer rows, give what NumPy gives, alone and together."""

import numpy as np
import pytest

import lathe

VIEWS = {
    "every second": lambda x: x[..., ::2],
    "every third": lambda x: x[..., ::3],
    "every fifth": lambda x: x[..., ::5],
    "a part": lambda x: x[..., 2:-3],
}
SHAPES = [(300, 12), (50, 7, 6), (9, 20, 16, 9), (40, 2000), (1400, 1200), (3, 500, 8)]
FOLDS = {
    "sum": (lambda x, a: lathe.sum(x, axis=a), lambda x, a: x.sum(a)),
    "greatest": (lambda x, a: lathe.max(x, axis=a), lambda x, a: x.max(a)),
    "squares": (lambda x, a: lathe.sum(x * x, axis=a), lambda x, a: (x * x).sum(a)),
    "place": (lambda x, a: lathe.argmax(x, axis=a), lambda x, a: x.argmax(a)),
    "variance": (lambda x, a: lathe.var(x, axis=a), lambda x, a: x.var(a)),
    "cumulative": (lambda x, a: lathe.cumulative_sum(x, axis=a), lambda x, a: x.cumsum(a)),
    "total": (lambda x, a: lathe.sum(x), lambda x, a: x.sum()),
}


def integers(dtype, *shape):
    """Whose sums are exact, but where a variance is found in the same walk."""
    return np.random.default_rng(5).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("view", VIEWS)
def test_alone_and_together(view, shape, dtype):
    if "float32" != dtype and shape == (1400, 1200):
        pytest.skip("as in float32")
    x = VIEWS[view](integers(dtype, *shape))
    names = [name for name in FOLDS if name != "variance" or dtype != "int32"]
    for axis in range(x.ndim):
        found = lathe.jit(lambda x, axis=axis: tuple(FOLDS[name][0](x, axis) for name in names))(x)
        # Beside a variance a sum is that of what is left of a sample's mean: off by a share of all that is added up.
        added = 2e-6 * np.abs(x.astype("float64")).sum(axis).max()
        for name, mine in zip(names, found, strict=True):
            expected = FOLDS[name][1](x.astype("float64"), axis)
            alone = lathe.jit(lambda x, f=FOLDS[name][0], axis=axis: f(x, axis))(x)
            within = max(1e-3, added) if name == "sum" else 1e-3
            np.testing.assert_allclose(mine, expected, 2e-5, within, err_msg=name)
            np.testing.assert_allclose(alone, expected, 2e-5, 1e-3, err_msg=name)


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("shape", [(40, 6, 2), (17, 30, 1), (9, 5, 4)])
def test_short_rows_beside_what_lies_across(shape, columns):
    a = integers("float32", *shape, columns + 5)[..., 2:-3]
    b = integers("float32", *shape[1:], columns, shape[0]).transpose(3, 0, 1, 2)
    np.testing.assert_array_equal(lathe.jit(lambda a, b: (a - b) * b)(a, b), (a - b) * b)
    compact = np.ascontiguousarray(a)
    np.testing.assert_array_equal(lathe.jit(lambda a, b: a - b)(compact, b), compact - b)
