"""Each operator over every dtype: against NumPy where it is accepted, TypeError where it is not."""

import numpy as np
import pytest

import lathe
from operators import CASES, DTYPES, WITHOUT_OPERAND, round_bfloat16

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def run(case, dtype, arrays):
    """The operator on arrays; bfloat16 goes in and out as float32 that holds its values."""
    if dtype != "bfloat16":
        return lathe.jit(lambda *tensors: case.op(*tensors), name=case.name)(*arrays)

    def through_bfloat16(*tensors):
        result = case.op(*[lathe.astype(t, lathe.bfloat16) for t in tensors])
        return lathe.astype(result, lathe.float32) if result.dtype == lathe.bfloat16 else result

    return lathe.jit(through_bfloat16, name=case.name)(*arrays)


def expected_result(case, dtype, arrays):
    """The reference on double precision, rounded once."""
    if arrays[0].dtype.kind != "f":
        return np.asarray(case.reference(*arrays))
    if case.name == "nextafter":
        return np.asarray(case.reference(*arrays)) if dtype != "bfloat16" else None
    result = np.asarray(case.reference(*[a.astype(np.float64) for a in arrays]))
    return result


def check(case, dtype, arrays):
    with np.errstate(all="ignore"):
        expected = expected_result(case, dtype, arrays)
        if expected is None:
            return
        actual = run(case, dtype, arrays)
        assert actual.shape == expected.shape
        if actual.dtype.kind != "f":
            assert actual.dtype == expected.dtype or expected.dtype.kind == "f"
            np.testing.assert_array_equal(actual, expected)
            return
        if case.ulp == 0:
            np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
            return
        rounded = round_bfloat16(expected.astype(np.float32)) if dtype == "bfloat16" else expected.astype(actual.dtype)
        finite = np.isfinite(rounded) & np.isfinite(actual)
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(rounded))
        np.testing.assert_array_equal(actual[~finite & ~np.isnan(actual)], rounded[~finite & ~np.isnan(actual)])
        scale = case.scale(*arrays) if case.scale else np.abs(expected[finite])
        least = np.finfo(actual.dtype).smallest_normal
        bound = case.ulp * EPSILON.get(dtype, 2.0**-52) * np.maximum(scale, least)
        error = np.abs(actual[finite].astype(np.float64) - expected[finite])
        assert (error <= bound).all(), f"error {error.max()}, allowed {np.max(bound)}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operator_over_dtypes(case, dtype):
    arrays = case.arguments(dtype)
    if dtype in case.accepts:
        check(case, dtype, arrays)
        return
    compiles = lathe.cache_info().compiles
    with pytest.raises(TypeError, match=case.name):
        run(case, dtype, arrays)
    assert lathe.cache_info().compiles == compiles


ELEMENTWISE = [case for case in CASES if all(shape == (5, 19) for shape in case.shapes)]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (1, 1), (3, 0, 2), (257,), (1000, 3)], ids=str)
@pytest.mark.parametrize("case", [c for c in ELEMENTWISE if c.name in ("add", "exp", "where", "equal", "abs")], ids=lambda c: c.name)
def test_elementwise_shapes(case, shape):
    arrays = case.arguments("float32", [shape] * len(case.shapes))
    check(case, "float32", arrays)


@pytest.mark.parametrize("shapes", [((4, 1), (1, 7)), ((3,), (2, 3)), ((1,), ()), ((2, 1, 5), (4, 1)), ((0, 1), (1, 3))], ids=str)
def test_broadcasting(shapes):
    for case in CASES:
        if case.name in ("add", "maximum", "less"):
            check(case, "float32", case.arguments("float32", shapes))


def test_every_operator_is_in_the_table():
    covered = {case.name for case in CASES} | WITHOUT_OPERAND
    assert sorted(set(lathe.operator_names) - covered) == []
