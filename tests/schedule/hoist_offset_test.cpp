/// hoist_offset, and the rule that applies it: zero points of bytes.
#include "schedule/primitives/hoist_offset.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums of `term` over k for i of 20 and j of 24, read once more.
Func product(const std::string& term) {
  return parse_func(fmt::format(R"(func product(a: u8[20, 40], b: i8[40, 24], c: i32[20], out: i32[20, 24]) {{
  block root() reads a[..], b[..], c[..] writes out[..] {{
    alloc s: i32[20, 24]
    for i in [0, 20) {{
      for j in [0, 24) {{
        for k in [0, 40) {{
          block sum(space vi in [0, 20) = i, space vj in [0, 24) = j, reduce vk in [0, 40) = k)
              reads s[vi, vj], a[vi, vk], b[vk, vj], c[..]
              writes s[vi, vj]
          {{
            reducer (l: i32) (r: i32) {{l + r}} identity {{0i32}}
            init {{
              s[vi, vj] = 0i32
            }}
            let l0: i32 = s[vi, vj]
            let r0: i32 = {}
            s[vi, vj] = l0 + r0
          }}
        }}
      }}
    }}
    for i in [0, 20) {{
      for j in [0, 24) {{
        block read(space wi in [0, 20) = i, space wj in [0, 24) = j) reads s[wi, wj] writes out[wi, wj] {{
          out[wi, wj] = max(s[wi, wj], 0i32)
        }}
      }}
    }}
  }}
}}
)",
                                term));
}

const std::string plain = "(cast<i32>(a[vi, vk]) - 3i32) * cast<i32>(b[vk, vj])";
const std::string both = "(cast<i32>(a[vi, vk]) - 3i32) * (cast<i32>(b[vk, vj]) + 114i32)";

TEST(HoistOffset, OfOneFactorThenOfTheOther) {
  const Func before = product(plain);
  Schedule s(before);
  EXPECT_EQ(offset_factor(s.node(BlockRef{"sum"})), "a");
  hoist_offset(s, {"sum"}, "a");
  EXPECT_EQ(offset_factor(s.node(BlockRef{"sum"})), "");
  expect_scheduled(s, before, "hoist_offset");
  const Func of_both = product(both);
  Schedule two(of_both);
  hoist_offset(two, {"sum"}, "b");
  hoist_offset(two, {"sum"}, "a");
  expect_same(of_both, two.func());
}

TEST(HoistOffset, RefusesOtherTerms) {
  Schedule s(product(plain));
  expect_refused(s, [&] { hoist_offset(s, {"sum"}, "b"); }, "hoist_offset", 2, "hoist_offset_refused_2");
  for (const char* term :
       {"cast<i32>(a[vi, vk]) * cast<i32>(b[vk, vj])", "cast<i32>(a[vi, vk]) - 3i32",
        "(cast<i32>(a[vi, vk]) - c[vi]) * cast<i32>(b[vk, vj])", "(cast<i32>(a[vi, vk]) - 3i32) * cast<i32>(a[vi, vk])",
        "(3i32 - cast<i32>(a[vi, vk])) * cast<i32>(b[vk, vj])"}) {
    Schedule other(product(term));
    EXPECT_EQ(offset_factor(other.node(BlockRef{"sum"})), "") << term;
    EXPECT_THROW(hoist_offset(other, {"sum"}, "a"), Refusal) << term;
  }
  Schedule greatest(parse_func(
      replaced_all(replaced_all(print(product(plain)), "{l + r}", "{max(l, r)}"), "l0 + r0", "max(l0, r0)")));
  EXPECT_THROW(hoist_offset(greatest, {"sum"}, "a"), Refusal);
}

TEST(HoistOffset, RefusesAnOutput) {
  Schedule s(parse_func(R"(func product(a: u8[20, 40], b: i8[40], out: i32[20]) {
  for i in [0, 20) {
    for k in [0, 40) {
      block sum(space vi in [0, 20) = i, reduce vk in [0, 40) = k) reads out[vi], a[vi, vk], b[vk] writes out[vi] {
        reducer (l: i32) (r: i32) {l + r} identity {0i32}
        init {
          out[vi] = 0i32
        }
        let l0: i32 = out[vi]
        let r0: i32 = (cast<i32>(a[vi, vk]) - 3i32) * cast<i32>(b[vk])
        out[vi] = l0 + r0
      }
    }
  }
}
)"));
  EXPECT_THROW(hoist_offset(s, {"sum"}, "a"), Refusal);
}

TEST(HoistOffsets, OfBytes) {
  const auto hoists = [](const std::string& term) {
    return decisions_on(product(term), dotting(), "sum").find("take constants out of the terms of sum") !=
           std::string::npos;
  };
  EXPECT_TRUE(hoists(plain));
  EXPECT_TRUE(hoists(both));
  EXPECT_FALSE(hoists("cast<i32>(a[vi, vk]) * cast<i32>(b[vk, vj])"));
  expect_scheduled_well(product(plain));
  expect_scheduled_well(product(both));
}

}  // namespace
}  // namespace lathe::testing
