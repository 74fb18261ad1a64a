"""The operator suite that Lathe and its peers run: each case once, for all of them.

A case has inputs, what it computes in Lathe's functions, what a user of PyTorch and of JAX would call for it, and what
a library in C or C++ is asked for. `contractions`, `convolutions`, `vectors` and `movement` hold the cases.
"""

from . import contractions, convolutions, movement, vectors
from .case import Case, Library, seeded

__all__ = ["Case", "Library", "cases", "odd_products"]

odd_products = contractions.odd_products


def cases(seed=0):
    """Every case, made one at a time: their inputs together would fill the memory of a small machine."""
    for topic in (contractions, convolutions, vectors, movement):
        for make in topic.topics:
            yield from make(seeded(seed))


def selected(names, seed=0):
    """The cases whose name contains one of `names`; all of them where none is given."""
    for case in cases(seed):
        if not names or any(name in case.name for name in names):
            yield case
