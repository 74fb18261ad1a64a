"""The Funcs that run here are also emitted for AArch64 (NEON, SVE) and RISC-V (V), linked by cross compilers, and run under
an emulator: the same results. Skipped where one of the tools is absent."""

import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import lathe

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from suite import contractions, convolutions  # noqa: E402
from suite.case import Case, bf16, lowered, seeded  # noqa: E402

# The device's description, its compiler, and what emulates it with registers as wide as it says.
DEVICES = {
    "neon": ("aarch64-linux-gnu-gcc", ["qemu-aarch64"]),
    "sve": ("aarch64-linux-gnu-gcc", ["qemu-aarch64", "-cpu", "max,sve256=on,sve-default-vector-length=32"]),
    "rvv": ("riscv64-linux-gnu-gcc", ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,elen=64,vext_spec=v1.0"]),
}


def f32(*shape):
    return seeded(sum(shape)).standard_normal(shape, dtype=np.float32)


def int8(*shape):
    return seeded(1).integers(-100, 100, shape, dtype=np.int8)


PROGRAMS = {
    "gemm": (lathe.matmul, [f32(37, 29), f32(29, 45)]),
    "gemm b transposed": (lambda a, b: lathe.matmul(a, lathe.matrix_transpose(b)), [f32(24, 64), f32(33, 64)]),
    "gemm of f64": (lathe.matmul, [f32(9, 17).astype(np.float64), f32(17, 21).astype(np.float64)]),
    "gemm of f16": (lathe.matmul, [f32(16, 24).astype(np.float16), f32(24, 40).astype(np.float16)]),
    "gemm of bf16": (lathe.matmul, [bf16(f32(16, 24)), bf16(f32(24, 40))]),
    "gemm of i8": (contractions.widened, [int8(19, 40), int8(40, 33)]),
    "one row": (lathe.matmul, [f32(1, 70), f32(70, 50)]),
    "convolution": (lambda x, w: convolutions.convolution(x, w, pad=1), [f32(1, 5, 11, 13), f32(8, 5, 3, 3)]),
    "attention": (contractions.attention, [f32(1, 2, 19, 16)] * 3),
    "softmax": (lathe.softmax, [f32(7, 101)]),
    "layer norm": (lambda x, w, b: lathe.layer_norm(x, w, b), [f32(6, 50), f32(50), f32(50)]),
    "element-wise": (lambda x, y: lathe.gelu(x * y + 1) * lathe.tanh(y) + lathe.exp(x), [f32(203), f32(203)]),
    "sum over axis 0": (lambda x: lathe.sum(x, axis=0), [f32(31, 45)]),
    "argmax": (lambda x: lathe.argmax(x, axis=1), [f32(9, 77)]),
    "transpose + add": (lambda x, y: lathe.matrix_transpose(x) + y, [f32(17, 23), f32(23, 17)]),
    "gather": (lambda x, i: lathe.take(x, i, axis=0), [f32(40, 20), np.array([3, 39, 0, 7, 7])]),
}


@pytest.fixture(params=DEVICES)
def device(request):
    compiler, emulator = DEVICES[request.param]
    tool = pathlib.Path(lathe.__file__).parents[2] / "tests" / "cross_object"
    missing = [name for name in (compiler, emulator[0], tool) if not shutil.which(str(name))]
    if missing:
        pytest.skip(f"not here: {', '.join(map(str, missing))}")
    return request.param, compiler, emulator, tool


def emit(device, text, folder):
    """Symbol, shared bytes and worker bytes of the object that a program became."""
    description, _, _, tool = device
    (folder / "kernel.tir").write_text(text)
    made = subprocess.run(
        [tool, ROOT / "tests" / "cross" / f"{description}.device", folder / "kernel.tir", folder / "kernel.o"],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.split()


def test_a_product_is_made_of_the_device_s_own_vector_instructions(device, tmp_path):
    description, compiler, _, _ = device
    function, inputs = PROGRAMS["gemm"]
    emit(device, lowered(Case("", "", inputs, function, None))[0], tmp_path)
    objdump = compiler.replace("gcc", "objdump")
    listing = subprocess.run([objdump, "-d", tmp_path / "kernel.o"], check=True, capture_output=True, text=True).stdout
    own = {"neon": r"fmla\s+v\d+\.4s", "sve": r"fmla\s+z\d+\.s", "rvv": r"vsetivli\s+zero,8,e32"}
    assert len(re.findall(own[description], listing)) >= (1 if description == "rvv" else 20)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_results_on_another_architecture(device, name, tmp_path):
    _, compiler, emulator, _ = device
    function, inputs = PROGRAMS[name]
    half = name == "gemm of bf16"
    case = Case(name, "", inputs, function, None, bfloat16=half)
    text, outputs = lowered(case)
    symbol, shared, worker = emit(device, text, tmp_path)
    subprocess.run(
        [compiler, "-O1", "-static", f"-DKERNEL={symbol}", f"-DSHARED_BYTES={shared}", f"-DWORKER_BYTES={worker}"]
        + [f"-I{ROOT}", ROOT / "tests" / "cross" / "harness.c", tmp_path / "kernel.o", "-o", tmp_path / "program"],
        check=True,
    )
    arguments = []
    for i, array in enumerate([*inputs, *outputs]):
        (tmp_path / str(i)).write_bytes(np.ascontiguousarray(array).tobytes())
        arguments += [tmp_path / str(i), str(array.nbytes)]
    subprocess.run([*emulator, tmp_path / "program", *arguments], check=True, timeout=60)
    raw = (tmp_path / str(len(inputs))).read_bytes()
    got = np.frombuffer(raw, outputs[0].dtype).reshape(outputs[0].shape)
    assert_close(got, here(case, inputs, outputs[0], half), half)


def here(case, inputs, output, half):
    """What this machine computes."""
    if not half:
        return case.function(*inputs)
    wide = [(x.astype(np.uint32) << 16).view(np.float32) for x in inputs]
    return lathe.jit(lathe.matmul)(*wide)


def assert_close(got, expected, half):
    if half:
        got = (got.astype(np.uint32) << 16).view(np.float32)
    tolerance = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3}.get(str(got.dtype), 0) if not half else 4e-3
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * float(np.abs(expected).max()))
