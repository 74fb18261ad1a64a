"""What is rounded to 16 bits, and where: precision="default" and "strict"."""

import numpy as np
import pytest

import lathe

torch = pytest.importorskip("torch")

HALVES = [torch.float16, torch.bfloat16]


def sample(dtype, *shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def leaky(m, x, y):
    return m.where(x * y > 0.0, x * y, 0.125 * (x * y)) - y


def affine(m, x, y):
    return (x * 1.5 + y) * y - x


def centred(m, x, y):
    c = x - m.mean(x, 1).reshape(-1, 1)
    return c * c + y


FORMS = [leaky, affine, centred]


@pytest.mark.parametrize("form", [leaky, affine])
@pytest.mark.parametrize("dtype", HALVES)
def test_strict_is_bit_for_bit_eager(form, dtype):
    x, y = sample(dtype, 37, 53), sample(dtype, 37, 53, seed=1)
    got = lathe.jit(lambda x, y: form(lathe, x, y), precision="strict")(x, y)
    np.testing.assert_array_equal(got.view(torch.int16).numpy(), form(torch, x, y).view(torch.int16).numpy())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", HALVES)
def test_default_is_nearer_the_truth_than_eager(form, dtype):
    x, y = sample(dtype, 96, 128), sample(dtype, 96, 128, seed=1)
    exact = form(torch, x.double(), y.double())
    got = lathe.jit(lambda x, y: form(lathe, x, y))(x, y)
    error = (got.double() - exact).abs()
    assert error.mean() < (form(torch, x, y).double() - exact).abs().mean()
    # One rounding of what f32 gives.
    one_rounding = exact.abs() * torch.finfo(dtype).eps / 2
    assert (error <= 1.001 * one_rounding + 1e-5).all()


def test_results_that_are_read_again_are_read_as_they_are_stored():
    def step(x, y):
        new = x + y
        return new, y - (new - x)

    x, y = sample(torch.bfloat16, 1000), 0.01 * sample(torch.bfloat16, 1000, seed=1)
    new, lost = lathe.jit(step)(x, y)
    np.testing.assert_array_equal(new.float().numpy(), (x + y).float().numpy())
    assert lost.count_nonzero() > 500
    exact = x.double() + y.double()
    assert ((new.double() + lost.double() - exact).abs() <= 2.0**-8 * (new.double() - exact).abs()).all()


def test_strict_products_take_no_flushing_instructions():
    x = torch.full((32, 64), 2.0**-130, dtype=torch.bfloat16)  # denormal
    got = lathe.jit(lambda x, y: x @ y, precision="strict")(x, torch.ones(64, 16, dtype=torch.bfloat16))
    assert (got == 2.0**-124).all()


def test_precisions_have_names():
    with pytest.raises(ValueError, match="unknown precision 'strct'; did you mean 'strict'"):
        lathe.jit(lambda x: x, precision="strct")
    assert "precision strict" in lathe.jit(lambda x: x + 1, precision="strict").lower(np.ones(3)).signature
