#include "tests/schedule/support.h"

#include <cstring>
#include <random>
#include <unordered_set>

#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/interpreter/interpreter.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/record.h"
#include "tests/golden.h"

namespace lathe::testing {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(const Buffer& buffer, std::mt19937& random) {
  const std::int64_t count = *as_int(element_count(buffer));
  Bytes bytes(static_cast<size_t>(count * buffer->dtype.bytes()));
  for (std::int64_t i = 0; i < count; ++i) {
    const int value = static_cast<int>(random() % 4);
    std::byte* at = bytes.data() + i * buffer->dtype.bytes();
    if (buffer->dtype == f32) {
      const auto element = static_cast<float>(value - 1);
      std::memcpy(at, &element, sizeof element);
    } else {
      *at = static_cast<std::byte>(value);
    }
  }
  return bytes;
}

std::vector<Bytes> run(const Func& func) {
  std::mt19937 random(7);
  std::vector<Bytes> data;
  for (const Buffer& buffer : buffer_params(func)) data.push_back(random_bytes(buffer, random));
  std::vector<HostBuffer> buffers;
  for (Bytes& bytes : data) buffers.push_back({bytes.data(), bytes.data(), bytes.data() + bytes.size()});
  EXPECT_EQ(interpret(func, buffers, {}), 0);
  return data;
}

void expect_verified(const Func& func) {
  for (const Finding& finding : verify(func)) {
    ADD_FAILURE() << finding.rule << ": " << finding.message << "\n" << print(func);
  }
}

/// Has each block a name of its own? Schedules find blocks by their names.
void expect_names_apart(const Func& func) {
  std::unordered_set<std::string> names;
  for_each_stmt(func->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block) return;
    EXPECT_TRUE(names.insert(block->f.name).second) << block->f.name << " is two blocks\n" << print(func);
  });
}

}  // namespace

Func program(const std::string& name) {
  const std::string file = std::string(LATHE_TEST_DIR) + "/programs/" + name + ".tir";
  return parse_func(read_file(file), name + ".tir");
}

void expect_same(const Func& before, const Func& after) {
  expect_verified(before);
  expect_verified(after);
  expect_names_apart(after);
  expect_same_results(before, after);
}

void expect_same_results(const Func& before, const Func& after) {
  EXPECT_EQ(run(before), run(after)) << print(after);
}

void expect_scheduled(const Schedule& schedule, const Func& before, const std::string& name) {
  expect_same(before, schedule.func());
  expect_golden(print(schedule.func()), name + ".tir");
  EXPECT_TRUE(equal(parse_func(print(schedule.func())), schedule.func()));
  Schedule again(before);
  replay(again, schedule.record());
  EXPECT_TRUE(equal(again.func(), schedule.func())) << print(again.func());
  EXPECT_EQ(again.record(), schedule.record());
}

void expect_refused(Schedule& schedule, const std::function<void()>& apply, const std::string& primitive, int condition,
                    const std::string& name) {
  const Func before = schedule.func();
  const std::vector<std::string> record = schedule.record();
  try {
    apply();
    ADD_FAILURE() << primitive << " did what it must refuse\n" << print(schedule.func());
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.subject, primitive);
    EXPECT_EQ(refusal.condition, condition) << refusal.message();
    expect_golden(refusal.message() + "\n", name + ".txt");
  }
  EXPECT_EQ(schedule.func(), before);
  EXPECT_EQ(schedule.record(), record);
}

}  // namespace lathe::testing
