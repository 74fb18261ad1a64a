"""Bad input: the documented type, the whole text, nothing cached, and the next call works."""

import numpy as np
import pytest

import lathe


def f32(*shape):
    return np.ones(shape, np.float32)


@lathe.jit
def add(x, y):
    return x + y


@lathe.jit
def exp(x):
    return lathe.exp(x)


@lathe.jit
def gather(x, i):
    return lathe.take(x, i, axis=0)


@lathe.jit
def branch(x):
    return x if x > 0 else -x


@lathe.jit
def misspelt(x):
    return lathe.astype(x, "flot32")


@lathe.jit
def misspelt_method(x):
    return x.sotfmax()


class Image(np.ndarray):
    pass


masked = np.ma.masked_array(f32(3), [0, 1, 0])


@lathe.jit
def captures_a_mask(x):
    return x + masked


@lathe.jit
def compared(x):
    return x == None  # noqa: E711


@lathe.jit
def too_large(x):
    return x + 2**200


@lathe.jit
def mean(x):
    folded = lathe.Reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0.0, 0), (lathe.float32, lathe.int64))
    return lathe.compute((3,), lambda i: lathe.reduce(folded, 4, lambda r: (x[i, r], 1)) / 4)


@lathe.jit
def ramp(x):
    return lathe.compute((3,), lambda i: x[i] + i * 0.5)


@lathe.jit
def place_over_two_axes(x):
    return lathe.argmax(x, axis=(0, 1))


leaked = []


@lathe.jit
def leak(x):
    leaked.append(x)
    return x + 1


leak(f32(3))


@lathe.jit
def read_leaked(x):
    return x + leaked[0]


def read_only():
    array = f32(2)
    array.flags.writeable = False
    return array


STRIDED = """func strided(x: f32[{shape}], out: f32[16]) stage begin {{
  block root() {{
    vectorized for i in [0, 16) {{
      block b(space vi in [0, 16) = i) reads x[..] writes out[vi] {{
        out[vi] = x[{index}]
      }}
    }}
  }}
}}
"""


def compile_text(shape, index):
    return lathe.compile(lathe.ir.parse(STRIDED.format(shape=shape, index=index)), schedule=True)


def test_what_stays_inside_is_compiled():
    x, out = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
    for index in ("vi * 4 + 3", "63 - vi", "vi if vi < 16"):
        compile_text("64", index)(x, out)
    np.testing.assert_array_equal(out, x[:16])


CASES = {
    "shapes_that_do_not_broadcast": (lambda: add(f32(3, 4), f32(5)), ValueError),
    "dtype_not_taken": (lambda: exp(np.ones(3, np.int32)), TypeError),
    "mixed_kinds_of_numbers": (lambda: add(f32(3), np.ones(3, np.int64)), TypeError),
    "not_an_array": (lambda: add(f32(3), {1, 2, 3}), TypeError),
    "a_list_for_an_array": (lambda: add(f32(3), [1, 2, 3]), TypeError),
    "no_array_in_a_container": (lambda: add(f32(3), {"a": [1, {2}]}), TypeError),
    "a_string_for_an_array": (lambda: add(f32(3), "three"), TypeError),
    "a_masked_array": (lambda: add(np.ma.masked_array(f32(3), [0, 1, 0]), f32(3)), TypeError),
    "a_subclass_of_ndarray": (lambda: exp(f32(3).view(Image)), TypeError),
    "a_captured_masked_array": (lambda: captures_a_mask(f32(3)), TypeError),
    "fewer_threads_than_none": (lambda: lathe.set_thread_count(-1), ValueError),
    "threads_by_the_billion": (lambda: lathe.set_thread_count(10**9), ValueError),
    "no_room_for_a_kernel": (lambda: lathe.set_cache_capacity(0), ValueError),
    "a_dtype_without_kernels": (lambda: add(np.ones(3, np.complex64), f32(3)), TypeError),
    "out_of_the_wrong_shape": (lambda: add(f32(3), f32(3), out=f32(4)), ValueError),
    "out_of_the_wrong_dtype": (lambda: add(f32(3), f32(3), out=np.ones(3)), TypeError),
    "out_overlapping_itself": (
        lambda: add(f32(2, 3), f32(2, 3), out=np.lib.stride_tricks.as_strided(f32(4), (2, 3), (4, 4))),
        ValueError,
    ),
    "out_read_only": (lambda: add(f32(2), f32(2), out=read_only()), ValueError),
    "out_of_another_form": (lambda: add(f32(3), f32(3), out={"sum": f32(3)}), TypeError),
    "out_not_an_array": (lambda: add(f32(2), f32(2), out=3), TypeError),
    "index_out_of_range": (lambda: gather(f32(5, 2), np.array([0, 5, 1])), IndexError),
    "negative_index_out_of_range": (lambda: gather(f32(5, 2), np.array([-6])), IndexError),
    "control_flow_on_a_traced_value": (lambda: branch(f32(3)), TypeError),
    "an_unknown_dtype": (lambda: misspelt(f32(3)), TypeError),
    "too_few_arguments": (lambda: add(f32(3)), TypeError),
    "an_unknown_argument": (lambda: add(f32(3), z=f32(3)), TypeError),
    "an_operator_misspelt": (lambda: lathe.gelo, AttributeError),
    "a_method_misspelt": (lambda: misspelt_method(f32(3)), AttributeError),
    "nothing_compared": (lambda: compared(f32(3)), TypeError),
    "a_tensor_of_another_trace": (lambda: read_leaked(f32(3)), ValueError),
    "two_axes_for_one": (lambda: place_over_two_axes(f32(3, 4)), TypeError),
    "an_integer_beyond_64_bits": (lambda: too_large(f32(3)), ValueError),
    "reduction_of_a_tuple": (lambda: mean(f32(3, 4)), TypeError),
    "a_float_beside_an_index": (lambda: ramp(f32(3)), TypeError),
    "an_unknown_stage": (lambda: add.lower(f32(3), f32(3)).text("scheduld"), ValueError),
    "tir_with_a_syntax_error": (
        lambda: lathe.ir.parse("func f(x: f32[4]) stage begin {\n  x[0 = 1.0f32\n}\n"),
        SyntaxError,
    ),
    "tir_that_reads_far_outside": (lambda: compile_text("64", "vi * 1000000000000"), ValueError),
    "tir_that_reads_just_outside": (lambda: compile_text("64", "vi * 4 + 4"), ValueError),
    "tir_with_too_few_indices": (lambda: compile_text("64, 2", "vi"), ValueError),
    "tir_with_a_comma_behind_its_indices": (lambda: compile_text("64", "vi,"), SyntaxError),
    "an_operator_outside_of_a_trace": (lambda: lathe.exp(f32(3)), TypeError),
}


# Mistakes in the values or the memory of a right signature: its kernel is compiled, and good.
CAUGHT_BY_A_KERNEL = {"out_overlapping_itself", "index_out_of_range", "negative_index_out_of_range"}


@pytest.mark.parametrize("name", CASES)
def test_error(name, golden):
    call, kind = CASES[name]
    add(f32(3), f32(3))
    gather(f32(5, 2), np.array([4, -5]))
    before = lathe.cache_info()
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    golden(f"errors/{name}.txt", str(caught.value) + "\n")
    after = lathe.cache_info()
    if name not in CAUGHT_BY_A_KERNEL:
        assert (after.compiles, after.kernels) == (before.compiles, before.kernels)
    np.testing.assert_array_equal(add(f32(3), f32(3)), 2 * f32(3))
    np.testing.assert_array_equal(gather(f32(5, 2), np.array([4, -5])), f32(2, 2))
