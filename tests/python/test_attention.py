"""softmax(q k^T s) v, which runs in blocks of rows and keys, against NumPy in double precision."""

import math

import numpy as np
import pytest

import lathe

RNG = np.random.default_rng(11)


def scale(q):
    return 1 / math.sqrt(max(q.shape[-1], 1))


def attend(q, k, v, mask=None):
    scores = lathe.matmul(q, lathe.matrix_transpose(k)) * scale(q)
    if isinstance(mask, str):
        allowed = lathe.compute(scores.shape[-2:], lambda i, j: j <= i)
        scores = lathe.where(allowed, scores, -math.inf)
    elif mask is not None:
        scores = lathe.where(mask, scores, -math.inf) if str(mask.dtype) == "bool" else scores + mask
    return lathe.matmul(lathe.softmax(scores), v)


def expected(q, k, v, mask=None):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * scale(q)
    if isinstance(mask, str):
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return weights / weights.sum(-1, keepdims=True) @ v


def inputs(heads, rows, keys, width, columns=None):
    shapes = (heads, rows, width), (heads, keys, width), (heads, keys, columns or width)
    return [RNG.standard_normal(shape, np.float32) for shape in shapes]


def check(q, k, v, mask=None):
    if mask is None or isinstance(mask, str):
        found = lathe.jit(lambda q, k, v: attend(q, k, v, mask))(q, k, v)
    else:
        found = lathe.jit(attend)(q, k, v, mask)
    np.testing.assert_allclose(found, expected(q, k, v, mask), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("width", [1, 7, 40, 64, 80, 128])
@pytest.mark.parametrize("rows, keys", [(127, 129), (1, 64), (64, 1), (2, 600), (100, 1024), (257, 514), (96, 1031)])
def test_shapes(rows, keys, width):
    check(*inputs(2, rows, keys, width))


@pytest.mark.parametrize("heads, rows, keys, width", [(0, 4, 5, 3), (2, 0, 5, 3), (2, 4, 5, 0)])
def test_empty(heads, rows, keys, width):
    check(*inputs(heads, rows, keys, width, 6))


def test_values_of_another_width():
    check(*inputs(3, 70, 640, 32, 48))
    check(*inputs(3, 70, 100, 32, 48))


@pytest.mark.parametrize("rows, keys", [(40, 40), (127, 127), (512, 512), (640, 640), (1024, 1024)])
def test_masks(rows, keys):
    q, k, v = inputs(2, rows, keys, 16)
    check(q, k, v, "causal")
    check(q, k, v, RNG.standard_normal((rows, keys), np.float32))
    mask = RNG.random((2, rows, keys)) < 0.8
    mask[0, 3] = False
    check(q, k, v, mask)


@pytest.mark.parametrize("rows", [100, 128, 600])
def test_a_mask_wider_than_the_scores(rows):
    q, k, v = inputs(2, rows, rows, 64)
    mask = RNG.standard_normal((rows, rows))
    found = lathe.jit(attend)(q, k, v, mask)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected(q, k, v, mask), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("keys", [96, 1024])
def test_rows_without_a_score_and_what_is_not_finite(keys):
    q, k, v = inputs(2, 40, keys, 16)
    bias = np.zeros((40, keys), np.float32)
    bias[0] = bias[1, : keys // 2] = bias[2, 1:] = -np.inf
    bias[3, 5] = np.inf
    bias[4, 7] = np.nan
    v[0, 9, 3], v[0, keys - 1, 4], v[1, 2, 5] = np.inf, np.nan, -np.inf
    check(q, k, v, bias)


def test_masked_blocks_are_left_out_only_where_values_are_finite():
    q, k, v = inputs(2, 640, 640, 16)
    v[0, 600, 3], v[1, 639, 4] = np.inf, np.nan
    check(q, k, v, "causal")


@pytest.mark.parametrize("keys", [100, 1024])
def test_both_thread_counts_give_the_same_bits(keys):
    q, k, v = inputs(4, 200, keys, 64)
    f = lathe.jit(attend)
    found = []
    before = lathe.thread_count()
    for count in (1, 2):
        lathe.set_thread_count(count)
        found.append(f(q, k, v))
    lathe.set_thread_count(before)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_types(dtype):
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(x).to(getattr(torch, dtype)) for x in inputs(2, 60, 640, 32))
    found = lathe.jit(attend)(q, k, v).float().numpy()
    np.testing.assert_allclose(found, expected(*(x.float().numpy() for x in (q, k, v))), rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("rows, keys, width", [(60, 384, 64), (197, 197, 32), (1, 300, 16), (33, 1, 8), (20, 640, 7)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounded_weights(dtype, rows, keys, width, mask):
    """Factors of products are rounded, so that weights are: as exact as PyTorch's steps one by one."""
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    q, k, v = (torch.from_numpy(x).to(kind) for x in inputs(2, rows, keys, width))
    truth = expected(*(x.double().numpy() for x in (q, k, v)), mask)
    scores = q @ k.mT * scale(q)
    if mask:
        scores = scores.masked_fill(~torch.ones(rows, keys).tril().bool(), -math.inf)
    steps = torch.softmax(scores, -1) @ v
    found = lathe.jit(lambda q, k, v: attend(q, k, v, mask))(q, k, v)
    assert found.dtype is kind
    off = [np.sqrt(np.mean((x.double().numpy() - truth) ** 2)) for x in (found, steps)]
    assert off[0] <= 1.2 * off[1] + 1e-12, off


def test_masked_blocks_are_skipped():
    """Half of a causal product is never computed: the loop over blocks of keys stands under a condition."""
    q, k, v = inputs(2, 1024, 1024, 64)
    kernel = lathe.jit(lambda q, k, v: attend(q, k, v, "causal"))
    scheduled = kernel.lower(q, k, v).text("scheduled")
    assert "_zeros" in scheduled and "if " in scheduled
    check(q, k, v, "causal")


def near(q, k, v):
    i = lathe.arange(q.shape[-2])
    distance = lathe.expand_dims(i, axis=1) - lathe.expand_dims(i, axis=0)
    scores = lathe.matmul(q, lathe.matrix_transpose(k)) / math.sqrt(q.shape[-1])
    return lathe.where((distance >= 0) & (distance < 50), scores, -math.inf)


def sloped(q, k, v):
    i = lathe.arange(q.shape[-2])
    distance = lathe.expand_dims(i, axis=1) - lathe.expand_dims(i, axis=0)
    slopes = lathe.reshape(lathe.astype(lathe.arange(1, 4), lathe.float32), (3, 1, 1))
    bias = lathe.where(distance < 0, -math.inf, -slopes * lathe.astype(distance, lathe.float32))
    return lathe.matmul(q, lathe.matrix_transpose(k)) / math.sqrt(q.shape[-1]) + bias


@pytest.mark.parametrize("rows", [96, 512])
@pytest.mark.parametrize("scores", [near, sloped])
def test_costly_stages_between_scores_and_their_maximum(scores, rows):
    """A division, or a mask that several heads share, is computed twice rather than that all scores go to memory."""
    q, k, v = inputs(3, rows, rows, 64)
    f = lathe.jit(lambda q, k, v: lathe.matmul(lathe.softmax(scores(q, k, v)), v))
    i = np.arange(rows)
    distance = i[:, None] - i
    slope = np.arange(1, 4)[:, None, None] if scores is sloped else 0
    bias = np.where((distance < 0) | ((distance >= 50) & (scores is near)), -np.inf, -slope * distance)
    wide = q.astype(np.float64) @ k.swapaxes(-1, -2) / 8 + bias
    weights = np.exp(wide - wide.max(-1, keepdims=True))
    np.testing.assert_allclose(f(q, k, v), weights / weights.sum(-1, keepdims=True) @ v, rtol=2e-5, atol=2e-5)
    kept = [line.split()[1] for line in f.lower(q, k, v).text("before_flatten").splitlines() if " alloc " in line]
    assert not any(name.startswith(("`where`", "add", "bitwise_and", "less")) for name in kept), kept


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 5, 40])
@pytest.mark.parametrize("function", ["softmax", "log_softmax", "logsumexp"])
def test_special_values_reach_every_result_of_their_row(function, place, special):
    x = RNG.standard_normal((4, 41), np.float32)
    x[1, place] = special
    x[2] = special
    with np.errstate(invalid="ignore", divide="ignore"):
        wide = x.astype(np.float64)
        peak = wide.max(-1, keepdims=True)
        total = np.exp(wide - peak).sum(-1, keepdims=True)
        results = {
            "softmax": np.exp(wide - peak) / total,
            "log_softmax": wide - peak - np.log(total),
            "logsumexp": np.where(np.isfinite(peak), np.log(total) + peak, peak)[:, 0],
        }
    found = lathe.jit(lambda t: getattr(lathe, function)(t, axis=-1))(x)
    np.testing.assert_allclose(found, results[function], rtol=2e-6, atol=2e-6)


def test_sums_of_softmaxes_over_rows_keep_small_weights():
    x = np.zeros((64, 100), np.float32)
    x[:, 3] = -90
    total = lathe.jit(lambda x: lathe.sum(lathe.softmax(x, axis=-1) * 1e30, axis=0))(x)
    expected = 64 * np.exp(np.float64(-90)) / (99 + np.exp(np.float64(-90))) * 1e30
    # A weight of 8e-42 has 13 bits.
    np.testing.assert_allclose(total[3], expected, rtol=2e-4)


@pytest.mark.parametrize("shape", [(9, 11), (64, 64), (128, 48)])
def test_mean_over_the_axis_of_a_softmax_of_an_outer_product(shape):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(n).astype(np.float32) for n in shape)

    def f(a, b):
        scores = lathe.einsum("i,j->ij", a, b)
        return scores, lathe.mean(lathe.softmax(scores, axis=0), axis=0)

    got, means = lathe.jit(f)(a, b)
    np.testing.assert_allclose(got, np.outer(a, b), rtol=1e-6)
    np.testing.assert_allclose(means, np.full(shape[1], 1.0 / shape[0]), rtol=1e-5)
