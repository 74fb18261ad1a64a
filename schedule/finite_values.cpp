#include "schedule/finite_values.h"

#include <cmath>

#include "ir/intrinsics.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/complete.h"

namespace lathe {
namespace {

/// Blocks followed, one behind another.
constexpr int most_steps = 8;

class Prover {
 public:
  explicit Prover(const Schedule& schedule) : schedule_(schedule) {}

  bool finite(const Expr& e, int steps) const {
    if (const FloatImm* constant = e.as<FloatImm>()) return std::isfinite(constant->value);
    if (const Cast* cast = e.as<Cast>()) return !cast->value->dtype.is_float() && cast->dtype.bits >= 32;
    if (const Select* choice = e.as<Select>())
      return finite(choice->when_true, steps) && finite(choice->when_false, steps);
    if (const Unary* unary = e.as<Unary>()) {
      switch (unary->op) {
        case UnaryOp::sigmoid:
        case UnaryOp::tanh:
        case UnaryOp::erf:
        case UnaryOp::sin:
        case UnaryOp::cos:
        case UnaryOp::atan:
          return true;
        case UnaryOp::neg:
        case UnaryOp::abs:
        case UnaryOp::sqrt:
          return finite(unary->a, steps);
        default:
          return false;
      }
    }
    if (const Binary* binary = e.as<Binary>())
      return binary->op == BinaryOp::div && finite(binary->a, steps) && at_least_one(binary->b, steps);
    return e.as<Load>() && followed(e, steps, &Prover::finite);
  }

 private:
  using Property = bool (Prover::*)(const Expr&, int) const;

  bool at_least_one(const Expr& e, int steps) const {
    if (const FloatImm* constant = e.as<FloatImm>()) return constant->value >= 1;
    const Binary* sum = e.as<Binary>();
    if (sum && sum->op == BinaryOp::add) {
      return (at_least_one(sum->a, steps) && not_negative(sum->b)) ||
             (not_negative(sum->a) && at_least_one(sum->b, steps));
    }
    return e.as<Load>() && (followed(e, steps, &Prover::at_least_one) || sums_to_one(*e.as<Load>()));
  }

  static bool not_negative(const Expr& e) {
    if (const FloatImm* constant = e.as<FloatImm>()) return constant->value >= 0;
    const Unary* unary = e.as<Unary>();
    return unary && (unary->op == UnaryOp::exp || unary->op == UnaryOp::exp2 || unary->op == UnaryOp::abs ||
                     unary->op == UnaryOp::sigmoid || unary->op == UnaryOp::sqrt);
  }

  /// The one block that writes the buffer, complete; null otherwise.
  const Block* writer(const Buffer& buffer) const {
    if (!is_allocated(schedule_.func(), buffer) || buffer->view_of) return nullptr;
    const Block* found = nullptr;
    int count = 0;
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      if (!block || has_blocks(*block) || !writes(*block, buffer)) return;
      found = block;
      ++count;
    });
    if (count != 1 || !why_incomplete(path_to(schedule_, BlockRef{found->f.name})).empty() ||
        !why_not_pointwise(*found).empty())
      return nullptr;
    return found;
  }

  /// What an element-wise block stores, over its iters, or null.
  static Expr stored(const Block& block) {
    if (block.f.reducer || block.f.init) return nullptr;
    Substitution lets;
    Stmt s = block.f.body;
    for (; s.as<Let>(); s = s.as<Let>()->body) {
      lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
    }
    return s.as<Store>() ? substitute(s.as<Store>()->value, lets) : nullptr;
  }

  bool followed(const Expr& e, int steps, Property property) const {
    const Load* load = e.as<Load>();
    if (steps == 0 || load->mask) return false;
    const Block* block = writer(load->buffer);
    const Expr value = block ? stored(*block) : nullptr;
    return value && (this->*property)(value, steps - 1);
  }

  struct Sum {
    const Block* block = nullptr;
    ReductionOutput output;
    const Iter* axis = nullptr;
    Expr term;
  };

  /// A reduction from its identity over one axis of constant extent.
  std::optional<Sum> reduction(const Buffer& buffer, BinaryOp op) const {
    const Block* block = writer(buffer);
    if (!block || !block->f.reducer || simple_op(*block->f.reducer) != op || !starts_at_identity(*block))
      return std::nullopt;
    const std::optional<ReductionParts> parts = match_update(*block);
    if (!parts) return std::nullopt;
    Sum sum{block, parts->outputs[0], nullptr, nullptr};
    for (const Iter& iter : block->f.iters) {
      if (iter.kind == IterKind::space) continue;
      if (sum.axis) return std::nullopt;
      sum.axis = &iter;
    }
    const std::int64_t* extent = sum.axis ? as_int(sum.axis->domain.extent) : nullptr;
    if (!extent || *extent < 1 || !is_int(sum.axis->domain.min, 0)) return std::nullopt;
    Substitution lets;
    for (const Stmt& s : parts->lets) lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
    sum.term = substitute(parts->terms[0], lets);
    return sum;
  }

  /// `e` with what an element-wise block stores for its element, where it is one.
  Expr through(const Expr& e) const {
    const Load* load = e.as<Load>();
    if (!load || load->mask) return e;
    const Block* block = writer(load->buffer);
    const Expr value = block ? stored(*block) : nullptr;
    if (!value) return e;
    const Store* store = nullptr;
    for_each_stmt(block->f.body, [&](const Stmt& s) { store = s.as<Store>() ? s.as<Store>() : store; });
    return substitute(value, iters_at(*block, store->indices, load->indices));
  }

  /// A sum of exp(x - m), m the greatest x along the axis: for that x the term is exp(0), and no term is negative.
  bool sums_to_one(const Load& load) const {
    const std::optional<Sum> sum = load.mask ? std::nullopt : reduction(load.buffer, BinaryOp::add);
    if (!sum) return false;
    const Expr term = through(sum->term);
    const Unary* power = term.as<Unary>();
    if (!power || (power->op != UnaryOp::exp && power->op != UnaryOp::exp2)) return false;
    const Binary* exponent = without_limit(power->a).as<Binary>();
    if (!exponent || exponent->op != BinaryOp::sub) return false;
    const Load* greatest = exponent->b.as<Load>();
    const std::optional<Sum> extreme =
        greatest && !greatest->mask ? reduction(greatest->buffer, BinaryOp::max) : std::nullopt;
    if (!extreme || constant_difference(extreme->axis->domain.extent, sum->axis->domain.extent) != 0) return false;
    Substitution iters{{extreme->axis->variable.get(), sum->axis->variable}};
    for (size_t d = 0; d < greatest->indices.size(); ++d) {
      if (uses_var(greatest->indices[d], sum->axis->variable.get())) return false;
      if (const Var* iter = extreme->output.indices[d].as<Var>()) iters[iter] = greatest->indices[d];
    }
    for (const Iter& iter : extreme->block->f.iters) iters.try_emplace(iter.variable.get(), iter.domain.min);
    return equal(substitute(extreme->term, iters), exponent->a);
  }

  const Schedule& schedule_;
};

}  // namespace

bool proved_finite(const Schedule& schedule, const Expr& e) {
  return Prover(schedule).finite(e, most_steps);
}

}  // namespace lathe
