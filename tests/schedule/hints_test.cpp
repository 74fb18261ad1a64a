#include "ir/passes/compact_buffers.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_reductions.h"
#include "ir/passes/place_allocations.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/annotate_buffer_access.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

Func compacted(const Func& func) {
  return compact_buffers(place_allocations(lower_blocks(lower_reductions(func)), Device{}));
}

/// "[1, 1, 24, 24]"
std::string shape_of(const Func& func, const std::string& name) {
  for (const Buffer& buffer : allocations(func)) {
    if (buffer->name != name) continue;
    std::string text;
    for (const Expr& extent : buffer->shape) text += (text.empty() ? "[" : ", ") + print(extent);
    return text + "]";
  }
  return "none";
}

Func without_float_intervals(const Func& func) {
  Annotations attrs = func->attrs;
  attrs["float_intervals"] = std::int64_t{0};
  return FuncNode::make(func->name, func->params, func->body, func->facts, attrs, func->stage);
}

std::vector<Range> window(const std::vector<Expr>& v) {
  return {{v[0], index(1)}, {v[1], index(1)}, {v[2] * 2 - 3, index(6)}, {v[3] * 2 - 3, index(6)}};
}

Schedule tiled_resize(const Func& func, bool hint) {
  Schedule s(func);
  if (hint) annotate_buffer_access(s, {"resize"}, "x", BufferAccess::read, window);
  const BlockRef copy = cache_read(s, {"resize"}, "x", "global");
  const std::vector<LoopRef> loops = s.loops({"resize"});
  const auto [ho, hi] = split(s, loops[2], 10);
  const auto [wo, wi] = split(s, loops[3], 10);
  reorder(s, {ho, wo, hi, wi});
  compute_at(s, copy, wo);
  return s;
}

TEST(Hints, ShrinkTheCopyOfAResize) {
  const Func exact = program("resize"), plain = without_float_intervals(exact);
  const Schedule proved = tiled_resize(exact, true);
  EXPECT_EQ(shape_of(compacted(proved.func()), "x_global"), "[1, 1, 24, 24]");
  expect_scheduled(proved, exact, "hint_resize");

  const Schedule inferred = tiled_resize(exact, false);
  EXPECT_EQ(shape_of(compacted(inferred.func()), "x_global"), "[1, 1, 19, 19]");
  expect_scheduled(inferred, exact, "hint_resize_inferred");

  const Schedule checked = tiled_resize(plain, true);
  EXPECT_EQ(shape_of(compacted(checked.func()), "x_global"), "[1, 1, 24, 24]");
  expect_scheduled(checked, plain, "hint_resize_checked");

  const Schedule whole = tiled_resize(plain, false);
  EXPECT_EQ(shape_of(compacted(whole.func()), "x_global"), "[1, 1, 200, 200]");
  expect_scheduled(whole, plain, "hint_resize_whole");
  for (const Schedule* s : {&proved, &inferred, &checked, &whole}) expect_same(exact, s->func());
  for (const Schedule* s : {&proved, &inferred, &checked, &whole}) expect_same(exact, compacted(s->func()));
}

RegionOf ranges_of(std::vector<Range> ranges) {
  return [ranges = std::move(ranges)](const std::vector<Expr>&) { return ranges; };
}

void refused(const std::string& program_name, const std::string& block, const std::string& buffer, BufferAccess access,
             const RegionOf& region, int condition, const std::string& name) {
  Schedule s(program(program_name));
  expect_refused(
      s, [&] { annotate_buffer_access(s, {block}, buffer, access, region); }, "annotate_buffer_access", condition,
      "hint_refused_" + name);
}

TEST(AnnotateBufferAccess, TakesABufferWithoutDimensions) {
  const Func before = parse_func(R"(func scalar(x: f64[], out: f64[]) stage begin {
  block root() reads x[] writes out[] {
    block twice() reads x[] writes out[] { out[] = x[] * 2.0f64 } } })");
  Schedule s(before);
  annotate_buffer_access(s, {"twice"}, "x", BufferAccess::read,
                         [](const std::vector<Expr>&) { return std::vector<Range>{}; });
  expect_scheduled(s, before, "hint_without_dimensions");
}

TEST(AnnotateBufferAccess, RefusesABufferThatTheBlockDoesNotRead) {
  refused("resize", "resize", "y", BufferAccess::read, window, 1, "1");
}

TEST(AnnotateBufferAccess, RefusesABufferWhoseAddressIsTaken) {
  Schedule s(parse_func(R"(func address(x: f32[4], y: f32[4]) stage begin {
  block root() {
    for i in [0, 4) {
      block take(space vi in [0, 4) = i) reads x[..] writes y[vi] {
        y[vi] = x[vi] + extern<f32>"first"(&x[0])
      }
    }
  }
}
)"));
  expect_refused(
      s,
      [&] {
        annotate_buffer_access(s, {"take"}, "x", BufferAccess::read,
                               [](const auto& v) { return std::vector<Range>{{v[0], index(1)}}; });
      },
      "annotate_buffer_access", 1, "hint_refused_1_address");
}

TEST(AnnotateBufferAccess, RefusesToCheckTheStoresOfAReduction) {
  Schedule s(parse_func(R"(func histogram(p: i64[8], y: f32[4]) stage begin {
  block root() {
    for i in [0, 8) {
      block count(reduce vi in [0, 8) = i) reads p[vi], y[..] writes y[..] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        let l: f32 = y[p[vi]]
        let r: f32 = 1.0f32
        y[p[vi]] = l + r
      }
    }
  }
}
)"));
  expect_refused(
      s, [&] { annotate_buffer_access(s, {"count"}, "y", BufferAccess::write, ranges_of({{index(0), index(2)}})); },
      "annotate_buffer_access", 5, "hint_refused_5");
}

TEST(AnnotateBufferAccess, RefusesToCheckTheStoresOfAReductionInside) {
  Schedule s(parse_func(R"(func nested(p: i64[8], y: f32[4]) stage begin {
  block root() {
    for t in [0, 2) {
      block tile(ordered vt in [0, 2) = t) reads p[vt * 4 :+ 4], y[..] writes y[..] {
        for i in [0, 4) {
          block count(reduce vi in [0, 8) = vt * 4 + i) reads p[vi], y[..] writes y[..] {
            reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
            let l: f32 = y[p[vi]]
            let r: f32 = 1.0f32
            y[p[vi]] = l + r
          }
        }
      }
    }
  }
}
)"));
  expect_refused(
      s, [&] { annotate_buffer_access(s, {"tile"}, "y", BufferAccess::write, ranges_of({{index(0), index(2)}})); },
      "annotate_buffer_access", 5, "hint_refused_5_inside");
}

/// y[p[i]] = x[i], told to stay within 2 of i.
const char* const scatter = R"(func scatter(x: f32[8], p: i64[8], y: f32[8]) stage begin {
  block root() {
    for i in [0, 8) {
      block put(ordered vi in [0, 8) = i) reads x[vi], p[vi] writes y[..] {
        y[p[vi]] = x[vi]
      }
    }
  }
}
)";
std::vector<Range> near(const std::vector<Expr>& v) {
  return {{v[0] - 2, index(5)}};
}

TEST(AnnotateBufferAccess, RefusesASecondHintWhereAssertionsRestOnTheFirst) {
  Schedule s(parse_func(scatter));
  annotate_buffer_access(s, {"put"}, "y", BufferAccess::write, near);
  expect_refused(
      s, [&] { annotate_buffer_access(s, {"put"}, "y", BufferAccess::write, near); }, "annotate_buffer_access", 6,
      "hint_refused_6");
}

TEST(AnnotateBufferAccess, RefusesTheWrongRank) {
  refused(
      "resize", "resize", "x", BufferAccess::read,
      [](const auto& v) { return std::vector<Range>{{v[0], index(1)}, {v[1], index(1)}}; }, 2, "2");
}

TEST(AnnotateBufferAccess, RefusesVariablesThatAreNoIters) {
  const VarRef other = Var::make("other");
  refused("chain", "shift", "scaled", BufferAccess::read, ranges_of({{index(0), index(6)}, {other, index(1)}}), 2,
          "2_variable");
}

TEST(AnnotateBufferAccess, RefusesRangesThatAreNoIntegers) {
  refused("chain", "shift", "scaled", BufferAccess::read,
          ranges_of({{index(0), index(6)}, {constant(f32, 1), index(1)}}), 2, "2_dtype");
}

TEST(AnnotateBufferAccess, RefusesARegionThatIsEmptyAfterClipping) {
  refused(
      "resize", "resize", "x", BufferAccess::read,
      [](const auto& v) {
        return std::vector<Range>{{v[0], index(1)}, {v[1], index(1)}, {v[2] * 2, index(6)}, {v[3] * 2 - 2, index(2)}};
      },
      3, "3");
}

TEST(AnnotateBufferAccess, RefusesARegionThatIsNotProvedToHoldAnElement) {
  Schedule s(parse_func(R"(func few(x: f32[n], y: f32[n], n: i64, m: i64) stage begin facts { n in [1, 100] } {
  block root() {
    for i in [0, n) {
      block copy(space vi in [0, n) = i) reads x[vi] writes y[vi] {
        y[vi] = x[vi]
      }
    }
  }
}
)"));
  const VarRef m = scalar_params(s.func())[1];
  expect_refused(
      s, [&] { annotate_buffer_access(s, {"copy"}, "x", BufferAccess::read, ranges_of({{index(0), m}})); },
      "annotate_buffer_access", 3, "hint_refused_3_unproved");
}

TEST(AnnotateBufferAccess, RefusesARegionThatAnAccessIsProvedToLeave) {
  refused(
      "resize", "resize", "x", BufferAccess::read,
      [](const auto& v) {
        return std::vector<Range>{{v[0], index(1)}, {v[1], index(1)}, {v[2] * 2, index(6)}, {v[3] + 40, index(60)}};
      },
      4, "4");
}
}  // namespace
}  // namespace lathe::testing
