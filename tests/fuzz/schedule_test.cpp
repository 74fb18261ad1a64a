#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "backends/cpu/cpu.h"
#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_reductions.h"
#include "ir/passes/place_allocations.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/record.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/pipelines.h"
#include "tests/fuzz/schedule_moves.h"
#include "tests/fuzz/seeds.h"

namespace lathe::testing {
namespace {

constexpr std::uint64_t sequences_per_program = 10;

struct Tally {
  std::int64_t accepted = 0, refused = 0;
};

struct Fuzzing {
  std::map<std::string, Tally> primitives;
  std::int64_t unproved = 0, verified = 0;
  std::vector<std::string> failures;
};

/// A program with what it computes, run by run.
struct Subject {
  GeneratedProgram program;
  std::vector<GeneratedProgram> runs;
  std::vector<Outcome> references;

  explicit Subject(GeneratedProgram made) : program(std::move(made)) {
    for (size_t k = 0; k < program.runs.size(); ++k) {
      runs.push_back(with_run(program, k));
      references.push_back(run_interpreted(runs[k], program.func, true));
    }
  }

  /// What differs, or "".
  std::string check(const Func& func) const {
    for (size_t k = 0; k < runs.size(); ++k) {
      Outcome outcome = run_interpreted(runs[k], func);
      // Computed only where it is read, an index outside may not be met at all.
      if (program.bad_indices && outcome.status == 0) {
        outcome.status = references[k].status;
        outcome.message = references[k].message;
      }
      std::string what = compare(runs[k], references[k], outcome);
      if (!what.empty()) return fmt::format("run {}: {}", k, what);
    }
    return {};
  }
};

class Sequence {
 public:
  Sequence(const Subject& subject, std::uint64_t number, Fuzzing& fuzzing)
      : subject_(subject),
        random_(subject.program.seed * 31 + number),
        number_(number),
        schedule_(subject.program.func),
        fuzzing_(fuzzing) {}

  void run() {
    const std::int64_t length = random_.between(5, 10);
    for (std::int64_t k = 0; k < length && !failed_; ++k) step(random_.pick(moves()));
    if (!failed_) finish();
  }

 private:
  void step(const Move& move) {
    const Func before = schedule_.func();
    const size_t applied = schedule_.record().size();
    std::vector<std::string> record = schedule_.record();
    const auto name_of = [](const std::string& line) { return line.substr(0, line.find('(')); };
    try {
      move.apply(schedule_, random_);
    } catch (const Refusal& refusal) {
      ++fuzzing_.primitives[refusal.subject].refused;
      if (verbose()) fmt::print("refused: {}\n", refusal.message().substr(0, refusal.message().find('\n')));
      if (schedule_.record().size() == applied && schedule_.func() != before) fail("a refusal changed the Func");
    } catch (const Error& error) {
      return fail(fmt::format("{} threw {}", move.primitive, error.what()));
    }
    if (schedule_.record().size() == applied) return;
    for (size_t i = applied; i < schedule_.record().size(); ++i) {
      ++fuzzing_.primitives[name_of(schedule_.record()[i])].accepted;
    }
    try {
      const std::string what = check(schedule_.func());
      if (!what.empty()) fail(what);
    } catch (const Error& error) {
      fail(error.what());
    }
  }

  /// An allocation that each iteration of a parallel loop has for itself stands outside of it until it is placed.
  std::string check(const Func& func) {
    try {
      return subject_.check(func);
    } catch (const Error& error) {
      if (std::string(error.what()).find("two iterations of a") == std::string::npos) throw;
    }
    static const Device device = host_device();
    return subject_.check(place_allocations(lower_blocks(lower_reductions(func)), device));
  }

  /// What holds of the schedule as a whole.
  void finish() {
    if (schedule_.record().empty()) return;
    const Func& func = schedule_.func();
    ++fuzzing_.verified;
    bool unproved = false;
    for (const Finding& finding : verify(func)) {
      if (finding.proved_wrong) return fail(fmt::format("verify: {}: {}", finding.rule, finding.message));
      unproved = true;
      if (verbose()) fmt::print("unproved: {}: {}\n{}", finding.rule, finding.message, print(func));
    }
    fuzzing_.unproved += unproved;
    try {
      Schedule again(subject_.program.func);
      replay(again, schedule_.record());
      // Simplifying orders terms of variables of one name as it likes, so what counts is what comes out.
      if (!equal(again.func(), func)) {
        const std::string what = check(again.func());
        if (!what.empty()) fail("the record replays to another Func: " + what);
      }
      if (!equal(parse_func(print(func)), func)) fail("its text gives another Func");
    } catch (const Error& error) {
      fail(fmt::format("replaying: {}", error.what()));
    }
  }

  void fail(const std::string& what) {
    failed_ = true;
    fuzzing_.failures.push_back(fmt::format("program {} sequence {}: {}\nrecord:\n  {}\nbefore:\n{}\nafter:\n{}",
                                            subject_.program.seed, number_, what, fmt::join(schedule_.record(), "\n  "),
                                            print(subject_.program.func), print(schedule_.func())));
  }

  const Subject& subject_;
  Random random_;
  const std::uint64_t number_;
  Schedule schedule_;
  Fuzzing& fuzzing_;
  bool failed_ = false;
};

/// `least_proved`: of so many schedules at most one may have a promise that is not proved.
void report(const Fuzzing& fuzzing, std::int64_t least_proved) {
  fmt::print("{:<26}{:>10}{:>10}\n", "primitive", "accepted", "refused");
  for (const auto& [name, tally] : fuzzing.primitives) {
    fmt::print("{:<26}{:>10}{:>10}\n", name, tally.accepted, tally.refused);
  }
  fmt::print("{} schedules verified, {} with a promise that is not proved\n", fuzzing.verified, fuzzing.unproved);
  if (!seeds(0).chosen) {
    EXPECT_LT(fuzzing.unproved * least_proved, fuzzing.verified);
  }
  for (size_t k = 0; k < fuzzing.failures.size(); ++k) {
    const std::string& failure = fuzzing.failures[k];
    ADD_FAILURE() << (k < 3 ? failure : failure.substr(0, failure.find("\nbefore:")));
  }
}

void fuzz(std::uint64_t programs, GeneratedProgram (*source)(std::uint64_t), Fuzzing& fuzzing) {
  const Seeds range = seeds(programs);
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    const Subject subject(source(seed));
    for (std::uint64_t k = 0; k < sequences_per_program; ++k) Sequence(subject, k, fuzzing).run();
  }
}

TEST(ScheduleFuzz, EveryPrimitiveKeepsTheMeaningOfPipelines) {
  Fuzzing fuzzing;
  fuzz(2200, generate_pipeline, fuzzing);
  report(fuzzing, 100);
  if (seeds(0).chosen) return;
  std::set<std::string> primitives;
  for (const Move& move : moves()) primitives.insert(move.primitive);
  for (const std::string& primitive : primitives) EXPECT_GE(fuzzing.primitives[primitive].accepted, 200) << primitive;
}

TEST(ScheduleFuzz, EveryPrimitiveKeepsTheMeaningOfTracedPrograms) {
  Fuzzing fuzzing;
  fuzz(100, generate, fuzzing);
  // Reductions that are cut into parts outnumber others there: six to eleven of six hundred, as the moves fall.
  report(fuzzing, 40);
}

}  // namespace
}  // namespace lathe::testing
