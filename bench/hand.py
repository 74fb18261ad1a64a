"""The schedules of docs/schedules.md that are written by hand for speed, as shares of what the machine can do.

    ./dev bench hand

Runs the page's programs, then times each kernel by turns with a loop of fma instructions. The bound is that of the operator suite
(bench/roofline.py); compile times are medians over compilations of the same program, which no cache remembers.
"""

import contextlib
import io
import pathlib
import re
import statistics
import sys
import time

import measure
import numpy as np
import roofline
from native import FmaTimer, Native
from suite import case, vectors

import lathe

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "schedules.md"


def kernels():
    """(the page's name of the kernel, shapes of its buffers, what it does in flops or in lanes of vector instructions, percent
    of the bound that it is meant to reach).

    Attention counts its products alone, as the operator suite does: were its exponentials counted too, the bound would be a
    ninth longer, so no schedule comes above 90.
    """
    return [
        ("matmul", [(1024, 1024)] * 3, {"flops": 2 * 1024.0**3}, 92),
        ("convolution", [(64, 56, 56), (64, 64, 3, 3), (64, 56, 56)], {"flops": 2 * 64 * 64 * 9 * 56 * 56.0}, 85),
        ("softmax_rows", [(128, 1024)] * 2, {"lane_operations": 128 * 1024 * (vectors.EXP + 4.0)}, 85),
        ("attention", [(8, 1024, 64)] * 4, {"flops": 4 * 8 * 1024 * 1024 * 64.0}, 80),
    ]


def run_page():
    """What the page's programs leave behind, and the Func behind each compiled program."""
    names, funcs, compile_func = {}, {}, lathe.compile

    def compile_and_remember(func):
        compiled = compile_func(func)
        funcs[id(compiled)] = func
        return compiled

    lathe.compile = compile_and_remember
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for source in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
                exec(compile(source, str(PAGE), "exec"), names)
    finally:
        lathe.compile = compile_func
    return {name: (names[name], funcs[id(names[name])]) for name, *_ in kernels()}


def compile_milliseconds(func, times=15):
    samples = []
    for _ in range(times):
        start = time.thread_time()
        lathe.compile(func)
        samples.append(1e3 * (time.thread_time() - start))
    return statistics.median(samples)


def run(build):
    native = Native(build)
    lathe.set_thread_count(1)
    print(
        "\nSchedules by hand (docs/schedules.md), one thread: share of the bound, 95 % interval; target; compile ms, p50"
    )
    compiled, rng = run_page(), np.random.default_rng(0)
    for name, shapes, work, target in kernels():
        kernel, func = compiled[name]
        arrays = [case.f32(rng, *shape) for shape in shapes]
        timers = {
            "hand": measure.PythonTimer(lambda k=kernel, a=arrays: k(*a), threads=1),
            "fma": FmaTimer(native),
        }
        result = measure.compare(timers, budget=2.0)
        rate = FmaTimer.CALL / result.seconds["fma"]  # in the same rounds
        about = case.Case(name, "", arrays[:-1], None, None, **work)
        bound, binds = roofline.bound(about, arrays[-1:], native, rate * 1e-9)
        ratio = result.ratios["fma"]
        scale = bound / result.seconds["fma"]
        print(
            f"  {name:<16}{1e6 * result.seconds['hand']:9.1f} us   {100 * scale * ratio.median:5.1f} %"
            f"   ({100 * scale * ratio.low:.1f} to {100 * scale * ratio.high:.1f}) of {binds}"
            f"   {target:3} %   {compile_milliseconds(func):6.1f} ms"
        )


if __name__ == "__main__":
    measure.adopt_policy(1)
    run(sys.argv[1])
