"""Lathe: operators compiled at run time, in milliseconds.

    import lathe, numpy as np

    @lathe.jit
    def f(x, y):
        return lathe.gelu(x * y + 1)

    f(np.ones((4, 8), np.float32), np.ones((4, 8), np.float32))

A function is traced once per signature on symbolic tensors, scheduled by analysis, compiled in process, and cached.
"""

import difflib
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


def _near(name, known):
    """The nearest of the known names as a question behind a message, or nothing where none is near."""
    near = difflib.get_close_matches(name, known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def __getattr__(name):
    known = [n for n, value in globals().items() if n[0] != "_" and not inspect.ismodule(value)]
    hint = "" if name.startswith("_") else _near(name, known)
    raise AttributeError(f"module 'lathe' has no attribute {name!r}{hint}", name=name)


def _method(tensor, name):
    if name not in operator_names:
        hint = "" if name.startswith("_") else _near(name, {*operator_names, *dir(_lathe.Tensor)})
        raise AttributeError(f"a lathe.Tensor has no attribute {name!r}{hint}; its methods are lathe.operator_names")
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


def _misplaced(signature, keywords):
    """Says which keyword is no parameter: the signature would tell first that another argument is missing."""
    known = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = next((keyword for keyword in keywords if keyword not in known), None)
    if unknown is None:
        return ""
    return (
        f"unexpected keyword argument {unknown!r}{_near(unknown, known)}; by name it takes {', '.join(known) or 'none'}"
    )


def jit(function=None, *, name=None, precision="default"):
    """Compiles `function` for whatever it is called with, once per signature.

    Arrays (NumPy, torch, anything with DLPack) become symbolic tensors, Python floats run-time scalars; ints, bools,
    strings and None are static: another value is another kernel. Lists, tuples and dicts of these may be arguments, and
    results may stand in them. Arrays that the function captures become inputs; a changed closure cell or global, or
    what attributes and constant subscripts of these find, is a miss. `out=` takes the array, or the arrays in a form
    like the result's, to compute into.

    `precision` is "default", in which what a kernel computes in float16 or bfloat16 stays in float32 until it is
    stored, and sums of products of bfloat16 round as the machine's instructions do; or "strict", in which each operator
    rounds to its dtype, and arithmetic is that of IEEE but for the order of sums and for products fused with sums.
    """
    if function is None:
        return functools.partial(jit, name=name, precision=precision)
    name = name or getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", "kernel")
    compiled = _lathe._make_jit_function(function, functools.partial(_parameters, function, name), name, precision)
    return functools.update_wrapper(compiled, function)


def _parameters(function, name):
    """What a call has to know to put its arguments in their places, without Python's help where it can."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in, Lathe's operators among them
        signature = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)])
    kinds = {p.kind for p in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        raise TypeError(f"jit: {name} takes any keywords (**): name them, or let it take a dict")
    if "out" in signature.parameters:
        raise TypeError(f"jit: {name} has a parameter 'out', which calls use for the array to compute into")
    variadic = inspect.Parameter.VAR_POSITIONAL in kinds
    named = [p for p in signature.parameters.values() if p.kind != p.VAR_POSITIONAL]
    keyword_only = tuple(p.name for p in named if p.kind == p.KEYWORD_ONLY)

    def bind(args, kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as mistake:
            raise TypeError(f"{name}: {_misplaced(signature, kwargs) or mistake}") from None
        bound.apply_defaults()
        return *bound.args, *(bound.kwargs[keyword] for keyword in keyword_only)

    wanted = [p for p in named if p.kind == p.KEYWORD_ONLY and p.default is inspect.Parameter.empty]
    required = len(named) - (len(keyword_only) if variadic and not wanted else 0)
    while required > 0 and named[required - 1].default is not inspect.Parameter.empty and not variadic:
        required -= 1
    return {
        "bind": bind,
        "names": tuple(p.name for p in named),
        "defaults": tuple(p.default for p in named),
        "no_default": inspect.Parameter.empty,
        "keyword_only": keyword_only,
        "positional": -1 if variadic else len(named) - len(keyword_only),
        "positional_only": len([p for p in named if p.kind == p.POSITIONAL_ONLY]),
        "required": required,
        "always_binds": variadic and wanted != [],
    }
