"""One form of the sweep, and the tensors that it is made of."""

import dataclasses
import functools
import inspect

import torch
from suite.case import aligned

import lathe


@dataclasses.dataclass
class Form:
    """Something that a user of PyTorch writes, at one shape and dtype, in both."""

    name: str
    kind: str  # a class of compile_times.TARGETS
    inputs: list  # torch tensors, of any strides
    lathe: callable  # of symbolic inputs
    torch: callable  # of the inputs, and of out= where PyTorch's call takes one

    @functools.cached_property
    def function(self):
        return lathe.jit(self.lathe, name="kernel")

    @functools.cached_property
    def takes_out(self):
        try:
            return "out" in inspect.signature(self.torch).parameters
        except ValueError:
            return False


def tensor(array):
    return torch.from_numpy(aligned(array))


def normal(rng, *shape):
    return tensor(rng.standard_normal(shape, dtype="float32"))


def positive(rng, *shape):
    return normal(rng, *shape).abs() + 0.25


def typed(rng, dtype, *shape):
    """Values of any dtype: bool evenly, integers to 20, floats to 4 standard deviations or so."""
    if dtype is torch.bool:
        return tensor(rng.random(shape) < 0.5)
    if not dtype.is_floating_point:
        return tensor(rng.integers(0 if dtype is torch.uint8 else -20, 20, shape)).to(dtype)
    return normal(rng, *shape).to(dtype)


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def indices(rng, count, *shape):
    return tensor(rng.integers(0, count, shape))
