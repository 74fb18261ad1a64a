"""What a call of a traced function does: kinds of arrays, out=, static values, captures, layouts, caching, threads."""

import sys
import threading

import numpy as np
import pytest

import lathe


@lathe.jit
def affine(x, y):
    return lathe.gelu(x * y + 1)


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_result_is_an_array_of_the_same_kind():
    result = affine(f32(3, 5), f32(3, 5))
    assert type(result) is np.ndarray and result.dtype == np.float32 and result.shape == (3, 5)


def test_out_is_filled_and_returned():
    x, y, out = f32(3, 5), f32(3, 5, seed=1), np.empty((3, 5), np.float32)
    assert affine(x, y, out=out) is out
    np.testing.assert_array_equal(out, affine(x, y))


def test_several_results():
    @lathe.jit
    def both(x):
        return lathe.min(x, axis=0), lathe.max(x, axis=0)

    x = f32(7, 9)
    low, high = both(x)
    np.testing.assert_array_equal(low, x.min(0))
    np.testing.assert_array_equal(high, x.max(0))
    outs = (np.empty(9, np.float32), np.empty(9, np.float32))
    assert both(x, out=outs) is outs
    np.testing.assert_array_equal(outs[1], high)


@pytest.mark.parametrize("dtype", ["f4", "i4", "u2"])
def test_a_product_into_an_array_of_any_strides(dtype):
    product = lathe.jit(lambda x, y: lathe.matmul(x, y))
    x, y = (np.arange(40 * 40).reshape(40, 40) % k for k in (7, 5))
    x, y = x.astype(dtype), y.astype(dtype)
    for out in (
        np.zeros((40, 40), dtype).T,
        np.zeros((40, 90), dtype)[:, :40].T,
        np.zeros((40, 80), dtype)[:, ::2],
        np.zeros((40, 280), dtype)[:, ::7],
        np.zeros((40, 40, 7), dtype)[..., 3],
        np.zeros((40, 40), dtype)[::-1, ::-1],
    ):
        product(x, y, out=out)
        np.testing.assert_array_equal(out, x @ y)


def test_operators_themselves():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(lathe.jit(lathe.matmul)(x, x.T), x @ x.T)
    assert lathe.jit(lathe.softmax).__name__ == "softmax"
    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        lathe.jit(lathe.softmax)(x, axis=0)
    np.testing.assert_allclose(lathe.jit(lathe.softmax)(x).sum(axis=-1), np.ones(3), rtol=1e-6)


def test_variable_arguments():
    @lathe.jit
    def total(first, *others):
        for other in others:
            first = first + other
        return first

    x = np.arange(4, dtype=np.float32)
    for count in (1, 3, 2, 3):
        np.testing.assert_array_equal(total(*[x] * count), count * x)
    with pytest.raises(TypeError, match="missing a required argument: 'first'"):
        total()


def test_defaults_keywords_and_static_values():
    @lathe.jit
    def total(x, axis=0, keepdims=False):
        return lathe.sum(x, axis=axis, keepdims=keepdims)

    x = f32(4, 6)
    np.testing.assert_allclose(total(x), x.sum(0), rtol=1e-5)
    np.testing.assert_allclose(total(x, 1), x.sum(1), rtol=1e-5)
    out = np.empty(6, np.float32)
    assert total(x, out=out) is out
    np.testing.assert_allclose(out, x.sum(0), rtol=1e-5)
    np.testing.assert_allclose(total(x, keepdims=True, axis=1), x.sum(1, keepdims=True), rtol=1e-5)
    with pytest.raises(TypeError, match="axes"):
        total(x, axes=1)


def test_python_floats_are_run_time_scalars():
    @lathe.jit
    def scaled(x, factor):
        return x * factor

    x = f32(10)
    scaled(x, 1.0)
    compiles = lathe.cache_info().compiles
    for factor in (0.5, -3.25, float("inf")):
        np.testing.assert_array_equal(scaled(x, factor), x * np.float32(factor))
    assert lathe.cache_info().compiles == compiles


def test_equal_static_values_of_other_types_are_other_kernels():
    @lathe.jit
    def tagged(x, tag):
        return x + (1 if tag is True else 2)

    x = f32(3)
    np.testing.assert_array_equal(tagged(x, True), x + 1)
    np.testing.assert_array_equal(tagged(x, 1), x + 2)


def test_arrays_made_by_the_function_are_constants():
    ramp = lathe.jit(lambda x: x + np.arange(x.shape[0], dtype=np.float32)[::-1])
    for n in (8, 5, 8):
        np.testing.assert_array_equal(ramp(np.ones(n, np.float32)), 1 + np.arange(n, dtype=np.float32)[::-1])
    twice = lathe.jit(lambda x: np.full(3, 2, np.float32) * x + np.full(3, 3, np.float32))
    np.testing.assert_array_equal(twice(np.ones(3, np.float32)), np.full(3, 5, np.float32))


def test_views_that_the_function_makes_of_captured_arrays_are_read_anew():
    rows = np.ones((2, 4), np.float32)
    both = lathe.jit(lambda x: x * rows[0] + rows[1])
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(both(x), x + 1)
    rows[1] += 1
    np.testing.assert_array_equal(both(x), x + 2)
    rows[0] = 5
    np.testing.assert_array_equal(both(x), 5 * x + 2)


def test_a_captured_array_that_equals_a_constant_of_another_trace_is_read_anew():
    rows = np.zeros((2, 3), np.float32)
    flat = lathe.jit(lambda x: x + np.zeros(3, np.float32) if x.ndim == 1 else x + rows[1])
    whole = lathe.jit(lambda x: x + np.zeros((2, 3), np.float32) if x.ndim == 1 else x + rows)
    flat(np.ones(3, np.float32)), whole(np.ones(3, np.float32))
    x = np.ones((2, 3), np.float32)
    for value in (0, 5):
        rows[:] = value
        np.testing.assert_array_equal(flat(x), x + value)
        np.testing.assert_array_equal(whole(x), x + value)


def test_views_of_an_array_that_the_function_makes_are_constants():
    def scaled(x):
        both = np.arange(2 * x.shape[-1], dtype=np.float32).reshape(2, -1)
        return x * both[0] + both[1]

    f = lathe.jit(scaled)
    for shape in ((3,), (2, 3), (3,), (1, 3)):
        x = np.ones(shape, np.float32)
        np.testing.assert_array_equal(f(x), scaled(x))


def results_of_threads(function, argument, count):
    barrier, results = threading.Barrier(count), []

    def call():
        barrier.wait()
        results.append(function(argument))

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def weighted_by(weights):
    def weighted(x):
        for weight in weights:
            x = x * np.float32(0.5) + weight
        return x

    return weighted


def test_threads_that_trace_one_function_at_once_find_its_captured_arrays():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    x = np.ones(4, np.float32)
    try:
        for first in range(20):
            weighted = weighted_by([f32(4, seed=first + i) for i in range(6)])
            results = results_of_threads(lathe.jit(weighted), x, 8)
            assert len(results) == 8
            for result in results:
                np.testing.assert_allclose(result, weighted(x), rtol=1e-5)
    finally:
        sys.setswitchinterval(interval)


def test_an_array_that_the_function_makes_may_be_its_result():
    with_places = lathe.jit(lambda x: (x + 1, np.arange(3, dtype=np.float32)))
    for n in (3, 4, 3):
        total, places = with_places(np.ones(n, np.float32))
        np.testing.assert_array_equal(total, np.full(n, 2, np.float32))
        np.testing.assert_array_equal(places, np.arange(3, dtype=np.float32))


def test_arrays_of_other_values_at_each_trace_are_refused():
    rng = np.random.default_rng(0)
    noisy = lathe.jit(lambda x: x + rng.standard_normal(3, dtype=np.float32))
    with pytest.raises(ValueError, match="makes an array of other values each time it is traced"):
        noisy(np.ones(3, np.float32))


def test_a_traced_function_calls_another():
    scale = 2.0
    inner = lathe.jit(lambda x, y=1.0: x * scale + y)
    outer = lathe.jit(lambda x: inner(x) + inner(x, y=x))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(outer(x), 5 * x + 1)
    scale = 3.0  # what the inner function captures is guarded too
    np.testing.assert_array_equal(outer(x), 7 * x + 1)


def test_a_traced_tensor_outside_of_its_trace_is_refused():
    kept = []
    lathe.jit(lambda x: kept.append(x) or x + 1)(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="argument 0 is a traced tensor, which has no value outside"):
        lathe.jit(lambda x: x + 1)(kept[0])


def test_captured_arrays_become_inputs():
    weight = f32(5)

    @lathe.jit
    def weighted(x):
        return x * weight

    x = f32(3, 5)
    np.testing.assert_array_equal(weighted(x), x * weight)
    weight[:] = 2  # the memory is read at each call
    np.testing.assert_array_equal(weighted(x), x * 2)
    compiles = lathe.cache_info().compiles
    weight = f32(5, seed=3)  # the cell holds another array now
    np.testing.assert_array_equal(weighted(x), x * weight)
    assert lathe.cache_info().compiles == compiles


factor = 2.0


@lathe.jit
def by_global(x):
    return helper(x) * factor


def helper(x):
    return x + offset


offset = 1.0


def test_a_changed_global_is_a_miss():
    global factor, offset
    x = f32(4)
    np.testing.assert_array_equal(by_global(x), (x + 1) * 2)
    factor = 3.0
    np.testing.assert_array_equal(by_global(x), (x + 1) * 3)
    offset = 5.0  # of a function that the traced one calls
    np.testing.assert_array_equal(by_global(x), (x + 5) * 3)


def test_methods_can_be_traced():
    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        @lathe.jit
        def scale(self, x):
            return x * self.factor

    x = f32(3)
    np.testing.assert_array_equal(Scaler(2.0).scale(x), x * 2)
    np.testing.assert_array_equal(Scaler(3.0).scale(x), x * 3)


LAYOUTS = {
    "dense": lambda: f32(6, 8),
    "transposed": lambda: f32(8, 6).T,
    "sliced": lambda: f32(12, 24)[::2, ::3],
    "reversed": lambda: f32(6, 8)[::-1, ::-1],
    "broadcast": lambda: np.broadcast_to(f32(8), (6, 8)),
    "column": lambda: np.broadcast_to(f32(6, 1), (6, 8)),
    "misaligned": lambda: np.frombuffer(b"x" + f32(6, 8).tobytes(), np.uint8)[1:].view(np.float32).reshape(6, 8),
    "read-only": lambda: np.frombuffer(f32(6, 8).tobytes(), np.float32).reshape(6, 8),
}


@pytest.mark.parametrize("x_layout", LAYOUTS)
@pytest.mark.parametrize("y_layout", LAYOUTS)
def test_any_layout(x_layout, y_layout):
    @lathe.jit(name="layouts")
    def combined(x, y):
        return x * y + 1, lathe.sum(x, axis=1), x @ y.T

    x, y = LAYOUTS[x_layout](), LAYOUTS[y_layout]()
    a, b, c = combined(x, y)
    np.testing.assert_allclose(a, x * y + 1, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(b, x.sum(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c, x @ y.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", ["transposed", "sliced", "reversed"])
def test_any_output_layout(layout):
    out = LAYOUTS[layout]()
    base = out.base.copy() if out.base is not None else None
    x, y = f32(6, 8, seed=5), f32(6, 8, seed=6)
    affine(x, y, out=out)
    np.testing.assert_array_equal(out, affine(x, y))
    if layout == "sliced":  # nothing in the gaps was touched
        untouched = np.ones(out.base.shape, bool)
        untouched[::2, ::3] = False
        np.testing.assert_array_equal(out.base[untouched], base[untouched])


def test_an_output_may_overlap_its_inputs():
    x = f32(100)
    expected = affine(x[:-1], x[1:])
    np.testing.assert_array_equal(affine(x[:-1].copy(), x[1:].copy(), out=np.empty(99, np.float32)), expected)
    affine(x[:-1], x[1:], out=x[1:])
    np.testing.assert_array_equal(x[1:], expected)
    y = f32(50)
    expected = affine(y, y)
    affine(y, y, out=y)
    np.testing.assert_array_equal(y, expected)


def test_empty_and_zero_dimensional_arrays():
    assert affine(f32(0, 3), f32(0, 3)).shape == (0, 3)
    assert affine(np.float32(2).reshape(()), np.float32(3).reshape(())).shape == ()
    total = lathe.jit(lambda x: lathe.sum(x, axis=0))
    np.testing.assert_array_equal(total(f32(0, 3)), np.zeros(3, np.float32))


def test_the_same_shapes_hit_and_others_miss():
    @lathe.jit
    def double(x):
        return x * 2

    double(f32(11, 3))
    before = lathe.cache_info()
    double(f32(11, 3, seed=1))
    assert lathe.cache_info() == before._replace(hits=before.hits + 1)
    double(f32(11, 4))
    after = lathe.cache_info()
    assert (after.misses, after.compiles) == (before.misses + 1, before.compiles + 1)


def test_the_same_operator_elsewhere_compiles_nothing():
    x = f32(13, 3)
    lathe.jit(lambda x: x * 2 + 1, name="twin")(x)
    compiles = lathe.cache_info().compiles
    lathe.jit(lambda x: x * 2 + 1, name="twin")(x)
    assert lathe.cache_info().compiles == compiles


def test_eviction_and_clearing():
    @lathe.jit
    def triple(x):
        return x * 3

    x = f32(17)
    triple(x)
    before = lathe.cache_info()
    lathe.cache_clear()
    info = lathe.cache_info()
    assert info.kernels == 0 and info.evictions == before.evictions + before.kernels
    np.testing.assert_array_equal(triple(x), x * 3)
    assert lathe.cache_info().compiles == before.compiles + 1


def test_one_compile_per_signature_however_many_threads_ask():
    @lathe.jit
    def quad(x):
        return x * 4 + 0.5

    shapes, threads = range(300, 340), 8
    barrier = threading.Barrier(threads)
    errors = []

    def work():
        barrier.wait()
        for n in shapes:
            x = f32(n)
            try:
                np.testing.assert_array_equal(quad(x), x * 4 + np.float32(0.5))
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

    compiles = lathe.cache_info().compiles
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert lathe.cache_info().compiles == compiles + len(shapes)


def test_every_stage_can_be_read():
    lowered = affine.lower(f32(4, 4), f32(4, 4))
    for stage in lathe.stages:
        assert lowered.text(stage).strip()
    assert "func affine" in lowered.text("traced")
    assert str(lathe.ir.parse(lowered.text("scheduled"))) == lowered.text("scheduled")
    for field in ("program", "input", "output", "device", "abi", "lathe", "llvm"):
        assert field in lowered.signature


def test_compute_defines_an_operator_in_a_line():
    @lathe.jit
    def banded(x, band: int):
        n = x.shape[0]
        return lathe.compute(
            (n - band + 1,), lambda i: lathe.reduce("sum", band, lambda r: x[i + r] * x[i + r]), name="banded_energy"
        )

    x = f32(20)
    expected = np.convolve(x * x, np.ones(4, np.float32), "valid")
    np.testing.assert_allclose(banded(x, 4), expected, rtol=1e-5)


def test_compute_with_a_reducer_of_tuples():
    @lathe.jit
    def extremes(x):
        both = lathe.Reducer(
            lambda a, b: (lathe.minimum(a[0], b[0]), lathe.maximum(a[1], b[1])),
            identity=(float("inf"), float("-inf")), dtype=(lathe.float32, lathe.float32),
        )  # fmt: skip
        return lathe.compute((x.shape[0],), lambda i: lathe.reduce(both, x.shape[1], lambda r: (x[i, r], x[i, r])))

    x = f32(6, 21)
    low, high = extremes(x)
    np.testing.assert_array_equal(low, x.min(1))
    np.testing.assert_array_equal(high, x.max(1))


@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_kernels_know_short_steps_between_neighbours(step):
    x = np.random.default_rng(4).standard_normal((37, 64 * step), np.float32)
    view = x[:, ::step]
    total = lathe.jit(lambda t: lathe.sum(t, axis=1))
    np.testing.assert_allclose(total(view), view.sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(lathe.jit(lambda t: lathe.sum(t, axis=0))(view), view.sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(lathe.jit(lambda t: lathe.max(t, axis=1))(view), view.max(1))
    scalars = "_stride" in total.lower(view).text("scheduled").split("\n")[0]
    assert scalars == (step > 4)
    target = np.zeros_like(x)
    lathe.jit(lambda t: t + 1)(view, out=target[:, ::step])
    np.testing.assert_array_equal(target[:, ::step], view + 1)
    assert not target[:, 1::step].any()
    # Rows apart, too, and a step that is another one the next time.
    np.testing.assert_allclose(total(x[::3, ::step]), x[::3, ::step].sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(total(x), x.sum(1), rtol=1e-4, atol=1e-4)


def test_numpy_scalars_keep_the_upper_half_of_u64():
    x = np.arange(3, dtype=np.uint64)
    high = np.uint64(2**63 + 1)
    np.testing.assert_array_equal(lathe.jit(lambda a: a + high)(x), x + high)
