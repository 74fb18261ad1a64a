"""What needs no rounding to bf16: the greater or lesser of two, a choice, a sign; bit for bit as torch has it."""

import numpy as np
import pytest

import lathe

torch = pytest.importorskip("torch")


def every_value():
    bits = np.arange(65536, dtype=np.uint16)
    x = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    return x[~x.isnan()]


def same(got, expected):
    np.testing.assert_array_equal(got.view(torch.int16).numpy(), expected.view(torch.int16).numpy())


def test_every_value():
    x = every_value()
    y = x.flip(0)
    f = lathe.jit(lambda x, y: (lathe.maximum(x, y), lathe.abs(x), -x, lathe.where(x < y, x, y)))
    greater, magnitude, negative, lesser = f(x, y)
    # Of zeros of two signs torch takes either.
    nonzero = (x != 0) | (y != 0)
    same(greater[nonzero], torch.maximum(x, y)[nonzero])
    same(magnitude, x.abs())
    same(negative, -x)
    same(lesser, torch.where(x < y, x, y))


def test_strict_chains_round_once_at_each_operator():
    x = every_value()

    def chain(x):
        return lathe.maximum(lathe.clip(x, -3.0, 2.5) * 3.0, -1.0) + lathe.minimum(x, 1.0)

    got = lathe.jit(chain, precision="strict")(x)
    expected = torch.maximum(x.clamp(-3.0, 2.5) * 3.0, torch.tensor(-1.0, dtype=x.dtype)) + x.clamp(max=1.0)
    same(got, expected)


def test_nan_stays():
    bits = np.array([0x7FC0, 0x7F81, 0xFFC1, 0x7F80, 0xFF80, 0x3F80], dtype=np.uint16)
    x = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    got = lathe.jit(lambda x: (lathe.maximum(x, 1.0), lathe.minimum(x, x), lathe.relu(x)))(x)
    for y in got:
        np.testing.assert_array_equal(y.isnan().numpy(), x.isnan().numpy())
