"""What the body of a compute may hold: element-wise operators of expressions, 0-d tensors, numbers."""

import operator as python_operators

import numpy as np
import pytest

import lathe


def body(f, *arrays):
    """f of the elements, by a compute, beside f of the tensors."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return lathe.jit(lambda *t: lathe.compute(shape, lambda i: f(*(x[i] for x in t))))(*arrays)


x = np.linspace(-3, 3, 37, dtype=np.float32)
y = np.linspace(2, 1, 37, dtype=np.float32)


@pytest.mark.parametrize(
    "f",
    [
        lathe.relu,
        lathe.silu,
        lathe.gelu,
        lathe.softplus,
        lathe.square,
        abs,
        lathe.sigmoid,
        lambda a: lathe.gelu(a, approximate="tanh"),
        lambda a: lathe.clip(a, -1, None),
        lambda a: lathe.where(a > 0, a, 0.5),
        lambda a: lathe.astype(a * 10.0, lathe.int32),
        lambda a: lathe.maximum(0.0, lathe.clip(a, -1, 1)),
        lambda a: lathe.logical_not(lathe.isnan(a)),
    ],
)
def test_operators_take_expressions_as_they_take_tensors(f):
    np.testing.assert_array_equal(body(f, x), lathe.jit(lambda a: f(a))(x))


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "logaddexp", "less", "remainder", "hypot"])
def test_operators_take_two_expressions(name):
    f = getattr(lathe, name)
    np.testing.assert_array_equal(body(f, x, y), lathe.jit(lambda a, b: f(a, b))(x, y))


def test_types_promote_between_expressions_as_between_tensors():
    h = x.astype(np.float16)
    assert body(lathe.add, h, y).dtype == np.float32
    with pytest.raises(TypeError, match="add: dtypes do not mix"):
        body(lathe.add, x, x.astype(np.int32))


def test_an_expression_beside_a_tensor_is_refused():
    with pytest.raises(TypeError, match="give an element of"):
        lathe.jit(lambda a: lathe.compute((37,), lambda i: lathe.maximum(a[i], a)))(x)
    with pytest.raises(TypeError, match="give an element of"):
        lathe.jit(lambda a: lathe.compute((37,), lambda i: a[i] + a))(x)


def test_bodies_take_numbers_that_the_call_gives():
    @lathe.jit
    def scaled(a, factor, total):
        return lathe.compute(a.shape, lambda i: factor * a[i] + a[i] * factor - total)

    for factor in (0.5, 3.0):
        np.testing.assert_allclose(scaled(x, factor, np.float32(2)), 2 * factor * x - 2, rtol=1e-6)
        np.testing.assert_allclose(scaled(x, factor, np.array(2, np.float32)), 2 * factor * x - 2, rtol=1e-6)


def test_bodies_take_what_was_reduced_to_one_element():
    centered = lathe.jit(lambda a: (lambda m: lathe.compute(a.shape, lambda i: a[i] - m))(lathe.mean(a)))
    np.testing.assert_allclose(centered(y), y - y.mean(), atol=1e-6)


def test_a_subscript_of_none_alone_adds_an_axis():
    outer = lathe.jit(lambda a, b: a[:, None] * b[None])(x, y)
    np.testing.assert_array_equal(outer, x[:, None] * y[None])


def test_half_floats_are_folded_in_f32_and_rounded_once():
    x = np.full((3, 4096), 0.1, np.float16)
    sums = lathe.jit(
        lambda x: lathe.compute((3,), lambda i: lathe.reduce("sum", x.shape[1], lambda r: x[i, r] * x[i, r]))
    )
    expected = (x.astype(np.float32) ** 2).sum(1).astype(np.float16)
    assert sums(x).dtype == np.float16
    np.testing.assert_array_equal(sums(x), expected)
    greatest = lathe.jit(lambda x: lathe.compute((3,), lambda i: lathe.reduce("max", x.shape[1], lambda r: x[i, r])))
    np.testing.assert_array_equal(greatest(x), x.max(1))
    running = lathe.jit(lambda x: lathe.scan(x.shape, 1, "sum", lambda i, r: x[i, r]))
    assert running(x).dtype == np.float16
    np.testing.assert_allclose(running(x), np.cumsum(x.astype(np.float32), 1), rtol=2e-3)


def test_operators_are_methods_of_their_first_operand():
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    standardized = lathe.jit(lambda x: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True))
    expected = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    np.testing.assert_allclose(standardized(x), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(AttributeError, match="no attribute 'expp'"):
        lathe.jit(lambda x: x.expp())(x)


def test_a_tensor_of_integers_picks_rows():
    x = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    rows = lathe.jit(lambda x, places: x[places])
    for places in (np.array([3, 0, 6]), np.array([[1, -1], [2, 2]], np.int32), np.array(4)):
        np.testing.assert_array_equal(rows(x, places), x[places])
    places = np.array([5, 1])
    np.testing.assert_array_equal(lathe.jit(lambda x: x[places])(x), x[places])
    with pytest.raises(IndexError, match="index 7 is out of range on axis 0"):
        rows(x, np.array([7]))
    with pytest.raises(TypeError, match="a mask .* picks as many elements as its values say"):
        lathe.jit(lambda x: x[x > 0])(x)
    with pytest.raises(TypeError, match="a subscript is an int, a slice, None, ..., a list or a tensor .*, not set"):
        lathe.jit(lambda x: x[{5, 1}])(x)


@pytest.mark.parametrize(
    "subscript",
    [
        [5, 1],
        [-1],
        [],
        [0, 2, 4, 1, 1, 6],
        list(range(7)) * 12,
        (slice(None), [3, 0, 1, 2]),
        (..., [2, 1, 0], slice(1, 3)),
        (None, slice(2, 6), [4, 4], ...),
        (2, [0, 4], None),
        ([0, 2], [1, 3]),
        ([0, 2], 1),
    ],
)
def test_lists_pick_elements(subscript):
    x = np.random.default_rng(0).standard_normal((7, 5, 4)).astype(np.float32)
    np.testing.assert_array_equal(lathe.jit(lambda x: x[subscript])(x), x[subscript])


def test_lists_that_pick_nothing_there_is():
    x = np.zeros((7, 5), np.float32)
    with pytest.raises(IndexError, match="index 7 is out of range for axis 0"):
        lathe.jit(lambda x: x[[0, 7]])(x)
    with pytest.raises(TypeError, match="a list among the subscripts holds ints, not bool"):
        lathe.jit(lambda x: x[[True, False]])(x)
    with pytest.raises(ValueError, match="take the integer first"):
        lathe.jit(lambda x: x[None][0, :, [0, 2]])(x)


def test_channels_that_a_list_swaps_are_no_lookup():
    f = lathe.jit(lambda x: x[..., [2, 1, 0]])
    assert "x1" not in f.lower(np.zeros((24, 32, 4), np.uint8)).text("traced")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_choice_of_numbers_gives_way_to_elements(dtype):
    z = np.linspace(1, 2, 12).astype(dtype)
    weights = np.where(np.arange(12) < 3, dtype(0.1), np.where(np.arange(12) < 5, dtype(2), dtype(0)))

    def weight(i):
        return lathe.where(i < 3, 0.1, lathe.where(i < 5, 2, 0.0))

    for f in (
        lambda x, i: x[i] * weight(i),
        lambda x, i: weight(i) * x[i],
        lambda x, i: lathe.where(i >= 0, weight(i), x[i]) * x[i],
    ):
        result = lathe.jit(lambda x, f=f: lathe.compute((12,), lambda i: f(x, i)))(z)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, z * weights)
    greatest = lathe.jit(lambda x: lathe.compute((12,), lambda i: lathe.maximum(weight(i), x[i])))(z)
    np.testing.assert_array_equal(greatest, np.maximum(weights, z))
    alone = lathe.jit(lambda: lathe.compute((12,), weight), name="alone")()
    np.testing.assert_array_equal(alone, weights.astype(np.float32) if dtype == np.float32 else alone)
    assert alone.dtype == np.float32


def test_a_choice_of_whole_numbers_gives_way_to_elements():
    z = np.arange(12, dtype=np.int8)
    chosen = lathe.jit(lambda x: lathe.compute((12,), lambda i: x[i] * lathe.where(i < 3, 1, -2)))
    assert chosen(z).dtype == np.int8
    np.testing.assert_array_equal(chosen(z), np.where(z < 3, z, z * np.int8(-2)))
    np.testing.assert_array_equal(chosen(z.astype(np.float64)), np.where(z < 3, z, z * -2.0))
    with pytest.raises(ValueError, match="the int 300 does not fit i8"):
        lathe.jit(lambda x: lathe.compute((12,), lambda i: x[i] * lathe.where(i < 3, 1, 300)))(z)
    with pytest.raises(TypeError):
        lathe.jit(lambda x: lathe.compute((12,), lambda i: x[i] * lathe.where(i < 3, 1.0, 0.5)))(z)
    scaled = lathe.jit(lambda x, s: lathe.compute((12,), lambda i: x[i] * lathe.where(i < 3, s, 1.0)))
    np.testing.assert_array_equal(scaled(z.astype(np.float64), 0.1), np.where(z < 3, z * 0.1, z))


@pytest.mark.parametrize(
    "left, right",
    [
        ("int32", "int64"),
        ("int8", "int32"),
        ("uint8", "int16"),
        ("uint8", "int8"),
        ("float16", "float32"),
        ("float32", "float64"),
    ],
)
@pytest.mark.parametrize("name", ["add", "mul", "floordiv", "lt", "eq"])
def test_elements_of_one_kind_promote_as_arrays_do(left, right, name):
    apply = getattr(python_operators, name)
    x, y = np.arange(1, 13).astype(left), np.arange(12, 0, -1).astype(right)
    for a, b in ((x, y), (y, x)):
        f = lathe.jit(lambda a, b: lathe.compute((12,), lambda i: apply(a[i], b[i])))
        result, expected = f(a, b), apply(a, b)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_an_index_beside_an_element_is_int64():
    x = np.arange(12, dtype=np.int32) * 1000
    f = lathe.jit(lambda x: lathe.compute((12,), lambda i: (x[i] >> (i % 4)) + lathe.maximum(x[i], i)))
    result = f(x)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, (x >> (np.arange(12) % 4)) + np.maximum(x, np.arange(12)))


def test_integers_and_floats_do_not_mix_in_a_body():
    x = np.ones(4, np.float32)
    with pytest.raises(TypeError, match="add of f32 and i64"):
        lathe.jit(lambda x: lathe.compute((4,), lambda i: x[i] + i))(x)


@pytest.mark.parametrize("narrow", ["uint8", "int8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("source", ["uint8", "int8", "int16"])
def test_integers_that_are_made_narrower_wrap_as_wide_ones_do(source, narrow):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-(2**15), 2**15, 203).astype(source) for _ in range(2))

    def mixed(lib, x, y):
        a, b = lib.astype(x, lib.int64), lib.astype(y, lib.int64)
        value = a * 77 - b * b + lib.where(x > y, 1 << 9, 3) * a
        return lib.astype((value ^ (b | 1000)) & (-1 - a), getattr(lib, narrow))

    np.testing.assert_array_equal(lathe.jit(lambda x, y: mixed(lathe, x, y))(x, y), mixed(np, x, y))


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint64", "int64"])
def test_bodies_take_places_of_any_integers(dtype):
    rng = np.random.default_rng(5)
    x, rows = rng.standard_normal((33, 7)), rng.integers(0, 33, 9).astype(dtype)
    taken = lathe.jit(lambda x, rows: lathe.compute((9, 7), lambda a, b: x[rows[a], b]))
    np.testing.assert_array_equal(taken(x, rows), x[rows])
    with pytest.raises(IndexError):
        taken(x[:5], np.full(9, 5, dtype))


def test_sums_of_bodies_count_bools():
    x = np.random.default_rng(5).standard_normal((33, 70))
    count = lathe.jit(lambda x: lathe.compute((33,), lambda a: lathe.reduce("sum", 70, lambda b: x[a, b] > 0)))
    np.testing.assert_array_equal(count(x), (x > 0).sum(1))
    assert count(x).dtype == np.int64
    so_far = lathe.jit(lambda x: lathe.scan((33, 70), 1, "sum", lambda a, b: x[a, b] > 0))
    np.testing.assert_array_equal(so_far(x), (x > 0).cumsum(1))


@pytest.mark.parametrize("precision", ["default", "strict"])
def test_what_says_a_place_and_is_a_value_too_is_rounded_once(precision):
    """Here and there p would be another whole number if the product were not rounded before the sum."""

    def at(t):
        p = 50.0 + 40.0 * lathe.sin(lathe.astype(t, lathe.float32) * 0.0008)
        floor = lathe.floor(p)
        return lathe.astype(lathe.astype(floor, lathe.int64), lathe.float32) - floor

    def f(x):
        return lathe.compute((20000,), at)

    difference = lathe.jit(f, precision=precision)(np.zeros(1, np.float32))
    np.testing.assert_array_equal(difference, np.zeros(20000, np.float32))


def test_a_captured_array_is_a_tensor_for_bodies():
    table = np.arange(5, dtype=np.float32)

    def f(x):
        values, wide = lathe.asarray(table), lathe.asarray(table, dtype=lathe.float64)
        return lathe.compute((3,), lambda i: values[x[i]]), lathe.compute((3,), lambda i: wide[i]), lathe.asarray(2.5)

    jitted = lathe.jit(f)
    for _ in range(2):
        picked, wide, number = jitted(np.array([4, 0, 2]))
        np.testing.assert_array_equal(picked, table[[4, 0, 2]])
        np.testing.assert_array_equal(wide, table[:3].astype(np.float64))
        assert wide.dtype == np.float64 and number.shape == () and number == 2.5
        table *= 2


def test_elements_of_an_array_itself_are_refused_with_what_helps():
    table = np.arange(5, dtype=np.float32)
    with pytest.raises(TypeError, match=r"lathe\.asarray\(array\)\[i\]"):
        lathe.jit(lambda x: lathe.compute((3,), lambda i: table[i] * x[i]))(table)


def test_scalars_of_numpy_beside_an_expression():
    def f(x):
        return lathe.compute((3,), lambda i: np.float32(2) * x[i] + x[i] * np.float32(3))

    np.testing.assert_array_equal(lathe.jit(f)(np.arange(3, dtype=np.float32)), [0, 5, 10])
