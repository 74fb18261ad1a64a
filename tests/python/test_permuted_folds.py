"""Sums, scans, places and what is computed of them, of arrays whose dimensions lie in any order, give what NumPy gives."""

import itertools

import numpy as np
import pytest

import lathe

SHAPES = [(12, 20), (17, 40), (3, 33, 18), (20, 5, 16), (2, 9, 5, 17)]


def orders(rank):
    return [order for order in itertools.permutations(range(rank)) if order != tuple(range(rank))]


CASES = [(shape, order) for shape in SHAPES for order in orders(len(shape))[:: 1 if len(shape) < 4 else 4]]


def laid(shape, order, dtype="float32"):
    """Few different values, so that places of the greatest tie."""
    drawn = np.random.default_rng(3).integers(-4, 5, [shape[d] for d in order])
    return (drawn / 4).astype(dtype).transpose(np.argsort(order))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


FOLDS = {
    "sum": (lambda x, a: lathe.sum(x, axis=a), lambda x, a: x.sum(a)),
    "greatest": (lambda x, a: lathe.max(x, axis=a), lambda x, a: x.max(a)),
    "place": (lambda x, a: lathe.argmax(x, axis=a), lambda x, a: x.argmax(a)),
    "cumulative": (lambda x, a: lathe.cumulative_sum(x, axis=a), lambda x, a: x.cumsum(a)),
    "mean": (lambda x, a: lathe.mean(x, axis=a, keepdims=True), lambda x, a: x.mean(a, keepdims=True)),
    "variance": (lambda x, a: lathe.var(x, axis=a), lambda x, a: x.var(a)),
    "softmax": (lambda x, a: lathe.softmax(x, axis=a), softmax),
    "less the mean": (
        lambda x, a: x - lathe.mean(x, axis=a, keepdims=True),
        lambda x, a: x - x.mean(a, keepdims=True),
    ),
    "square of the cumulative": (lambda x, a: lathe.square(lathe.cumulative_sum(x, axis=a)), lambda x, a: x.cumsum(a) ** 2),
    "sum and place": (
        lambda x, a: (lathe.sum(x, axis=a), lathe.argmax(x, axis=a)),
        lambda x, a: (x.sum(a), x.argmax(a)),
    ),
    "sum of all but one": (
        lambda x, a: lathe.sum(x, axis=tuple(d for d in range(x.ndim) if d != a)),
        lambda x, a: x.sum(tuple(d for d in range(x.ndim) if d != a)),
    ),
    "product with itself": (lambda x, a: lathe.moveaxis(x, a, -1).mT @ lathe.moveaxis(x, a, -1),
                            lambda x, a: np.matmul(np.moveaxis(x, a, -1).swapaxes(-1, -2), np.moveaxis(x, a, -1))),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "order"), CASES)
@pytest.mark.parametrize("name", FOLDS)
def test_of_permuted_arrays(name, shape, order):
    x, (own, theirs) = laid(shape, order), FOLDS[name]
    for axis in range(len(shape)):
        found, expected = lathe.jit(lambda x, axis=axis: own(x, axis))(x), theirs(x.astype("float64"), axis)
        for mine, other in zip(
            found if isinstance(found, tuple) else (found,),
            expected if isinstance(expected, tuple) else (expected,),
            strict=True,
        ):
            np.testing.assert_allclose(mine, other, 2e-6, 2e-6)


@pytest.mark.parametrize("name", ["sum", "place", "cumulative", "variance", "softmax"])
@pytest.mark.parametrize("order", orders(3))
def test_into_arrays_of_any_order(name, order):
    shape, (own, theirs) = (9, 20, 16), FOLDS[name]
    x = laid(shape, order)
    expected = theirs(x, 1)
    for given in itertools.permutations(range(expected.ndim)):
        out = np.empty([expected.shape[d] for d in given], expected.dtype).transpose(np.argsort(given))
        lathe.jit(lambda x: own(x, 1))(x, out=out)
        np.testing.assert_allclose(out, expected, 2e-6, 2e-6)


def test_results_of_folds_are_laid_out_by_rows():
    x = laid((9, 20, 16), (2, 1, 0))
    for name in ("sum", "place", "cumulative", "greatest"):
        assert lathe.jit(lambda x, own=FOLDS[name][0]: own(x, 1))(x).flags.c_contiguous, name


def test_slices_of_permuted_arrays():
    x = laid((20, 12, 40), (2, 0, 1))[3:17, 1:11, 4:36]
    for name, (own, theirs) in FOLDS.items():
        if name == "sum and place":
            continue
        for axis in range(3):
            np.testing.assert_allclose(
                lathe.jit(lambda x, f=own, axis=axis: f(x, axis))(x), theirs(x, axis), 2e-6, 2e-6
            )


@pytest.mark.parametrize(("shape", "order"), CASES)
@pytest.mark.parametrize("shift", [1, -2])
def test_rolls(shift, shape, order):
    x = laid(shape, order)
    for axis in range(len(shape)):
        rolled = np.roll(x, shift, axis)
        np.testing.assert_array_equal(lathe.jit(lambda x, a=axis: lathe.roll(x, shift, axis=a))(x), rolled)
        for over in range(len(shape)):
            greatest, place = lathe.jit(
                lambda x, a=axis, b=over: (
                    lathe.max(x + lathe.roll(x, shift, axis=a), axis=b),
                    lathe.argmax(x - lathe.roll(x, shift, axis=a), axis=b),
                )
            )(x)
            np.testing.assert_array_equal(greatest, (x + rolled).max(over))
            np.testing.assert_array_equal(place, (x - rolled).argmax(over))
