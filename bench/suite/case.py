"""What a case of the suite is, and the arrays that it is made of."""

import ctypes
import dataclasses
import functools
import itertools
import math
import re

import numpy as np

import lathe

ALIGNMENT = 64  # bytes; where every array of the suite starts


@dataclasses.dataclass
class Library:
    """What a C or C++ library is asked for: an operation of bench/libraries/library.h and its integers."""

    operation: str
    integers: tuple


@dataclasses.dataclass
class Case:
    """One row of the table. A function below returns an array, or a tuple of them."""

    name: str
    bound: str  # what bounds it: "compute" for contractions, "other" for memory and vector units
    inputs: list
    lathe: callable  # of symbolic inputs
    torch: callable  # of (torch, inputs, out); out is None where the call takes none
    jax: callable = None  # of (jax, inputs)
    library: Library = None
    exact: callable = None  # of the inputs' arrays, by NumPy: decides where every library differs, as some saturate
    flops: float = 0.0  # of a contraction: multiplications and additions
    lane_operations: float = 0.0  # of all else: vector instructions times lanes, by the counts in `vectors`
    arithmetic: str = "f32"  # what a contraction multiplies: f32, f64, f16, bf16, i8
    out: bool = True  # does torch's call take out=?
    bfloat16: bool = False  # the inputs are bf16 bits in uint16 arrays
    traffic: int = 0  # compulsory bytes, where they are fewer than those of inputs and outputs

    @functools.cached_property
    def function(self):
        return lathe.jit(self.lathe, name="kernel")


def seeded(seed):
    return np.random.default_rng(seed)


PAGE = 4096
STAGGER = 13 * ALIGNMENT  # between the starts of arrays made one after another, within a page
made = itertools.count()


def empty(shape, dtype):
    """An array at a 64-byte boundary; malloc promises 16 only.

    Arrays made one after another start at places of a page that lie apart: a store makes later loads wait whose address
    agrees in its low 12 bits, which made exp 1.5 times slower where malloc happened to put its output 64 bytes further in
    a page than its input.
    """
    dtype = np.dtype(dtype)
    count = math.prod(shape) * dtype.itemsize
    memory = np.empty(count + 2 * PAGE, np.uint8)
    start = -memory.ctypes.data % PAGE + next(made) * STAGGER % PAGE
    return memory[start : start + count].view(dtype).reshape(shape)


def aligned(array):
    """A copy of `array` at a 64-byte boundary, in the same order of memory."""
    if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
        return aligned(array.T).T
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def f32(rng, *shape):
    """Normal values: none is denormal, and none so large that a sum overflows."""
    return aligned(rng.standard_normal(shape, dtype=np.float32))


def bf16(values):
    """The bits of `values` rounded to bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return aligned(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))


class Bfloat16View:
    """Bits in a uint16 array as bf16, which NumPy has no dtype for, to whoever reads DLPack."""

    BFLOAT = 4  # DLDataTypeCode kDLBfloat
    CODE_AT = 20  # of the dtype's code in a DLTensor: after data, device and ndim

    def __init__(self, bits):
        self.bits = bits

    def __dlpack_device__(self):
        return self.bits.__dlpack_device__()

    def __dlpack__(self):
        capsule = self.bits.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_uint8.from_address(get(capsule, b"dltensor") + self.CODE_AT).value = self.BFLOAT
        return capsule


NUMPY_TYPES = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "i64": "i8", "i32": "i4"}


def lowered(case):
    """The traced Func of the case, as text, and what it writes: arrays of their own, bf16 as its bits."""
    text = case.function.lower(*(Bfloat16View(x) if case.bfloat16 else x for x in case.inputs)).text("traced")
    outs = re.findall(r"\bout\d*: (\w+)\[([\d, ]*)\]", text.partition("\n")[0])
    return text, [empty([int(n) for n in shape.split(",") if n], NUMPY_TYPES[dtype]) for dtype, shape in outs]
