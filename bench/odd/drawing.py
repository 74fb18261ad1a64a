"""What forms are drawn with."""

import math

import numpy as np

from .form import typed


def pick(rng, options):
    return options[int(rng.integers(len(options)))]


def extent(rng, low, high):
    """Even on a logarithmic scale; half of those over 16 are multiples of 8."""
    drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    return int(drawn) if drawn < 16 or rng.random() < 0.5 else 8 * round(drawn / 8)


def box(rng, rank, elements):
    """Of between an eighth of so many elements and all."""
    while True:
        shape = tuple(extent(rng, 1, elements if rank == 1 else 2000) for _ in range(rank))
        if elements / 8 < math.prod(shape) < elements:
            return shape


def times(shape):
    return "x".join(map(str, shape))


def lying(rng, dtype, shape):
    """A tensor of the shape, and how it lies: in order, permuted, every other element, or a part of longer rows."""
    how = pick(rng, ("", "", "", "turned", "strided", "part"))
    if how == "turned":
        order = rng.permutation(len(shape))
        x = typed(rng, dtype, *(shape[d] for d in order)).permute(tuple(int(d) for d in np.argsort(order)))
        how += f" {''.join(map(str, order))}"
    elif how == "strided":
        x = typed(rng, dtype, *shape[:-1], 2 * shape[-1])[..., ::2]
    elif how == "part":
        x = typed(rng, dtype, *shape[:-1], shape[-1] + 5)[..., 2:-3]
    else:
        x = typed(rng, dtype, *shape)
    return x, f"{times(shape)} {how}".strip()
