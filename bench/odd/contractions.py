"""Products, einsums, convolutions and attention at odd, skinny and tiny sizes."""

import torch
from suite.contractions import attention
from suite.convolutions import convolution

import lathe

from .form import Form, name_of, normal, typed

F = torch.nn.functional
KIND = "gemm"
PRODUCTS = (
    (64, 4, 4, 4),
    (64, 8, 8, 8),
    (32, 17, 19, 23),
    (8, 128, 7, 128),
    (8, 7, 128, 64),
    (4, 100, 100, 100),
    (1, 1, 1000, 1000),
    (1, 1000, 1, 1000),
    (1, 3, 3, 100000),
    (1, 200, 200, 3),
    (1, 33, 1000, 5),
    (1, 511, 513, 509),
    (1, 16, 1000, 700),
    (1, 700, 16, 1000),
    (1, 2, 2048, 2048),
    (1, 4, 4096, 512),
)
EINSUMS = (
    ("bij,bkj->bik", (8, 50, 64), (8, 60, 64)),
    ("bihd,bjhd->bhij", (2, 64, 8, 32), (2, 70, 8, 32)),
    ("kji,lkj->il", (10, 20, 30), (40, 10, 20)),
    ("ki,jk->ji", (128, 130), (140, 128)),
    ("ijk,kl->ijl", (8, 50, 64), (64, 30)),
    ("kij,kl->ijl", (64, 8, 50), (64, 30)),
    ("ijk,ijl->kl", (20, 30, 40), (20, 30, 50)),
    ("i,i->", (10007,), (10007,)),
    ("abcd,cdef->abef", (10, 11, 12, 13), (12, 13, 14, 15)),
    ("bij,bjk->bki", (4, 64, 50), (4, 50, 60)),
)


def products(rng):
    for batch, m, n, k in PRODUCTS:
        lead = (batch,) if batch > 1 else ()
        yield Form(
            f"matmul {batch}x{m}x{n}x{k}",
            KIND,
            [normal(rng, *lead, m, k), normal(rng, *lead, k, n)],
            lathe.matmul,
            lambda a, b, out: torch.matmul(a, b, out=out),
        )
    for m, n, k in ((300, 200, 500), (17, 19, 23), (128, 8, 64), (3, 1000, 1000)):
        yield Form(
            f"matmul {m}x{n}x{k} tt",
            KIND,
            [normal(rng, k, m).T, normal(rng, n, k).T],
            lathe.matmul,
            lambda a, b, out: torch.matmul(a, b, out=out),
        )
    for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.int32):
        yield Form(
            f"matmul {name_of(dtype)} 130x150x140",
            KIND,
            [typed(rng, dtype, 130, 140), typed(rng, dtype, 140, 150)],
            lathe.matmul,
            torch.matmul,
        )
    square, vector = normal(rng, 1000, 1000), normal(rng, 1000)
    yield Form("matrix times vector", KIND, [square, vector], lathe.matmul, torch.matmul)
    yield Form("vector times matrix", KIND, [vector, square], lathe.matmul, torch.matmul)
    yield Form("outer 777x555", KIND, [normal(rng, 777), normal(rng, 555)], lathe.outer, torch.outer)
    yield Form(
        "linear + relu",
        KIND,
        [normal(rng, 100, 300), normal(rng, 200, 300), normal(rng, 200)],
        lambda x, w, b: lathe.relu(lathe.matmul(x, lathe.matrix_transpose(w)) + b),
        lambda x, w, b: F.relu(F.linear(x, w, b)),
    )
    for equation, left, right in EINSUMS:
        yield Form(
            f"einsum {equation}",
            KIND,
            [normal(rng, *left), normal(rng, *right)],
            lambda a, b, e=equation: lathe.einsum(e, a, b),
            lambda a, b, e=equation: torch.einsum(e, a, b),
        )


def written_out(options):
    return lambda x, w: convolution(x, w, **options)


def convolutions(rng):
    for name, x, w, options in (
        ("3-16 3x3 at 33", (2, 3, 33, 33), (16, 3, 3, 3), {"pad": 1}),
        ("24-40 1x1 at 19", (2, 24, 19, 19), (40, 24, 1, 1), {}),
        ("24-40 5x5/2 at 31", (1, 24, 31, 31), (40, 24, 5, 5), {"stride": 2, "pad": 2}),
        ("depthwise 33 3x3 at 29", (2, 33, 29, 29), (33, 1, 3, 3), {"pad": 1, "groups": 33}),
        ("20-20 1x7 at 17", (1, 20, 17, 17), (20, 20, 1, 7), {}),
        ("16-16 3x3/1 dilated at 27", (1, 16, 27, 27), (16, 16, 3, 3), {"dilation": 2}),
    ):
        theirs = {"padding" if key == "pad" else key: value for key, value in options.items()}
        yield Form(
            f"conv {name}",
            "convolution",
            [normal(rng, *x), normal(rng, *w)],
            written_out(options),
            lambda x, w, o=theirs: F.conv2d(x, w, **o),
        )


def attentions(rng):
    for batch, heads, length, width in ((1, 12, 77, 64), (2, 4, 50, 32), (1, 8, 200, 40)):
        yield Form(
            f"attention {batch}x{heads}x{length}x{width}",
            "attention",
            [normal(rng, batch, heads, length, width) for _ in range(3)],
            attention,
            F.scaled_dot_product_attention,
        )


topics = (products, convolutions, attentions)
