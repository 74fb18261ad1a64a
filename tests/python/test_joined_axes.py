"""Reductions over axes that `reshape` joined, permuted before or not: the same results as NumPy's."""

import re

import numpy as np
import pytest

import lathe

FOLDS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "mean": np.mean}
JOINED = {  # axes of [4, 6, 10, 21], permuted, and the shape of what is then reduced along its last axis
    "two, one between": ((0, 2, 1, 3), (4, 10, 126)),
    "all but the first": ((0, 2, 3, 1), (4, 1260)),
    "the outer two": ((2, 3, 0, 1), (210, 24)),
    "turned around": ((3, 2, 1, 0), (21, 240)),
    "all": ((1, 0, 3, 2), (5040,)),
    "across the borders": ((0, 2, 1, 3), (8, 630)),
}


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("how", JOINED)
def test_reductions_over_joined_axes(how, fold):
    axes, shape = JOINED[how]
    x = np.random.default_rng(0).uniform(0.99, 1.01, (4, 6, 10, 21)).astype(np.float32)
    f = lathe.jit(lambda x: getattr(lathe, fold)(lathe.reshape(lathe.permute_dims(x, axes), shape), axis=-1))
    expected = FOLDS[fold](x.astype(np.float64).transpose(axes).reshape(shape), axis=-1)
    np.testing.assert_allclose(f(x), expected, rtol=3e-5)


def test_joined_axes_are_walked_in_vectors():
    x = np.zeros((4, 64, 28, 28), np.float32)
    f = lathe.jit(lambda x: lathe.sum(lathe.reshape(lathe.permute_dims(x, (0, 2, 1, 3)), (4, 28, 1792)), axis=2))
    text = f.lower(x).text("scheduled")
    assert "vectorized" in text and not re.search(r"\bv?r0\w* //", text)


@pytest.mark.parametrize("groups", [4, 8, 32])
def test_group_norm_with_channels_last(groups):
    rng = np.random.default_rng(1)
    x, w, b = rng.standard_normal((2, 7, 9, 64), np.float32), *rng.standard_normal((2, 64), np.float32)

    def norm(x, w, b):
        count, high, wide, channels = x.shape
        g = lathe.reshape(lathe.permute_dims(x, (0, 3, 1, 2)), (count, groups, -1))
        mean, var = lathe.mean(g, axis=2, keepdims=True), lathe.var(g, axis=2, keepdims=True)
        y = lathe.reshape((g - mean) * lathe.rsqrt(var + 1e-5), (count, channels, high, wide))
        return lathe.permute_dims(y, (0, 2, 3, 1)) * w + b

    g = x.astype(np.float64).reshape(2, 63, groups, -1)
    expected = (g - g.mean((1, 3), keepdims=True)) / np.sqrt(g.var((1, 3), keepdims=True) + 1e-5)
    assert "vi3 //" not in lathe.jit(norm).lower(x, w, b).text("scheduled")
    np.testing.assert_allclose(lathe.jit(norm)(x, w, b), expected.reshape(x.shape) * w + b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("axis", [(0, 1, 2, 3), (1, 2, 3), (2, 3), (0, 2, 3), (0, 1), 3])
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("shape", [(16, 32, 3, 3), (5, 7, 7, 7), (3, 4, 5, 1), (2, 3, 65, 2)])
def test_reductions_over_short_axes(shape, fold, axis):
    x = np.random.default_rng(2).uniform(0.999, 1.001, shape).astype(np.float32)
    found = lathe.jit(lambda x: getattr(lathe, fold)(x, axis=axis))(x)
    np.testing.assert_allclose(found, FOLDS[fold](x.astype(np.float64), axis=axis), rtol=1e-4)
    turned = lathe.jit(lambda x: getattr(lathe, fold)(x, axis=axis))(x.transpose(1, 0, 3, 2).copy().transpose(1, 0, 3, 2))
    np.testing.assert_allclose(turned, FOLDS[fold](x.astype(np.float64), axis=axis), rtol=1e-4)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("how", JOINED)
def test_places_of_extremes_along_joined_axes(how, name):
    axes, shape = JOINED[how]
    rng = np.random.default_rng(5)
    x = rng.integers(0, 7, (4, 6, 10, 21)).astype(np.float32)  # many are equal: the first counts
    f = lathe.jit(lambda x: getattr(lathe, name)(lathe.reshape(lathe.permute_dims(x, axes), shape), axis=-1))
    for _ in range(2):
        np.testing.assert_array_equal(f(x), getattr(np, name)(x.transpose(axes).reshape(shape), axis=-1))
        x.flat[rng.integers(0, x.size, 3)] = np.nan


@pytest.mark.parametrize("beams, words", [(8, 1000), (3, 17), (1, 40), (12, 5)])
def test_the_best_of_beams(beams, words):
    rng = np.random.default_rng(6)
    logits, before = rng.standard_normal((4, beams, words), np.float32), rng.standard_normal((4, beams), np.float32)

    def scores(x, s):
        return (lathe.log_softmax(x) + s[..., None]).reshape((4, beams * words))

    best = lathe.jit(lambda x, s: (lathe.argmax(scores(x, s), axis=1), lathe.sum(scores(x, s), axis=1)))
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)) + before[..., None]
    place, total = best(logits, before)
    np.testing.assert_array_equal(place, expected.reshape(4, -1).argmax(1))
    np.testing.assert_allclose(total, expected.reshape(4, -1).sum(1), rtol=1e-4)
    if words == 1000:
        alone = lathe.jit(lambda x, s: lathe.argmax(scores(x, s), axis=1)).lower(logits, before).text("scheduled")
        assert "argmax_rf" in alone or "argmax_0_rf" in alone, "a place a lane"
