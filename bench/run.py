"""Runs every benchmark: the C++ suites, the cost of a call from Python, and the embedding model beside torch.

    ./dev bench                     all of them
    ./dev bench dispatch model      some

Suites: dispatch, compile, operators, schedule (C++), python, model, hints. Figures are of this machine and this moment: compare ratios.
"""

import argparse
import functools
import pathlib
import statistics
import subprocess
import sys
import time

import hints
import numpy as np

import lathe

CPP = ["dispatch", "compile", "operators", "schedule"]


def nanoseconds(call, batch=2000, rounds=25):
    """Median and spread of one call, timed in batches."""
    call()
    samples = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(batch):
            call()
        samples.append((time.perf_counter_ns() - start) / batch)
    samples.sort()
    return statistics.median(samples), samples[len(samples) // 10], samples[-len(samples) // 10]


def row(name, sample, unit=1):
    print(f"  {name:<56}{sample[0] / unit:9.1f}   ({sample[1] / unit:.1f} to {sample[2] / unit:.1f})")


def interleaved(calls, rounds=15):
    """Median milliseconds of each call, taken in turns so that drift meets all alike. Before each timed call come a pause
    and an untimed one: OpenMP's workers spin on for milliseconds after their last loop, and would take the other's cores."""
    for call in calls.values():
        call()
        call()
    samples = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(0.02)
            call()
            start = time.perf_counter_ns()
            call()
            samples[name].append(1e-6 * (time.perf_counter_ns() - start))
    return {name: (statistics.median(s), min(s), max(s)) for name, s in samples.items()}


def bench_python():
    """A hit from Python: three rank-4 tensors."""
    try:
        import torch
    except ImportError:
        torch = None

    @lathe.jit
    def add(x, y):
        return x + y

    lathe.set_thread_count(1)
    print("\nA call from Python whose kernel is there, rank 4, two inputs, ns (tenth to ninetieth percentile)")
    x, y, out = (np.zeros((1, 1, 2, 4), np.float32) for _ in range(3))
    row("NumPy arrays, out=", nanoseconds(lambda: add(x, y, out=out)))
    row("NumPy arrays", nanoseconds(lambda: add(x, y)))
    row("  np.add, out=", nanoseconds(lambda: np.add(x, y, out=out)))
    if torch is None:
        print("  torch is not installed")
        return
    torch.set_num_threads(1)
    x, y, out = (torch.zeros((1, 1, 2, 4)) for _ in range(3))
    row("torch tensors, out=", nanoseconds(lambda: add(x, y, out=out)))
    row("torch tensors", nanoseconds(lambda: add(x, y)))
    row("  torch.add, out=", nanoseconds(lambda: torch.add(x, y, out=out)))
    row("  torch.empty_like", nanoseconds(lambda: torch.empty_like(x)))


def bench_model():
    """The embedding model at two batches, beside the same forward in torch eager."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
    import embed

    encoder = embed.Encoder(embed.model_directory())
    try:
        import torch
    except ImportError:
        torch = None
    print("\nThe embedding model, ms a batch (least to greatest)")
    threads = sorted({1, lathe.device_info()["cores"]})
    for batch, length in ((4, 8), (4, 128)):
        ids = np.random.default_rng(0).integers(1000, 20000, (batch, length))
        mask = np.ones((batch, length), np.int64)
        for count in threads:
            lathe.set_thread_count(count)
            calls = {"lathe": functools.partial(encoder, ids, mask)}
            if torch is not None:
                torch.set_num_threads(count)
                calls["torch"] = torch_forward(torch, encoder, ids, mask)
                difference = np.abs(calls["torch"]().numpy() - encoder(ids, mask)).max()
                assert difference < 1e-4, difference
            results = interleaved(calls)
            text = "   ".join(f"{n} {m:8.2f} ({a:.2f} to {b:.2f})" for n, (m, a, b) in results.items())
            ratio = f"   ratio {results['torch'][0] / results['lathe'][0]:.2f}" if torch is not None else ""
            print(f"  {batch} x {length:<4} {count} thread{'s' if count > 1 else ' '}   {text}{ratio}")


def torch_forward(torch, encoder, ids, mask):
    """The forward pass on torch's own best calls."""
    f = torch.nn.functional
    w = {name: torch.from_numpy(value) for name, value in encoder.weights.items()}
    config = encoder.config
    width, heads, eps = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]
    ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
    bias = torch.where(mask[:, None, None, :] != 0, 0.0, -1e30)

    def norm(x, prefix):
        return f.layer_norm(x, (width,), w[prefix + "weight"], w[prefix + "bias"], eps)

    def dense(x, prefix):
        return f.linear(x, w[prefix + "weight"], w[prefix + "bias"])

    @torch.inference_mode()
    def forward():
        batch, length = ids.shape
        x = f.embedding(ids, w["embeddings.word_embeddings.weight"]) + w["embeddings.position_embeddings.weight"][:length]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm.")
        for i in range(config["num_hidden_layers"]):
            p = f"encoder.layer.{i}."
            q, k, v = (
                dense(x, f"{p}attention.self.{name}.").view(batch, length, heads, -1).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            context = f.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(batch, length, width)
            x = norm(dense(context, p + "attention.output.dense.") + x, p + "attention.output.LayerNorm.")
            hidden = f.gelu(dense(x, p + "intermediate.dense."))
            x = norm(dense(hidden, p + "output.dense.") + x, p + "output.LayerNorm.")
        weight = mask[:, :, None].float()
        return f.normalize((x * weight).sum(1) / weight.sum(1).clamp(min=1e-9), dim=-1)

    return forward


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", choices=[*CPP, "python", "model", "hints", []], help="default: all")
    parser.add_argument("--build", default="build/release", help="the build directory")
    options = parser.parse_args()
    suites = options.suites or [*CPP, "python", "model", "hints"]
    info = lathe.device_info()
    print(f"{info['cpu']}, {info['vector_bits']}-bit vectors, LLVM {info['llvm']}")
    for suite in suites:
        if suite in CPP:
            sys.stdout.flush()
            subprocess.run([f"{options.build}/bench/bench_{suite}", "--benchmark_counters_tabular=true"], check=True)
        else:
            {"python": bench_python, "model": bench_model, "hints": hints.run}[suite]()


if __name__ == "__main__":
    main()
