// The rules about a device's memory: who may touch what.
#include <gtest/gtest.h>

#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/text/device.h"
#include "ir/text/parse.h"

namespace lathe {
namespace {

Device device() {
  return parse_device(R"(
device d {
  axis core 4
  axis lane 32
  space spm { reach {host, core} }
  space vmem { head_address 0 reach {core} per core }
  space sealed { opaque_index reach {} }
  copy global -> vmem "load"
})");
}

std::string findings(const std::string& body) {
  std::string text;
  const Func func = parse_func(
      "func f(a: f32[64], c: f32[64]) stage flatten memory { s: f32[64] @spm v: f32[64] @vmem "
      "z: f32[64] @sealed o: f32[64] @elsewhere } { " +
      body + " }");
  for (const Finding& finding : verify_spaces(func, device())) {
    EXPECT_TRUE(finding.proved_wrong);
    text += finding.rule + ": " + finding.message + "\n";
  }
  return text;
}

TEST(VerifySpaces, TheHostTouchesWhatItReaches) {
  EXPECT_EQ(findings("s[0] = a[0] c[0] = s[0]"), "");
  EXPECT_EQ(findings("v[0] = 1.0f32"),
            "space.reachable: the host has a store to v in space vmem, which only core can reach\n");
  EXPECT_EQ(findings("c[0] = v[0] + 1.0f32"),
            "space.reachable: the host has a load from v in space vmem, which only core can reach\n");
  EXPECT_EQ(findings("for i in [0, 4) { if a[0] > 0.0f32 { c[cast<i64>(v[i])] = a[0] } }"),
            "space.reachable: the host has a load from v in space vmem, which only core can reach\n");
  // A copy is no way around that: the host would have to reach both.
  EXPECT_EQ(findings("v[0] = a[0]"),
            "space.reachable: the host has a store to v in space vmem, which only core can reach\n");
}

TEST(VerifySpaces, InsideLoopsAlongAxesOneOfThemReaches) {
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 4) { v[b] = s[b] + 1.0f32 s[b] = v[b] }"), "");
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 4) { bound(\"lane\") for l in [0, 32) { v[l] = v[l] * 2.0f32 } }"),
            "");
  EXPECT_EQ(findings("bound(\"lane\") for l in [0, 32) { v[l] = v[l] * 2.0f32 }"),
            "space.reachable: lane has a store to v in space vmem, which only core can reach\n"
            "space.reachable: lane has a load from v in space vmem, which only core can reach\n");
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 4) { z[b] = 0.0f32 }"),
            "space.reachable: core has a store to z in space sealed, which none can reach\n");
  // What stands behind the loop is the host's again.
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 4) { v[b] = 0.0f32 } s[0] = v[0]"),
            "space.reachable: the host has a load from v in space vmem, which only core can reach\n");
}

TEST(VerifySpaces, ADescribedCopyReachesForTheAxis) {
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 4) { v[b] = a[b] }"), "");
  // Another direction, or anything computed, is no copy.
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 4) { c[b] = v[b] }"),
            "space.reachable: core has a store to c in space global, which only host can reach\n");
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 4) { v[b] = a[b] * 2.0f32 }"),
            "space.reachable: core has a load from a in space global, which only host can reach\n");
}

TEST(VerifySpaces, EverySpaceIsTheDevices) {
  EXPECT_EQ(findings("o[0] = 1.0f32"),
            "space.known: buffer o: unknown space 'elsewhere'; known: spm, vmem, sealed, global, worker, register, "
            "constant\n");
  const Func func = parse_func("func f(c: f32[4]) { block () { alloc t: f32[4] @vmen c[0] = 0.0f32 } }");
  const std::vector<Finding> found = verify_spaces(func, device());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rule, "space.known");
}

TEST(VerifySpaces, ALoopAlongAnAxisStaysWithinIt) {
  EXPECT_EQ(findings("bound(\"core\") for b in [2, 4) { s[b] = 0.0f32 }"), "");
  EXPECT_EQ(findings("bound(\"core\") for b in [0, 5) { s[b] = 0.0f32 }"),
            "space.axis: loop b runs over [0, 0 + 5) along axis core, which has 4 positions\n");
  EXPECT_EQ(findings("bound(\"cores\") for b in [0, 4) { a[b] = 0.0f32 }")
                .find("space.axis: loop b: unknown axis 'cores'; did you mean 'core'? known: core, lane\n"),
            0u);
  const Func symbolic = parse_func(
      "func f(n: i64, s: f32[n]) facts {n in [1, 9]} { bound(\"core\") for b in [0, n) { let x = 0.0f32 } }");
  const std::vector<Finding> found = verify_spaces(symbolic, device());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].proved_wrong);
}

TEST(VerifySpaces, CheckVerifiedAsksThemOfADevice) {
  const Func func = parse_func("func f(c: f32[4]) { block () { alloc t: f32[4] @vmem t[0] = 0.0f32 } }");
  const Device d = device();
  EXPECT_NO_THROW(check_verified(func, "a_pass"));
  EXPECT_THROW(check_verified(func, "a_pass", &d), Bug);
}

}  // namespace
}  // namespace lathe
