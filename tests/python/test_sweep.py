"""Odd shapes, dtypes, strides and operators: what the sweep times, against PyTorch."""

import itertools
import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import odd  # noqa: E402
import sweep  # noqa: E402
from odd import contractions, drawn, elementwise, movement, reductions, written  # noqa: E402
from suite.case import seeded  # noqa: E402

# PyTorch's vector functions are MKL's: where the first call of a process runs on several threads, some of them may take
# one that is exact to 12 bits only.
torch.exp(torch.ones(1))

TOPICS = [make for topic in (elementwise, reductions, movement, contractions, written) for make in topic.topics]


@pytest.mark.parametrize("make", TOPICS, ids=lambda make: f"{make.__module__.split('.')[-1]}-{make.__name__}")
def test_results_are_those_of_torch(make):
    with torch.inference_mode():
        for form in make(seeded(1)):
            try:
                sweep.verify(form, form.function(*form.inputs), form.torch(*form.inputs, **out_of(form)))
            except AssertionError as error:
                raise AssertionError(f"{form.name}: {error}") from None


@pytest.mark.parametrize("number", range(len(drawn.topics)), ids=[make.__name__ for make in drawn.topics])
def test_results_of_drawn_forms_are_those_of_torch(number):
    made = drawn.topics[number](np.random.default_rng(3))
    with torch.inference_mode():
        for form in itertools.islice(made, 4):
            try:
                sweep.verify(form, form.function(*form.inputs), form.torch(*form.inputs))
            except AssertionError as error:
                raise AssertionError(f"{form.name}: {error}") from None


def test_a_seed_draws_the_same_forms():
    first, again, other = ([form.name for form in drawn.forms(seed, 2)] for seed in (1, 1, 2))
    assert first == again != other


def out_of(form):
    return {"out": torch.empty_like(form.function(*form.inputs))} if form.takes_out else {}


def test_a_wrong_result_is_told_from_another_order_of_summation():
    x = torch.ones(3)
    form = odd.Form("f", "element-wise", [x], None, None)
    sweep.verify(form, x, x + 1e-6)
    for wrong in (x + 1e-3, torch.ones(4), torch.tensor([1.0, float("nan"), 1.0])):
        with pytest.raises(AssertionError):
            sweep.verify(form, x, wrong)


def test_names_are_told_apart():
    names = [form.name for make in TOPICS for form in make(seeded(0))]
    assert len(names) == len(set(names))
    assert {form.name for form in odd.forms(["take rows of 3"])} == {"take rows of 3", "take rows of 33"}
