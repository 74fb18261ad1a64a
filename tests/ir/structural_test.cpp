#include "ir/structural.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

constexpr const char* base = R"(
func f(x: f32[8, n], n: i64, out: f32[8]) stage begin facts {n in [1, 64]} attrs {operators: "sum"} {
  block root() reads x[..] writes out[..] {
    alloc t: f32[8]
    for i in [0, 8) @{note: 1} {
      for k in [0, n) {
        block sum(space vi in [0, 8) = i, reduce vk in [0, n) = k) where k < n reads x[vi, vk] writes out[vi] {
          reducer (a: f32) (b: f32) {a + b} identity {0.0f32}
          init {
            out[vi] = 0.0f32
          }
          let l = out[vi]
          let r = x[vi, vk]
          out[vi] = l + r
        }
      }
    }
    t[0] = out[0]
  }
}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Structural, NamesOfBoundThingsDoNotCount) {
  const Func f = parse_func(base);
  std::string renamed = base;
  for (const auto& [from, to] : {std::pair("for i in", "for row in"),
                                 {"= i,", "= row,"},
                                 {"alloc t:", "alloc temporary:"},
                                 {"t[0] =", "temporary[0] ="},
                                 {"let l =", "let left ="},
                                 {"= l + r", "= left + r"}}) {
    renamed = replaced(renamed, from, to);
  }
  const Func g = parse_func(renamed);
  EXPECT_TRUE(equal(f, g));
  EXPECT_EQ(structural_hash(f), structural_hash(g));
}

TEST(Structural, EveryOtherPartCounts) {
  const Func f = parse_func(base);
  const std::pair<const char*, const char*> changes[] = {
      {"func f(", "func g("},
      {"x: f32[8, n], n: i64, out: f32[8]", "x: f32[8, n], n: i64, out: f32[9]"},
      {"out: f32[8])", "out: f32[8] align 64)"},
      {"out: f32[8])", "out: f32[8] strides [1])"},
      {"out: f32[8])", "out: f32[8] offset 0)"},
      {"stage begin", "stage tuning"},
      {"n in [1, 64]", "n in [1, 65]"},
      {"n in [1, 64]", "n in [, 64]"},
      {"n in [1, 64]", "n in [1, 64] multiple_of 2"},
      {"n in [1, 64]", "n in [1, 64] equals 8"},
      {"operators: \"sum\"", "operators: \"mean\""},
      {"alloc t: f32[8]", "alloc t: f32[8] @worker"},
      {"for i in [0, 8)", "parallel for i in [0, 8)"},
      {"for i in [0, 8)", "for i in [1, +8)"},
      {"note: 1", "note: 1.0"},
      {"block sum(", "block total("},
      {"space vi", "ordered vi"},
      {"vi in [0, 8) = i", "vi in [0, 9) = i"},
      {"[0, 8) = i", "[0, 8) = k"},
      {"where k < n ", ""},
      {"where k < n ", "where k <= n "},
      {"reads x[vi, vk]", "reads x[vi, ..]"},
      {"reads x[vi, vk]", "reads x[vi, vk] checked \"sum\""},
      {"writes out[vi]", "writes out[vi] trusted"},
      {"{a + b}", "{a * b}"},
      {"{a + b}", "{b + a}"},
      {"identity {0.0f32}", "identity {-0.0f32}"},
      {"out[vi] = l + r", "out[vi] = r + l"},
      {"let r = x[vi, vk]", "let r = x[vk, vi]"},
      {"let r = x[vi, vk]", "let r = x[vi, vk if true]"},
      {"t[0] = out[0]", "t[0] = out[1]"},
      {"t[0] = out[0]", "out[0] = t[0]"},
  };
  for (const auto& [from, to] : changes) {
    const Func g = parse_func(replaced(base, from, to));
    EXPECT_FALSE(equal(f, g)) << from << " -> " << to;
    EXPECT_NE(structural_hash(f), structural_hash(g)) << from << " -> " << to;
  }
}

TEST(Structural, ParameterNamesCountAndCorrespondByPosition) {
  const Func f = parse_func("func f(a: f32[1], b: f32[1]) {\n  a[0] = b[0]\n}");
  EXPECT_TRUE(equal(f, parse_func("func f(a: f32[1], b: f32[1]) {\n  a[0] = b[0]\n}")));
  EXPECT_FALSE(equal(f, parse_func("func f(b: f32[1], a: f32[1]) {\n  b[0] = a[0]\n}")));
  EXPECT_FALSE(equal(f, parse_func("func f(a: f32[1], b: f32[1]) {\n  b[0] = a[0]\n}")));
}

TEST(Structural, FreeVariablesMustBeIdentical) {
  const VarRef a = Var::make("x"), b = Var::make("x");
  EXPECT_TRUE(equal(a + 1, a + 1));
  EXPECT_FALSE(equal(a + 1, b + 1));
  EXPECT_EQ(structural_hash(a + 1), structural_hash(b + 1)) << "no address may go into a hash";
}

TEST(Structural, BindersDoNotConfuseTwoVariables) {
  const char* crossed =
      "func f(x: i64[4, 4]) {\n  for i in [0, 4) {\n    for j in [0, 4) {\n      x[i, j] = 1\n    }\n  }\n}";
  const Func f = parse_func(crossed);
  const Func g = parse_func(replaced(crossed, "x[i, j]", "x[j, i]"));
  EXPECT_FALSE(equal(f, g));
  EXPECT_FALSE(equal(g, f));
  EXPECT_NE(structural_hash(f), structural_hash(g));
}

TEST(Structural, FloatsCompareByBits) {
  EXPECT_FALSE(equal(FloatImm::make(f32, 0.0), FloatImm::make(f32, -0.0)));
  EXPECT_TRUE(equal(FloatImm::make(f32, NAN), FloatImm::make(f32, NAN)));
  EXPECT_FALSE(equal(FloatImm::make(f32, 1.0), FloatImm::make(f64, 1.0)));
}

TEST(Structural, SharedExpressionsAreSeenOnce) {
  // 2^200 paths: only sharing makes this end.
  const auto tower = [](const VarRef& x) {
    Expr e = x;
    for (int i = 0; i < 200; ++i) e = Binary::make(BinaryOp::mul, e, e);
    return e;
  };
  const VarRef x = Var::make("x", i32);
  const Expr a = tower(x), b = tower(x);
  EXPECT_TRUE(equal(a, b));
  EXPECT_EQ(structural_hash(a), structural_hash(b));
}

TEST(Structural, HashesAreTheSameInEveryProcess) {
  // Part of keys on disk: a change here changes every key.
  EXPECT_EQ(structural_hash(parse_func("func f(a: f32[1]) {\n  a[0] = 1.0f32\n}")), 13426860969914991982u);
}

TEST(Structural, FreshCopiesAreEqual) {
  const Func f = parse_func(base);
  const Func copy = with_body(f, fresh_copy(f->body));
  EXPECT_FALSE(copy->body == f->body);
  EXPECT_TRUE(equal(f, copy));
  EXPECT_EQ(structural_hash(f), structural_hash(copy));
}

}  // namespace
}  // namespace lathe
