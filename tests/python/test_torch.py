"""torch tensors in and out; skipped where torch is not installed."""

import concurrent.futures
import subprocess
import sys
import warnings

import numpy as np
import pytest

import lathe

torch = pytest.importorskip("torch")


@lathe.jit
def affine(x, y):
    return lathe.gelu(x * y + 1)


@pytest.fixture(params=["library", "methods"])
def flags_from(request):
    """Runs a test with torch's flags read from its C++ library, and again from its Python methods."""
    lathe._lathe._use_torch_library(request.param == "library")
    yield
    lathe._lathe._use_torch_library(True)


def random(*shape, dtype=torch.float32):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_torch_in_torch_out():
    x, y = random(3, 5), random(3, 5)
    result = affine(x, y)
    assert type(result) is torch.Tensor
    torch.testing.assert_close(result, torch.nn.functional.gelu(x * y + 1))


def test_out():
    x, y, out = random(3, 5), random(3, 5), torch.empty(3, 5)
    assert affine(x, y, out=out) is out
    torch.testing.assert_close(out, torch.nn.functional.gelu(x * y + 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8, torch.int64, torch.bool])
def test_dtypes(dtype):
    x = (random(4, 7) * 10).to(dtype)
    result = lathe.jit(lambda t: lathe.where(t == t, t, t), name="same")(x)
    assert result.dtype == dtype
    assert torch.equal(result, x)


def test_bfloat16_arithmetic():
    x, y = random(33, dtype=torch.bfloat16), random(33, dtype=torch.bfloat16)
    result = lathe.jit(lambda a, b: a * b + a, name="bf16")(x, y)
    torch.testing.assert_close(result, x * y + x)


def test_parameters_and_grad_mode(flags_from):
    parameter = torch.nn.Parameter(random(3))
    with pytest.raises(ValueError, match="requires grad"):
        affine(parameter, parameter)
    with torch.no_grad():
        result = affine(parameter, parameter)
    torch.testing.assert_close(result, torch.nn.functional.gelu(parameter.detach() ** 2 + 1))
    with pytest.raises(ValueError, match="requires grad"):
        affine(parameter, parameter)


def test_any_tensor_on_the_way_to_a_gradient_is_refused(flags_from):
    plain, leaf = random(3), random(3).requires_grad_()
    derived = leaf * 2
    for x in (leaf, derived, derived.view(3), leaf[:]):
        with pytest.raises(ValueError, match="argument 1 requires grad"):
            affine(plain, x)
        with pytest.raises(ValueError, match="out requires grad"):
            affine(plain, plain, out=x)
    torch.testing.assert_close(affine(plain, leaf.detach()), affine(plain, plain))
    with torch.inference_mode():
        affine(plain, leaf)


def test_grad_is_read_anew_at_each_call(flags_from):
    x = random(3)
    affine(x, x)
    x.requires_grad_()
    with pytest.raises(ValueError, match="requires grad"):
        affine(x, x)
    x.requires_grad_(False)
    affine(x, x)


def test_a_lazily_negated_view_is_refused(flags_from):
    plain, negated = random(4), torch._neg_view(random(4))
    with pytest.raises(ValueError, match="negated"):
        affine(negated, negated)
    with pytest.raises(ValueError, match="out is a lazily negated"):
        affine(plain, plain, out=negated)
    torch.testing.assert_close(affine(negated.resolve_neg(), plain), torch.nn.functional.gelu(1 - plain * plain))


def test_an_imaginary_part_of_a_conjugate_is_refused(flags_from):
    imaginary = torch.complex(random(4), random(4)).conj().imag
    with pytest.raises(ValueError, match="negated"):
        affine(imaginary, imaginary)
    with torch.inference_mode(), pytest.raises(ValueError, match="negated"):
        affine(imaginary, imaginary)


def test_negation_that_comes_with_new_data_is_seen(flags_from):
    x = random(4)
    affine(x, x)
    x.data = torch._neg_view(x.data)
    with pytest.raises(ValueError, match="negated"):
        affine(x, x)


def test_complex_numbers_are_refused():
    with pytest.raises(TypeError, match="DLPack dtype"):
        affine(torch.complex(random(4), random(4)), random(4))


def test_fake_tensors_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(random(4))
    with pytest.raises(ValueError, match="no data"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        affine(fake, fake)


def test_meta_tensors_are_refused():
    with pytest.raises(TypeError, match="argument 0 is a torch.Tensor whose memory cannot be read: .*meta") as raised:
        affine(torch.empty(4, device="meta"), torch.empty(4, device="meta"))
    assert "\n" not in str(raised.value)  # nor the stack that PyTorch's message goes on with


def test_tensors_without_memory_of_their_own_are_refused(flags_from):
    plain = random(4)
    for x in (torch._efficientzerotensor(4), plain.to_sparse()):
        with pytest.raises((ValueError, TypeError), match="no data|data pointer"):
            affine(x, plain)
    with pytest.raises(TypeError, match="data pointer"):
        torch.func.vmap(affine)(random(2, 3), random(2, 3))


def test_an_output_that_shares_its_memory_until_written_is_parted_first():
    x = random(4)
    lazy = x._lazy_clone()
    before = x.tolist()
    affine(lazy, lazy, out=lazy)
    assert x.tolist() == before
    torch.testing.assert_close(lazy, affine(x, x))


def test_subclasses_go_through_dlpack():
    class Tagged(torch.Tensor):
        pass

    x = random(3, 4).as_subclass(Tagged)
    plain = x.as_subclass(torch.Tensor)
    torch.testing.assert_close(affine(x, x), torch.nn.functional.gelu(plain * plain + 1))


def test_mixed_kinds_are_refused():
    with pytest.raises(TypeError, match="both torch.Tensor and numpy.ndarray"):
        affine(random(3), np.ones(3, np.float32))


def test_layouts():
    x = random(6, 8)
    for view in (x.T, x[::2, 1::3], x.flip(0), x[:, :1].expand(6, 8), x[None]):
        torch.testing.assert_close(affine(view, view), torch.nn.functional.gelu(view * view + 1))


def test_scaled_dot_product_attention():
    q, k, v = (torch.randn(2, 3, 17, 16) for _ in range(3))

    @lathe.jit
    def attend(q, k, v):
        return lathe.softmax(q @ k.mT * 0.25) @ v

    torch.testing.assert_close(attend(q, k, v), torch.nn.functional.scaled_dot_product_attention(q, k, v), rtol=1e-5, atol=1e-5)


def test_results_are_compact_aligned_and_their_own():
    for shape in ((), (1,), (0, 3), (1, 1, 2, 4), (3, 1000), (2,) * 20):
        x = random(*shape)
        result = affine(x, x)
        assert result.shape == x.shape
        assert result.is_contiguous() and result.stride() == x.stride()
        assert result.data_ptr() % 64 == 0
        torch.testing.assert_close(result.reshape(-1), torch.nn.functional.gelu(x.reshape(-1) ** 2 + 1))


def test_results_live_as_long_as_anything_that_sees_them():
    x = random(2, 3)
    result = affine(x, x)
    expected = result.clone()
    row, array = result[1], result.numpy()
    del result
    for _ in range(1000):
        affine(x, x)
    assert torch.equal(row, expected[1])
    assert np.array_equal(array, expected.numpy())
    results = [affine(x, x) for _ in range(100)]
    assert len({r.data_ptr() for r in results}) == 100


def test_results_are_ordinary_tensors():
    x = random(5)
    result = affine(x, x)
    assert result.is_leaf and not result.requires_grad
    result.add_(1).requires_grad_()
    (result * result).sum().backward()
    torch.testing.assert_close(result.grad, 2 * result.detach())
    with torch.inference_mode():
        assert affine(x, x).is_inference()


def test_several_results():
    x = random(4, 5)
    total, doubled = lathe.jit(lambda t: (lathe.sum(t, axis=1), t + t), name="two")(x)
    torch.testing.assert_close(total, x.sum(1))
    torch.testing.assert_close(doubled, x + x)


@pytest.fixture
def two_threads():
    """Two threads for PyTorch and for Lathe; skipped where PyTorch computes without OpenMP."""
    if "OpenMP" not in torch.__config__.parallel_info().split("ATen parallel backend:")[1]:
        pytest.skip("PyTorch has no OpenMP")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    lathe.set_thread_count(2)
    affine(random(3, 5), random(3, 5))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        lathe.set_thread_count(0)
        lathe.share_threads(True)


def pool():
    return lathe.device_info()["thread_pool"]


def test_threads_are_pytorchs_once_it_has_as_many(two_threads):
    assert pool() == "OpenMP"
    lathe.share_threads(False)
    assert pool() == "oneTBB"
    lathe.share_threads(True)
    torch.set_num_threads(1)
    assert pool() == "oneTBB"
    torch.set_num_threads(2)
    lathe.set_thread_count(3)
    assert pool() == "oneTBB"
    lathe.set_thread_count(1)
    assert pool() == "oneTBB"


@pytest.mark.parametrize("shared", [True, False])
def test_operators_by_turns_with_pytorchs_on_either_threads(two_threads, shared):
    lathe.share_threads(shared)
    x, y = random(700, 900), random(700, 900)
    product = lathe.jit(lambda a, b: a @ b)
    for _ in range(20):
        z = torch.sin(x)
        torch.testing.assert_close(affine(z, y), torch.nn.functional.gelu(z * y + 1))
        torch.testing.assert_close(product(z, y.T), z @ y.T, rtol=1e-4, atol=1e-4)


def test_threads_of_several_callers_are_told_apart(two_threads):
    x, y = random(700, 900), random(700, 900)
    expected = affine(x, y)
    with concurrent.futures.ThreadPoolExecutor(4) as callers:
        for result, threads in callers.map(lambda _: (affine(x, y), pool()), range(64)):
            assert torch.equal(result, expected)
            assert threads == "OpenMP", "torch.set_num_threads counts on every thread"


FORK = """
import os, signal, sys
import numpy as np, torch, lathe
torch.set_num_threads(2)
lathe.set_thread_count(2)
f = lathe.jit(lambda x: lathe.exp(x) + 1)
x = torch.linspace(-2, 2, 1 << 20)
if sys.argv[1] == "before":
    f(x)
    assert lathe.device_info()["thread_pool"] == "OpenMP"
expected = torch.exp(x) + 1
child = os.fork()
if child == 0:
    signal.alarm(60)  # where a loop waits for threads that are not there
    result = f(torch.from_numpy(np.linspace(-2, 2, 1 << 20, dtype=np.float32)))
    os._exit(0 if lathe.device_info()["thread_pool"] == "oneTBB" and np.allclose(result.numpy(), expected.numpy(), rtol=1e-4) else 1)
assert os.waitpid(child, 0)[1] == 0
assert np.allclose(f(x).numpy(), expected.numpy(), rtol=1e-4)
"""


@pytest.mark.parametrize("found", ["before", "behind"])
def test_a_forked_process_does_without_pytorchs_threads(two_threads, found):
    """Whether a kernel took a tensor before the fork or not: PyTorch's threads are there either way."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, found], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
