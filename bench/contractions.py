"""Random contractions beside a product of square matrices of equal work.

    ./dev bench contractions [--drawn SEED]

Each is an einsum with up to two batch indices, one to three on each side and one to three that are summed, of extents round, odd
and prime, the axes of operands and result in any order, a quarter of the operands strided. One thread; the two kernels run by
turns (bench/measure.py), and each result is compared with NumPy's first. Beside them runs what any kernel has to do with memory:
the operands are read once, with all lines that strided ones touch, and the result is written. Where that alone takes more than
twice as long as the square product, no kernel reaches half its speed.
"""

import math
import random
import string

import measure
import numpy as np

import lathe

COUNT, SEED = 100, 5
WORK = 2e6, 6e7  # flops
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 24, 31, 32, 48, 50, 63, 64, 96, 100, 127, 128, 200, 256)


def product(extents):
    return math.prod(extents.values())


def contraction(chance):
    """Subscripts, and the extent of each letter."""
    while True:
        letters = iter(string.ascii_lowercase)
        batch, left, right, summed = (
            [next(letters) for _ in range(chance.choice(counts))]
            for counts in ((0, 0, 1, 2), (1, 1, 2, 3), (1, 1, 2, 3), (1, 1, 2, 3))
        )
        extents = {letter: chance.choice(EXTENTS) for letter in batch + left + right + summed}
        if WORK[0] <= 2 * product(extents) <= WORK[1]:
            axes = [batch + left + summed, batch + right + summed, batch + left + right]
            for letters in axes:
                chance.shuffle(letters)
            a, b, c = ("".join(letters) for letters in axes)
            return f"{a},{b}->{c}", extents


def operand(letters, extents, chance, rng):
    """Standard normal; a quarter of them every second element of the last axis of a larger array."""
    step = 2 if chance.random() < 0.25 else 1
    shape = [extents[letter] for letter in letters]
    shape[-1] *= step
    return rng.standard_normal(shape, np.float32)[..., ::step]


def times(subscripts, extents, chance, rng):
    """How much longer a product of square matrices of equal work takes: above 1, the contraction is quicker; the same for
    its memory alone; its seconds."""
    inputs, result = subscripts.split("->")
    x, y = (operand(letters, extents, chance, rng) for letters in inputs.split(","))
    out = np.empty([extents[letter] for letter in result], np.float32)
    f = lathe.jit(lambda x, y: lathe.einsum(subscripts, x, y))
    f(x, y, out=out)
    expected = np.einsum(subscripts, x.astype(np.float64), y.astype(np.float64), optimize=True)
    error = np.abs(out - expected).max() / np.abs(expected).max()
    assert error < 1e-5, f"{subscripts}: {error}"
    work = 2.0 * product(extents)
    n = max(1, round((work / 2) ** (1 / 3)))
    a, b, c = (rng.standard_normal((n, n), np.float32) for _ in range(3))
    square = lathe.jit(lambda a, b: lathe.matmul(a, b))
    lines = [a if a.base is None else a.base for a in (x, y)]

    def memory():
        for array in lines:
            array.max()
        out.fill(0)

    timers = {
        "memory": measure.PythonTimer(memory, threads=1),
        "contraction": measure.PythonTimer(lambda: f(x, y, out=out), threads=1),
        "square": measure.PythonTimer(lambda: square(a, b, out=c), threads=1),
    }
    result = measure.compare(timers, budget=0.15, least=7)
    equal = result.seconds["square"] * work / (2.0 * n**3)
    return equal / result.seconds["contraction"], equal / result.seconds["memory"], result.seconds["contraction"]


def run(seed=SEED):
    lathe.set_thread_count(1)
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    rows = []
    for _ in range(COUNT):
        subscripts, extents = contraction(chance)
        speed, limit, seconds = times(subscripts, extents, chance, rng)
        rows.append((speed, limit, subscripts, extents, seconds))
    rows.sort(key=lambda row: row[0])
    half = sum(speed >= 0.5 for speed, *_ in rows)
    bound = sum(limit < 0.5 for _, limit, *_ in rows)
    able = sum(speed >= 0.5 for speed, limit, *_ in rows if limit >= 0.5)
    middle = math.exp(sum(math.log(speed) for speed, *_ in rows) / len(rows))
    print(
        f"\n{COUNT} random contractions, speed as a share of a square product's of equal work: geometric mean {middle:.2f}"
    )
    print(f"  {half} reach half of it; of {COUNT - bound} that their memory leaves the time for, {able} do")
    print("  the slowest (speed; their memory's):")
    for speed, limit, subscripts, extents, seconds in rows[: max(10, COUNT - half)]:
        sizes = " ".join(f"{letter}={extent}" for letter, extent in extents.items())
        print(f"  {speed:5.2f} {limit:5.2f}  {subscripts:<24}{1e6 * seconds:9.0f} us   {sizes}")
