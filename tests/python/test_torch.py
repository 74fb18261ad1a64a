"""torch tensors in and out; skipped where torch is not installed."""

import warnings

import numpy as np
import pytest

import lathe

torch = pytest.importorskip("torch")


@lathe.jit
def affine(x, y):
    return lathe.gelu(x * y + 1)


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


def test_parameters_and_grad_mode():
    parameter = torch.nn.Parameter(random(3))
    with pytest.raises(ValueError, match="requires grad"):
        affine(parameter, parameter)
    with torch.no_grad():
        result = affine(parameter, parameter)
    torch.testing.assert_close(result, torch.nn.functional.gelu(parameter.detach() ** 2 + 1))


def test_a_lazily_negated_view_is_refused():
    negated = torch._neg_view(random(4))
    with pytest.raises(ValueError, match="negated"):
        affine(negated, negated)


def test_an_imaginary_part_of_a_conjugate_is_refused():
    imaginary = torch.complex(random(4), random(4)).conj().imag
    with pytest.raises(ValueError, match="negated"):
        affine(imaginary, imaginary)


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
    with pytest.raises((ValueError, RuntimeError, BufferError)):
        affine(torch.empty(4, device="meta"), torch.empty(4, device="meta"))


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
