#include "schedule/primitives/compute_inline.h"

#include "ir/text/parse.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(ComputeInline, BindsAnElementThatIsUsedTwiceOnce) {
  const Func before = program("chain");
  Schedule s(before);
  compute_inline(s, {"scale"});
  expect_scheduled(s, before, "inline_let");
  compute_inline(s, {"shift"});
  expect_scheduled(s, before, "inline_chain");
}

TEST(ComputeInline, PushesTheMaskOfAReadIntoTheLoads) {
  const Func before = program("pad");
  Schedule s(before);
  compute_inline(s, {"twice"});
  expect_scheduled(s, before, "inline_masked");
}

TEST(ComputeInline, GoesIntoTheTermOfAReduction) {
  const Func before = parse_func(R"(func sum(x: f32[4, 6], out: f32[4]) stage begin {
  block root() reads x[..], out[..] writes out[..] {
    alloc y: f32[4, 6]
    for i in [0, 4) {
      for j in [0, 6) {
        block y(space vi in [0, 4) = i, space vj in [0, 6) = j) reads x[vi, vj] writes y[vi, vj] {
          y[vi, vj] = x[vi, vj] + 1.0f32
        }
      }
    }
    for i1 in [0, 4) {
      for k in [0, 6) {
        block sum(space wi in [0, 4) = i1, reduce wk in [0, 6) = k) reads out[wi], y[wi, wk] writes out[wi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            out[wi] = 0.0f32
          }
          let l: f32 = out[wi]
          let r: f32 = y[wi, wk] * y[wi, wk]
          out[wi] = l + r
        }
      }
    }
  }
}
)");
  Schedule s(before);
  compute_inline(s, {"y"});
  expect_scheduled(s, before, "inline_reduction");
}

TEST(ComputeInline, StaysLinearOnALongChainOfSquares) {
  std::string text =
      "func squares(x: f32[2], out: f32[2]) stage begin {\n  block root() reads x[..] writes out[..] {\n";
  constexpr int length = 40;
  for (int i = 0; i < length; ++i) text += "    alloc t" + std::to_string(i) + ": f32[2]\n";
  for (int i = 0; i <= length; ++i) {
    const std::string n = std::to_string(i), from = i ? "t" + std::to_string(i - 1) : "x",
                      to = i == length ? "out" : "t" + n;
    text += "    for i" + n + " in [0, 2) {\n      block b" + n + "(space v" + n + " in [0, 2) = i" + n + ") reads " +
            from + "[v" + n + "] writes " + to + "[v" + n + "] {\n        " + to + "[v" + n + "] = " + from + "[v" + n +
            "] * " + from + "[v" + n + "] - 1.0f32\n      }\n    }\n";
  }
  const Func before = parse_func(text + "  }\n}\n");
  Schedule s(before);
  for (int i = 0; i < length; ++i) compute_inline(s, {"b" + std::to_string(i)});
  expect_scheduled(s, before, "inline_squares");
}

TEST(ComputeInline, RefusesAReduction) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { compute_inline(s, {"product"}); }, "compute_inline", 1, "inline_refused_reduction");
}

TEST(ComputeInline, RefusesABlockWithAnAssert) {
  Schedule s(program("gather"));
  expect_refused(s, [&] { compute_inline(s, {"take"}); }, "compute_inline", 1, "inline_refused_assert");
}

TEST(ComputeInline, RefusesAnOutput) {
  Schedule s(program("chain"));
  expect_refused(s, [&] { compute_inline(s, {"store"}); }, "compute_inline", 2, "inline_refused_2");
}

TEST(ComputeInline, RefusesAReaderThatTakesAnAddress) {
  Schedule s(parse_func(R"(func address(out: f32[4]) stage begin {
  block root() writes out[..] {
    alloc t: f32[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) writes t[v] {
        t[v] = 1.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) reads t[..] writes out[w] {
        out[w] = extern<f32> "first"(&t[w])
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 3, "inline_refused_3");
}

TEST(ComputeInline, RefusesAReadAtElementsOfTheBufferItself) {
  Schedule s(parse_func(R"(func twice(x: i64[4], out: i64[4]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: i64[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) reads x[v] writes t[v] {
        t[v] = x[v] % 4
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) reads t[..] writes out[w] {
        out[w] = t[t[w]]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 4, "inline_refused_4");
}

TEST(ComputeInline, RefusesWhenItsInputIsOverwrittenBehindIt) {
  Schedule s(parse_func(R"(func overwritten(x: f32[4], out: f32[4]) stage begin {
  block root() reads x[..] writes x[..], out[..] {
    alloc t: f32[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) reads x[v] writes t[v] {
        t[v] = x[v]
      }
    }
    for k in [0, 4) {
      block clear(space u in [0, 4) = k) writes x[u] {
        x[u] = 0.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) reads t[w] writes out[w] {
        out[w] = t[w]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 5, "inline_refused_5");
  expect_refused(s, [&] { compute_at(s, {"t"}, s.loop("b", 0)); }, "compute_at", 5, "compute_at_refused_5");
}

/// The other half of x is cleared between what reads one half and what reads that, all within an iteration of h.
Func halves() {
  return parse_func(R"(func halves(a: f32[2, 8], out: f32[2, 4]) stage begin {
  block root() reads a[..] writes out[..] {
    alloc x: f32[2, 8]
    alloc t: f32[2, 4]
    for f in [0, 2) {
      for g in [0, 8) {
        block fill(space vf in [0, 2) = f, space vg in [0, 8) = g) reads a[vf, vg] writes x[vf, vg] {
          x[vf, vg] = a[vf, vg]
        }
      }
    }
    for h in [0, 2) {
      for i in [0, 4) {
        block t(space vh in [0, 2) = h, space v in [0, 4) = i) reads x[vh, v] writes t[vh, v] {
          t[vh, v] = x[vh, v] + 1.0f32
        }
      }
      for k in [0, 4) {
        block clear(space uh in [0, 2) = h, space u in [0, 4) = k) writes x[uh, u + 4] {
          x[uh, u + 4] = 0.0f32
        }
      }
      for j in [0, 4) {
        block b(space wh in [0, 2) = h, space w in [0, 4) = j) reads t[wh, w] writes out[wh, w] {
          out[wh, w] = t[wh, w]
        }
      }
    }
  }
}
)");
}

TEST(ComputeInline, GoesPastABlockThatWritesElsewhereInItsInput) {
  Schedule s(halves());
  compute_inline(s, {"t"});
  expect_scheduled(s, halves(), "inline_past_another_half");
}

TEST(ComputeAt, GoesPastABlockThatWritesElsewhereInItsInput) {
  Schedule s(halves());
  compute_at(s, {"t"}, s.loop("b", 1));
  expect_scheduled(s, halves(), "compute_at_past_another_half");
}

TEST(ReverseComputeAt, GoesPastABlockThatWritesElsewhereInItsInput) {
  const Func before = parse_func(R"(func halves(x: f32[4], out: f32[4]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc t: f32[4]
    alloc y: f32[8]
    for f in [0, 8) {
      block fill(space vf in [0, 8) = f) writes y[vf] {
        y[vf] = 3.0f32
      }
    }
    for i in [0, 4) {
      block t(space v in [0, 4) = i) reads x[v] writes t[v] {
        t[v] = x[v] + 1.0f32
      }
    }
    for k in [0, 4) {
      block clear(space u in [0, 4) = k) writes y[u + 4] {
        y[u + 4] = 0.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) reads t[w], y[w] writes out[w] {
        out[w] = t[w] + y[w]
      }
    }
  }
}
)");
  Schedule s(before);
  reverse_compute_at(s, {"b"}, s.loop("t", 0));
  expect_scheduled(s, before, "reverse_compute_at_past_another_half");
}

TEST(ComputeInline, RefusesABlockThatNothingReads) {
  Schedule s(parse_func(R"(func unread(out: f32[4]) stage begin {
  block root() writes out[..] {
    alloc t: f32[4]
    for i in [0, 4) {
      block t(space v in [0, 4) = i) writes t[v] {
        t[v] = 1.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) writes out[w] {
        out[w] = 2.0f32
      }
    }
  }
}
)"));
  expect_refused(s, [&] { compute_inline(s, {"t"}); }, "compute_inline", 6, "inline_refused_6");
}

}  // namespace
}  // namespace lathe::testing
