"""Computes every polynomial coefficient of the vector math and writes coefficients.h beside this file.

  python ir/passes/math/minimax.py            rewrites coefficients.h
  python ir/passes/math/minimax.py --check    fails when the header is not what this script computes

Each polynomial is a minimax fit by the exchange algorithm of Remez in 40 digits, under a weight that makes the error of the
final result uniform. Coefficients are then rounded to the precision they are evaluated in one at a time, lowest degree first,
the rest being fitted again after each, so that rounding a coefficient costs little.
"""

import pathlib
import struct
import sys

from mpmath import mp, mpf

mp.dps = 40
GRID = 480


def round_f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def round_f64(x):
    return mpf(float(x))


def remez(target, weights, points, basis):
    """Coefficients c of sum c[k] * x^basis[k] that minimize the greatest weight * |target - sum| on `points`."""
    n = len(basis)
    last = len(points) - 1
    # Chebyshev nodes, mapped to grid positions, start the exchange.
    chosen = sorted({int(round((1 - mp.cos(mp.pi * i / n)) / 2 * last)) for i in range(n + 1)})
    assert len(chosen) == n + 1
    for _ in range(40):
        rows = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for i, p in enumerate(chosen):
            for k, power in enumerate(basis):
                rows[i, k] = points[p] ** power
            rows[i, n] = (-1) ** i / weights[p]
            right[i] = target[p]
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[k] for k in range(n)]
        level = abs(solution[n])
        error = [
            w * (t - sum(c * x**k for c, k in zip(coefficients, basis, strict=True)))
            for w, t, x in zip(weights, target, points, strict=True)
        ]
        # One extremum for each run of equal sign. Too many: the least pair of neighbours goes, or the lesser end.
        runs = []
        for i, e in enumerate(error):
            if runs and (error[runs[-1]] >= 0) == (e >= 0):
                if abs(e) > abs(error[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > n + 1:
            if len(runs) == n + 2:
                runs.pop(0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1)
            else:
                pair = min(range(len(runs) - 1), key=lambda i: max(abs(error[runs[i]]), abs(error[runs[i + 1]])))
                del runs[pair : pair + 2]
        greatest = max(abs(e) for e in error)
        if len(runs) < n + 1 or runs == chosen or greatest <= level * (1 + mpf(10) ** -6):
            return coefficients
        chosen = runs
    return coefficients


def fit(function, weight, low, high, powers, rounding):
    """The rounded coefficients of the minimax polynomial with `powers`, and its greatest weighted error."""
    low, high = mpf(low), mpf(high)
    # Odd counts would hit a removable singularity in the middle of a symmetric interval.
    points = [low + (high - low) * (1 - mp.cos(mp.pi * (i + mpf(1) / 2) / GRID)) / 2 for i in range(GRID)]
    values = [function(x) for x in points]
    weights = [abs(weight(x)) for x in points]
    fixed = [mpf(0)] * GRID
    done = []
    powers = list(powers)
    while powers:
        # Divided by the lowest power that is left, the rest is a Haar system again also where the interval spans zero.
        low_power = powers[0]
        rest = [(v - f) / x**low_power for v, f, x in zip(values, fixed, points, strict=True)]
        scaled = [w * abs(x) ** low_power for w, x in zip(weights, points, strict=True)]
        coefficients = remez(rest, scaled, points, [p - low_power for p in powers])
        c = rounding(coefficients[0])
        done.append(c)
        power = powers.pop(0)
        fixed = [f + c * x**power for f, x in zip(fixed, points, strict=True)]
    error = max(w * abs(v - f) for v, f, w in zip(values, fixed, weights, strict=True))
    return done, error


def fit_squares(function, weight, low, high, powers, rounding):
    """The same by least squares on Chebyshev's points, which is nearly minimax where the weight hardly varies, in a
    hundredth of the time."""
    powers, low, high = list(powers), mpf(low), mpf(high)
    count = 2 * len(powers) + 2
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mpf(1) / 2) / count) for i in range(count)]
    weights = [weight(x) for x in points]
    rest = [function(x) for x in points]
    done = []
    while powers:
        rows = mp.matrix([[w * x**k for k in powers] for w, x in zip(weights, points, strict=True)])
        right = mp.matrix([w * v for w, v in zip(weights, rest, strict=True)])
        done.append(rounding(mp.lu_solve(rows.T * rows, rows.T * right)[0]))
        power = powers.pop(0)
        rest = [v - done[-1] * x**power for v, x in zip(rest, points, strict=True)]
    return done, max(abs(w * v) for w, v in zip(weights, rest, strict=True))


def fit_odd(function, low, high, count, rounding=round_f32, method=fit):
    """Of (f(x) - x) / x^3 by so many powers of u = x^2, relative to f(x), for f(x) near x."""
    return method(
        lambda u: (function(mp.sqrt(u)) - mp.sqrt(u)) / mp.sqrt(u) ** 3,
        lambda u: mp.sqrt(u) ** 3 / function(mp.sqrt(u)),
        low,
        high,
        range(count),
        rounding,
    )


def fit_cos(high, count, rounding=round_f32, method=fit):
    """Of (cos(r) - 1 + r^2/2) / r^4 by so many powers of u = r^2, relative to cos(r)."""
    return method(
        lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2,
        lambda u: u**2 / mp.cos(mp.sqrt(u)),
        0,
        high,
        range(count),
        rounding,
    )


def middle(function, low, high, rounding, step):
    """The place near the middle of a cell, among several hundred, whose value lies closest to a float: what is added to it is
    then the only error there (Gal's accurate tables)."""
    best = None
    for i in range(-CANDIDATES, CANDIDATES + 1):
        x = rounding((low + high) / 2) + i * step
        value = function(x)
        miss = abs(value - rounding(value)) / abs(value)
        if best is None or miss < best[0]:
            best = (miss, x, rounding(value))
    return best[1:]


def fit_cell(function, low, high, degree, rounding, step, slope=0):
    """(center, coefficients, greatest relative error) of a polynomial in x - center over one cell: least squares on
    Chebyshev's points, which is nearly minimax in a narrow cell, rounded one coefficient at a time as above. In the cell at
    zero it is what is left of slope * x that is fitted."""
    low, high = mpf(low), mpf(high)
    center, first = (mpf(0), mpf(0)) if low == 0 else middle(function, low, high, rounding, step)
    count = 4 * degree
    points = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mpf(1) / 2) / count) - center for i in range(count)
    ]
    values = [function(center + t) for t in points]
    done = [first]
    known = slope if low == 0 else 0
    for power in range(1, degree + 1):
        left = range(power, degree + 1)
        rest = [
            (v - known * t - sum(c * t**k for k, c in enumerate(done))) / v for v, t in zip(values, points, strict=True)
        ]
        rows = mp.matrix([[t**k / v for k in left] for v, t in zip(values, points, strict=True)])
        done.append(rounding(mp.lu_solve(rows.T * rows, rows.T * mp.matrix(rest))[0]))
    error = max(
        abs(1 - (known * t + sum(c * t**k for k, c in enumerate(done))) / v)
        for v, t in zip(values, points, strict=True)
    )
    return center, done, error


HALF_LN2 = mp.log(2) / 2 * (1 + mpf(2) ** -8)
QUARTER_PI = mp.pi / 4 * (1 + mpf(2) ** -8)
ERF_SPLIT = mpf("1.1875")
SMALLEST = mpf(2) ** -10  # of u: below it the weight is next to nothing
LOG_RANGE = (mpf(-1) / 4, mpf(1) / 2)
CANDIDATES = 100


def tables():
    """(name, comment, type, coefficients, error) of each polynomial."""
    yield (
        "exp",
        "(e^r - 1 - r) / r^2 for |r| <= ln(2)/2; relative to e^r",
        "float",
        *fit(lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.exp(r), -HALF_LN2, HALF_LN2, range(5), round_f32),
    )
    yield (
        "expm1",
        "the same, relative to e^r - 1",
        "float",
        *fit(
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -HALF_LN2, HALF_LN2, range(6), round_f32
        ),
    )
    half = mpf(1) / 2 * (1 + mpf(2) ** -8)
    yield (
        "exp2",
        "(2^r - 1) / r for |r| <= 1/2; relative to 2^r",
        "float",
        *fit(lambda r: mp.expm1(r * mp.log(2)) / r, lambda r: r / mp.power(2, r), -half, half, range(6), round_f32),
    )
    short = mpf(1) / 32 * (1 + mpf(2) ** -8)
    yield (
        "exp2_sixteenth",
        "the same for |r| <= 1/32",
        "float",
        *fit(lambda r: mp.expm1(r * mp.log(2)) / r, lambda r: r / mp.power(2, r), -short, short, range(3), round_f32),
    )
    sixteenths = [mp.power(2, mpf(k) / 16) for k in range(16)]
    yield (
        "sixteenths",
        "2^(k/16)",
        "float",
        [round_f32(power) for power in sixteenths],
        max(abs(round_f32(power) / power - 1) for power in sixteenths),
    )
    rests = [power / round_f32(power) - 1 for power in sixteenths]
    yield (
        "sixteenths_rest",
        "what these lack, as a part of them",
        "float",
        [round_f32(rest) for rest in rests],
        max(abs(round_f32(rest) - rest) for rest in rests),
    )
    sixteenth = mp.log(2) / 32 * (1 + mpf(2) ** -8)
    yield (
        "exp_sixteenth",
        "(e^r - 1 - r) / r^2 for |r| <= ln(2)/32; relative to e^r",
        "float",
        *fit(
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.exp(r), -sixteenth, sixteenth, range(2), round_f32
        ),
    )
    yield (
        "log",
        "(log(1+f) - f) / f^2 for 1+f in [3/4, 3/2); relative to log(1+f)",
        "float",
        *fit(lambda f: (mp.log1p(f) - f) / f**2, lambda f: f**2 / mp.log1p(f), *LOG_RANGE, range(9), round_f32),
    )
    for name, base in (("log2", 2), ("log10", 10)):
        factor = 1 / mp.log(base)
        yield (
            name,
            f"{name}(1+f) / f less the nearest float to {name}(e), for 1+f in [3/4, 3/2); relative",
            "float",
            *fit(
                lambda f, c=factor: mp.log1p(f) * c / f - round_f32(c),
                lambda f, c=factor: f / (mp.log1p(f) * c),
                *LOG_RANGE,
                range(10),
                round_f32,
            ),
        )
    yield (
        "erf_small",
        "erf(x)/x - 1 in u = x^2 for x <= 1.1875; relative to erf(x)/x",
        "float",
        *fit(
            lambda u: mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1,
            lambda u: mp.sqrt(u) / mp.erf(mp.sqrt(u)),
            0,
            ERF_SPLIT**2,
            range(8),
            round_f32,
        ),
    )
    yield (
        "erf_large",
        "erfc(t)^(1/8) in t - 2 for 1.1875 <= t <= 4; its 8th power relative to erf(t)",
        "float",
        *fit(
            lambda s: mp.erfc(s + 2) ** (mpf(1) / 8),
            lambda s: 8 * mp.erfc(s + 2) ** (mpf(7) / 8) / mp.erf(s + 2),
            ERF_SPLIT - 2,
            2,
            range(8),
            round_f32,
        ),
    )
    yield (
        "sin",
        "(sin(r) - r) / r^3 in u = r^2 for |r| <= pi/4; relative to sin(r)",
        "float",
        *fit_odd(mp.sin, 0, QUARTER_PI**2, 3),
    )
    yield (
        "cos",
        "(cos(r) - 1 + r^2/2) / r^4 in u = r^2 for |r| <= pi/4; relative to cos(r)",
        "float",
        *fit_cos(QUARTER_PI**2, 3),
    )
    yield (
        "tan",
        "(tan(r) - r) / r^3 in u = r^2 for |r| <= pi/4; relative to tan(r)",
        "float",
        *fit_odd(mp.tan, 0, QUARTER_PI**2, 7),
    )
    yield (
        "atan",
        "(atan(t) - t) / t^3 in u = t^2 for t <= 1; relative to atan(t)",
        "float",
        *fit_odd(mp.atan, SMALLEST, 1, 9),
    )
    yield (
        "asin",
        "(asin(s) - s) / s^3 in u = s^2 for s <= 1/2; relative to asin(s)",
        "float",
        *fit_odd(mp.asin, SMALLEST, mpf(1) / 4, 5, round_f32, fit_squares),
    )
    yield (
        "wide_exp",
        "(e^r - 1 - r) / r^2 for |r| <= ln(2)/2, in f64; relative to e^r",
        "double",
        *fit(lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.exp(r), -HALF_LN2, HALF_LN2, range(10), round_f64),
    )
    yield (
        "wide_expm1",
        "the same, relative to e^r - 1",
        "double",
        *fit_squares(
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -HALF_LN2, HALF_LN2, range(11), round_f64
        ),
    )
    yield (
        "wide_log",
        "(log(1+f) - 2s) / s^3 in u = s^2 with s = f/(2+f), for 1+f in [3/4, 3/2); relative to log(1+f)",
        "double",
        *fit_odd(lambda s: 2 * mp.atanh(s) - s, SMALLEST, mpf(1) / 25, 8, round_f64, fit_squares),
    )
    for name, function, high, count in (
        ("sin", mp.sin, QUARTER_PI**2, 6),
        ("tan", mp.tan, QUARTER_PI**2, 14),
        ("atan", mp.atan, mpf(1), 20),
        ("asin", mp.asin, mpf(1) / 4, 12),
    ):
        yield (
            f"wide_{name}",
            f"as {name}, in f64",
            "double",
            *fit_odd(function, SMALLEST, high, count, round_f64, fit_squares),
        )
    yield ("wide_cos", "as cos, in f64", "double", *fit_cos(QUARTER_PI**2, 6, round_f64, fit_squares))
    root = mp.sqrt(2) * (1 + mpf(2) ** -10)
    yield (
        "pow_log2",
        "log2(1+f) / f for 1+f in [sqrt(1/2), sqrt(2)], in f64; relative",
        "double",
        *fit(
            lambda f: mp.log1p(f) / mp.log(2) / f,
            lambda f: f * mp.log(2) / mp.log1p(f),
            1 / root - 1,
            root - 1,
            range(14),
            round_f64,
        ),
    )
    yield (
        "pow_exp2",
        "2^r for |r| <= 1/2, in f64; relative",
        "double",
        *fit(lambda r: mp.power(2, r), lambda r: mp.power(2, -r), -half, half, range(8), round_f64),
    )


def cell_tables():
    """(name, comment, type, rows, error): polynomials in 16, 8 or 4 cells, whose numbers are leading bits of scale * x +
    offset."""
    single, double = ("float", "f", "I", round_f32, mpf(2) ** -16), ("double", "d", "Q", round_f64, mpf(2) ** -40)
    for name, function, kind, scale, offset, shift, edges, degree, slope in (
        ("tanh", mp.tanh, single, "1", "0.625", 21, "0.75 0.875 1 1.25 1.5 1.75 2 2.5 3 3.5 4 5 6 7 8 10", 5, 0),
        ("erf", mp.erf, single, "1", "1.5", 20, "1.625 1.75 1.875 2 2.25 2.5 2.75 3 3.25 3.5 3.75 4 4.5 5 5.5", 5, 1),
        ("tanh_few", mp.tanh, single, "0.828125", "0.5", 22, "0.75 1 1.5 2 3 4 6 8", 7, 0),
        ("erf_few", mp.erf, single, "0.46875", "0.625", 21, "0.75 0.875 1 1.25 1.5 1.75 2 2.5", 6, 1),
        ("tanh_four", mp.tanh, single, "1.59375", "1", 23, "2 4 8 16", 10, 0),
        ("erf_four", mp.erf, single, "0.3125", "1.25", 21, "1.5 1.75 2 2.5", 8, 1),
        (
            "wide_erf",
            mp.erf,
            double,
            "1",
            "6",
            48,
            "6.25 6.5 6.75 7 7.25 7.5 7.75 8 8.5 9 9.5 10 10.5 11 11.5 12",
            12,
            1,
        ),
    ):
        type_name, real, whole, rounding, step = kind
        cells = {"few": 8, "four": 4}.get(name.rpartition("_")[2], 16)
        scale, offset, worst = mpf(scale), mpf(offset), mpf(0)
        rows = [[mpf(0)] * cells for _ in range(degree + 2)]
        low = offset
        for high in map(mpf, edges.split()):
            center, coefficients, error = fit_cell(
                function, (low - offset) / scale, (high - offset) / scale, degree, rounding, step, slope
            )
            bits = struct.unpack(whole, struct.pack(real, float(low)))[0]
            for row, value in zip(rows, [center, *coefficients], strict=True):
                row[(bits >> shift) % cells] = value
            worst = max(worst, error)
            low = high
        scaled = "x" if scale == 1 else f"{float(scale)} x"
        yield (
            f"{name}_cells",
            f"{name.removeprefix('wide_').removesuffix('_few').removesuffix('_four')}(x) in cells, which bits from {shift} on of {scaled} +"
            f" {float(offset)} name: centers, then coefficients; relative",
            type_name,
            rows,
            worst,
        )


def numbers(values, kind):
    return ", ".join(float(c).hex() + ("f" if kind == "float" else "") for c in values)


def wrapped(text, indent, end):
    """Lines of the numbers within 118 columns."""
    lines, row = [], indent
    for item in text.split(", "):
        if len(row) + len(item) + 2 > 118:
            lines.append(row)
            row = indent
        row += f" {item},"
    return [*lines, row.rstrip(",") + end]


def header():
    lines = [
        "#pragma once",
        "/// Written by minimax.py beside this file, which says how; lowest degree first.",
        "// clang-format off",
        "",
        "namespace lathe::math::coefficients {",
        "",
    ]
    for name, comment, kind, coefficients, error in tables():
        lines.append(f"/// {comment}; error 2^{float(mp.log(error, 2)):.1f}.")
        lines.append(f"inline constexpr {kind} {name}[] = {{")
        lines += [*wrapped(numbers(coefficients, kind), "   ", "};"), ""]
    for name, comment, kind, rows, error in cell_tables():
        lines.append(f"/// {comment}; error 2^{float(mp.log(error, 2)):.1f}.")
        lines.append(f"inline constexpr {kind} {name}[][{len(rows[0])}] = {{")
        for row in rows:
            lines += ["    {", *wrapped(numbers(row, kind), "       ", "},")]
        lines += ["};", ""]
    lines.append("}  // namespace lathe::math::coefficients")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("coefficients.h")
    text = header()
    if "--check" in sys.argv[1:]:
        if path.read_text() != text:
            sys.exit(f"{path} is not what minimax.py computes")
    else:
        path.write_text(text)
