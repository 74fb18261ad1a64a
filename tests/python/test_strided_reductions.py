"""Reductions of elements by wide, unknown, negative and no steps: fetched one by one, and folded in vectors."""

import numpy as np
import pytest

import lathe

whole = np.random.default_rng(0).standard_normal((200, 301)).astype(np.float32)
VIEWS = {
    "every fifth of both": whole[::5, ::5],
    "backwards by sevens": whole[:, ::-7],
    "one column, repeated": np.broadcast_to(whole[:, 3:4], (200, 301)),
    "turned and stepped": whole[::6, ::5].T,
    "fewer than a vector": whole[:, ::41],
}
FOLDS = {"sum": np.sum, "max": np.max, "min": np.min}


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("view", VIEWS)
def test_strided_views_are_reduced(view, fold, axis):
    x = VIEWS[view]
    ours = lathe.jit(lambda x: getattr(lathe, fold)(x, axis=axis))(x)
    np.testing.assert_allclose(ours, FOLDS[fold](x, axis=axis), rtol=1e-4, atol=1e-3)


def test_wide_steps_are_folded_in_vectors():
    text = lathe.jit(lambda x: lathe.sum(x, axis=1)).lower(whole[:, ::5]).text("scheduled")
    assert "vectorized" in text
