"""Call to callable by class of operator, near the shapes of the suite: every signature is new. CPU milliseconds.

    ./dev bench compile-classes [--json FILE] [--document]

The time is that of the first call less that of the second, which finds its kernel. A class is as slow as the slowest of its
operators.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import report
import suite.case as case
from suite import contractions, convolutions

import lathe

# Milliseconds at p50, which the worst operator of a class must keep.
TARGETS = {"element-wise": 4, "reduction": 6, "gemm": 12, "convolution": 25, "attention": 25}
ROOT = pathlib.Path(__file__).resolve().parent.parent


def operators():
    """(class, name, function, shapes of the i-th signature)."""
    t = lathe.matrix_transpose
    return [
        ("element-wise", "add", lambda x, y: x + y, lambda i: [(64, 16000 + i)] * 2),
        ("element-wise", "gelu(x*y+1)*y", lambda x, y: lathe.gelu(x * y + 1) * y, lambda i: [(64, 16000 + i)] * 2),
        ("element-wise", "swiglu", lambda x, y: lathe.silu(x) * y, lambda i: [(512, 4000 + i)] * 2),
        (
            "element-wise",
            "bias + relu + residual",
            lambda x, b, y: lathe.relu(x + lathe.reshape(b, (-1, 1, 1))) + y,
            lambda i: [(64, 56, 50 + i), (64,), (64, 56, 50 + i)],
        ),
        ("reduction", "softmax", lathe.softmax, lambda i: [(128, 1000 + i)]),
        ("reduction", "softmax over axis 0", lambda x: lathe.softmax(x, axis=0), lambda i: [(1000, 1000 + i)]),
        (
            "reduction",
            "layer norm",
            lambda x, w, b: lathe.layer_norm(x, w, b),
            lambda i: [(512, 700 + i)] + [(700 + i,)] * 2,
        ),
        ("reduction", "rms norm", lambda x, w: lathe.rms_norm(x, w), lambda i: [(512, 4000 + i), (4000 + i,)]),
        ("reduction", "sum over axis 0", lambda x: lathe.sum(x, axis=0), lambda i: [(4096, 1000 + i)]),
        ("reduction", "sum of all", lambda x: lathe.sum(x), lambda i: [(4096, 1000 + i)]),
        ("reduction", "argmax", lambda x: lathe.argmax(x, axis=1), lambda i: [(512, 4000 + i)]),
        (
            "reduction",
            "mean and variance",
            lambda x: (lathe.mean(x, axis=1), lathe.var(x, axis=1)),
            lambda i: [(512, 4000 + i)],
        ),
        ("gemm", "n x n", lathe.matmul, lambda i: [(500 + i, 500 + i)] * 2),
        ("gemm", "b transposed", lambda a, b: lathe.matmul(a, t(b)), lambda i: [(500, 500 + i), (500, 500 + i)]),
        ("gemm", "one row", lathe.matmul, lambda i: [(1, 4000 + i), (4000 + i, 1024)]),
        ("gemm", "batched", lathe.matmul, lambda i: [(16, 64, 60 + i), (16, 60 + i, 64)]),
        (
            "gemm",
            "linear + gelu",
            lambda x, w, b: lathe.gelu(lathe.matmul(x, t(w)) + b),
            lambda i: [(128, 760 + i), (3072, 760 + i), (3072,)],
        ),
        ("convolution", "3x3", conv(pad=1), lambda i: [(1, 64, 56, 50 + i), (64, 64, 3, 3)]),
        ("convolution", "7x7 by 2", conv(stride=2, pad=3), lambda i: [(1, 3, 224, 210 + i), (64, 3, 7, 7)]),
        ("convolution", "1x1", conv(), lambda i: [(1, 64, 56, 50 + i), (256, 64, 1, 1)]),
        ("convolution", "depthwise 3x3", conv(pad=1, groups=96), lambda i: [(1, 96, 56, 50 + i), (96, 1, 3, 3)]),
        ("convolution", "grouped 3x3", conv(pad=1, groups=4), lambda i: [(1, 64, 56, 50 + i), (64, 16, 3, 3)]),
        ("attention", "plain", contractions.attention, lambda i: [(1, 12, 120 + i, 64)] * 3),
        (
            "attention",
            "causal",
            lambda q, k, v: contractions.attention(q, k, v, True),
            lambda i: [(1, 8, 500 + i, 64)] * 3,
        ),
    ]


def conv(**options):
    return lambda x, w: convolutions.convolution(x, w, **options)


def median_ms(function, shapes, count):
    compiled = lathe.jit(function, name="kernel")
    rng, samples = case.seeded(0), []
    for i in range(count):
        inputs = [case.f32(rng, *shape) for shape in shapes(i)]
        start = time.thread_time()
        compiled(*inputs)
        middle = time.thread_time()
        compiled(*inputs)
        samples.append(1e3 * (2 * middle - start - time.thread_time()))
    return statistics.median(samples), max(samples)


FIRST = """
import time, numpy as np, lathe
x = np.ones({shape}, np.float32)
f = lathe.jit({function})
start = time.process_time()
f(x, x)
middle = time.process_time()
f(x, x)
print(1e3 * (2 * middle - start - time.process_time()))
"""


def first_ms(function, shape, count=5):
    """The first compile of a process, which meets cold code."""
    program = FIRST.format(function=function, shape=shape)
    runs = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        for _ in range(count)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def measured(count):
    lathe.set_thread_count(1)
    rows = []
    for kind, name, function, shapes in operators():
        median, most = median_ms(function, shapes, count)
        rows.append({"class": kind, "operator": name, "p50": median, "most": most, "target": TARGETS[kind]})
    for name, function, shape in (("add", "lambda x, y: x + y", (64, 64)), ("gemm", "lathe.matmul", (256, 256))):
        rows.append({"class": "first of a process", "operator": name, "p50": first_ms(function, shape)})
    return rows


def text(rows):
    lines = [f"{'class':<20}{'operator':<26}{'p50 ms':>8}{'most':>8}{'target':>8}"]
    for row in rows:
        over = " over" if row["p50"] > row.get("target", np.inf) else ""
        most = f"{row['most']:8.1f}" if "most" in row else f"{'':8}"
        lines.append(f"{row['class']:<20}{row['operator']:<26}{row['p50']:8.1f}{most}{row.get('target', ''):>8}{over}")
    return "\n".join(lines)


def markdown(rows):
    lines = ["| class | operator | p50, ms | target |", "|---|---|--:|--:|"]
    for row in rows:
        over = row["p50"] > row.get("target", np.inf)
        value = f"**{row['p50']:.1f}**" if over else f"{row['p50']:.1f}"
        lines.append(f"| {row['class']} | {row['operator']} | {value} | {row.get('target', '')} |")
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser("./dev bench compile-classes", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=15, help="signatures an operator")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--document", action="store_true", help="write the table into docs/performance.md, or the page of this CPU")
    options = parser.parse_args(arguments)
    rows = measured(options.count)
    print(text(rows))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    if options.document:
        report.replace_between(report.documented(ROOT, lathe.device_info()["cpu"]), "compile", markdown(rows))


if __name__ == "__main__":
    main()
