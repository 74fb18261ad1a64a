"""Numbers divided by constants: exact for every dividend that its type, or what it is made of, allows."""

import numpy as np
import pytest

import lathe

DIVISORS = (2, 3, 5, 7, 10, 25, 64, 100, 127, 255, 256, 1000, 32767)


@pytest.mark.parametrize("divisor", (*DIVISORS, 40000, 65535, 65536, 100000))
def test_sixteen_bits_in_thirty_two(divisor):
    x = np.arange(65536, dtype=np.uint16)

    @lathe.jit
    def parts(x):
        wide = lathe.astype(x, lathe.int32)
        return wide // divisor, wide % divisor, (wide + 5) // divisor, lathe.astype(x, lathe.uint32) // divisor

    exact = x.astype(np.int64)
    for got, expected in zip(
        parts(x), (exact // divisor, exact % divisor, (exact + 5) // divisor, exact // divisor), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_narrow_types_with_and_without_a_known_sign(divisor):
    x = np.arange(-32768, 32768, dtype=np.int16)

    @lathe.jit
    def parts(x):
        return (x & 1023) // divisor, lathe.abs(lathe.maximum(x, -32767)) // divisor, x // divisor, x % divisor

    exact = x.astype(np.int64)
    expected = (exact & 1023) // divisor, abs(np.maximum(exact, -32767)) // divisor, exact // divisor, exact % divisor
    for got, right in zip(parts(x), expected, strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("divisor", (3, 7, 10, 51, 127, 200, 255))
def test_bytes(divisor):
    x = np.arange(256, dtype=np.uint8)
    quotient, remainder = lathe.jit(lambda x: (x // divisor, (x >> 1) % divisor))(x)
    np.testing.assert_array_equal(quotient, x // divisor)
    np.testing.assert_array_equal(remainder, (x >> 1) % divisor)


def test_a_product_of_a_counter_that_wraps_is_divided_as_it_is():
    program = """
func f(x: i64[41], out: i64[41]) stage begin
{
  for i in [0, 41) {
    block b(space vi in [0, 41) = i) reads x[vi] writes out[vi] {
      let h: i64 = vi * 3999999999999999871
      out[vi] = x[vi] * (h // 7) + h % 11 + vi // 3
    }
  }
}
"""
    i = np.arange(41)
    with np.errstate(over="ignore"):
        h = i * 3999999999999999871
    for schedule in (True, False):
        out = np.zeros(41, np.int64)
        lathe.compile(lathe.ir.parse(program), schedule=schedule)(np.full(41, 2), out)
        np.testing.assert_array_equal(out, 2 * (h // 7) + h % 11 + i // 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
@pytest.mark.parametrize("divisor", (3, -3, 10, 255, 0.1, 3.7, 2.5066282746310002, 1e-3, 1e5, 1e30, -0.75))
def test_floats(dtype, divisor):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(4099).astype(dtype) * (2.0 ** rng.integers(-60, 60, 4099)).astype(dtype)
    x[:6] = np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0
    f = lathe.jit(lambda x: x / divisor)
    np.testing.assert_array_equal(f(x), x / dtype(divisor))
    np.testing.assert_array_equal(np.signbit(f(x)), np.signbit(x / dtype(divisor)))
    tiny = x * dtype(2.0**-120 if dtype == np.float32 else 2.0**-1000)
    np.testing.assert_array_max_ulp(f(tiny[6:]), (tiny / dtype(divisor))[6:], 1)
    np.testing.assert_array_equal(f(x[3]), x[3] / dtype(divisor))
