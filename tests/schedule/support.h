#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "schedule/schedule.h"

namespace lathe::testing {

/// programs/`name`.tir, parsed.
Func program(const std::string& name);

/// Interprets both on the same seeded data, whose floats are small whole numbers, so that sums in any order are exact;
/// every output must be the same bit for bit. Neither may have a finding of `verify`.
void expect_same(const Func& before, const Func& after);

/// The same, whatever `verify` leaves unproved.
void expect_same_results(const Func& before, const Func& after);

/// Checks the schedule against its program: same results, golden/`name`.tir as printed, and a record that replays to
/// the same.
void expect_scheduled(const Schedule& schedule, const Func& before, const std::string& name);

/// `apply` must throw a Refusal of that primitive and condition whose whole text is golden/`name`.txt, and leave the
/// Func and the record untouched.
void expect_refused(Schedule& schedule, const std::function<void()>& apply, const std::string& primitive, int condition,
                    const std::string& name);

}  // namespace lathe::testing
