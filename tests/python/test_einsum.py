"""What einsum computes, in which order and precision, and what it refuses, against NumPy."""

import re

import numpy as np
import pytest

import lathe


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij->ji", [(3, 4)]),
        ("ii", [(3, 3)]),
        ("bii->b", [(3, 4, 4)]),
        ("ij->", [(3, 4)]),
        ("i,i,i->", [(3,), (3,), (3,)]),
        ("i,,i->i", [(3,), (), (3,)]),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)]),
        ("ij,jk,ki", [(2, 3), (3, 4), (4, 2)]),
        ("bi,oij,bj->bo", [(3, 4), (2, 4, 5), (3, 5)]),
        ("ijk,jr,kr->ir", [(3, 4, 5), (4, 2), (5, 2)]),
        ("ab,cd,ef->ace", [(2, 3), (4, 5), (2, 2)]),
        ("ijkl,ia,jb,kc->abcl", [(2, 3, 4, 5), (2, 3), (3, 2), (4, 6)]),
        ("ij,jk,kl,lm,mn->in", [(2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]),
    ],
)
def test_sums_of_products_of_any_number(equation, shapes, dtype):
    rng = np.random.default_rng(4)
    operands = [np.asarray(rng.integers(-2, 3, shape)).astype(dtype) for shape in shapes]
    found = lathe.jit(lambda *xs: lathe.einsum(equation, *xs))(*operands)
    expected = np.einsum(equation, *operands)
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype == expected.dtype


OWN_AXES = [
    ("ij,kl->", [(21, 23), (5, 6)]),
    ("ij,jk->k", [(21, 5), (5, 6)]),
    ("ij,k->ik", [(4, 5), (6,)]),
    ("iij,jk->k", [(4, 4, 5), (5, 6)]),
    ("ijk,jlm->l", [(4, 5, 6), (5, 7, 8)]),
    ("ij,kj,lj->j", [(4, 5), (6, 5), (7, 5)]),
    ("...ij,...k->...k", [(3, 4, 5), (3, 6)]),
    ("ij,jk->i", [(4, 1), (5, 6)]),
    ("ij,k->ik", [(4, 0), (6,)]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
@pytest.mark.parametrize("equation, shapes", OWN_AXES)
def test_axes_of_one_operand_are_summed(equation, shapes, dtype):
    rng = np.random.default_rng(5)
    operands = [np.asarray(rng.integers(-2, 3, shape)).astype(dtype) for shape in shapes]
    found = lathe.jit(lambda *xs: lathe.einsum(equation, *xs))(*operands)
    expected = np.einsum(equation, *(x.astype(np.int64) for x in operands)).astype(dtype)
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype == dtype


def test_axes_of_one_operand_are_summed_before_the_product():
    x, y = np.ones((300, 200), np.float32), np.ones((200, 100), np.float32)
    text = lathe.jit(lambda x, y: lathe.einsum("ij,jk->k", x, y)).lower(x, y).text("traced")
    assert "f32[200]" in text
    assert max(int(reduced) for reduced in re.findall(r"reduce \w+ in \[0, (\d+)\)", text)) == 300
    assert len(re.findall(r"for \w+ in \[0, 300\)", text)) == 1


def test_nothing_is_multiplied_by_an_empty_sum():
    x, y = np.ones((4, 0), np.float32), np.full(6, np.inf, np.float32)
    found = lathe.jit(lambda x, y: lathe.einsum("ij,k->ik", x, y))(x, y)
    np.testing.assert_array_equal(found, np.zeros((4, 6), np.float32))


def test_pairs_of_little_work_are_multiplied_first():
    x, y, z = np.ones((2, 300), np.float32), np.ones((300, 200), np.float32), np.ones((200, 100), np.float32)
    f = lathe.jit(lambda x, y, z: lathe.einsum("ij,jk,kl->il", x, y, z))
    assert "f32[2, 200]" in f.lower(x, y, z).text("traced")
    for wrong, given in (("ij,jk", 3), ("ij,jk,kl,lm", 3)):
        with pytest.raises(
            ValueError, match=f"'{wrong}' names the axes of {wrong.count(',') + 1} operands; given {given}"
        ):
            lathe.jit(lambda *xs, wrong=wrong: lathe.einsum(wrong, *xs))(x, y, z)


MIXED = [
    # dtypes and values of operands whose product overflows, or is rounded, in the common dtype of the first two
    ([np.int8, np.int8, np.int32], [100, 100, 1], 10000),
    ([np.int32, np.int8, np.int8], [1, 100, 100], 10000),
    ([np.float16, np.float16, np.float32], [300, 300, 1], 90000),
    ([np.float16, np.float16, np.float16], [300, 300, 0.001], 90.06),
    ([np.float32, np.float32, np.float64], [4097, 4097, 1], 4097 * 4097),
    ([np.int8, np.int8, np.int8, np.int64], [100, 100, 100, 7], 7000000),
]


@pytest.mark.parametrize("dtypes, values, expected", MIXED)
@pytest.mark.parametrize("result", ["i", ""])
def test_products_of_many_are_rounded_once(dtypes, values, expected, result):
    equation = ",".join("i" * len(dtypes)) + "->" + result
    operands = [np.full(3, value, dtype) for dtype, value in zip(dtypes, values, strict=True)]
    found = lathe.jit(lambda *xs: lathe.einsum(equation, *xs))(*operands)
    assert found.dtype == np.result_type(*dtypes)
    np.testing.assert_allclose(found, expected * (1 if result else 3), rtol=1e-3 if np.float16 in dtypes else 1e-12)
    np.testing.assert_allclose(found, np.einsum(equation, *operands), rtol=1e-3 if np.float16 in dtypes else 1e-12)


def test_numbers_among_many_operands_give_way_to_the_arrays():
    x = np.full(3, 300, np.float16)
    found = lathe.jit(lambda x: lathe.einsum("i,i,->i", x, x, 0.5**10))(x)
    np.testing.assert_array_equal(found, np.full(3, 90000 / 1024, np.float16))
    assert found.dtype == np.float16
    with pytest.raises(TypeError, match=r"given i8\[3\], i8\[3\] and f32\[3\]"):
        lathe.jit(lambda *xs: lathe.einsum("i,i,i", *xs))(
            np.ones(3, np.int8), np.ones(3, np.int8), np.ones(3, np.float32)
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize(
    "equation", ["ij->ij", "ij->ji", "ij", "ij->i", "ij->j", "ij->", "ii->i", "ii", "iij->ji", "iji->j", "iii->i"]
)
def test_one_operand_is_permuted_summed_or_its_diagonal(equation, dtype):
    letters = equation.split("->")[0]
    x = (np.arange(5 ** len(letters)) % 57 - 28).astype(dtype).reshape([5] * len(letters))
    f = lathe.jit(lambda x: lathe.einsum(equation, x))
    np.testing.assert_array_equal(f(x), np.einsum(equation, x))
    assert f(x).dtype == dtype
    text = f.lower(x).text("traced")
    assert " * " not in text
    summed = {"ij->i", "ij->j", "ij->", "ii", "iji->j"}
    assert ("reducer" in text) == (equation in summed)


@pytest.mark.parametrize("equation", ["ij->ij", "ij->ji", "ii->i"])
def test_one_operand_keeps_the_sign_of_zero(equation):
    x = np.full((3, 3), -0.0, np.float32)
    found = lathe.jit(lambda x: lathe.einsum(equation, x))(x)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.einsum(equation, x)))
    assert np.signbit(found).all()


def test_a_permutation_is_that_of_permute_dims():
    x = np.ones((4, 5, 6), np.float32)
    spelled = lathe.jit(lambda x: lathe.einsum("ijk->kij", x), name="f").lower(x).text("traced")
    assert spelled == lathe.jit(lambda x: lathe.permute_dims(x, (2, 0, 1)), name="f").lower(x).text("traced")


@pytest.mark.parametrize("equation", ["ij->ji", "ij->i"])
def test_the_refusal_of_one_operand_names_no_other(equation):
    with pytest.raises(TypeError, match=r"einsum: takes .*; given bool\[2, 3\]$"):
        lathe.jit(lambda x: lathe.einsum(equation, x))(np.ones((2, 3), bool))


MISCALLED = [
    (lambda x: lathe.einsum("ij,jk", x1=x, x2=x), "takes its operands by position.*given the keywords x1, x2"),
    (lambda x: lathe.einsum("ij->ji", x, dtype="float32"), "takes its operands by position.*given the keyword dtype"),
    (lambda x: lathe.einsum(x, "ij->ji"), "takes the equation first, a str.*given Tensor"),
    (lambda x: lathe.einsum(), "takes the equation first, a str.*given nothing"),
]


@pytest.mark.parametrize("call, message", MISCALLED)
def test_a_wrong_call_says_how_einsum_is_called(call, message):
    with pytest.raises(TypeError, match=f"^einsum: {message}"):
        lathe.jit(call)(np.ones((2, 2), np.float32))


def test_three_operands_are_multiplied_in_the_order_of_least_work():
    rng = np.random.default_rng(3)
    # The cheapest pair is that of both weights, which makes much of what is left.
    x, a, w = (rng.standard_normal(s, dtype=np.float32) for s in ((2, 8, 20, 15), (3, 15, 15), (3, 24, 8)))
    f = lathe.jit(lambda x, a, w: lathe.einsum("nctv,kvw,koc->notw", x, a, w))
    wanted = np.einsum("nctv,kvw,koc->notw", x.astype(np.float64), a, w, optimize=True)
    np.testing.assert_allclose(f(x, a, w), wanted, rtol=1e-4, atol=1e-4)
    text = f.lower(x, a, w).text("traced")
    assert "f32[2, 20, 15, 3, 8]" in text


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...i,ij->...j", [(2, 3, 4), (4, 5)]),
        ("...nd,...md->...nm", [(2, 3, 5, 4), (3, 6, 4)]),
        ("...ij,...jk", [(3, 4, 5), (3, 5, 6)]),
        ("i...->...", [(3, 4, 5)]),
        ("b...i,b...i->b...", [(2, 1, 4, 3), (2, 5, 1, 3)]),
        ("ij...,jk...->ik...", [(2, 3, 4), (3, 5, 4)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("...a,...a,...a->...", [(2, 3), (3,), (2, 1)]),
        ("ij,...->ij", [(2, 3), ()]),
        ("A...a,a->A...", [(2, 3, 4), (4,)]),
    ],
)
def test_ellipses_stand_for_the_axes_that_have_no_letter(equation, shapes):
    rng = np.random.default_rng(len(equation))
    operands = [rng.standard_normal(shape) for shape in shapes]
    result = lathe.jit(lambda *operands: lathe.einsum(equation, *operands))(*operands)
    expected = np.einsum(equation, *operands)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
