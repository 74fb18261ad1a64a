/// Random region hints, right and wrong, on blocks whose indices depend on data: whatever the schedule makes of them,
/// interpreter and compiled kernel agree with the program without a hint, and nothing touches memory outside.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "ir/analysis/verify.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/primitives/annotate_buffer_access.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tests/fuzz/compiled.h"
#include "tests/fuzz/seeds.h"

namespace lathe::testing {
namespace {

/// A kernel that reads x where q says, and the hint that may hold.
struct Hinted {
  GeneratedProgram program;
  std::string block;
  BufferAccess access = BufferAccess::read;
  std::string buffer = "x";
  RegionOf region;
};

/// `inputs` are the ranges of integer inputs by name; the buffer parameter `out` is the output.
GeneratedProgram program_of(std::uint64_t seed, const std::string& text, const std::map<std::string, Fill>& inputs) {
  GeneratedProgram program;
  program.seed = seed;
  program.func = parse_func(text);
  for (const Buffer& buffer : buffer_params(program.func)) {
    Parameter p;
    p.dtype = buffer->dtype;
    p.extents = buffer->shape;
    for (size_t d = 0; d < buffer->rank(); ++d) p.layout.order.push_back(d);
    p.layout.dimensions.resize(buffer->rank());
    if (const auto fill = inputs.find(buffer->name); fill != inputs.end()) p.fill = fill->second;
    program.parameters.push_back(std::move(p));
  }
  program.input_count = static_cast<int>(program.parameters.size()) - 1;
  program.bitwise = {false};
  program.runs.resize(1);
  return with_run(std::move(program), 0);
}

Fill indices(std::int64_t low, std::int64_t high) {
  return {Fill::Kind::index, low, high};
}

/// [at - before, at + after)
Range around(const Expr& at, std::int64_t before, std::int64_t after) {
  return {at - before, index(before + after)};
}

Hinted make(std::uint64_t seed, Random& random) {
  const std::int64_t rows = random.between(1, 4), m = random.between(5, 40), step = random.between(0, 3);
  const std::int64_t spread = random.between(1, 6), n = step * (m - 1) + spread;
  // The hint covers the spread, or not all of it.
  const std::int64_t before = random.between(0, 2), after = random.between(1, spread + 2);
  const std::map<std::string, Fill> near = {{"q", indices(0, spread - 1)}, {"w", indices(0, spread - 1)}};
  const auto whole = [](const Expr& at) { return Range{at, index(1)}; };
  Hinted h;
  h.block = "take";
  const std::string take = fmt::format("space vr in [0, {0}) = r, space vi in [0, {1}) = i", rows, m);
  const std::string loops = fmt::format("for r in [0, {}) {{ for i in [0, {}) {{", rows, m);
  const auto gather = [&](const std::string& body) {
    return fmt::format(R"(func gather(x: f32[{0}, {1}], q: i64[{2}], out: f32[{0}, {2}]) stage begin {{
  block root() {{ {3} block take({4}) reads x[vr, ..], q[vi] writes out[vr, vi] {{ {5} }} }} }} }} }})",
                       rows, n, m, loops, take, body);
  };
  const std::string at = fmt::format("vi * {} + q[vi]", step);
  switch (random.between(0, 7)) {
    case 0:
      h.program = program_of(seed, gather(fmt::format("out[vr, vi] = x[vr, {}] * 2.0f32", at)), near);
      h.region = [=](const auto& v) { return std::vector<Range>{whole(v[0]), around(v[1] * step, before, after)}; };
      break;
    case 1: {  // under a condition that depends on data
      const std::string body = "if q[vi] > 0 { out[vr, vi] = x[vr, " + at + "] } else { out[vr, vi] = 1.0f32 }";
      h.program = program_of(seed, gather(body), near);
      h.region = [=](const auto& v) { return std::vector<Range>{whole(v[0]), around(v[1] * step, before, after)}; };
      break;
    }
    case 2: {  // masked at the borders
      const std::string shifted = at + " - 2";
      const std::string body = fmt::format("out[vr, vi] = x[vr, {0} if {0} >= 0 && {0} < {1}] + 1.0f32", shifted, n);
      h.program = program_of(seed, gather(body), near);
      h.region = [=](const auto& v) { return std::vector<Range>{whole(v[0]), around(v[1] * step, before + 2, after)}; };
      break;
    }
    case 3: {  // indices that may lie outside, which stop the kernel
      const std::string body =
          fmt::format(R"(assert q[vi] >= 0 && q[vi] < {0}, "take|1|index", q[vi]  out[vr, vi] = x[vr, q[vi]])", n);
      const std::int64_t beyond = random.chance(30) ? 3 : 0;
      h.program = program_of(seed, gather(body), {{"q", indices(-beyond, n - 1 + beyond)}});
      h.region = [=](const auto& v) {
        return std::vector<Range>{whole(v[0]), around(v[1] * step, before + n / 2, after + n / 2)};
      };
      break;
    }
    case 4: {  // a window that is reduced
      const std::int64_t window = random.between(1, 4);
      h.program = program_of(seed,
                             fmt::format(R"(func pool(x: f32[{0}, {1}], q: i64[{2}], out: f32[{0}, {2}]) stage begin {{
  block root() {{ {3} for k in [0, {6}) {{
    block take({4}, reduce vk in [0, {6}) = k) reads x[vr, ..], q[vi], out[vr, vi] writes out[vr, vi] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vr, vi] = 0.0f32 }}
      let l: f32 = out[vr, vi]
      let t: f32 = x[vr, {5} + vk]
      out[vr, vi] = l + t
    }} }} }} }} }} }})",
                                         rows, n + window - 1, m, loops, take, at, window),
                             near);
      h.region = [=](const auto& v) {
        return std::vector<Range>{whole(v[0]), around(v[1] * step + v[2], before, after)};
      };
      break;
    }
    case 5: {  // two dimensions, each by its own data
      h.program = program_of(
          seed,
          fmt::format(R"(func pick(x: f32[{0}, {1}], q: i64[{2}], w: i64[{3}], out: f32[{3}, {2}]) stage begin {{
  block root() {{ for r in [0, {3}) {{ for i in [0, {2}) {{
    block take(space vr in [0, {3}) = r, space vi in [0, {2}) = i) reads x[..], q[vi], w[vr] writes out[vr, vi] {{
      out[vr, vi] = x[vr + w[vr], vi * {4} + q[vi]] + 1.0f32
    }} }} }} }} }})",
                      rows + spread - 1, n, m, rows, step),
          near);
      h.region = [=](const auto& v) {
        return std::vector<Range>{around(v[0], before, after), around(v[1] * step, before, after + 1)};
      };
      break;
    }
    case 6: {  // an index that depends on both loops
      h.program = program_of(seed,
                             fmt::format(R"(func both(x: f32[{0}], q: i64[{1}, {2}], out: f32[{1}, {2}]) stage begin {{
  block root() {{ {3} block take({4}) reads x[..], q[vr, vi] writes out[vr, vi] {{
    let at = q[vr, vi] + vi * {5}
    out[vr, vi] = x[at + vr]
  }} }} }} }} }})",
                                         n + rows - 1, rows, m, loops, take, step),
                             near);
      h.region = [=](const auto& v) { return std::vector<Range>{around(v[1] * step + v[0], before, after)}; };
      break;
    }
    default: {  // stores
      h.program = program_of(seed,
                             fmt::format(R"(func scatter(x: f32[{0}], q: i64[{0}], out: f32[{1}]) stage begin {{
  block root() {{
    for j in [0, {1}) {{ block fill(space vj in [0, {1}) = j) writes out[vj] {{ out[vj] = 0.0f32 }} }}
    for i in [0, {0}) {{
      block take(ordered vi in [0, {0}) = i) reads x[vi], q[vi] writes out[..] {{
        out[vi * {2} + q[vi]] = x[vi]
      }} }} }} }})",
                                         m, n, step),
                             near);
      h.access = BufferAccess::write;
      h.buffer = "out";
      h.region = [=](const auto& v) { return std::vector<Range>{around(v[0] * step, before, after)}; };
      break;
    }
  }
  return h;
}

/// Counts what was tried and what was taken.
struct Tally {
  std::map<std::string, std::pair<int, int>> primitives;
  int versioned = 0, stopped = 0, programs = 0;

  bool attempt(const std::string& name, const std::function<void()>& apply) {
    auto& [tried, taken] = primitives[name];
    ++tried;
    try {
      apply();
    } catch (const Refusal&) {
      return false;
    }
    ++taken;
    return true;
  }
};

void reorder_randomly(Schedule& s, const std::string& block, Random& random, Tally& tally) {
  std::vector<LoopRef> loops = s.loops({block});
  for (size_t i = loops.size(); i > 1; --i)
    std::swap(loops[i - 1], loops[static_cast<size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
  tally.attempt("reorder", [&] { reorder(s, loops); });
}

void schedule_randomly(Schedule& s, const Hinted& h, Random& random, Tally& tally) {
  const auto any_loop = [&](const std::string& block) { return random.pick(s.loops({block})); };
  const bool hint_first = random.chance(80);
  const auto hint = [&] {
    return tally.attempt("annotate_buffer_access",
                         [&] { annotate_buffer_access(s, {h.block}, h.buffer, h.access, h.region); });
  };
  if (hint_first) hint();
  std::vector<BlockRef> copies;
  for (int i = 0; h.access == BufferAccess::read && i < 2 && (i == 0 || random.chance(30)); ++i) {
    tally.attempt("cache_read", [&] {
      copies.push_back(cache_read(s, {h.block}, i == 0 ? "x" : "x_global", i == 0 ? "global" : "worker"));
    });
  }
  if (!hint_first && random.chance(50)) hint();
  // An inexact split may run the inits of points that another iteration has finished.
  tally.attempt("decompose_reduction", [&] { decompose_reduction(s, {h.block}, any_loop(h.block)); });
  for (int i = 0; i < 3; ++i) {
    if (random.chance(60)) tally.attempt("split", [&] { split(s, any_loop(h.block), random.between(1, 9)); });
  }
  if (random.chance(70)) reorder_randomly(s, h.block, random, tally);
  if (random.chance(15)) {
    const std::vector<LoopRef> loops = s.loops({h.block});
    if (loops.size() > 1) tally.attempt("fuse", [&] { fuse(s, loops[0], loops[1]); });
  }
  for (size_t i = copies.size(); i-- > 0;) {
    if (random.chance(90)) tally.attempt("compute_at", [&] { compute_at(s, copies[i], any_loop(h.block)); });
  }
  if (!hint_first) hint();
  for (const BlockRef& block : s.blocks()) {
    const std::vector<LoopRef> loops = s.loops(block);
    if (loops.empty()) continue;
    const LoopRef loop = random.pick(loops);
    switch (random.between(0, 7)) {
      case 0:
        tally.attempt("split", [&] { split(s, loop, random.between(1, 5)); });
        break;
      case 1:
      case 2: {
        LoopRef inner = loops.back();
        tally.attempt("split", [&] { inner = split(s, inner, 4).second; });
        tally.attempt("vectorize", [&] { vectorize(s, inner); });
        break;
      }
      case 3:
        tally.attempt("unroll", [&] { unroll(s, loops.back()); });
        break;
      case 4:
        tally.attempt("partition", [&] { partition(s, loop, random.between(1, 4)); });
        break;
      case 5:
        tally.attempt("parallel", [&] { parallel(s, loops.front(), random.between(1, 3)); });
        break;
      case 6:
        tally.attempt("set_space", [&] { set_space(s, block, "worker"); });
        break;
      default:
        tally.attempt("storage_align", [&] { storage_align(s, block, "x_global", 0, 8, random.between(0, 7)); });
        break;
    }
  }
}

bool has(const Stmt& body, StmtKind kind) {
  bool found = false;
  for_each_stmt(body, [&](const Stmt& s) { found |= s->kind == kind; });
  return found;
}

void check(const Hinted& h, const Schedule& s, std::uint64_t seed, Tally& tally) {
  const GeneratedProgram& program = h.program;
  const std::string context = fmt::format("seed {}\n{}", seed, print(s.func()));
  for (const Finding& finding : verify(s.func()))
    ASSERT_FALSE(finding.proved_wrong) << finding.rule << ": " << finding.message << "\n" << context;
  // A checked write hint may stop what went on before it was given.
  const bool writes = h.access == BufferAccess::write;
  const Outcome reference = run_interpreted(program, writes ? s.func() : program.func, true);
  tally.stopped += reference.status != 0;
  register_cpu();
  const Device device = host_device();
  const Func end = lower(s.func(), device, find_pipeline("cpu"));
  const bool tasks = [&] {
    bool found = false;
    for_each_stmt(s.func()->body,
                  [&](const Stmt& at) { found |= at.as<For>() && at.as<For>()->for_kind == ForKind::parallel; });
    return found;
  }();
  // What each task has for itself stands at the root until allocations are placed.
  if (!tasks) {
    ASSERT_EQ(compare(program, reference, run_interpreted(program, s.func())), "") << context;
  }
  ASSERT_EQ(compare(program, reference, run_interpreted(program, end)), "") << context << print(end);
  const CompiledProgram compiled = compile_program(end, device);
  for (const Against against : {Against::low, Against::high})
    ASSERT_EQ(compare(program, reference, run_compiled(program, compiled, against)), "") << context << print(end);
}

TEST(FuzzedHints, NeverChangeAResultAndNeverTouchWhatIsOutside) {
  const Seeds range = seeds(400);
  Tally tally;
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    Random random(seed);
    const Hinted h = make(seed, random);
    Schedule s(h.program.func);
    s.shows_func_when_refused = false;
    schedule_randomly(s, h, random, tally);
    ++tally.programs;
    tally.versioned += has(s.func()->body, StmtKind::If);
    try {
      check(h, s, seed, tally);
    } catch (const Error& error) {
      FAIL() << error.message() << "\nseed " << seed << "\n" << print(s.func());
    }
    if (HasFatalFailure()) return;
  }
  for (const auto& [name, count] : tally.primitives)
    fmt::print("{}: {} of {} taken\n", name, count.second, count.first);
  fmt::print("{} programs, {} with an inspector or a condition, {} stopped\n", tally.programs, tally.versioned,
             tally.stopped);
  if (range.chosen) return;
  EXPECT_GT(tally.versioned, tally.programs / 5);
  EXPECT_GT(tally.stopped, tally.programs / 50);
  for (const char* name : {"annotate_buffer_access", "compute_at", "vectorize", "parallel", "partition", "split"})
    EXPECT_GT(tally.primitives[name].second, tally.programs / 20) << name;
}

}  // namespace
}  // namespace lathe::testing
