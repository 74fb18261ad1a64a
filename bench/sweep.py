"""Finds where Lathe is slow: some six hundred odd shapes, dtypes, strides and operators beside PyTorch eager, the slowest first.

    ./dev bench sweep                       all of them, two minutes
    ./dev bench sweep argmax "take rows"    forms whose names contain one of these
    ./dev bench sweep --below 0.95          prints those under this ratio only
    ./dev bench sweep --drawn 7             ten forms of each topic of odd/drawn.py instead, drawn by the seed 7
    ./dev bench sweep --threads all         both on all threads
    ./dev bench sweep --isa avx2            neither has AVX-512
    ./dev bench sweep --json FILE

One thread unless said, measured by the rules of bench/README.md: results are compared first, rounds are interleaved, out= stands beside out=
where PyTorch's call takes one. A ratio above 1 means that Lathe is faster. The compile time is of one call: CPU milliseconds of the
first less those of the second; `!` marks one over its class's target.
"""

import argparse
import dataclasses
import json
import pathlib
import time

import compile_times
import measure
import peers

import lathe

SHORT = 5e-6  # seconds; below, what is timed is the call from Python more than the kernel


@dataclasses.dataclass
class Row:
    name: str
    kind: str
    compile_ms: float = 0.0
    lathe_us: float = 0.0
    torch_us: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    error: str = ""

    @property
    def slow_compile(self):
        return self.compile_ms > compile_times.TARGETS[self.kind]

    def text(self):
        if self.error:
            return f"{'':24}{self.name:<44}{self.error}"
        marks = ("!" if self.slow_compile else " ") + (" short" if self.lathe_us * 1e-6 < SHORT else "")
        return (
            f"{self.ratio:6.2f} ({self.low:5.2f} to {self.high:5.2f})  {self.name:<44}{self.lathe_us:10.1f}{self.torch_us:10.1f} us"
            f"   compile {self.compile_ms:5.1f} {marks}"
        )


def as_tuple(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def values(results):
    """As NumPy arrays; what NumPy has no dtype for, as doubles."""
    return [x.double().numpy() if x.dtype.is_floating_point else x.numpy() for x in as_tuple(results)]


def tolerance(inputs, result):
    """By the least exact of the floats that took part."""
    dtypes = [str(x.dtype).removeprefix("torch.") for x in (*inputs, result) if x.dtype.is_floating_point]
    return max((peers.TOLERANCE[dtype] for dtype in dtypes), default=0.0)


def verify(form, ours, theirs):
    """Raises where Lathe and PyTorch differ by more than another order of summation makes them."""
    ours, theirs = as_tuple(ours), as_tuple(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if tuple(mine.shape) != tuple(other.shape):
            raise AssertionError(f"shape {tuple(mine.shape)}, PyTorch has {tuple(other.shape)}")
        off = peers.difference(values(mine), values(other))
        if not off <= tolerance(form.inputs, mine):
            raise AssertionError(f"differs from PyTorch by {off:.0e}")


def compiled(form):
    """The results of a form's first call, and its compile time in CPU milliseconds."""
    start = time.thread_time()
    results = form.function(*form.inputs)
    middle = time.thread_time()
    form.function(*form.inputs, out=results)
    return results, 1e3 * (2 * middle - start - time.thread_time())


def theirs(form, out):
    """PyTorch's call, with what it is given; `out` is Lathe's result, whose dtype may be another."""
    if not form.takes_out:
        return lambda: form.torch(*form.inputs)
    plain = form.torch(*form.inputs, out=out)
    assert plain is out
    return lambda: form.torch(*form.inputs, out=out)


def measured(form, budget, threads=1):
    row = Row(form.name, form.kind)
    try:
        results, row.compile_ms = compiled(form)
        kept = tuple(x.clone() for x in as_tuple(results))
        call = theirs(form, as_tuple(results)[0])
        verify(form, kept, call())
    except Exception as error:  # a form that fails is a row of the report
        row.error = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
        return row
    ours = lambda: form.function(*form.inputs, out=results)  # noqa: E731
    timers = {"lathe": measure.PythonTimer(ours, threads), "torch": measure.PythonTimer(call, threads)}
    found = measure.compare(timers, budget=budget, most=60, pause=measure.PAUSE if threads > 1 else 0.0)
    row.lathe_us, row.torch_us = (1e6 * found.seconds[name] for name in timers)
    ratio = found.ratios.get("torch")  # none where PyTorch takes so long that it was called once
    once = row.torch_us / row.lathe_us
    row.ratio, row.low, row.high = (ratio.median, ratio.low, ratio.high) if ratio else (once, once, once)
    return row


def summary(rows):
    timed = [row for row in rows if not row.error]
    lines = [f"{len(timed)} forms, geometric mean of the ratios {measure.geometric_mean([r.ratio for r in timed]):.2f}"]
    for least in (0.8, 0.95):
        under = [row.name for row in timed if row.high < least]
        lines.append(f"{len(under)} under {least} with their whole interval: {', '.join(under)}")
    slow = [row.name for row in timed if row.slow_compile]
    lines.append(f"{len(slow)} compiled in more than their class's target: {', '.join(slow)}")
    return "\n".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(
        "./dev bench sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only forms whose name contains one of these")
    parser.add_argument("--below", type=float, default=float("inf"), help="print only rows under this ratio")
    parser.add_argument("--budget", type=float, default=0.3, help="seconds a form")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="forms drawn by a seed, in the place of the list")
    parser.add_argument("--count", type=int, default=10, help="of each topic that are drawn")
    parser.add_argument("--threads", choices=["1", "all"], default="1")
    parser.add_argument("--isa", choices=list(measure.ISAS), default="native", help="what Lathe and PyTorch may use")
    parser.add_argument("--json", help="write the rows to this file")
    options = parser.parse_args(arguments)
    threads = 1 if options.threads == "1" else lathe.thread_count()
    measure.adopt_policy(threads, **measure.ISAS[options.isa])
    import odd
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    lathe.set_thread_count(threads)
    made = None if options.drawn is None else odd.drawn.forms(options.drawn, options.count)
    rows = [measured(form, options.budget, threads) for form in odd.forms(options.names, made)]
    rows.sort(key=lambda row: row.ratio)
    for row in rows:
        if row.error or row.ratio < options.below:
            print(row.text())
    if rows:
        print(summary(rows))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
