"""Times the operator suite in Lathe and its peers, in interleaved pairs, and prints the tables.

    ./dev bench --peers                         both tables, every case, one thread
    ./dev bench --peers conv softmax            cases whose names contain one of these
    ./dev bench --peers --table cpp             a bound kernel beside C and C++ libraries
    ./dev bench --peers --threads all --html report.html --json report.json
    ./dev bench --peers --document              writes the tables into docs/performance.md, or the page of this CPU

A ratio above 1 means that Lathe is faster. bench/README.md says how it is measured.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import measure
import numpy as np
import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of the largest result: a wrong operator is far outside, another order of a sum well inside.
TOLERANCE = {"float64": 1e-12, "float32": 1e-4, "float16": 4e-3, "bfloat16": 2e-2}


ONE_THREAD = "one thread"  # Lathe itself, beside Lathe on all


def difference(results, expected):
    """The largest difference over the largest value; infinite for another shape or for NaN on one side only."""
    worst = 0.0
    for x, y in zip(results, expected, strict=True):
        x, y = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
        if x.shape != y.shape or (np.isnan(x) != np.isnan(y)).any():
            return float("inf")
        worst = max(worst, float(np.nanmax(np.abs(x - y))) / (float(np.nanmax(np.abs(y))) or 1.0))
    return worst


def tolerance(case, results):
    dtype = "bfloat16" if case.bfloat16 else str(results[0].dtype)
    return TOLERANCE.get(dtype, 0.0)


class PythonTable:
    """Lathe, PyTorch eager, Inductor and JAX, called from Python."""

    key, title = "python", "Python: out= beside out="

    def __init__(self, options):
        import frameworks

        self.options, self.frameworks = options, frameworks
        self.peers, self.missing = [], {}
        for kind in (frameworks.Torch, frameworks.Inductor, frameworks.Jax):
            if not options.peer or kind.name in options.peer:
                try:
                    self.peers.append(kind(options.thread_count))
                except ImportError as error:
                    self.missing[kind.name] = str(error)
        torch = next((peer.torch for peer in self.peers if hasattr(peer, "torch")), None)
        self.lathe = frameworks.Lathe(torch)
        self.versions = {peer.name: peer.version for peer in self.peers}

    def prepare(self, case, names=None):
        """(timers, results, notes), each by name."""
        timers, results, notes = {}, {}, {}
        outs = self.lathe.outputs(case)
        for peer in [self.lathe, *self.peers]:
            if names and peer.name not in ("lathe", *names):
                continue
            try:
                start = time.perf_counter()
                call, values = peer.prepare(case, outs)
                call()
                timers[peer.name] = measure.PythonTimer(call, self.options.thread_count)
                results[peer.name] = [np.array(x) for x in values()]
                notes[f"{peer.name}_first_s"] = time.perf_counter() - start
            except Exception as error:
                if peer is self.lathe:
                    raise
                notes[peer.name] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
        return timers, results, notes

    odd_peers = ("torch", "jax")  # Inductor calls torch's own product, behind more of Python

    def release(self):
        pass


class LibraryTable:
    """A bound kernel beside calls of C and C++ libraries, in a loop in C++."""

    key, title = "cpp", "C++: a bound kernel beside libraries"
    odd_peers = ()

    def __init__(self, options):
        import libraries

        self.options = options
        self.peers, self.missing = libraries.load(options)
        self.versions = {peer.name: "" for peer in self.peers}
        self.releases = []

    def prepare(self, case, names=None):
        from native import BoundKernel
        from suite.case import lowered

        timers, results = {}, {}
        text, outputs = lowered(case)
        for threads in sorted({1, self.options.thread_count}):
            bound = BoundKernel(self.options.native, text, case.inputs, outputs, threads)
            self.releases.append(bound.release)
            timers["lathe" if threads == self.options.thread_count else ONE_THREAD] = bound.timer
        timers = dict(sorted(timers.items(), key=lambda item: item[0] != "lathe"))
        for peer in self.peers:
            timer = case.library and peer.prepare(self.options.native, case.library, case.inputs, outputs)
            if timer:
                self.releases.append(timer.release)
                timers[peer.name] = timer
        # The kernel's release, and with it the arrays, lives as long as the timers.
        for name, timer in timers.items():
            for output in outputs:
                output.fill(77)  # a call that writes nothing is found out
            timer.time(1)
            results[name] = [output.copy() for output in outputs]
        if case.bfloat16:
            results = {name: [widen(x) for x in values] for name, values in results.items()}
        return timers, results, {}

    def release(self):
        for release in self.releases:
            release()
        self.releases.clear()


def widen(bits):
    """bf16 bits as f32 values."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def verify(case, results):
    """Which peers disagree with Lathe. Where all do, Lathe is what is wrong, unless exact arithmetic says otherwise."""
    allowed = tolerance(case, results["lathe"])
    errors = {name: difference(values, results["lathe"]) for name, values in results.items() if name != "lathe"}
    wrong = {name: error for name, error in errors.items() if not error <= allowed}
    alone = errors and len(wrong) == len(errors)
    if alone and not (case.exact and difference([case.exact(*case.inputs)], results["lathe"]) <= allowed):
        raise AssertionError(f"{case.name}: no peer agrees with Lathe: {errors}")
    return errors, wrong


def run_case(table, case, options, budget, brief=False):
    """A row: what was measured, as a dictionary."""
    import lathe

    before = len(lathe.kernels())
    timers, results, notes = table.prepare(case, table.odd_peers if brief else None)
    row = {"case": case.name, "bound": case.bound, "flops": case.flops, "notes": notes}
    newest = lathe.kernels()[before:]
    row["compile_ms"] = sum(newest[-1]["compile_ms"].values()) if newest else None
    row["errors"], wrong = verify(case, results)
    for name, error in wrong.items():
        notes[name] = f"not timed, its results differ by {error:.0e}"
        del timers[name]
    multithreaded = options.thread_count > 1
    comparison = measure.compare(
        timers,
        budget,
        probe=None if multithreaded or brief else options.native.fma_gflops,
        neighbours=options.neighbours,
        pause=measure.PAUSE if multithreaded else 0.0,
        **({"most": 40} if brief else {}),
    )
    if ONE_THREAD in comparison.ratios:
        row["scaling"] = comparison.ratios.pop(ONE_THREAD).median
    row["seconds"] = comparison.seconds
    row["ratios"] = {name: [r.median, r.low, r.high] for name, r in comparison.ratios.items()}
    row["settled"], row["rounds"], row["dropped"] = comparison.settled, comparison.rounds, comparison.dropped
    row["best"] = comparison.best
    if not brief:
        row["faults"] = {
            name: measure.faults_per_call(timers[name], comparison.seconds[name])
            for name in ("lathe", *comparison.ratios)
        }
        if not multithreaded:
            import roofline

            least, binds = roofline.bound(case, results["lathe"], options.native, comparison.rate)
            row["roofline"], row["binds"] = least / comparison.seconds["lathe"], binds
            row["gflops"] = case.flops / comparison.seconds["lathe"] * 1e-9
            row["gbytes"] = roofline.traffic(case, results["lathe"]) / comparison.seconds["lathe"] * 1e-9
    table.release()
    return row


def run_table(table, options):
    import suite

    import lathe

    # The first compile of a process meets cold code, and is a row of its own (compile_times.py).
    lathe.jit(lambda x: lathe.matmul(lathe.softmax(x), x))(np.ones((24, 24), np.float32))
    print(f"\n{table.title}, {options.thread_count} thread{'s' if options.thread_count > 1 else ''}")
    for name, reason in table.missing.items():
        print(f"  {name} is not to be had: {reason}")
    print(report.header(table))
    rows = []
    for case in suite.selected(options.names):
        rows.append(run_case(table, case, options, options.budget))
        print(report.line(table, rows[-1]), flush=True)
    if not options.names or "odd" in options.names:
        rows.append(odd_entry(table, options))
        print(report.line(table, rows[-1]), flush=True)
    for line in report.summary(rows):
        print(line)
    return rows


def odd_entry(table, options):
    """The 200 odd products as one row: the geometric mean of their ratios to each product's best peer."""
    import suite

    rows = [run_case(table, case, options, 0.1, brief=True) for case in suite.odd_products()]
    best = [row["ratios"][row["best"]] for row in rows if row["ratios"]]
    mean = [measure.geometric_mean([ratio[i] for ratio in best]) for i in range(3)] if best else []
    names = {name for row in rows for name in row["ratios"]}
    return {
        "case": f"{len(rows)} odd products",
        "bound": "compute",
        "notes": {},
        "seconds": {"lathe": sum(row["seconds"]["lathe"] for row in rows) / len(rows)}
        | {name: sum(row["seconds"].get(name, 0.0) for row in rows) / len(rows) for name in names},
        "ratios": {"best": mean} if best else {},
        "best": "best",
        "settled": True,
        "compile_ms": sorted(row["compile_ms"] or 0.0 for row in rows)[len(rows) // 2],
        "least": min((ratio[0] for ratio in best), default=None),
        "under_0.8": [row["case"] for row in rows if row["ratios"] and row["ratios"][row["best"]][0] < 0.8],
        "products": [{"case": row["case"], "ratios": row["ratios"]} for row in rows],
    }


def options_of(arguments):
    parser = argparse.ArgumentParser("./dev bench --peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="parts of the names of the cases to run; 'odd' for the 200 odd products"
    )
    parser.add_argument("--table", choices=["python", "cpp", "both"], default="both")
    parser.add_argument("--threads", choices=["1", "all"], default="1")
    parser.add_argument("--isa", choices=list(measure.ISAS), default="native", help="what Lathe and every peer may use")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds a case at the most, but for seven rounds")
    parser.add_argument("--peer", action="append", help="only this peer; may be repeated")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--html", help="write a page with the tables and plots to this file")
    parser.add_argument("--document", action="store_true", help="write the tables into docs/performance.md, or the page of this CPU")
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--plugins", default=".venv-peers/plugins", help="where the libraries' plugins lie")
    options = parser.parse_args(arguments)
    if options.document and (options.names or options.isa != "native"):
        parser.error("--document takes every case, and all that the machine has")
    options.thread_count = 1 if options.threads == "1" else len(os.sched_getaffinity(0))
    return options


def run_one(options):
    """One table in this process."""
    cache = ROOT / ".venv-peers" / f"inductor-{options.thread_count}-{options.isa}"
    measure.adopt_policy(options.thread_count, TORCHINDUCTOR_CACHE_DIR=str(cache), **measure.ISAS[options.isa])
    import native

    import lathe

    lathe.set_thread_count(options.thread_count)
    options.native = native.Native(options.build)
    options.neighbours = measure.Neighbours(options.native.cache_rate)
    options.gflops = options.native.fma_gflops(50)
    table = PythonTable(options) if options.table == "python" else LibraryTable(options)
    info = lathe.device_info()
    versions = ", ".join(f"{name} {version}".strip() for name, version in table.versions.items())
    about = f"{info['cpu']}, {info['vector_bits']}-bit vectors, LLVM {info['llvm']}; peers: {versions}"
    print(f"{about}; fma peak {options.gflops:.0f} GFLOP/s")
    started = time.perf_counter()
    rows = run_table(table, options)
    result = {
        "table": table.key,
        "title": table.title,
        "about": about,
        "threads": options.thread_count,
        "fma_gflops": [options.gflops, options.native.fma_gflops(50)],
        "copy_gbytes": {size: rate * 1e-9 for size, rate in sorted(options.native.copies.items())},
        "missing": table.missing,
        "peers": [peer.name for peer in table.peers],
        "minutes": (time.perf_counter() - started) / 60,
        "rows": rows,
    }
    print(f"{result['minutes']:.1f} minutes; fma peak at the end {result['fma_gflops'][1]:.0f} GFLOP/s")
    return result


def run_both(options):
    """Each table in a process of its own, whose libraries then meet no other's; with --document and one thread the compile times too."""
    results = []
    rest = [argument for argument in sys.argv[1:] if argument != "--document"]
    for table in ("python", "cpp"):
        path = pathlib.Path(options.build) / f"peers-{table}.json"
        command = [sys.executable, __file__, *rest, "--table", table, "--json", str(path), "--html", ""]
        subprocess.run(command, check=True)
        results += json.loads(path.read_text())
    if options.document and options.threads == "1":
        subprocess.run(
            [sys.executable, str(pathlib.Path(__file__).with_name("compile_times.py")), "--document"], check=True
        )
    return results


def main():
    options = options_of(sys.argv[1:])
    results = run_both(options) if options.table == "both" else [run_one(options)]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    if options.html:
        pathlib.Path(options.html).write_text(report.page(results))
    if options.document:
        for result in results:
            report.document(ROOT, result)


if __name__ == "__main__":
    main()
