"""What is timed outside Python: kernels bound to their arguments, calls of C and C++ libraries, and rates of the machine."""

import ctypes
import functools
import os
import pathlib

import numpy as np

pointer = ctypes.c_void_p


class LibraryCall(ctypes.Structure):
    _fields_ = [("run", pointer), ("release", pointer), ("state", pointer)]


class Native:
    """build/PRESET/bench/libbench_native.so."""

    def __init__(self, build):
        library = ctypes.CDLL(str(pathlib.Path(build).resolve() / "bench" / "libbench_native.so"))
        self.library = library
        library.bench_bind.restype = pointer
        library.bench_release.argtypes = [pointer]
        library.bench_time.restype = ctypes.c_double
        library.bench_time.argtypes = [pointer, pointer, ctypes.c_int64, ctypes.c_bool]
        for rate in (library.bench_fma_gflops, library.bench_copy_rate, library.bench_cache_rate):
            rate.restype = ctypes.c_double
        library.bench_fma_gflops.argtypes = [ctypes.c_double]
        library.bench_copy_rate.argtypes = [ctypes.c_int64]
        self.copies = {}

    def fma_gflops(self, milliseconds=0.0):
        """Of one core, over 0.1 ms at the least."""
        return self.library.bench_fma_gflops(milliseconds)

    def cache_rate(self):
        """The least of the CPUs that this process may use, all at once, in bytes a second: loads from half of a core's own caches."""
        cpus = sorted(os.sched_getaffinity(0))
        return self.library.bench_cache_rate((ctypes.c_int32 * len(cpus))(*cpus), ctypes.c_int32(len(cpus)))

    def copy_rate(self, footprint):
        """Bytes a second of a copy whose source and target together are about `footprint` bytes."""
        size = 1 << max(13, (int(footprint) - 1).bit_length())
        if size not in self.copies:
            self.copies[size] = self.library.bench_copy_rate(size)
        return self.copies[size]


def pointers(arrays):
    return (pointer * len(arrays))(*(array.ctypes.data for array in arrays))


class NativeTimer:
    """Times calls of a C function on a state, in a loop in C++."""

    def __init__(self, native, run, state, threads):
        self.time = lambda calls: native.library.bench_time(run, state, calls, threads == 1)


class FmaTimer:
    """Times the loop of fma instructions, in the unit of its calls."""

    CALL = 1e6  # floating-point operations

    def __init__(self, native):
        self.native = native

    def time(self, calls):
        return calls * self.CALL / (self.native.fma_gflops() * 1e9)


class BoundKernel:
    """What Lathe compiles for a case, bound to arrays: one indirect call a run."""

    def __init__(self, native, text, inputs, outputs, threads):
        self.native, self.arrays = native, [*inputs, *outputs]  # alive as long as the kernel that knows their addresses
        self.buffers = pointers(self.arrays)
        rank = max(x.ndim for x in inputs)
        strides = np.zeros((len(inputs), rank), np.int64)
        for i, x in enumerate(inputs):
            strides[i, : x.ndim] = [step // x.itemsize for step in x.strides]
        message = ctypes.create_string_buffer(2000)
        self.state = native.library.bench_bind(
            text.encode(), self.buffers, ctypes.c_int64(len(self.buffers)), strides.ctypes.data_as(pointer),
            ctypes.c_int64(rank), ctypes.c_int(threads), message, ctypes.c_size_t(len(message)),
        )  # fmt: skip
        if not self.state:
            raise RuntimeError(message.value.decode())
        self.timer = NativeTimer(native, ctypes.cast(native.library.bench_run, pointer), self.state, threads)

    def release(self):
        self.native.library.bench_release(self.state)


class Library:
    """A peer's plugin (bench/libraries)."""

    def __init__(self, name, plugin, path, threads):
        self.name, self.threads = name, threads
        self.library = ctypes.CDLL(str(plugin))
        self.library.library_open.restype = ctypes.c_char_p
        reason = self.library.library_open(str(path).encode(), threads)
        if reason:
            raise OSError(reason.decode())
        self.library.library_prepare.restype = ctypes.c_bool

    def prepare(self, native, asked, inputs, outputs):
        """A timer of the operation on these arrays, or None where the library does not have it."""
        integers = (ctypes.c_int64 * len(asked.integers))(*asked.integers)
        buffers, call = pointers([*inputs, *outputs]), LibraryCall()
        if not self.library.library_prepare(asked.operation.encode(), integers, buffers, ctypes.byref(call)):
            return None
        timer = NativeTimer(native, call.run, call.state, self.threads)
        timer.release = functools.partial(ctypes.CFUNCTYPE(None, pointer)(call.release), call.state)
        return timer
