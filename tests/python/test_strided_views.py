"""Views whose steps are known at run time alone: they are scheduled as dense arrays of the same shapes are, or nearly so."""

import itertools

import numpy as np
import pytest

import lathe


def normal(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("shape", [(700, 700), (64, 300), (17, 23), (8, 8), (3, 50)], ids=str)
def test_a_view_that_is_transposed_is_turned_around_by_squares(shape):
    rows, columns = shape
    x, y = normal(rows, columns + 13), normal(columns, rows + 7)
    add = lathe.jit(lambda a, b: a + b)
    left, right = x[:, :columns], y[:, :rows].T
    np.testing.assert_array_equal(add(left, right), left + right)
    np.testing.assert_array_equal(add(left[::-1], right[::-1]), (left + right)[::-1])
    if min(shape) >= 8:
        text = add.lower(left, right).text("scheduled")
        assert "vectorized" in text and "unrolled" in text


@pytest.mark.parametrize("turned", list(itertools.product([False, True], repeat=2)), ids=str)
@pytest.mark.parametrize("m,k,n", [(500, 300, 400), (33, 70, 129), (5, 3, 2)])
def test_products_of_slices(m, k, n, turned):
    a = normal(k, m + 9)[:, :m].T if turned[0] else normal(m, k + 5)[:, :k]
    b = normal(n, k + 11)[:, :k].T if turned[1] else normal(k, n + 3)[:, :n]
    matmul = lathe.jit(lambda a, b: a @ b)
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    if (m, k, n) == (500, 300, 400):
        assert "alloc x1_" in matmul.lower(a, b).text("scheduled"), "panels of the second operand are packed"


@pytest.mark.parametrize("tokens", [256, 70, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_parts_of_one_projection(tokens, causal):
    """q, k and v as frameworks make them: views of one array [batch, token, part, head, element]."""
    parts = normal(2, tokens, 3, 4, 32)
    q, k, v = (parts[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    mask = np.tril(np.ones((tokens, tokens), bool)) if causal else None

    def attention(q, k, v, mask=None):
        scores = q @ lathe.matrix_transpose(k) * np.float32(32**-0.5)
        if mask is not None:
            scores = lathe.where(mask, scores, np.float32(-np.inf))
        return lathe.softmax(scores) @ v

    inputs = [q, k, v] if mask is None else [q, k, v, mask]
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * 32**-0.5
    if causal:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    jitted = lathe.jit(attention)
    np.testing.assert_allclose(jitted(*inputs), expected, rtol=1e-4, atol=1e-5)
    if tokens == 256:
        dense = [np.ascontiguousarray(x) for x in inputs]
        body = [jitted.lower(*x).text("scheduled").split("{", 1)[1].count("alloc") for x in (inputs, dense)]
        assert body[0] == body[1], "the scores of a view are kept by blocks of rows too"


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("step", [-2, -3, -4, -5])
def test_every_few_elements_from_behind(step, dtype):
    x = np.random.default_rng(3).integers(0, 100, (7, 300)).astype(dtype)
    for begin in (299, 256, 40, 5):
        f = lathe.jit(lambda x, begin=begin: x[:, begin::step] + x[:, begin::step])
        np.testing.assert_array_equal(f(x), 2 * x[:, begin::step])


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pixels_from_behind(channels, dtype):
    x = np.random.default_rng(3).integers(0, 100, (9, 131, channels)).astype(dtype)
    f = lathe.jit(lambda x: lathe.flip(x, axis=1))
    np.testing.assert_array_equal(f(x), x[:, ::-1])
    assert "unrolled" in f.lower(x).text("scheduled"), "channels are woven"
    both = lathe.jit(lambda x: lathe.flip(x, axis=(1, 2)))
    np.testing.assert_array_equal(both(x), x[:, ::-1, ::-1])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "float16", "int32"])
@pytest.mark.parametrize("columns", [5, 6, 7, 8, 9])
@pytest.mark.parametrize("rows", [1, 15, 64, 203])
def test_columns_of_narrow_rows_are_picked_out_of_whole_registers(rows, columns, dtype):
    x = np.random.default_rng(rows).integers(0, 100, (rows, columns)).astype(dtype)

    def mixed(lib, x):
        value = lib.astype(x[:, 0], lib.float32)
        for column in range(1, columns):
            value = value * 0.5 + lib.astype(x[:, column], lib.float32)
        return value

    np.testing.assert_allclose(lathe.jit(lambda x: mixed(lathe, x))(x), mixed(np, x), rtol=1e-5)
    backwards = lathe.jit(lambda x: mixed(lathe, lathe.flip(x, axis=0)))
    np.testing.assert_allclose(backwards(x), mixed(np, x[::-1]), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, bool], ids=str)
@pytest.mark.parametrize("shape", [(7, 515), (40, 31, 3), (5,), (3, 1)], ids=str)
@pytest.mark.parametrize("step", [-1, -2, -3, -4, -5])
def test_reversed_arguments_are_read_by_their_step(shape, step, dtype):
    x = (100 * np.random.default_rng(len(shape)).random((*shape[:-1], shape[-1] * -step))).astype(dtype)
    f = lathe.jit(lambda x: (lathe.astype(x, lathe.float32) * 2, lathe.max(lathe.astype(x, lathe.int32), axis=-1)))
    for view in (x[..., ::step], x[::-1, ..., ::step] if len(shape) > 1 else x[::step]):
        doubled, greatest = f(view)
        np.testing.assert_array_equal(doubled, view.astype(np.float32) * 2)
        np.testing.assert_array_equal(greatest, view.astype(np.int32).max(-1))
    if shape[-1] > 1 and step >= -4:
        assert "vectorized" in f.lower(x[..., ::step]).text("scheduled")
