"""Lists, tuples and dicts of arrays as arguments, results in them, keyword-only parameters."""

import collections
import dataclasses
import gc
import sys
import threading
import time

import numpy as np
import pytest

import lathe

Layer = collections.namedtuple("Layer", "weight bias")


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def in_threads(call, seeds):
    """Runs call(seed) for all seeds at once."""
    threads = [threading.Thread(target=call, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@lathe.jit
def dense(x, layers):
    for layer in layers:
        x = lathe.relu(x @ layer["weight"] + layer["bias"])
    return x


def reference(x, layers):
    for layer in layers:
        x = np.maximum(x @ layer["weight"] + layer["bias"], 0)
    return x


def layers(*sizes):
    pairs = zip(sizes[:-1], sizes[1:], strict=True)
    return [{"weight": f32(m, n, seed=m), "bias": f32(n, seed=n)} for m, n in pairs]


def test_parameters_of_a_model():
    x = f32(4, 8)
    for sizes in ((8, 16, 8), (8, 3), (8, 5, 6, 7, 8, 9)):
        np.testing.assert_allclose(dense(x, layers(*sizes)), reference(x, layers(*sizes)), rtol=1e-4, atol=1e-5)
    before = lathe.cache_info().compiles
    model = layers(8, 16, 8)
    model[0]["bias"] += 1
    np.testing.assert_allclose(dense(x, model), reference(x, model), rtol=1e-4, atol=1e-5)
    assert lathe.cache_info().compiles == before, "other values in other objects are the same kernel"


def test_the_function_sees_the_containers():
    seen = []

    @lathe.jit
    def look(tree):
        seen.append(tree)
        return tree["layer"].weight + tree["rest"][0] * tree["rest"][1][1]

    x = f32(3)
    tree = {"layer": Layer(x, None), "rest": [2.5, ("text", x, 3)], "nothing": {}, 7: ()}
    np.testing.assert_allclose(look(tree), x + 2.5 * x, rtol=1e-6)
    (tree_seen,) = seen
    assert type(tree_seen["layer"]) is Layer and tree_seen["layer"].bias is None
    assert isinstance(tree_seen["rest"], list) and tree_seen["rest"][1][::2] == ("text", 3)
    assert list(tree_seen) == ["layer", "rest", "nothing", 7] and tree_seen["nothing"] == {} and tree_seen[7] == ()
    tree["rest"][0] = 3.5
    np.testing.assert_allclose(look(tree), x + 3.5 * x, rtol=1e-6)
    assert len(seen) == 1, "floats are run-time numbers, in containers too"
    tree["rest"][1] = ("text", x, 4)
    look(tree)
    assert len(seen) == 2, "another static value"
    look(collections.OrderedDict(reversed(tree.items())))
    assert list(seen[2]) == [7, "nothing", "rest", "layer"], "a dict in its own order, as a plain one"


def test_forms_are_told_apart():
    @lathe.jit
    def total(tree):
        leaves = tree.values() if isinstance(tree, dict) else tree
        return sum((sum(leaf, 0) if isinstance(leaf, (list, tuple)) else leaf for leaf in leaves), 0) + len(tree)

    x, y, z = f32(3), f32(3, seed=1), f32(3, seed=2)
    for tree, size in (([x, y, z], 3), ([[x, y], z], 2), ([x, [y, z]], 2), ([x, (y, z)], 2), ([[x, y, z]], 1)):
        for given in (tree, tuple(tree), dict(enumerate(tree)), dict(zip("abc", tree))):  # noqa: B905
            np.testing.assert_allclose(total(given), x + y + z + size, rtol=1e-5)


def test_a_tuple_of_numbers_is_static():
    shaped = lathe.jit(lambda x, shape: lathe.reshape(x, shape))
    assert shaped(f32(6), (2, 3)).shape == (2, 3) and shaped(f32(6), [3, 2]).shape == (3, 2)


def test_results_in_containers():
    @lathe.jit
    def moments(x, order):
        mean = x.mean(axis=0)
        parts = {"mean": mean, "centered": [x - mean], "both": Layer(mean, (x,))}
        return {name: parts[name] for name in order}

    x = f32(5, 3)
    for order in (("mean", "centered", "both"), ("both", "mean", "centered"), ("centered",)):
        result = moments(x, order)
        assert list(result) == list(order), "as the function has them"
        np.testing.assert_allclose(result["centered"][0], x - x.mean(0), rtol=1e-5, atol=1e-6)
        assert type(result["centered"]) is list
        if "both" in order:
            np.testing.assert_allclose(result["both"].weight, x.mean(0), rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(result["both"].bias[0], x)
    single = lathe.jit(lambda x: [x + 1])
    assert type(single(x)) is list and type(lathe.jit(lambda x: (x + 1,))(x)) is tuple


def test_the_form_of_results_may_follow_shapes():
    @lathe.jit
    def rows(x):
        return [x[i] for i in range(x.shape[0])] if x.shape[0] > 1 else x

    for n in (3, 1, 2, 3):
        x = f32(n, 4)
        result = rows(x)
        assert isinstance(result, list) == (n > 1)
        np.testing.assert_array_equal(np.asarray(result).reshape(n, 4), x)


def test_out_in_containers():
    two = lathe.jit(lambda x: {"double": x * 2, "again": [x + 1, x]}, name="two")
    x = f32(4)
    out = {"again": [np.empty(4, np.float32), np.empty(4, np.float32)], "double": np.empty(4, np.float32)}
    assert two(x, out=out) is out
    np.testing.assert_array_equal(out["double"], x * 2)
    np.testing.assert_array_equal(out["again"][0], x + 1)
    np.testing.assert_array_equal(out["again"][1], x)
    with pytest.raises(TypeError, match=r"two: out is \(array, array, array\), the function returns \{'again': \[array, array\], 'double': array\}"):
        two(x, out=tuple(np.empty(4, np.float32) for _ in range(3)))
    with pytest.raises(TypeError, match="out is a str, expected an array"):
        two(x, out={"double": "no array"})
    named = lathe.jit(lambda x: {"a": x + 1}, name="named")
    with pytest.raises(TypeError, match=r"named: out is an array, the function returns \{'a': array\}"):
        named(x, out=np.empty(4, np.float32))
    alone = np.empty(4, np.float32)
    assert lathe.jit(lambda x: [x + 1])(x, out=alone) is alone
    np.testing.assert_array_equal(alone, x + 1)


def test_keyword_only_parameters():
    @lathe.jit
    def scaled(x, y=None, *, by, shift=1.0, axis=0):
        total = lathe.sum(x, axis=axis) * by + shift
        return total if y is None else total + y

    x = f32(3, 4)
    np.testing.assert_allclose(scaled(x, by=2.0), x.sum(0) * 2 + 1, rtol=1e-5)
    np.testing.assert_allclose(scaled(by=2.0, x=x), x.sum(0) * 2 + 1, rtol=1e-5)
    np.testing.assert_allclose(scaled(x, axis=1, by=3.0, shift=0.5), x.sum(1) * 3 + 0.5, rtol=1e-5)
    np.testing.assert_allclose(scaled(x, f32(4), by=f32(4)), x.sum(0) * f32(4) + 1 + f32(4), rtol=1e-5)
    out = np.empty(4, np.float32)
    assert scaled(x, by=2.0, out=out) is out
    assert "sum" in scaled.lower(x, by=2.0).text("traced")
    for call in (lambda: scaled(x), lambda: scaled(x, None, 2.0), lambda: scaled(x, by=1.0, bye=2.0), lambda: scaled(x, by=1.0, x=x)):
        with pytest.raises(TypeError):
            call()
    optional = lathe.jit(lambda x, *, by=3: x * by)
    np.testing.assert_array_equal(optional(x), x * 3)
    np.testing.assert_array_equal(optional(x, by=2), x * 2)
    several = lathe.jit(lambda *xs, by=3: sum(xs[1:], xs[0]) * by)
    np.testing.assert_allclose(several(x, x), x * 6, rtol=1e-6)
    np.testing.assert_allclose(several(x, x, x, by=2.0), x * 6, rtol=1e-6)
    behind = lathe.jit(lambda x, y, *rest, by=3, shift=0.5: sum(rest, x - y) * by + shift)
    np.testing.assert_allclose(behind(x, x / 2), x * 1.5 + 0.5, rtol=1e-6)
    np.testing.assert_allclose(behind(x, x / 2, x, x), x * 7.5 + 0.5, rtol=1e-6)
    np.testing.assert_allclose(behind(x, x / 2, x, shift=1.0), x * 4.5 + 1, rtol=1e-6)
    np.testing.assert_allclose(behind(x, x / 2, x, by=2), x * 3 + 0.5, rtol=1e-6)
    asked = lathe.jit(lambda *xs, by: sum(xs[1:], xs[0]) * by)
    np.testing.assert_allclose(asked(x, x, by=2), x * 4, rtol=1e-6)
    for call in (lambda: behind(x), lambda: behind(y=x), lambda: asked(x, x)):
        with pytest.raises(TypeError):
            call()
    position_only = lathe.jit(lambda x, /, y=2: x * y)
    np.testing.assert_array_equal(position_only(x, y=3), x * 3)
    with pytest.raises(TypeError):
        position_only(x=x)


def test_any_keywords_are_refused():
    with pytest.raises(TypeError, match="f takes any keywords .* let it take a dict"):

        @lathe.jit
        def f(x, **rest):
            return x


def test_a_traced_function_calls_another_with_containers():
    inner = lathe.jit(lambda tree, *, by: {"out": tree["x"] * by})
    outer = lathe.jit(lambda x: inner({"x": x + 1}, by=2)["out"] - 1)
    np.testing.assert_allclose(outer(f32(5)), (f32(5) + 1) * 2 - 1, rtol=1e-6)


def test_places_are_named():
    @lathe.jit
    def first(tree):
        return tree["a"][1]

    for leaf, message in (
        (np.ones(2, np.complex64), r"argument 0\['a'\]\[1\] is a NumPy array of dtype complex64"),
        (set(), r"first: argument 0\['a'\]\[1\] is a set: an argument is an array"),
    ):
        with pytest.raises(TypeError, match=message):
            first({"a": [1.0, leaf]})

    class Pair(tuple):
        _fields = ("a", "b")

    with pytest.raises(TypeError, match=r"first: argument 0\['a'\] is a Pair, a tuple with _fields that has no _make"):
        first({"a": Pair((1.0, f32(2)))})
    Pair._make = None
    with pytest.raises(TypeError, match=r"first: argument 0\['a'\] is a Pair, a tuple with _fields that has no _make"):
        first({"a": Pair((1.0, f32(2)))})
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="both numpy.ndarray and torch.Tensor"):
        first({"a": [f32(2), torch.ones(2)]})
    state = torch.nn.Linear(3, 2).state_dict()
    with torch.no_grad():
        result = lathe.jit(lambda s, x: x @ s["weight"].mT + s["bias"])(state, torch.ones(4, 3))
    torch.testing.assert_close(result, torch.ones(4, 3) @ state["weight"].T + state["bias"])


def test_a_container_that_holds_itself():
    knot = []
    knot.append(knot)
    with pytest.raises(RecursionError):
        lathe.jit(lambda x: x)(knot)
    with pytest.raises(RecursionError):
        lathe.jit(lambda x: [knot, x])(f32(3))
    np.testing.assert_array_equal(lathe.jit(lambda x: x + 0)(f32(3)), f32(3))


def test_results_without_a_tensor_are_refused():
    for nothing in ({}, [], ((), {"a": []})):
        with pytest.raises(ValueError, match="returned no tensor"):
            lathe.jit(lambda x, n=nothing: n)(f32(2))
    with pytest.raises(TypeError, match="a traced function's result takes tensors and numbers, not NoneType"):
        lathe.jit(lambda x: {"a": x, "b": None})(f32(2))


def test_arrays_stay_while_they_are_read():
    """Another thread empties the containers while the kernel, without the GIL, reads what they held."""
    total = lathe.jit(lambda tree: lathe.sum(tree["x"][0], axis=1))
    stop = threading.Event()
    tree = {"x": [np.ones((1000, 1000), np.float32)]}

    def swap():
        while not stop.is_set():
            tree["x"] = [np.ones((1000, 1000), np.float32)]
            tree["x"][0] = np.ones((1000, 1000), np.float32)
            gc.collect(0)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(50):
            assert (total(tree) == 1000).all()
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("out", [[], ()])
def test_no_output_is_too_few(out):
    x = np.ones((2, 3), np.float32)
    with pytest.raises(TypeError, match="out is"):
        lathe.jit(lambda x: [x + 1, x * 2])(x, out=out)


def test_keys_differ_by_type():
    f = lathe.jit(lambda d: next(iter(d.values())) * (10 if next(iter(d)) is True else 1))
    x = np.ones(3, np.float32)
    assert f({1: x})[0] == 1
    assert f({True: x})[0] == 10
    assert f({1.0: x})[0] == 1


def test_static_zeros_differ_by_sign():
    f = lathe.jit(lambda x, s: x * (2 if np.signbit(s) else 3))
    x = np.ones(3, np.float32)
    assert f(x, np.float64(0.0))[0] == 3
    assert f(x, np.float64(-0.0))[0] == 2


@dataclasses.dataclass(frozen=True)
class Options:
    steps: object
    seen: object = dataclasses.field(default=None, compare=False)


def test_equal_values_in_static_ones_differ_by_type():
    traced = []
    f = lathe.jit(lambda x, s: traced.append(s) or x * 2)
    x = np.ones(3, np.float32)
    for wrap in (lambda v: frozenset({v, 5}), lambda v: Options(v), lambda v: Options((v,)), lambda v: (frozenset({(v, "a")}), 7)):
        traced.clear()
        for _ in range(2):
            for value in (1, True, 1.0, 0.0, -0.0):
                f(x, wrap(value))
        assert len(traced) == 5
    traced.clear()
    for seen in range(3):
        f(x, Options("fields that equality leaves out", seen))
    assert len(traced) == 1


@dataclasses.dataclass(frozen=True)
class Hashed(Options):
    """May hold what has no hash."""

    def __hash__(self):
        return 0


@pytest.mark.parametrize(
    "wrap",
    [
        lambda v: [v],
        lambda v: {"a": v},
        lambda v: {v: "a"},
        lambda v: [{"a": ([v],)}],
        lambda v: {1, v},
        lambda v: [Options([v])],
        lambda v: collections.OrderedDict(a=v),
        lambda v: collections.defaultdict(list, a=v),
    ],
)
def test_values_without_a_hash_in_static_ones_differ_by_type(wrap):
    traced = []
    f = lathe.jit(lambda x, s: traced.append(s) or x * 2)
    x = np.ones(3, np.float32)
    values = (2, 2.0, 0.0, -0.0, 0j, complex(0.0, -0.0), complex(-0.0, 0.0))
    for _ in range(2):
        for value in values:
            f(x, Hashed(wrap(value)))
    assert len(traced) == len(values)


@pytest.mark.parametrize("base", [tuple, list, dict, frozenset])
def test_fields_of_containers_differ_by_type(base):
    @dataclasses.dataclass(eq=False)
    class Container(base):
        size: object

        def __new__(cls, size):
            return base.__new__(cls)

    traced = []
    f = lathe.jit(lambda x, s: traced.append(s) or x * 2)
    for size in (1, 1.0, 1, 1.0):
        f(np.ones(3, np.float32), Hashed((Container(size),)))
    assert len(traced) == 2


def test_dicts_in_static_values_differ_by_order():
    f = lathe.jit(lambda x, s: x * next(iter(s.steps.values())))
    x = np.ones(3, np.float32)
    assert f(x, Hashed({"a": 2, "b": 3}))[0] == 2
    assert f(x, Hashed({"b": 3, "a": 2}))[0] == 3


def test_static_complex_zeros_differ_by_sign():
    f = lathe.jit(lambda x, s: x * (2 if np.signbit(s.imag) else 3) * (5 if np.signbit(s.real) else 7))
    x = np.ones(3, np.float32)
    for kind in (complex, np.complex128):
        for real, imaginary, expected in ((0.0, 0.0, 21), (0.0, -0.0, 14), (-0.0, 0.0, 15), (-0.0, -0.0, 10)):
            assert f(x, kind(complex(real, imaginary)))[0] == expected


@dataclasses.dataclass(eq=False)
class Node:
    name: object
    parent: object = None
    children: object = ()

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


def family(age=1, container=list):
    parent = Node("p")
    parent.children = container([Node("c", parent), Node(age, parent)])
    return parent


def chain(length, last=1):
    node = Node("end", last)
    for _ in range(length):
        node = Node("link", node)
    return node


@pytest.mark.parametrize("make", [family, lambda v=1: family(v, tuple), lambda v=1: chain(100_000, v)])
def test_static_values_that_hold_themselves_or_nest_deep(make):
    traced = []
    f = lathe.jit(lambda x, s: traced.append(1) or x * 2)
    x, kept = np.ones(3, np.float32), []
    for value in (1, 1.0, 1, 1.0):
        kept.append(make(value))
        assert f(x, kept[-1])[0] == 2
    assert len(traced) == 2
    for node in kept:  # a long chain must not go by recursion
        while isinstance(node, Node):
            node.parent, node = None, node.parent


def test_static_values_that_share_parts_are_compared_part_by_part():
    def diamonds(depth):
        node = Node("end")
        for _ in range(depth):
            node = Node("both", node, (node, [node]))
        return node

    traced = []
    f = lathe.jit(lambda x, s: traced.append(1) or x * 2)
    for _ in range(2):
        f(np.ones(3, np.float32), diamonds(60))
    assert len(traced) == 1


def test_fields_that_no_dataclass_has():
    class Value:
        def __eq__(self, other):
            return type(self) is type(other)

        def __hash__(self):
            return 0

    x = np.ones(3, np.float32)
    for fields in (None, 3, [], {1: 2}, {"steps": None}, {"steps": 7}):
        Value.__dataclass_fields__ = fields
        f = lathe.jit(lambda x, s: x * 2)
        for _ in range(2):
            assert f(x, Value())[0] == 2
    f = lathe.jit(lambda x, s: x * 2)
    for _ in range(2):
        value = Hashed(1)
        object.__setattr__(value, "__dataclass_fields__", None)
        assert f(x, value)[0] == 2


def test_readings_in_use_come_to_the_front():
    class Value:
        compared = 0

        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            Value.compared += 1
            return self.value == other.value

        def __hash__(self):
            return 0

    traced = []
    f = lathe.jit(lambda x, s: traced.append(s) or x * s.value)
    x = np.ones(3, np.float32)
    for value in range(256):
        f(x, Value(value))
    for in_use in ((255,), (77,), (0, 128, 254), range(100, 124)):
        for _ in range(20):
            for value in in_use:
                f(x, Value(value))
        Value.compared = 0
        for _ in range(20):
            for value in in_use:
                assert f(x, Value(value))[0] == value
        assert Value.compared <= 20 * len(in_use) ** 2
    assert len(traced) == 256


def test_comparing_may_call_the_function_again():
    class Value:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            if not inside:
                inside.append(self)
                for other_value in (7, object(), 3, Value(5), Value(30), Value(object())):
                    assert f(x, other_value)[0] == 2
                inside.clear()
            return self.value == other.value

        def __hash__(self):
            return 0

    inside = []
    f = lathe.jit(lambda x, s: x * 2)
    x = np.ones(3, np.float32)
    for i in (*range(40), *range(40)):
        assert f(x, Value(i))[0] == 2


def test_a_reading_that_moves_past_the_search_is_found():
    class Value:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            if self.value == 30 and other.value == 39 and not inside:
                inside.append(self)
                f(x, Value(39))
            return self.value == other.value

        def __hash__(self):
            return 0

    inside, traced = [], []
    f = lathe.jit(lambda x, s: traced.append(s) or x * s.value)
    x = np.ones(3, np.float32)
    for i in range(40):
        inside[:] = [None]
        f(x, Value(i))
    inside.clear()
    assert f(x, Value(39))[0] == 39
    assert inside and len(traced) == 40


def test_threads_find_readings_while_others_move_them():
    class Value:
        def __init__(self, value):
            self.value = value

        def __eq__(self, other):
            time.sleep(0)  # lets go of the GIL
            return self.value == other.value

        def __hash__(self):
            return 0

    f = lathe.jit(lambda x, s: x * s.value)
    x, wrong = np.ones(3, np.float32), []

    def call(seed):
        order = np.random.default_rng(seed).integers(0, 40, 200).tolist()
        for value in order:
            if f(x, Value(value))[0] != value:
                wrong.append(value)

    in_threads(call, range(6))
    assert not wrong


def test_values_that_never_come_again_do_not_stay():
    class Value:
        alive = 0

        def __init__(self):
            Value.alive += 1

        def __del__(self):
            Value.alive -= 1

    traced = []
    f = lathe.jit(lambda x, s: traced.append(s) or x * 2)
    x, kept = np.ones(3, np.float32), Value()
    before = lathe.cache_info().compiles
    for _ in range(700):
        assert f(x, (Value(), 1))[0] == 2
        assert f(x, (kept, 1))[0] == 2
        traced[:] = traced[:1]
    traced.clear()
    assert Value.alive < 300
    f(x, (kept, 1))
    assert not traced, "what is used stays"
    assert lathe.cache_info().compiles <= before + 1
    del f
    gc.collect()
    assert Value.alive == 1


def test_threads_drop_what_others_use():
    f = lathe.jit(lambda x, s: lathe.sum(x * 2, axis=1))
    x, wrong = np.ones((300, 300), np.float32), []

    def call(_):
        for _ in range(300):
            if f(x, object())[7] != 600:
                wrong.append(1)

    in_threads(call, range(6))
    assert not wrong


def test_threads_trace_while_keys_compare_in_python():
    class Key:
        def __init__(self, value):
            self.value = value

        def __hash__(self):
            return 0

        def __eq__(self, other):
            for _ in range(20):
                pass
            return self.value == other.value

    f = lathe.jit(lambda x: {Key(x.shape[0] % 5): x + 1, Key(-1): [x] * (1 + x.shape[0] % 7)})
    wrong = []

    def call(first):
        for n in range(first, first + 40):
            x = np.full(1 + n, n, np.float32)
            result = f(x)
            if len(result) != 2 or not np.array_equal(next(iter(result.values())), x + 1):
                wrong.append(n)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(call, range(0, 56, 7))
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
