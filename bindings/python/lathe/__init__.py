"""Lathe: operators compiled at run time, in milliseconds.

    import lathe, numpy as np

    @lathe.jit
    def f(x, y):
        return lathe.gelu(x * y + 1)

    f(np.ones((4, 8), np.float32), np.ones((4, 8), np.float32))

A function is traced once per signature on symbolic tensors, scheduled by analysis, compiled in process, and cached.
"""

import functools
import inspect
from typing import NamedTuple

from . import _lathe
from ._lathe import *  # noqa: F403
from ._lathe import Error, InternalError, Refusal, ir, passes  # noqa: F401

__version__ = _lathe.device_info()["lathe"]
stages = _lathe.stages
operator_names = _lathe.operator_names
pi, e, inf, nan, newaxis = 3.141592653589793, 2.718281828459045, float("inf"), float("nan"), None


def _method(tensor, name):
    if name not in operator_names:
        raise AttributeError(f"a lathe.Tensor has no attribute {name!r}; its methods are lathe.operator_names")
    return functools.partial(getattr(_lathe, name), tensor)


_lathe.Tensor.__getattr__ = _method  # every operator is a method of its first operand too


class CacheInfo(NamedTuple):
    """Exact counts since the process started."""

    hits: int
    misses: int
    compiles: int
    evictions: int
    kernels: int


def cache_info():
    """Hits, misses, compiles, evictions, and the kernels alive now."""
    return CacheInfo(*_lathe._cache_counts())


def jit(function=None, *, name=None):
    """Compiles `function` for whatever it is called with, once per signature.

    Arrays (NumPy, torch, anything with DLPack) become symbolic tensors, Python floats run-time scalars; ints, bools,
    strings and None are static: another value is another kernel. Arrays that the function captures become inputs; a
    changed closure cell or global is a miss. `out=` takes the array, or the tuple of arrays, to compute into.
    """
    if function is None:
        return functools.partial(jit, name=name)
    name = name or getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", "kernel")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in, Lathe's operators among them
        signature = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)])
    kinds = {p.kind for p in signature.parameters.values()}
    if inspect.Parameter.KEYWORD_ONLY in kinds or inspect.Parameter.VAR_KEYWORD in kinds:
        raise TypeError(f"jit: {name} takes keyword-only parameters; name them as ordinary ones")
    if "out" in signature.parameters:
        raise TypeError(f"jit: {name} has a parameter 'out', which calls use for the array to compute into")
    variadic = inspect.Parameter.VAR_POSITIONAL in kinds

    def bind(args, kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    positional = -len(signature.parameters) if variadic else len(signature.parameters)
    defaults = tuple(p.default for p in signature.parameters.values() if p.default is not inspect.Parameter.empty)
    compiled = _lathe._make_jit_function(function, bind, positional, () if variadic else defaults, name)
    return functools.update_wrapper(compiled, function)
