"""The strides of results that are allocated: those of the arguments where these are dense and agree, else row-major."""

import itertools

import numpy as np
import pytest

import lathe


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def permuted(shape, order, seed=0):
    """An array of `shape` whose dimensions lie in `order`, the outermost first."""
    return f32(*(shape[d] for d in order), seed=seed).transpose(np.argsort(order))


def elements(array):
    """Strides in elements, of dimensions that have more than one index: the others' say nothing."""
    return tuple(s // array.itemsize for s, n in zip(array.strides, array.shape, strict=True) if n > 1)


affine = lathe.jit(lambda x, y: x * y + 1, name="affine")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))) + [(0, 2, 3, 1), (3, 0, 2, 1)])
def test_an_elementwise_result_lies_as_its_arguments(order):
    shape = (3, 17, 5, 20)[: len(order)]
    x, y = permuted(shape, order), permuted(shape, order, seed=1)
    result = affine(x, y)
    np.testing.assert_allclose(result, x * y + 1, rtol=1e-6, atol=1e-6)
    assert result.strides == (x * y).strides
    assert affine(x, y).strides == result.strides, "and again from the cache"


def test_what_is_broadcast_has_no_say():
    x, rows = permuted((6, 8, 4), (0, 2, 1)), f32(8, 1)
    for y in (rows, f32(4), f32(6, 1, 1), np.broadcast_to(f32(4), (6, 8, 4)), f32(1, 8, 4)):
        for a, b in ((x, y), (y, x)):
            result = affine(a, b)
            np.testing.assert_allclose(result, a * b + 1, rtol=1e-6, atol=1e-6)
            assert elements(result) == elements(x)


def test_arguments_that_disagree_give_row_major():
    x = permuted((6, 8, 4), (0, 2, 1))
    for y in (f32(6, 8, 4), permuted((6, 8, 4), (2, 1, 0)), f32(6, 8, 8)[:, :, ::2], f32(12, 8, 4)[::2]):
        for a, b in ((x, y), (y, x)):
            result = affine(a, b)
            np.testing.assert_allclose(result, a * b + 1, rtol=1e-6, atol=1e-6)
            assert result.flags.c_contiguous


def test_strided_arguments_without_neighbours_and_windows_give_row_major():
    windows = np.lib.stride_tricks.sliding_window_view
    for x in (
        f32(8, 12)[:, ::2].T,
        f32(8, 6).T[::-1],
        np.broadcast_to(f32(8), (6, 8)),
        windows(f32(100), 3),
        windows(f32(9, 12), (3, 3)),
    ):
        result = affine(x, x)
        np.testing.assert_allclose(result, x * x + 1, rtol=1e-6, atol=1e-6)
        assert result.flags.c_contiguous


@pytest.mark.parametrize(
    "slice_of",
    [
        lambda: f32(8, 12)[:, :6].T,
        lambda: f32(700, 900)[3:603, 5:805].T,
        lambda: f32(4, 7, 9)[:, :5, :6].transpose(2, 0, 1),
        lambda: f32(4, 7, 9)[:, :5, :6].transpose(0, 2, 1),
        lambda: f32(2, 5, 6, 9)[..., :8].transpose(0, 3, 1, 2),
    ],
)
def test_a_result_lies_as_the_slice_of_a_transposed_array(slice_of):
    x, dense = slice_of(), np.ascontiguousarray(slice_of())
    result = affine(x, x)
    np.testing.assert_allclose(result, x * x + 1, rtol=1e-6, atol=1e-6)
    assert result.strides == (x * x).strides
    assert affine(x, x).strides == result.strides, "and again from the cache"
    assert affine(x, dense).flags.c_contiguous and affine(dense, x).flags.c_contiguous
    np.testing.assert_array_equal(affine(x, x, out=np.empty_like(dense)), result)


def test_dimensions_of_one_index_do_not_matter():
    x = f32(8, 6).T
    for a in (x[None], x[:, None], x[..., None], x[None, :, None, :, None]):
        for b in (a, np.ascontiguousarray(a.T).T):
            result = affine(a, b)
            np.testing.assert_allclose(result, a * b + 1, rtol=1e-6, atol=1e-6)
            assert elements(result) == (1, 6)
    for a in (f32(1, 6).T, f32(6, 1).T, f32(5, 1, 6).transpose(1, 0, 2)):
        assert affine(a, a).flags.c_contiguous, "it is both"


def test_empty_results_are_row_major():
    for x in (f32(0, 6).T, f32(6, 0).T):
        result = affine(x, x)
        assert result.shape == x.shape and result.flags.c_contiguous


def test_through_other_operators():
    x = permuted((2, 7, 5, 6), (0, 2, 3, 1))
    scale, shift = f32(7, 1, 1), f32(7, 1, 1, seed=1)

    @lathe.jit
    def chain(x, scale, shift):
        y = lathe.relu(x * scale + shift)
        return y, y > 0.5, lathe.astype(y, lathe.float64) - y.mean(), lathe.sum(y, axis=1)

    y = np.maximum(x * scale + shift, 0)
    expected = y, y > 0.5, y.astype(np.float64) - y.mean(), y.sum(1)
    results = chain(x, scale, shift)
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
    assert [elements(r) for r in results[:3]] == [elements(x)] * 3
    assert results[3].flags.c_contiguous, "a reduction"


def test_elements_at_other_indices_have_no_say():
    x = f32(6, 6).T

    @lathe.jit
    def moved(x):
        return (
            x.T + 1,
            lathe.roll(x, 2, axis=0),
            lathe.reshape(x, (36,)),
            lathe.cumulative_sum(x, axis=0),
            x @ x,
            x @ x + x,
        )

    results = moved(x)
    expected = x.T + 1, np.roll(x, 2, 0), x.reshape(36), x.cumsum(0), x @ x, x @ x + x
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)
        assert result.flags.c_contiguous


def test_slices_and_flips_keep_the_order():
    x = f32(6, 8).T

    @lathe.jit
    def moved(x):
        return x[1:] - x[:-1], lathe.flip(x, axis=0) * 2.0, lathe.maximum(x[::2], x[1::2, :]), x[:, 1:-1] + 1.0

    expected = x[1:] - x[:-1], x[::-1] * 2, np.maximum(x[::2], x[1::2]), x[:, 1:-1] + 1
    for result, want in zip(moved(x), expected, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-6)
        assert result.flags.f_contiguous


def test_what_is_joined_padded_or_rolled_is_by_rows():
    x = permuted((40, 6, 33), (2, 0, 1))

    @lathe.jit
    def moved(x):
        return (
            lathe.concat([x, x * 2.0], axis=1),
            lathe.pad(x, [(1, 2), (0, 0), (3, 1)]),
            lathe.roll(x, 5, axis=2),
            lathe.sum(lathe.pad(x, [(0, 0), (2, 2), (0, 0)]), axis=0),
        )

    expected = (
        np.concatenate([x, x * 2], 1),
        np.pad(x, [(1, 2), (0, 0), (3, 1)]),
        np.roll(x, 5, 2),
        np.pad(x, [(0, 0), (2, 2), (0, 0)]).sum(0),
    )
    for result, want in zip(moved(x), expected, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
        assert result.flags.c_contiguous


def test_given_outputs_of_any_layout_beside_chosen_ones():
    x, y = permuted((6, 8), (1, 0)), permuted((6, 8), (1, 0), seed=1)
    for _ in range(2):
        for out in (
            np.empty((6, 8), np.float32),
            np.empty((8, 6), np.float32).T,
            np.empty((6, 16), np.float32)[:, ::2],
        ):
            assert affine(x, y, out=out) is out
            np.testing.assert_allclose(out, x * y + 1, rtol=1e-6, atol=1e-6)
            result = affine(x, y)
            np.testing.assert_array_equal(result, out)
            assert elements(result) == (1, 6)
    affine(x, y, out=x)
    np.testing.assert_array_equal(x, result)


def test_large_results_may_be_streamed():
    x = np.ones((3000, 4100), np.float32).T
    result = affine(x, x)
    assert elements(result) == (1, 4100) and (result == 2).all()


def test_dense_arrays_in_any_order_are_known_to_the_kernel():
    transposed = f32(8, 6).T
    lowered = affine.lower(transposed, transposed)
    assert "input     f32[6, 8] strides dense in the order (1, 0) aligned\n" in lowered.signature
    assert "output    f32[6, 8] strides dense in the order (1, 0) aligned\n" in lowered.signature
    assert "x0: f32[8, 6]," in lowered.text("traced") and "strides" not in lowered.text("traced")


def test_one_kernel_for_each_order():
    order = lathe.jit(lambda x: x + 17, name="order")
    before = lathe.cache_info().compiles
    x = f32(8, 6, 5)
    for _ in range(3):
        order(x.transpose(2, 0, 1)), order(x.transpose(2, 0, 1), out=np.empty((8, 6, 5), np.float32).transpose(2, 0, 1))
    assert lathe.cache_info().compiles == before + 1


def test_torch_tensors_lie_as_torch_lays_them_out():
    torch = pytest.importorskip("torch")
    channels_last = torch.randn(2, 7, 5, 6).contiguous(memory_format=torch.channels_last)
    one_image = torch.randn(1, 7, 5, 6).contiguous(memory_format=torch.channels_last)
    volume = torch.randn(2, 3, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d)
    for x in (
        channels_last,
        one_image,
        volume,
        torch.randn(8, 6).T,
        torch.randn(4, 5, 6).permute(1, 2, 0),
        torch.randn(4, 5, 6),
    ):
        result, expected = affine(x, x), x * x + 1
        torch.testing.assert_close(result, expected)
        assert result.stride() == expected.stride()
        bias = torch.randn(x.shape[1], *[1] * (x.ndim - 2))
        assert affine(x, bias).stride() == (x * bias + 1).stride()
    assert affine(one_image, one_image).is_contiguous(memory_format=torch.channels_last)


def convolution(x, w, groups=1):
    """Filters over windows without padding, and what follows them."""
    n, _, height, width = x.shape
    k, per_group, r, s = w.shape
    kernels = k // groups
    found = lathe.compute(
        (n, k, height - r + 1, width - s + 1),
        lambda b, f, i, j: lathe.reduce(
            "sum",
            (per_group, r, s),
            lambda c, p, q: x[b, c if groups == 1 else f // kernels * per_group + c, i + p, j + q] * w[f, c, p, q],
        ),
    )
    return lathe.relu(found)


def filtered(x, w, groups=1):
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), w.shape[2:], (2, 3))
    parts = zip(np.split(windows, groups, 1), np.split(w.astype(np.float64), groups, 0), strict=True)
    return np.maximum(np.concatenate([np.einsum("bcijpq,fcpq->bfij", x, w) for x, w in parts], 1), 0)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (2, 3, 0, 1), (0, 1, 3, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize(("groups", "channels", "filters"), [(1, 6, 5), (6, 6, 6), (2, 6, 8)])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("batch", [1, 2])
def test_windows_of_an_image_lie_as_the_image(order, groups, channels, filters, size, batch):
    x, w = permuted((batch, channels, 9, 11), order), f32(filters, channels // groups, size, size, seed=1)
    f = lathe.jit(lambda x, w: convolution(x, w, groups))
    result, expected = f(x, w), filtered(x, w, groups)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert elements(result) == elements(permuted(result.shape, order))
    rows, turned = np.empty(result.shape, np.float32), permuted(result.shape, (3, 2, 1, 0))
    for out in (rows, turned):
        np.testing.assert_allclose(f(x, w, out=out), expected, rtol=1e-4, atol=1e-4)
    assert f(np.ascontiguousarray(x), w).flags.c_contiguous


def test_pooled_images_lie_as_the_image_and_products_by_rows():
    x = permuted((2, 6, 9, 11), (0, 2, 3, 1))

    def pool(x):
        return lathe.compute(
            (2, 6, 8, 10), lambda b, c, i, j: lathe.reduce("max", (2, 2), lambda p, q: x[b, c, i + p, j + q])
        )

    result = lathe.jit(pool)(x)
    np.testing.assert_array_equal(result, np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max((-1, -2)))
    assert elements(result) == elements(permuted(result.shape, (0, 2, 3, 1)))
    keys = permuted((2, 3, 5, 7), (0, 3, 1, 2), seed=1)
    for rows in (1, 7):
        heads = permuted((2, 3, rows, 5), (0, 2, 1, 3))
        scores = lathe.jit(lambda q, k: q @ k)(heads, keys)
        np.testing.assert_allclose(scores, heads @ keys, rtol=1e-4, atol=1e-4)
        assert scores.flags.c_contiguous
    for axis in range(4):
        assert lathe.jit(lambda x, a=axis: lathe.sum(x, axis=a, keepdims=True))(x).flags.c_contiguous


def test_windows_of_images_that_disagree_give_row_major():
    x, y = permuted((2, 6, 9, 11), (0, 2, 3, 1)), f32(2, 6, 9, 11, seed=1)

    def similarity(a, b):
        return lathe.compute(
            (2, 6, 8, 10),
            lambda n, c, i, j: lathe.reduce("sum", (2, 2), lambda p, q: a[n, c, i + p, j + q] * b[n, c, i + p, j + q]),
        )

    f = lathe.jit(similarity)
    expected = np.lib.stride_tricks.sliding_window_view(x * y, (2, 2), (2, 3)).sum((-1, -2))
    for a, b in ((x, y), (y, x)):
        result = f(a, b)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
        assert result.flags.c_contiguous
    assert elements(f(x, x)) == elements(permuted((2, 6, 8, 10), (0, 2, 3, 1)))


def test_what_is_computed_in_many_steps_lies_as_its_argument():
    x = (0.5 * f32(9, 6).clip(-1, 1)).T

    def long(value):
        for _ in range(8):
            value = value * value + value * 0.5 - 0.25
        return value

    for both in (False, True):
        f = lathe.jit(
            lambda x, both=both: (
                (x + 1, lathe.compute((6, 9), lambda i, j: long(x[i, j])))
                if both
                else lathe.compute((6, 9), lambda i, j: long(x[i, j]))
            )
        )
        result = f(x)[1] if both else f(x)
        np.testing.assert_allclose(result, long(x), rtol=1e-3, atol=1e-3)
        assert elements(result) == elements(x)


def test_given_outputs_decide_how_what_is_rounded_to_them_lies():
    x, w = f32(1, 16, 12, 12).astype(np.float16), f32(24, 16, 1, 1, seed=1).astype(np.float16)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    f = lathe.jit(lambda x, w: lathe.astype(convolution(x, w), lathe.float16))
    for image in (x, last):
        for out in (np.empty((1, 24, 12, 12), np.float16), np.empty((1, 12, 12, 24), np.float16).transpose(0, 3, 1, 2)):
            np.testing.assert_allclose(f(image, w, out=out), filtered(x, w), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("shape", [(2, 17, 10, 11), (1, 3, 5, 4), (2, 5, 3, 4, 6)], ids=str)
def test_images_with_channels_last_stay_so_where_they_are_joined_padded_or_rolled(shape):
    last = (0, *range(2, len(shape)), 1)
    x = np.random.default_rng(1).standard_normal([shape[d] for d in last], np.float32)
    x = x.transpose(0, len(shape) - 1, *range(1, len(shape) - 1))
    around = [(0, 0), (0, 0)] + [(1, 2)] * (len(shape) - 2)
    f = lathe.jit(
        lambda x: (
            lathe.pad(x, around, value=2.0),
            lathe.relu(lathe.pad(x, around)),
            lathe.concat([x, x * 2.0], axis=1),
            lathe.concat([x, x], axis=2),
            lathe.roll(x, 2, axis=2),
            lathe.compute((*shape[:2], *(2 * size for size in shape[2:])), lambda b, c, *at: x[(b, c, *(i // 2 for i in at))]),
        )
    )
    results = f(x)
    expected = (
        np.pad(x, around, constant_values=2.0),
        np.maximum(np.pad(x, around), 0),
        np.concatenate([x, x * 2], 1),
        np.concatenate([x, x], 2),
        np.roll(x, 2, 2),
        x[np.ix_(range(shape[0]), range(shape[1]), *(np.arange(2 * size) // 2 for size in shape[2:]))],
    )
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, right)
        assert result.transpose(last).flags.c_contiguous
    rows = np.ascontiguousarray(x)
    assert all(result.flags.c_contiguous for result in f(rows))
    np.testing.assert_array_equal(f(x, out=tuple(np.empty(r.shape, np.float32) for r in expected))[0], expected[0])
