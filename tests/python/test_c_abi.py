"""The C interface, through ctypes, as a host in another language would use it."""

import ctypes
import os
import pathlib
import subprocess

import numpy as np
import pytest

import lathe

LIBRARY = pathlib.Path(lathe.__file__).parents[2] / "bindings/c/liblathe.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="runs from the build tree, where liblathe.so is")

ADD = """func add(x: f32[4], y: f32[4], out: f32[4]) stage begin {
  block root() { for i in [0, 4) { block add(space vi in [0, 4) = i) reads x[vi], y[vi] writes out[vi] {
    out[vi] = x[vi] + y[vi] } } } }
"""


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


def tensor(array):
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Tensor(array.ctypes.data, 1, 0, array.ndim, 2, array.itemsize * 8, 1, shape, None, 0)


@pytest.fixture(scope="module")
def library():
    loaded = ctypes.CDLL(str(LIBRARY), mode=os.RTLD_LOCAL)
    loaded.lathe_last_error.restype = ctypes.c_char_p
    loaded.lathe_version.restype = ctypes.c_char_p
    return loaded


def compile_program(library, text):
    program = ctypes.c_void_p()
    return library.lathe_compile(text.encode(), ctypes.byref(program)), program


def run(library, program, arrays):
    tensors = [tensor(a) for a in arrays]
    pointers = (ctypes.c_void_p * len(arrays))(*[ctypes.addressof(t) for t in tensors])
    return library.lathe_run(program, pointers, len(arrays), None, 0)


def test_compile_and_run(library):
    assert library.lathe_version().decode() == lathe.__version__
    status, program = compile_program(library, ADD)
    assert status == 0, library.lathe_last_error()
    arrays, scalars = ctypes.c_int32(), ctypes.c_int32()
    assert library.lathe_arity(program, ctypes.byref(arrays), ctypes.byref(scalars)) == 0
    assert (arrays.value, scalars.value) == (3, 0)
    x, y, out = np.arange(4, dtype=np.float32), np.full(4, 0.5, np.float32), np.zeros(4, np.float32)
    assert run(library, program, [x, y, out]) == 0, library.lathe_last_error()
    np.testing.assert_array_equal(out, x + y)
    library.lathe_release(program)


def test_mistakes_are_results_with_messages(library):
    status, _ = compile_program(library, "func (")
    assert status == 4 and b"expected" in library.lathe_last_error()
    status, program = compile_program(library, ADD)
    x = np.zeros(4, np.float32)
    assert run(library, program, [x, x.copy()]) == 1
    assert run(library, program, [x, np.zeros(4), x.copy()]) == 2
    assert b"expected f32[4]" in library.lathe_last_error()
    assert run(library, program, [x, x, x]) == 1 and b"share memory" in library.lathe_last_error()
    text = ctypes.c_char_p()
    assert library.lathe_stage_text(program, b"nowhere", ctypes.byref(text)) == 1
    assert library.lathe_stage_text(program, b"end", ctypes.byref(text)) == 0 and b"func add" in text.value
    library.lathe_free_text(text)
    library.lathe_release(program)
    status, _ = compile_program(library, ADD.replace("= x[vi]", "= x[vi + 1]").replace("reads x[vi]", "reads x[..]"))
    assert status == 1 and b"breaks access.in_bounds" in library.lathe_last_error()
    for count in (-1, 10**9):
        assert library.lathe_set_thread_count(count) == 1 and b"expected 0" in library.lathe_last_error()
    assert library.lathe_set_thread_count(0) == 0


@pytest.mark.parametrize("path", [LIBRARY, pathlib.Path(lathe._lathe.__file__)], ids=["liblathe", "extension"])
def test_nothing_else_is_exported(path):
    symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout.split("\n")
    names = {line.split()[-1] for line in symbols if line.strip()}
    assert {n for n in names if not n.startswith("lathe_")} <= {"PyInit__lathe"}


def test_the_header_compiles_as_c(tmp_path):
    header = pathlib.Path(__file__).parents[2] / "bindings/c/lathe.h"
    source = tmp_path / "use.c"
    source.write_text(f'#include "{header}"\nint main(void) {{ return lathe_abi_version() == 0; }}\n')
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", source, "-o", tmp_path / "use.o"], check=True)
