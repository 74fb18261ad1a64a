"""Where results in NumPy arrays lie: large ones begin with a page, and are NumPy's own in all else."""

import pickle
import threading

import numpy as np
import pytest

import lathe

try:
    from numpy._core.multiarray import get_handler_name
except ImportError:  # pragma: no cover
    get_handler_name = None

LARGE, SMALL = 100_000, 1_000


@pytest.fixture
def double():
    return lathe.jit(lambda x: x * 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
def test_large_results_begin_with_a_page(dtype):
    x = np.ones((4, LARGE), dtype)
    y = lathe.jit(lambda x: lathe.flip(x, axis=1))(x)
    assert y.ctypes.data % 4096 == 0
    assert y.flags.owndata and y.flags.writeable
    np.testing.assert_array_equal(y, x)


def test_several_results_and_permuted_ones(double):
    x = np.arange(3 * LARGE, dtype=np.float32).reshape(3, LARGE)
    first, second = lathe.jit(lambda x: (x + 1, lathe.sum(x, axis=0)))(x)
    assert first.ctypes.data % 4096 == second.ctypes.data % 4096 == 0
    y = double(x.T)
    assert y.ctypes.data % 4096 == 0
    assert y.strides == x.T.strides
    np.testing.assert_array_equal(y, 2 * x.T)


@pytest.mark.skipif(get_handler_name is None, reason="this NumPy does not name what allocated")
def test_only_large_results_are_allocated_so(double):
    before = get_handler_name()
    assert get_handler_name(double(np.ones(LARGE, np.float32))) == "lathe"
    assert get_handler_name(double(np.ones(SMALL, np.float32))) == before
    assert get_handler_name() == before
    assert get_handler_name(np.ones(LARGE)) == before


def test_large_results_are_resized_copied_and_pickled(double):
    x = np.arange(LARGE, dtype=np.float32)
    y = double(x)
    for size in (2 * LARGE, SMALL, 3 * LARGE):
        kept = min(size, SMALL)
        y.resize(size, refcheck=False)
        np.testing.assert_array_equal(y[:kept], 2 * x[:kept])
    assert not y[SMALL:].any()
    z = double(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(z)), z)
    np.testing.assert_array_equal(z.copy(), z)


def test_large_results_are_freed_by_other_threads(double):
    x = np.ones(LARGE, np.float32)
    kept = [double(x) for _ in range(20)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(double(x), 2 * x)


def test_what_fails_leaves_the_allocator_as_it_was(double):
    with pytest.raises(IndexError):
        lathe.jit(lambda x, i: x[i])(np.ones(LARGE, np.float32), np.full(LARGE, LARGE))
    if get_handler_name is not None:
        assert get_handler_name(np.ones(LARGE)) == get_handler_name()
    np.testing.assert_array_equal(double(np.ones(LARGE, np.float32)), 2)
