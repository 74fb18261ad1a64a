"""What the benchmarks compute with: statistics, verification, the suite's own definitions. Nothing is timed here."""

import itertools
import json
import math
import pathlib
import sys

import numpy as np
import pytest

import lathe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import gate  # noqa: E402
import measure  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
from suite import convolutions, movement  # noqa: E402
from suite.case import Case, bf16, empty, lowered, seeded  # noqa: E402


class FakeTimer:
    """Seconds of a call, as a function of how many samples there were."""

    def __init__(self, seconds):
        self.seconds, self.calls = seconds, 0

    def time(self, calls):
        self.calls += 1
        return calls * self.seconds(self.calls)


def test_an_interval_holds_the_median_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        ratio = measure.interval(rng.exponential(size=31))
        hits += ratio.low <= math.log(2) <= ratio.high
    assert 0.92 <= hits / 400 <= 1.0


def test_drift_that_both_share_cancels_in_a_ratio():
    rounds = iter(range(10**6))

    def slowing(factor):
        return lambda _: factor * 1e-3 * (1 + 0.001 * (next(rounds) % 100))

    result = measure.compare({"lathe": FakeTimer(slowing(1.0)), "peer": FakeTimer(slowing(2.0))}, budget=0, least=40)
    assert result.ratios["peer"].median == pytest.approx(2.0, rel=0.01)


def test_a_round_across_which_the_rate_changes_is_dropped_for_all():
    rates = iter([1.0] * 10 + [0.5] * 1000)
    timers = {"lathe": FakeTimer(lambda _: 1e-3), "peer": FakeTimer(lambda _: 2e-3)}
    result = measure.compare(timers, budget=0, least=20, probe=lambda: next(rates))
    assert (result.rounds, result.dropped) == (19, 1)


def test_a_round_behind_which_neighbours_are_busy_is_dropped_and_the_next_waits_for_them():
    loud = {"until": 0}
    samples = iter(range(10**6))

    def seconds(factor):
        def of(_):
            now = next(samples)
            if now % 20 == 19:
                loud["until"] = now + 5  # they wake during a sample, and are asked five times before they rest
            return factor * (9e-3 if now % 20 == 19 else 1e-3)

        return of

    def rate():
        loud["until"] -= 1
        return 0.5 if loud["until"] > 0 else 1.0

    neighbours = measure.Neighbours(rate)
    timers = {"lathe": FakeTimer(seconds(1.0)), "peer": FakeTimer(seconds(2.0))}
    result = measure.compare(timers, budget=0.05, least=40, most=60, neighbours=neighbours)
    assert result.dropped > 0
    assert result.ratios["peer"].low == result.ratios["peer"].high == 2.0


def test_the_best_peer_is_the_quickest():
    timers = {name: FakeTimer(lambda _, s=s: s) for name, s in (("lathe", 1e-3), ("slow", 3e-3), ("quick", 2e-3))}
    assert measure.compare(timers, budget=0).best == "quick"


def test_a_peer_that_differs_is_named_and_lathe_alone_is_an_error():
    case = Case("c", "other", [], None, None)
    right, wrong = [np.ones(4, np.float32)], [np.array([1, 1, 1, np.nan], np.float32)]
    _, found = peers.verify(case, {"lathe": right, "a": right, "b": wrong})
    assert list(found) == ["b"]
    with pytest.raises(AssertionError, match="no peer agrees"):
        peers.verify(case, {"lathe": right, "b": wrong})
    case.exact = lambda: right[0]
    assert list(peers.verify(case, {"lathe": right, "b": wrong})[1]) == ["b"]
    with pytest.raises(AssertionError, match="no peer agrees"):
        peers.verify(case, {"lathe": wrong, "b": right})


def test_the_gate_fails_past_its_margin_only():
    assert gate.slower(1.3, 1.0)
    assert not gate.slower(1.2, 1.0)


def test_the_gate_measures_again_what_is_over(monkeypatch, tmp_path):
    """Neighbours that go leave it passed, and a kernel that stays over fails."""
    info = lathe.device_info()
    if "fma" not in info["features"]:
        pytest.skip("the gate compares nothing here")
    table = tmp_path / "gate.json"
    table.write_text(json.dumps({f"{info['cpu']} {info['vector_bits']}": {"a": 1.0, "b": 1.0}}))
    monkeypatch.setattr(gate, "TABLE", table)
    monkeypatch.setattr(gate.native, "Native", lambda build: None)
    monkeypatch.setattr(gate.measure, "adopt_policy", lambda threads: None)
    monkeypatch.setattr(gate.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(gate, "kernels", lambda: [("a", "a", []), ("b", "b", [])])
    times = {"a": iter([1.1]), "b": iter([1.5, 1.4, 1.0])}
    monkeypatch.setattr(gate, "cost", lambda machine, name, shapes: next(times[name]))
    monkeypatch.setattr(lathe, "set_thread_count", lambda count: None)
    gate.main(None, commit=False)
    times = {"a": iter([1.1]), "b": itertools.repeat(1.5)}
    with pytest.raises(SystemExit, match="slower than committed by more than 25%: b$"):
        gate.main(None, commit=False)


def test_a_table_is_written_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin a -->\nold\n<!-- end a -->\nafter\n")
    report.replace_between(page, "a", "new")
    assert page.read_text() == "before\n<!-- begin a -->\n\nnew\n\n<!-- end a -->\nafter\n"
    with pytest.raises(SystemExit):
        report.replace_between(page, "b", "new")


def test_a_page_sums_up_its_own_tables(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- begin summary -->\n<!-- end summary -->\n<!-- begin cpp one -->\n<!-- end cpp one -->\n"
        "<!-- begin compile -->\n<!-- end compile -->\n"
    )
    report.replace_between(page, "compile", "| reduction | softmax | **7.3** | 6 |\n| gemm | n x n | 8.1 | 12 |")
    table = "- all: geometric mean of 3 ratios 1.35, least 0.90\n- 1 of 3 lie under 0.95 with their whole interval: a b"
    report.replace_between(page, "cpp one", table)
    text = page.read_text()
    assert "| bound in C++, one thread | 3 | 1.35 | 0.90 | a b |" in text
    assert "1 of 2 compile times lie over their target, in ms: reduction softmax 7.3 (of 6)." in text


@pytest.mark.parametrize("page", ["performance.md", "performance-cascadelake.md", "performance-znver5.md", "performance-znver3.md"])
def test_summaries_in_the_docs_are_of_the_tables_below_them(page):
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / page).read_text()
    assert report.in_short(text) in text


def test_arrays_of_the_suite_are_aligned_and_lie_apart_within_a_page():
    starts = [empty((100,), np.float32).ctypes.data for _ in range(5)]
    assert all(start % 64 == 0 for start in starts)
    gaps = [(a - b) % 4096 for a in starts for b in starts if a is not b]
    assert min(gaps) >= 512


def test_bits_are_read_as_bf16():
    bits = bf16(np.array([1.0, 1.00390625, -2.5]))
    np.testing.assert_array_equal(peers.widen(bits), [1.0, 1.0, -2.5])
    case = Case("c", "other", [bits], lambda x: x + x, None, bfloat16=True)
    text, outputs = lowered(case)
    assert "x0: bf16[3]" in text and outputs[0].dtype == np.uint16


def test_the_transposed_convolution_of_the_suite_is_the_adjoint_of_the_plain_one():
    rng = seeded(3)
    x, w = rng.standard_normal((1, 3, 5, 6), dtype=np.float32), rng.standard_normal((3, 4, 4, 4), dtype=np.float32)
    up = lathe.jit(lambda x, w: convolutions.transposed_convolution(x, w, 2, 1))(x, w)
    y = rng.standard_normal(up.shape, dtype=np.float32)
    down = lathe.jit(lambda y, w: convolutions.convolution(y, w, stride=2, pad=1))(y, w)
    assert (up * y).sum() == pytest.approx((down * x).sum(), rel=1e-4)


def test_halving_by_bilinear_resize_averages_squares():
    x = seeded(4).standard_normal((1, 2, 8, 12), dtype=np.float32)
    got = lathe.jit(lambda x: movement.resize(x, 4, 6))(x)
    np.testing.assert_allclose(got, x.reshape(1, 2, 4, 2, 6, 2).mean((3, 5)), rtol=1e-5, atol=1e-6)
