"""The regression gate: what kernels cost in units of a million operations of this core's fma loop, against committed costs.

    ./dev bench gate              fails where a kernel has become slower
    ./dev bench gate --commit     writes what is measured here into bench/gate.json, for this CPU and vector width

A kernel and a loop of fma instructions on registers are timed by turns, and the cost is the least time of the one over the least
time of the other: whatever else the machine does only adds to either. All operands fit the second cache, so that other programs'
traffic counts little. A kernel is slower when its cost lies above the committed one by more than MARGIN in every measurement: the
kernels that do are measured again after each of PAUSES, on other memory each time, as other programs come and go by the minute
and a kernel that has become slower stays so. Costs depend on the microarchitecture: on a CPU that nobody has committed costs for,
they are printed and nothing is compared.
"""

import json
import pathlib
import sys
import time

import measure
import native
import suite.case as case
from suite import contractions, convolutions

import lathe

TABLE = pathlib.Path(__file__).with_suffix(".json")
MARGIN = 0.25
PAUSES = 0, 0, 2, 10, 40, 60  # Seconds.


def kernels():
    """(name, function, shapes of the operands)."""
    return [
        ("gemm 64x64x64", lathe.matmul, [(64, 64), (64, 64)]),
        ("gemm 256x256x256", lathe.matmul, [(256, 256), (256, 256)]),
        ("gemm 127x129x131", lathe.matmul, [(127, 131), (131, 129)]),
        ("gemm 1x384x384", lathe.matmul, [(1, 384), (384, 384)]),
        ("gemm 7x384x96", lathe.matmul, [(7, 96), (96, 384)]),
        ("batched 8x32x32x32", lathe.matmul, [(8, 32, 32), (8, 32, 32)]),
        ("conv 32-32 3x3 28", lambda x, w: convolutions.convolution(x, w, pad=1), [(1, 32, 28, 28), (32, 32, 3, 3)]),
        (
            "conv depthwise 16 3x3 56",
            lambda x, w: convolutions.convolution(x, w, pad=1, groups=16),
            [(1, 16, 56, 56), (16, 1, 3, 3)],
        ),
        (
            "conv grouped 4 32-32 3x3 28",
            lambda x, w: convolutions.convolution(x, w, pad=1, groups=4),
            [(1, 32, 28, 28), (32, 8, 3, 3)],
        ),
        ("attention 4x96x64", contractions.attention, [(1, 4, 96, 64)] * 3),
        ("softmax 64x1000", lathe.softmax, [(64, 1000)]),
        ("layer norm 64x768", lambda x, w, b: lathe.layer_norm(x, w, b), [(64, 768), (768,), (768,)]),
        ("gelu(x*y+1)*y 32k", lambda x, y: lathe.gelu(x * y + 1) * y, [(32768,)] * 2),
        (
            "bias + relu 24x30x30",
            lambda x, b: lathe.relu(x + lathe.reshape(b, (-1, 1, 1))),
            [(24, 30, 30), (24,)],
        ),
        ("exp 64k", lathe.exp, [(65536,)]),
        ("sum 256x256 axis 0", lambda x: lathe.sum(x, axis=0), [(256, 256)]),
        ("sum 256x256 axis 1", lambda x: lathe.sum(x, axis=1), [(256, 256)]),
        ("cumsum 64x1000 axis 0", lambda x: lathe.cumulative_sum(x, axis=0), [(64, 1000)]),
        ("cumsum 64x1000 axis 1", lambda x: lathe.cumulative_sum(x, axis=1), [(64, 1000)]),
        ("argmax 64x1000", lambda x: lathe.argmax(x, axis=1), [(64, 1000)]),
        ("transpose + add 192", lambda x, y: lathe.matrix_transpose(x) + y, [(192, 192)] * 2),
    ]


def cost(machine, function, shapes, rounds=60):
    """A kernel's time over that of the fma loop."""
    rng = case.seeded(0)
    item = case.Case("", "", [case.f32(rng, *shape) for shape in shapes], function, None)
    text, outputs = case.lowered(item)
    bound = native.BoundKernel(machine, text, item.inputs, outputs, 1)
    loop, calls = native.FmaTimer(machine), max(1, round(1e-4 / max(bound.timer.time(3) / 3, 1e-7)))
    least = [float("inf")] * 2
    for _ in range(rounds):
        bound.timer.time(1)
        least[0] = min(least[0], bound.timer.time(calls) / calls)
        least[1] = min(least[1], loop.time(1))
    bound.release()
    return least[0] / least[1]


def slower(measured, committed):
    return measured > committed * (1 + MARGIN)


def main(build, commit):
    measure.adopt_policy(1)
    lathe.set_thread_count(1)
    machine = native.Native(build)
    info = lathe.device_info()
    if "fma" not in info["features"]:
        print("this device has no fma instructions to measure by: nothing is compared")
        return
    key = f"{info['cpu']} {info['vector_bits']}"
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    committed = {} if commit else table.get(key, {})
    if not committed and not commit:
        print(f"no costs are committed for {key}: nothing is compared")
    print(f"{key}\n{'kernel':<24}{'cost':>9}{'committed':>11}")
    costs, pending = {}, kernels()
    for pause in (0, *PAUSES):
        time.sleep(pause)
        measured, pending = pending, []
        for name, function, shapes in measured:
            costs[name] = round(min(cost(machine, function, shapes), costs.get(name, float("inf"))), 3)
            over = slower(costs[name], committed.get(name, float("inf")))
            print(f"{name:<24}{costs[name]:9.2f}{committed.get(name, '-'):>11}{'  over' if over else ''}", flush=True)
            if over:
                pending.append((name, function, shapes))
        if not pending:
            break
    if commit:
        TABLE.write_text(json.dumps(table | {key: costs}, indent=1, sort_keys=True) + "\n")
    if missing := committed and [name for name in costs if name not in committed]:
        sys.exit(f"no cost is committed for {', '.join(missing)}")
    if pending:
        sys.exit(f"slower than committed by more than {MARGIN:.0%}: {', '.join(name for name, _, _ in pending)}")
