"""A traced function is traced again where what it reads, besides its arguments, is another object than before."""

import types

import numpy as np
import pytest

import lathe

x = np.arange(1, 4, dtype=np.float32)


def ones(value=1.0):
    return np.full(3, value, np.float32)


class Layer:
    factor = 2.0

    def __init__(self, weight):
        self.weight = ones(weight)
        self.inner = types.SimpleNamespace(bias=ones())

    def __call__(self, x):
        return x * self.weight

    @lathe.jit
    def jitted(self, x):
        return x * self.weight * self.factor

    def by_property(self, x):
        return x * self.doubled

    @property
    def doubled(self):
        return self.weight * 2

    def through_a_method(self, x):
        return self(x) + self.inner.bias

    def by_alias(self, x):
        inner = self.inner
        return x + inner.bias


class Slotted:
    __slots__ = ("weight",)


def set_attribute(holder, name):
    return lambda: setattr(holder, name, getattr(holder, name) * 5)


def set_item(holder, key):
    return lambda: holder.__setitem__(key, holder[key] * 5)


def dict_by_name():
    weights = {"w": ones()}
    return lambda x: x * weights["w"], set_item(weights, "w")


def list_by_place():
    weights = [ones(), ones()]
    return lambda x: x * weights[-1], set_item(weights, -1)


def nested_containers():
    weights = {"layers": [(ones(), {"b": ones()})]}
    return lambda x: x * weights["layers"][0][1]["b"], set_item(weights["layers"][0][1], "b")


def a_loop_over_a_list():
    weights = [ones(), ones()]

    def f(x):
        for weight in weights:
            x = x * weight
        return x

    return f, set_item(weights, 1)


def a_list_that_grows():
    weights = [ones(2)]

    def f(x):
        for weight in weights:
            x = x * weight
        return x

    return f, lambda: weights.append(ones(3))


def a_loop_over_layers():
    layers = [Layer(1), Layer(2)]

    def f(x):
        for layer in layers:
            x = x @ layer.weight * x
        return x

    return f, set_attribute(layers[1], "weight")


def layers_that_are_called():
    layers = [Layer(1), Layer(2)]

    def f(x):
        for layer in layers:
            x = layer(x)
        return x

    return f, set_attribute(layers[1], "weight")


def a_dict_gone_through():
    weights = {"a": ones(), "b": ones()}

    def f(x):
        for weight in weights.values():
            x = x + weight
        return x

    return f, set_item(weights, "b")


def a_module_constant():
    module = types.ModuleType("settings")
    module.scale = 2.0
    return lambda x: x * module.scale, set_attribute(module, "scale")


def a_modules_function():
    module = types.ModuleType("helpers")
    module.scale = lambda x: x * 2.0
    return lambda x: module.scale(x), lambda: setattr(module, "scale", lambda x: x * 3.0)


def a_class_attribute():
    class Settings:
        scale = 2.0

    return lambda x: x * Settings.scale, set_attribute(Settings, "scale")


def an_attribute_that_hides_its_class():
    layer = Layer(1)
    return lambda x: x * layer.factor, lambda: setattr(layer, "factor", 7.0)


def a_slot():
    slotted = Slotted()
    slotted.weight = ones()
    return lambda x: x * slotted.weight, set_attribute(slotted, "weight")


def an_attribute_of_an_attribute():
    layer = Layer(1)
    return lambda x: x * layer.inner.bias, set_attribute(layer.inner, "bias")


def a_local_that_stands_for_an_attribute():
    layer = Layer(1)
    return layer.by_alias, set_attribute(layer.inner, "bias")


def a_bound_method():
    layer = Layer(1)
    return layer.through_a_method, set_attribute(layer, "weight")


def a_property():
    layer = Layer(1)
    return layer.by_property, set_attribute(layer, "weight")


def a_callable_object():
    layer = Layer(1)
    return layer, set_attribute(layer, "weight")


def code_within():
    weights = {"w": ones()}
    return lambda x: sum([(lambda: x * weights["w"])() for _ in range(2)]), set_item(weights, "w")


def the_globals_of_an_argument():
    names = {"scale": 2.0}
    helper = eval("lambda x: x * scale", names)
    return (lambda x, f=helper: f(x)), lambda: names.update(scale=3.0)


CHANGES = [
    dict_by_name,
    list_by_place,
    nested_containers,
    a_loop_over_a_list,
    a_list_that_grows,
    a_loop_over_layers,
    layers_that_are_called,
    a_dict_gone_through,
    a_module_constant,
    a_modules_function,
    a_class_attribute,
    an_attribute_that_hides_its_class,
    a_slot,
    an_attribute_of_an_attribute,
    a_local_that_stands_for_an_attribute,
    a_bound_method,
    a_property,
    a_callable_object,
    code_within,
    the_globals_of_an_argument,
]


@pytest.mark.parametrize("make", CHANGES, ids=lambda make: make.__name__)
def test_a_change_is_a_miss(make):
    function, change = make()
    compiled = lathe.jit(function, name="f")
    before = [function(x), function(x[None])]
    np.testing.assert_allclose(compiled(x), before[0])
    change()
    np.testing.assert_allclose(compiled(x), function(x))
    np.testing.assert_allclose(compiled(x[None]), function(x[None]))
    assert not np.allclose(before[0], function(x))


def test_a_method_reads_its_object_anew():
    layer, other = Layer(1), Layer(3)
    for _ in range(2):
        np.testing.assert_array_equal(layer.jitted(x), x * layer.weight * 2)
        np.testing.assert_array_equal(other.jitted(x), x * other.weight * 2)
        layer.weight = layer.weight * 10


def test_a_static_argument_is_read_anew():
    scaled = lathe.jit(lambda x, settings: x * settings.scale)
    settings = Layer(1)
    settings.scale = 2.0
    np.testing.assert_array_equal(scaled(x, settings), x * 2)
    settings.scale = 3.0
    np.testing.assert_array_equal(scaled(x, settings), x * 3)


def test_a_builtin_that_a_global_hides_later():
    names = {}
    f = lathe.jit(eval("lambda x: abs(x)", names), name="f")
    np.testing.assert_array_equal(f(-x), x)
    names["abs"] = lambda x: x * 7
    np.testing.assert_array_equal(f(x), x * 7)


def test_other_defaults_and_other_code():
    def scaled(x, factor=2, *, shift=0):
        return x * factor + shift

    f = lathe.jit(scaled)
    np.testing.assert_array_equal(f(x), x * 2)
    scaled.__defaults__ = (3,)
    np.testing.assert_array_equal(f(x), x * 3)
    np.testing.assert_array_equal(f(x, shift=1), x * 3 + 1)
    scaled.__code__ = (lambda x, factor=2, *, shift=0: x - factor).__code__
    np.testing.assert_array_equal(f(x), x - 3)

    def outer(x):
        return scaled(x)

    g = lathe.jit(outer)
    np.testing.assert_array_equal(g(x), x - 3)
    scaled.__defaults__ = (1,)
    np.testing.assert_array_equal(g(x), x - 1)


def test_what_a_function_writes_as_it_is_traced_is_no_miss():
    traces, memo, counts, layer = [], {}, [0], Layer(2)
    layer.table = None

    @lathe.jit
    def f(x):
        traces.append(1)
        memo["last"] = counts[0]
        counts[0] += 1
        layer.calls = getattr(layer, "calls", 0) + 1
        if layer.table is None:
            layer.table = ones(4)
        return x * layer.weight + layer.table

    for _ in range(4):
        np.testing.assert_array_equal(f(x), x * 2 + 4)
    assert len(traces) == 2  # the second with the captured arrays as inputs
    layer.weight = ones(3)
    np.testing.assert_array_equal(f(x), x * 3 + 4)
    count = len(traces)
    f(x)
    assert len(traces) == count


def test_nothing_changed_is_a_hit():
    layers = [Layer(1), Layer(2)]
    traces = []

    @lathe.jit
    def f(x):
        traces.append(1)
        for layer in layers:
            x = layer(x) * layer.factor + layer.inner.bias
        return lathe.gelu(x) + np.float32(abs(-1))

    f(x)
    count = len(traces)
    for _ in range(3):
        f(x)
    assert len(traces) == count
