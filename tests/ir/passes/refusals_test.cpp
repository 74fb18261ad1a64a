// What a pass cannot do, it says: which condition, and which block or buffer.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/passes/lower_reductions.h"
#include "ir/passes/plan_storage.h"
#include "ir/text/parse.h"

namespace lathe {
namespace {

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const Refusal& e) {
    return e.what();
  }
  return "no Refusal";
}

std::string allocating(const std::string& facts) {
  return "func f(n: i64, c: f32[n]) stage before_flatten " + facts +
         " { block () { alloc t: f32[n] "
         "for i in [0, n) { t[i] = 1.0f32 } for j in [0, n) { c[j] = t[n - 1 - j] } } }";
}

TEST(PlanStorage, RefusesAnAllocationWithoutAConstantBound) {
  EXPECT_EQ(refusal([] { plan_storage(parse_func(allocating("")), Device{}); }),
            "plan_storage refused: condition 1, the size of each allocation has a constant bound: buffer t; give its "
            "symbolic extents a maximum");
}

TEST(PlanStorage, TakesTheBoundOfASymbolicExtentFromTheFacts) {
  Func planned = plan_storage(parse_func(allocating("facts {n in [1, 100]}")), Device{});
  EXPECT_EQ(std::get<std::int64_t>(planned->attrs.at("shared_bytes")), 448);
}

TEST(LowerReductions, RefusesAGuardThatAnEmptyDomainWouldNeverReach) {
  const char* text =
      "func f(n: i64, a: f32[4, n], c: f32[4]) stage begin { block root() { for i in [0, 4) { for k in [0, n) { if n < "
      "9 { "
      "block total(space vi in [0, 4) = i, reduce vk in [0, n) = k) reads a[vi, vk] writes c[vi] { "
      "reducer (x: f32) (y: f32) {x + y} identity {0.0f32} init { c[vi] = 0.0f32 } "
      "let l: f32 = c[vi] let r: f32 = a[vi, vk] c[vi] = l + r } } } } } }";
  std::string message = refusal([&] { lower_reductions(parse_func(text)); });
  EXPECT_NE(message.find("lower_reductions refused: condition 1"), std::string::npos) << message;
  EXPECT_NE(message.find("block total, iter vk"), std::string::npos) << message;
}

}  // namespace
}  // namespace lathe
