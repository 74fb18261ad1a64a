"""Times the operator suite in Lathe and in PyTorch, in interleaved pairs, and prints the table.

    ./dev python bench/peers.py                   every case
    ./dev python bench/peers.py conv softmax      cases whose names contain one of these
    ./dev python bench/peers.py --threads 2 --json results.json

A ratio above 1 means that Lathe is faster. Both write into memory that is there (out=) where the peer's call allows it.
"""

import argparse
import json
import math
import statistics
import time

import numpy as np
import suite

import lathe


def batch_of(call, least=2e-5):
    """How many calls make a sample that the clock resolves."""
    call()
    start = time.perf_counter()
    call()
    return max(1, math.ceil(least / max(time.perf_counter() - start, 1e-9)))


def paired(calls, rounds, budget):
    """Seconds of each call in every round, the calls taken in turns so that drift meets all alike."""
    batches = {name: batch_of(call) for name, call in calls.items()}
    samples = {name: [] for name in calls}
    stop = time.perf_counter() + budget
    for turn in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(batches[name]):
                call()
            samples[name].append((time.perf_counter() - start) / batches[name])
        if time.perf_counter() > stop and turn >= 4:
            break
    return samples


def ratio(samples, peer):
    """The median of the pairs' ratios, and their quartiles."""
    pairs = sorted(b / a for a, b in zip(samples["lathe"], samples[peer], strict=True))
    return statistics.median(pairs), pairs[len(pairs) // 4], pairs[-1 - len(pairs) // 4]


def run(case, torch, rounds, budget):
    before = lathe.cache_info().compiles
    start = time.perf_counter()
    result = case.function(*case.inputs)
    first = time.perf_counter() - start
    out = np.empty_like(result)
    inputs = [torch.from_numpy(x) for x in case.inputs]
    torch_out = torch.empty(tuple(out.shape), dtype=torch.from_numpy(out.reshape(-1)[:1]).dtype) if case.out else None
    expected = case.torch(torch, inputs, torch_out).numpy()
    scale = np.abs(expected).max() + 1e-30
    error = float(np.abs(expected.astype(np.float64) - result).max() / scale)
    samples = paired(
        {
            "lathe": lambda: case.function(*case.inputs, out=out),
            "torch": lambda: case.torch(torch, inputs, torch_out),
        },
        rounds,
        budget,
    )
    median, low, high = ratio(samples, "torch")
    traffic = sum(x.nbytes for x in case.inputs) + out.nbytes
    seconds = statistics.median(samples["lathe"])
    return {
        "case": case.name,
        "kind": case.kind,
        "lathe_us": seconds * 1e6,
        "torch_us": statistics.median(samples["torch"]) * 1e6,
        "ratio": median,
        "low": low,
        "high": high,
        "rate": (case.work or traffic) / seconds * 1e-9,
        "unit": "GFLOP/s" if case.work else "GB/s",
        "first_ms": first * 1e3,
        "compiles": lathe.cache_info().compiles - before,
        "error": error,
    }


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of the cases to run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds a case at the most, but for five rounds")
    parser.add_argument("--odd", action="store_true", help="the 200 odd products as well")
    parser.add_argument("--json", help="write the rows to this file")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    lathe.set_thread_count(options.threads)
    info = lathe.device_info()
    print(f"{info['cpu']}, {info['vector_bits']}-bit vectors, torch {torch.__version__}, threads {options.threads}")
    print(f"{'case':<34}{'lathe us':>11}{'torch us':>11}{'ratio':>7}{'quartiles':>14}{'rate':>14}{'first ms':>10}{'error':>9}")
    rows = []
    with torch.inference_mode():
        for case in suite.cases():
            if options.names and not any(name in case.name for name in options.names):
                continue
            row = run(case, torch, options.rounds, options.budget)
            rows.append(row)
            print(
                f"{row['case']:<34}{row['lathe_us']:11.1f}{row['torch_us']:11.1f}{row['ratio']:7.2f}"
                f"{row['low']:7.2f}{row['high']:7.2f}{row['rate']:8.1f} {row['unit']:<7}{row['first_ms']:8.1f}{row['error']:9.0e}",
                flush=True,
            )
        if options.odd:
            ratios = [run(case, torch, 20, 0.05)["ratio"] for case in suite.odd_gemms()]
            print(f"200 odd products: geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    for kind in ("compute", "other"):
        ratios = [row["ratio"] for row in rows if row["kind"] == kind]
        if ratios:
            print(f"{kind}: geometric mean of {len(ratios)} ratios {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
