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


ROWS = np.random.default_rng(1).standard_normal((60, 400)).astype(np.float32)
BESIDE = {
    "every second": lambda rows: rows[:, ::2],
    "every third": lambda rows: rows[:, 1::3],
    "backwards": lambda rows: rows[:, ::-1],
    "backwards by twos": lambda rows: rows[:, ::-2],
    "every fifth": lambda rows: rows[:, ::5],
    "backwards by nines": lambda rows: rows[:, ::-9],
    "one column, repeated": lambda rows: np.broadcast_to(rows[:, 3:4], (60, 150)),
}
ENDS = {
    "sum": (lathe.sum, np.sum),
    "max": (lathe.max, np.max),
    "argmax": (lathe.argmax, np.argmax),
    "argmin": (lathe.argmin, np.argmin),
    "variance": (lathe.var, np.var),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("view", BESIDE)
def test_strided_views_beside_whole_rows(view, end, axis, dtype):
    if end == "variance" and np.dtype(dtype).kind != "f":
        return
    rows = (ROWS * 20).astype(dtype)
    x = BESIDE[view](rows)
    y = rows[::-1, : x.shape[1]].copy()
    ours, numpys = ENDS[end]
    actual = lathe.jit(lambda x, y: ours(x + y, axis=axis))(x, y)
    np.testing.assert_allclose(actual, numpys(x + y, axis=axis), rtol=1e-4, atol=1e-3)
    alone = lathe.jit(lambda x: ours(x, axis=axis))(x)
    np.testing.assert_allclose(alone, numpys(x, axis=axis), rtol=1e-4, atol=1e-3)
