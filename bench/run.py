"""Runs every benchmark: the C++ suites, the cost of a call from Python, and the embedding model beside torch.

    ./dev bench                     all of them
    ./dev bench dispatch model      some

`./dev bench sweep` and `./dev bench --peers` are programs of their own: sweep.py, peers.py.

Suites: dispatch, compile, operators, schedule, programs (C++), python, model, hints, hand, compile-classes, contractions, gate.
Figures are of this machine and this moment: compare ratios.
"""

import argparse
import functools
import pathlib
import subprocess
import sys

import compile_times
import contractions
import gate
import hand
import hints
import measure
import numpy as np

import lathe

CPP = ["dispatch", "compile", "operators", "schedule", "programs"]
PYTHON = ["python", "model", "hints", "hand", "compile-classes", "contractions"]


def row(name, call):
    """Nanoseconds of a call that takes less than a microsecond."""
    call()
    timer = measure.PythonTimer(call, threads=1)
    sample = measure.interval([timer.time(2000) / 2000 for _ in range(25)])
    print(f"  {name:<56}{1e9 * sample.median:9.1f}   ({1e9 * sample.low:.1f} to {1e9 * sample.high:.1f})")


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
    print("\nA call from Python whose kernel is there, rank 4, two inputs, ns (95 % interval of the median)")
    x, y, out = (np.zeros((1, 1, 2, 4), np.float32) for _ in range(3))
    row("NumPy arrays, out=", lambda: add(x, y, out=out))
    row("NumPy arrays", lambda: add(x, y))
    row("  np.add, out=", lambda: np.add(x, y, out=out))
    if torch is None:
        print("  torch is not installed")
        return
    torch.set_num_threads(1)
    x, y, out = (torch.zeros((1, 1, 2, 4)) for _ in range(3))
    row("torch tensors, out=", lambda: add(x, y, out=out))
    row("torch tensors", lambda: add(x, y))
    row("  torch.add, out=", lambda: torch.add(x, y, out=out))
    row("  torch.empty_like", lambda: torch.empty_like(x))


def bench_model():
    """The embedding model at two batches, beside the same forward in torch eager."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
    import embed

    encoder = embed.Encoder(embed.model_directory())
    try:
        import torch
    except ImportError:
        torch = None
    print("\nThe embedding model, ms a batch, and torch's time over Lathe's (95 % interval)")
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
            timers = {name: measure.PythonTimer(call, count) for name, call in calls.items()}
            result = measure.compare(timers, least=15, most=15, pause=measure.PAUSE)
            text = "   ".join(f"{name} {1e3 * seconds:8.2f}" for name, seconds in result.seconds.items())
            ratio = "".join(f"   ratio {r.median:.2f} ({r.low:.2f} to {r.high:.2f})" for r in result.ratios.values())
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
        x = (
            f.embedding(ids, w["embeddings.word_embeddings.weight"])
            + w["embeddings.position_embeddings.weight"][:length]
        )
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm.")
        for i in range(config["num_hidden_layers"]):
            p = f"encoder.layer.{i}."
            q, k, v = (
                dense(x, f"{p}attention.self.{name}.").view(batch, length, heads, -1).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            context = (
                f.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(batch, length, width)
            )
            x = norm(dense(context, p + "attention.output.dense.") + x, p + "attention.output.LayerNorm.")
            hidden = f.gelu(dense(x, p + "intermediate.dense."))
            x = norm(dense(hidden, p + "output.dense.") + x, p + "output.LayerNorm.")
        weight = mask[:, :, None].float()
        return f.normalize((x * weight).sum(1) / weight.sum(1).clamp(min=1e-9), dim=-1)

    return forward


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", choices=[*CPP, *PYTHON, "gate", []], help="default: all but gate")
    parser.add_argument("--build", default="build/release", help="the build directory")
    parser.add_argument("--document", action="store_true", help="compile-classes: write docs/performance.md too")
    parser.add_argument("--commit", action="store_true", help="gate: write the costs measured here into its table")
    parser.add_argument(
        "--drawn", type=int, metavar="SEED", default=contractions.SEED, help="contractions: drawn by another seed"
    )
    options = parser.parse_args()
    suites = options.suites or [*CPP, *PYTHON]
    if "gate" in suites:
        gate.main(options.build, options.commit)
        return
    info = lathe.device_info()
    print(f"{info['cpu']}, {info['vector_bits']}-bit vectors, LLVM {info['llvm']}")
    for suite in suites:
        if suite in CPP:
            sys.stdout.flush()
            program, flags = f"{options.build}/bench/bench_{suite}", ["--benchmark_counters_tabular=true"]
            if suite == "programs":  # its programs are the fuzzers', which nothing outside of the tests includes
                program, flags = f"{options.build}/tests/bench_programs", []
            subprocess.run([program, *flags], check=True)
        else:
            run = {"python": bench_python, "model": bench_model, "hints": hints.run}
            run["contractions"] = functools.partial(contractions.run, options.drawn)
            # A process of its own, in the environment of all comparisons.
            run["hand"] = lambda: subprocess.run([sys.executable, hand.__file__, options.build], check=True)
            run["compile-classes"] = functools.partial(compile_times.main, ["--document"] if options.document else [])
            run[suite]()


if __name__ == "__main__":
    main()
