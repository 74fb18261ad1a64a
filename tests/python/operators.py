"""What each operator is checked with: its arguments, and the same thing in NumPy. Shared by the operator tests and by the
table in docs/operators.md."""

import math

import numpy as np

import lathe

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
]  # fmt: skip
FLOATS = {"float16", "bfloat16", "float32", "float64"}
SIGNED = {"int8", "int16", "int32", "int64"}
UNSIGNED = {"uint8", "uint16", "uint32", "uint64"}
INTEGERS = SIGNED | UNSIGNED
NUMBERS = INTEGERS | FLOATS
EVERY = NUMBERS | {"bool"}


def storage(dtype):
    """The NumPy dtype that carries values of `dtype`: bfloat16, which NumPy lacks, travels as float32 with rounded values."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def round_bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded)


def sample(dtype, shape, seed=0, low=None, high=None, special=False):
    """Seeded values of a dtype between low and high; with `special`, NaN, infinities and zeros of both signs among them."""
    rng = np.random.default_rng([seed, *shape, DTYPES.index(dtype)])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        low = max(info.min, -100 if low is None else math.ceil(low))
        high = min(info.max, 100 if high is None else math.floor(high))
        return rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    low, high = -4 if low is None else low, 4 if high is None else high
    x = rng.uniform(low, high, shape).astype(storage(dtype))
    if special and x.size >= 8:
        x.reshape(-1)[:8] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5]
    return round_bfloat16(x) if dtype == "bfloat16" else x


class Case:
    """One operator with its dtypes, its arguments, and its reference.

    op(*tensors) is traced; reference(*arrays) sees NumPy arrays (half precision widened to float32, so that the reference
    is more exact than what is checked). low, high bound the samples; ulp is the tolerance in units of the dtype's epsilon,
    relative to the largest of |result| and 1e-30, or to `scale(arrays)` where errors follow the inputs' size.
    """

    def __init__(self, name, reference, accepts, *, op=None, arity=1, low=None, high=None, shapes=None, ulp=4, special=True,
                 scale=None, second=None):
        self.name = name
        self.reference = reference
        self.accepts = set(accepts)
        self.op = op or getattr(lathe, name)
        self.low, self.high, self.ulp, self.special, self.scale = low, high, ulp, special, scale
        self.shapes = shapes or [(5, 19)] * arity
        self.second = second  # (low, high) of the arguments behind the first

    def arguments(self, dtype, shapes=None, seed=0):
        arrays = []
        for i, shape in enumerate(shapes or self.shapes):
            low, high = self.second if i and self.second else (self.low, self.high)
            arrays.append(sample(dtype, shape, seed + i, low, high, self.special))
        return arrays


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def widen(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def integer_sum(f):
    return lambda x: f(x, dtype={"i": np.int64, "u": np.uint64}.get(x.dtype.kind))


def standardize(x, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def largest(*arrays):
    return max(float(np.abs(a[np.isfinite(a)]).max(initial=0)) for a in map(widen, arrays))


def added_at(x, y):
    result = x.copy()
    np.add.at(result, (slice(None), INDICES), y)
    return result


def matmul_scale(a, b):
    return largest(a) * largest(b) * a.shape[-1]


def make_cases():
    cases = []

    def add(*args, **kwargs):
        cases.append(Case(*args, **kwargs))

    # Element-wise, one operand.
    for name in ("exp", "exp2", "expm1", "sin", "cos", "tanh", "sinh", "cosh", "asinh", "atan", "sqrt", "log1p"):
        reference = {"asinh": np.arcsinh, "atan": np.arctan}.get(name) or getattr(np, name)
        add(name, reference, FLOATS, low={"sqrt": 0, "log1p": -0.9}.get(name))
    for name in ("log", "log2", "log10"):
        add(name, getattr(np, name), FLOATS, low=0.01, scale=lambda x: 1)
    add("tan", np.tan, FLOATS, low=-1.4, high=1.4)
    add("asin", np.arcsin, FLOATS, low=-1, high=1)
    add("acos", np.arccos, FLOATS, low=-1, high=1)
    add("acosh", np.arccosh, FLOATS, low=1, high=8)
    add("atanh", np.arctanh, FLOATS, low=-0.95, high=0.95)
    add("erf", erf, FLOATS)
    add("rsqrt", lambda x: 1 / np.sqrt(x), FLOATS, low=0.01)
    add("sigmoid", sigmoid, FLOATS)
    add("relu", lambda x: np.where(np.isnan(x), x, np.maximum(x, np.zeros((), x.dtype))), NUMBERS)
    add("gelu", lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), FLOATS, scale=largest, special=False)
    add("gelu_tanh", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), FLOATS,
        scale=largest, special=False)
    add("silu", lambda x: x * sigmoid(x), FLOATS, scale=largest, special=False)
    add("softplus", lambda x: np.logaddexp(x, 0), FLOATS, scale=largest, ulp=8)
    for name in ("floor", "ceil", "trunc", "round"):
        add(name, getattr(np, name), NUMBERS)
    for name in ("isnan", "isinf", "isfinite"):
        add(name, getattr(np, name), NUMBERS)
    add("signbit", np.signbit, FLOATS)
    add("abs", np.abs, NUMBERS)
    add("negative", np.negative, NUMBERS)
    add("positive", np.positive, NUMBERS)
    add("sign", np.sign, NUMBERS)
    add("square", np.square, NUMBERS)
    add("reciprocal", lambda x: 1 / x, FLOATS)
    add("logical_not", np.logical_not, {"bool"})
    add("bitwise_invert", np.bitwise_not, INTEGERS | {"bool"})
    add("bitwise_count", np.bitwise_count, INTEGERS)
    add("clip", lambda x: np.clip(x, -1 if x.dtype.kind != "u" else 1, 2), NUMBERS,
        op=lambda x: lathe.clip(x, -1 if x.dtype.name[0] != "u" else 1, 2))
    add("astype", lambda x: x.astype(np.float64), EVERY, op=lambda x: lathe.astype(x, lathe.float64))

    # Element-wise, two operands.
    def add2(name, reference, accepts, **kwargs):
        add(name, reference, accepts, arity=2, **kwargs)

    add2("add", np.add, NUMBERS, scale=largest)
    add2("subtract", np.subtract, NUMBERS, scale=largest)
    add2("multiply", np.multiply, NUMBERS)
    add2("divide", np.divide, FLOATS)
    add2("floor_divide", np.floor_divide, NUMBERS, second=(1, 9), special=False, ulp=0)
    add2("remainder", np.remainder, NUMBERS, second=(1, 9), special=False, scale=largest)
    add2("pow", np.power, NUMBERS, low=0.1, high=5, second=(0, 4), special=False, ulp=8)
    for name in ("maximum", "minimum"):
        add2(name, getattr(np, name), NUMBERS)
    for name in ("hypot", "copysign", "nextafter", "logaddexp"):
        add2(name, getattr(np, name), FLOATS, scale=largest if name == "logaddexp" else None,
             special=name != "nextafter", ulp=8)
    add2("atan2", np.arctan2, FLOATS)
    for name in ("equal", "not_equal"):
        add2(name, getattr(np, name), EVERY)
    for name in ("less", "less_equal", "greater", "greater_equal"):
        add2(name, getattr(np, name), NUMBERS)
    for name in ("logical_and", "logical_or", "logical_xor"):
        add2(name, getattr(np, name), {"bool"})
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        add2(name, getattr(np, name), INTEGERS | {"bool"})
    add2("bitwise_left_shift", np.left_shift, INTEGERS, second=(0, 6))
    add2("bitwise_right_shift", np.right_shift, INTEGERS, second=(0, 6))
    add2("where", lambda a, b: np.where(a > b, a, b) if a.dtype != bool else np.where(a, a, b), EVERY,
         op=lambda a, b: lathe.where(a > b, a, b) if a.dtype != lathe.bool else lathe.where(a, a, b))

    # Reductions.
    add("sum", integer_sum(lambda x, dtype: np.sum(x, axis=1, dtype=dtype)), EVERY, op=lambda x: lathe.sum(x, axis=1),
        special=False, ulp=16, scale=lambda x: largest(x) * x.shape[1])
    add("prod", integer_sum(lambda x, dtype: np.prod(x, axis=0, dtype=dtype)), NUMBERS, op=lambda x: lathe.prod(x, axis=0), special=False, ulp=16)
    for name, f in (("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)):
        add(name, integer_sum(lambda x, dtype, theirs=f: theirs(x, axis=1, dtype=dtype)), EVERY if f is np.cumsum else NUMBERS,
            op=lambda x, name=name: getattr(lathe, name)(x, axis=1), special=False, ulp=16,
            scale=(lambda x: largest(x) * x.shape[1]) if f is np.cumsum else None)
    add("mean", lambda x: np.mean(x, axis=1), FLOATS, op=lambda x: lathe.mean(x, axis=1), special=False, ulp=16, scale=largest)
    add("var", lambda x: np.var(x, axis=1), FLOATS, op=lambda x: lathe.var(x, axis=1), special=False, ulp=32)
    add("std", lambda x: np.std(x, axis=0, ddof=1), FLOATS, op=lambda x: lathe.std(x, axis=0, correction=1),
        special=False, ulp=32)
    for name in ("max", "min"):
        add(name, (lambda f: lambda x: f(x, axis=1))(getattr(np, name)), EVERY,
            op=(lambda f: lambda x: f(x, axis=1))(getattr(lathe, name)))
    for name in ("argmax", "argmin"):
        add(name, (lambda f: lambda x: f(x, axis=1))(getattr(np, name)), EVERY,
            op=(lambda f: lambda x: f(x, axis=1))(getattr(lathe, name)))
    for name in ("any", "all"):
        add(name, (lambda f: lambda x: f(x, axis=0))(getattr(np, name)), EVERY,
            op=(lambda f: lambda x: f(x, axis=0))(getattr(lathe, name)))
    add("logsumexp", lambda x: np.log(np.exp(x).sum(-1)), FLOATS, op=lambda x: lathe.logsumexp(x, axis=-1), special=False,
        ulp=16, scale=largest)
    add("softmax", softmax, FLOATS, special=False, ulp=16, scale=lambda x: 1)
    add("log_softmax", lambda x: np.log(softmax(x)), FLOATS, special=False, ulp=16, scale=largest)
    add("layer_norm", lambda x: standardize(x, 1e-5), FLOATS, special=False, ulp=64, scale=lambda x: 1)
    add("rms_norm", lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), FLOATS, special=False, ulp=32,
        scale=lambda x: 1)

    # Contractions.
    add("matmul", np.matmul, NUMBERS, shapes=[(3, 7, 11), (11, 5)], special=False, low=-3, high=3, ulp=16, scale=matmul_scale)
    add("einsum", lambda a, b: np.einsum("bij,bkj->bik", a, b), NUMBERS, op=lambda a, b: lathe.einsum("bij,bkj->bik", a, b),
        shapes=[(2, 5, 9), (2, 6, 9)], special=False, low=-3, high=3, ulp=16, scale=matmul_scale)
    add("outer", np.outer, NUMBERS, shapes=[(7,), (5,)], special=False, low=-3, high=3)
    add("vecdot", lambda a, b: (a * b).sum(-1, dtype=a.dtype), NUMBERS, shapes=[(4, 13), (4, 13)], special=False, low=-3, high=3,
        ulp=16, scale=matmul_scale)

    # Views: bit for bit, for every dtype.
    def view(name, reference, op, **kwargs):
        add(name, reference, EVERY, op=op, ulp=0, **kwargs)

    cube = [(4, 3, 6)]
    view("reshape", lambda x: x.reshape(6, -1), lambda x: lathe.reshape(x, (6, -1)), shapes=cube)
    view("permute_dims", lambda x: x.transpose(2, 0, 1), lambda x: lathe.permute_dims(x, (2, 0, 1)), shapes=cube)
    view("matrix_transpose", lambda x: x.swapaxes(-1, -2), lathe.matrix_transpose, shapes=cube)
    view("moveaxis", lambda x: np.moveaxis(x, 0, 2), lambda x: lathe.moveaxis(x, 0, 2), shapes=cube)
    view("expand_dims", lambda x: np.expand_dims(x, 1), lambda x: lathe.expand_dims(x, 1), shapes=cube)
    view("squeeze", lambda x: x.squeeze(1), lambda x: lathe.squeeze(x, 1), shapes=[(4, 1, 5)])
    view("broadcast_to", lambda x: np.broadcast_to(x, (3, 4, 5)), lambda x: lathe.broadcast_to(x, (3, 4, 5)), shapes=[(4, 1)])
    view("flip", lambda x: np.flip(x, 1), lambda x: lathe.flip(x, 1), shapes=cube)
    view("getitem", lambda x: x[1:, ::-2, 2], lambda x: x[1:, ::-2, 2], shapes=cube)
    view("concat", lambda a, b: np.concatenate([a, b], 1), lambda a, b: lathe.concat([a, b], 1), shapes=[(3, 4), (3, 2)])
    view("stack", lambda a, b: np.stack([a, b], 1), lambda a, b: lathe.stack([a, b], 1), shapes=[(3, 4), (3, 4)])
    view("split", lambda x: np.split(x, 3, 2)[1], lambda x: lathe.split(x, 3, 2)[1], shapes=cube)
    view("unstack", lambda x: x[:, 2], lambda x: lathe.unstack(x, 1)[2], shapes=cube)
    view("pad", lambda x: np.pad(x, ((0, 0), (2, 1))), lambda x: lathe.pad(x, ((0, 0), (2, 1)), value=False if x.dtype == lathe.bool else 0),
         shapes=[(3, 4)])
    view("roll", lambda x: np.roll(x, 2, 1), lambda x: lathe.roll(x, 2, 1), shapes=cube)
    view("tril", lambda x: np.tril(x, 1), lambda x: lathe.tril(x, 1), shapes=cube)
    view("triu", lambda x: np.triu(x, -1), lambda x: lathe.triu(x, -1), shapes=cube)

    # Gathers.
    view("take", lambda x: np.take(x, INDICES, 0), lambda x: lathe.take(x, INDICES, 0), shapes=cube)
    view("take_along_axis", lambda x: np.take_along_axis(x, ALONG, 1), lambda x: lathe.take_along_axis(x, ALONG, 1), shapes=[(3, 4)])
    add("index_add", added_at, NUMBERS, op=lambda x, y: lathe.index_add(x, INDICES, y, 1), special=False, scale=largest,
        shapes=[(3, 4), (3, 5)])
    add("one_hot", lambda x: np.eye(6, dtype=np.float32)[np.clip(x, 0, 5)], INTEGERS, op=lambda x: lathe.one_hot(x, 6),
        low=0, high=5, ulp=0, shapes=[(7,)])

    # From nothing.
    view("full_like", lambda x: np.full_like(x, 1), lambda x: lathe.full_like(x, True if x.dtype == lathe.bool else 1), shapes=[(3, 4)])
    view("zeros_like", np.zeros_like, lathe.zeros_like, shapes=[(3, 4)])
    view("ones_like", np.ones_like, lathe.ones_like, shapes=[(3, 4)])
    return cases


INDICES = np.array([2, -1, 0, 3, -4])
ALONG = np.array([[0, -1], [2, 1], [3, 3]])
CASES = make_cases()

# Operators whose dtype is a parameter and not an operand's: tested one by one.
WITHOUT_OPERAND = {"full", "zeros", "ones", "eye", "arange", "linspace"}
