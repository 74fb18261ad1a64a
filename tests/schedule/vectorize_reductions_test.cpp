#include <fmt/format.h>

#include "ir/text/parse.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// What is decided of the sum along rows of `term`, an expression over the element, x[vi, vk].
std::string decision(const std::string& term) {
  return decisions_on(parse_func(fmt::format(
                          R"(func total(x: f32[4, 1024], out: f32[4]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, 4) {{ for k in [0, 1024) {{
      block total(space vi in [0, 4) = i, reduce vk in [0, 1024) = k) reads x[vi, vk], out[vi] writes out[vi] {{
        reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ out[vi] = 0.0f32 }}
        let sum: f32 = out[vi]
        let term: f32 = {}
        out[vi] = sum + term
      }} }} }} }} }})",
                          term)),
                      wide(), "total");
}

TEST(VectorizeReductions, HidesTheLatencyOfCheapTermsInFourChains) {
  EXPECT_NE(decision("x[vi, vk] * x[vi, vk]").find("reduce total in 4 vectors of 16 lanes\n"), std::string::npos)
      << decision("x[vi, vk] * x[vi, vk]");
}

TEST(VectorizeReductions, TakesOneChainWhereTheTermsTakeLonger) {
  EXPECT_NE(decision("sqrt(x[vi, vk] * x[vi, vk])").find("reduce total in 1 vectors of 16 lanes\n"), std::string::npos)
      << decision("sqrt(x[vi, vk] * x[vi, vk])");
}

}  // namespace
}  // namespace lathe::testing
