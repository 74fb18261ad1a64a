// Are the bounds tight enough to see a mistake? Programs that differ from the original in one place must fall outside
// of its bounds, wherever exact arithmetic says that they differ by more than a few per cent.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/expr.h"
#include "ir/visitor.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/seeds.h"

namespace lathe::testing {
namespace {

enum class Planted { wrong_constant, dropped_term, short_sum };
constexpr Planted mistakes[] = {Planted::wrong_constant, Planted::dropped_term, Planted::short_sum};

std::string_view to_string(Planted mistake) {
  switch (mistake) {
    case Planted::wrong_constant:
      return "a wrong constant";
    case Planted::dropped_term:
      return "a dropped term";
    case Planted::short_sum:
      return "a sum short of its last term";
  }
  return "";
}

/// Makes the mistake at the `place`-th of the places that there are for it; at none, it counts them.
class Planter : public Mutator {
 public:
  explicit Planter(Planted mistake, int place = -1) : mistake_(mistake), place_(place) {}
  int places() const { return places_; }
  using Mutator::mutate;
  Expr mutate(const Expr& e) override {
    const FloatImm* node = e.as<FloatImm>();
    if (!node) return Mutator::mutate(e);
    if (!in_store_ || !std::isfinite(node->value) || !is_here(Planted::wrong_constant)) return e;
    return FloatImm::make(node->dtype, node->value == 0 ? 0.125 : node->value * 1.125);
  }

 protected:
  // Constants that a stored value is computed from; identities beside an init are never read.
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    in_store_ = true;
    Stmt result = Mutator::mutate_Store(s, node);
    in_store_ = false;
    return result;
  }
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    const bool is_sum = node->dtype.is_float() && (node->op == BinaryOp::add || node->op == BinaryOp::sub);
    if (is_sum && is_here(Planted::dropped_term)) return node->a;
    return Mutator::mutate_Binary(e, node);
  }
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const Block* block = node->body.as<Block>();
    const std::int64_t* extent = as_int(node->extent);
    if (block && block->f.reducer && block->f.reducer->identities[0]->dtype.is_float() && extent && *extent > 1 &&
        is_reduce(*block, node->variable) && is_here(Planted::short_sum)) {
      return For::make(node->variable, node->min, index(*extent - 1), node->for_kind, node->body, node->annotations);
    }
    return Mutator::mutate_For(s, node);
  }

 private:
  bool is_here(Planted mistake) { return mistake == mistake_ && places_++ == place_; }
  static bool is_reduce(const Block& block, const VarRef& variable) {
    for (size_t k = 0; k < block.f.iters.size(); ++k) {
      if (block.f.iters[k].kind == IterKind::reduce && uses_var(block.f.bindings[k], variable.get())) return true;
    }
    return false;
  }

  Planted mistake_;
  int place_, places_ = 0;
  bool in_store_ = false;
};

/// The program's body with one mistake somewhere; null when there is no place for it.
Stmt with_mistake(const GeneratedProgram& program, Planted mistake) {
  Planter counter(mistake);
  counter.mutate(program.func->body);
  if (counter.places() == 0) return nullptr;
  Planter planter(mistake, static_cast<int>(Random(program.seed).between(0, counter.places() - 1)));
  return planter.mutate(program.func->body);
}

/// By how much the exact outputs of the two differ at most, as a part of the output's scale. Zero where that is not
/// known.
double exact_difference(const GeneratedProgram& program, const Outcome& a, const Outcome& b) {
  double difference = 0;
  for (size_t k = static_cast<size_t>(program.input_count); k < program.parameters.size(); ++k) {
    if (!program.parameters[k].dtype.is_float() || program.bitwise[k - static_cast<size_t>(program.input_count)])
      continue;
    const double scale = scale_of(a.bounds[k]);
    for (size_t i = 0; i < a.bounds[k].size(); ++i) {
      const FloatBound &x = a.bounds[k][i], &y = b.bounds[k][i];
      if (std::isfinite(x.radius) && std::isfinite(x.exact) && std::isfinite(y.exact))
        difference = std::max(difference, std::abs(x.exact - y.exact) / scale);
    }
  }
  return difference;
}

TEST(Comparison, PlantedMistakesFallOutsideOfTheBounds) {
  const Seeds range = seeds(600);
  for (const Planted mistake : mistakes) {
    int differ = 0, caught = 0;
    for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
      const GeneratedProgram program = generate(seed);
      const Stmt wrong = with_mistake(program, mistake);
      if (!wrong) continue;
      const Outcome reference = run_interpreted(program, program.func, true);
      const Outcome outcome = run_interpreted(program, with_body(program.func, wrong), true);
      if (reference.status != 0 || outcome.status != 0) continue;
      if (exact_difference(program, reference, outcome) < 1.0 / 32) continue;
      ++differ;
      if (!compare(program, reference, outcome).empty()) {
        ++caught;
      } else if (verbose()) {
        fmt::print("seed {}: {} is not seen\n", seed, to_string(mistake));
      }
    }
    fmt::print("{}: {} programs give something else, {} of them are caught\n", to_string(mistake), differ, caught);
    if (range.chosen) continue;
    EXPECT_GT(differ, 20) << to_string(mistake);
    EXPECT_GE(caught, differ - differ / 20) << to_string(mistake);
  }
}

}  // namespace
}  // namespace lathe::testing
