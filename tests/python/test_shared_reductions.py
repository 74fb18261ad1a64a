"""Long reductions with few results, which are cut into parts for threads: the same results, whatever the extents."""

import os
import subprocess
import sys

import numpy as np
import pytest

import lathe


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def is_cut(f, *arrays):
    """Is what makes the parts' results a loop over threads? So it is to be where there are several cores."""
    text = f.lower(*arrays).text("scheduled")
    return ("_rf" in text and "parallel for" in text) or len(os.sched_getaffinity(0)) == 1


@pytest.mark.parametrize("count", [1, 1000, 262_144, 4_000_003])
@pytest.mark.parametrize("name", ["sum", "max", "prod"])
def test_a_vector(name, count, rng):
    x = rng.uniform(0.999, 1.001, count).astype(np.float32)
    f = lathe.jit(lambda t: getattr(lathe, name)(t))
    # A product's roundings add up.
    rtol = 1e-5 if name != "prod" else 1e-6 + 3e-7 * count**0.5
    np.testing.assert_allclose(f(x), getattr(np, name)(x.astype(np.float64)), rtol=rtol)
    if count > 4_000_000:
        assert is_cut(f, x)


@pytest.mark.parametrize("shape", [(4096, 1024), (3, 1_000_003), (200_000, 17), (1_000_003, 3)])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_rows_and_columns(shape, axis, rng):
    x = rng.standard_normal(shape, np.float32)
    f = lathe.jit(lambda t: lathe.sum(t, axis=axis))
    np.testing.assert_allclose(f(x), x.astype(np.float64).sum(axis), rtol=1e-4, atol=2e-2)
    if axis is None:
        mean_square = lathe.jit(lambda t: lathe.sum(t * t) / t.size)
        np.testing.assert_allclose(mean_square(x), (x.astype(np.float64) ** 2).mean(), rtol=1e-4)


@pytest.mark.parametrize("m, n, k", [(8, 24, 200_000), (1, 1, 3_000_000), (5, 40, 131_101), (16, 16, 65_536)])
def test_products_of_long_rows(m, n, k, rng):
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    f = lathe.jit(lathe.matmul)
    np.testing.assert_allclose(f(a, b), a.astype(np.float64) @ b, rtol=1e-4, atol=2e-2)
    if (m, n) == (8, 24):
        assert is_cut(f, a, b)


@pytest.mark.parametrize("count", [999_983, 4_194_304])
def test_places_of_extremes(count, rng):
    """The first of several greatest elements, wherever parts end."""
    x = rng.standard_normal(count).astype(np.float32)
    x[[count // 2 - 1, count // 2, count - 1]] = 9
    assert lathe.jit(lambda t: lathe.argmax(t))(x) == count // 2 - 1
    x[count // 3] = np.nan
    assert lathe.jit(lambda t: lathe.argmax(t))(x) == count // 3


def test_results_do_not_depend_on_the_number_of_threads(rng):
    x = rng.standard_normal(1_234_567).astype(np.float32)
    f = lathe.jit(lambda t: lathe.sum(t))
    results = set()
    try:
        for threads in (1, 2, 4):
            lathe.set_thread_count(threads)
            results.add(float(f(x)))
    finally:
        lathe.set_thread_count(0)
    assert len(results) == 1


@pytest.mark.parametrize("shape", [(256, 1000), (3, 70), (100, 64), (1000, 5), (1, 4096), (7, 5, 130)])
@pytest.mark.parametrize("reducer", ["sum", "max"])
def test_whole_reductions_of_what_is_computed_by_rows(shape, reducer, rng):
    """As losses are: a row's results are reduced beside what is computed once for it."""
    a, b = rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)

    def loss(a, b):
        p, q = lathe.log_softmax(a, axis=-1), lathe.log_softmax(b, axis=-1)
        return getattr(lathe, reducer)(lathe.exp(q) * (q - p))

    def log_softmax(x):
        x = x.astype(np.float64)
        x = x - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    p, q = log_softmax(a), log_softmax(b)
    f = lathe.jit(loss)
    np.testing.assert_allclose(f(a, b), getattr(np, reducer)(np.exp(q) * (q - p)), rtol=2e-5)
    if shape == (256, 1000):
        assert "out_rf_rf" in f.lower(a, b).text("scheduled").replace("sum", "out"), "rows are reduced in vectors"


def test_what_a_product_reads_again_and_again_is_computed_once():
    """A row that several products read, and that costs something to compute, is no pass over the terms of one."""
    rng = np.random.default_rng(8)
    x, y = (rng.standard_normal((1, 512)).astype(np.float32) for _ in range(2))
    m, n = (rng.standard_normal(512).astype(np.float32) for _ in range(2))
    v, w, u = (rng.standard_normal(shape).astype(np.float32) for shape in ((512, 512), (300, 512), (512, 300)))

    def mixed(lib, x, y, m, n, v, w, u):
        inner = lib.maximum(lib.matmul(x * m + y * (1.0 - m), w.T), 0.0)
        return 1.0 / (1.0 + lib.exp(-0.01 * lib.matmul(x * n + y * (1.0 - n), v.T))) * lib.matmul(inner * inner, u.T)

    args = (x, y, m, n, v, w, u)
    run = lathe.jit(lambda *args: mixed(lathe, *args))
    np.testing.assert_allclose(run(*args), mixed(np, *args), rtol=1e-2, atol=1e-1)
    text = run.lower(*args).text("scheduled")
    around = text[: text.index("(1.0f32 - ")]
    assert "[0, 300)" not in around[around.index("for ") :]


SUMS = """
import numpy as np
import lathe
x, y = np.ones(60000)[::-3], np.arange(20000.0)
for sums in (
    lambda x, y: (lathe.sum(x * y), lathe.sum(y), lathe.sum(y * y)),
    lambda x, y: (lathe.sum(lathe.abs(x - y)), lathe.sum(x), lathe.sum(x), lathe.sum(x)),
):
    print([float(total) for total in lathe.jit(sums)(x, y)])
"""


@pytest.mark.parametrize("features", ["baseline", "avx2", "native"])
def test_sums_that_are_cut_and_share_terms_beside_one_that_walks_backward(features):
    environment = {**os.environ, "LATHE_CPU_FEATURES": features, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", SUMS], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    first, second = (eval(line) for line in ran.stdout.splitlines())
    np.testing.assert_allclose(first, [199990000, 199990000, 2666466670000], rtol=1e-13)
    np.testing.assert_allclose(second, [199970002, 20000, 20000, 20000], rtol=1e-13)
