#include "schedule/primitives/residue_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/analysis/affine.h"
#include "ir/conjuncts.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/complete.h"

namespace lathe {
namespace {

/// More would be sums of few points each.
constexpr std::int64_t most_residues = 64;

class Matcher {
 public:
  Matcher(const Schedule& schedule, const BlockRef& block, const std::string& application)
      : schedule_(schedule), application_(application), block_(schedule.node(block)) {
    sum_.path = path_to(schedule, block);
  }

  ResidueSum run() {
    match_sum();
    match_term();
    check_iters();
    check_rest();
    return std::move(sum_);
  }

 private:
  [[noreturn]] void refuse_sum(const std::string& note) const {
    refuse(schedule_, application_, 1,
           "block is a sum from zero, runs over its whole domain, each iter by a serial loop of its own with no other "
           "block in those loops, writes at its space iters, and reads its output nowhere else",
           sum_.path.back(), note);
  }

  void match_sum() {
    const std::optional<ReductionParts> parts = match_update(block_);
    if (block_.f.reducer) sum_.reducer = *block_.f.reducer;
    if (!parts || !block_.f.reducer || simple_op(sum_.reducer) != BinaryOp::add || parts->outputs.size() != 1 ||
        !starts_at_identity(block_))
      refuse_sum("is no such sum");
    if (const std::string reason = why_not_alone(sum_.path, sum_.own); !reason.empty()) refuse_sum(reason);
    if (const std::string reason = why_not_pointwise(block_); !reason.empty()) refuse_sum(reason);
    sum_.output = parts->outputs[0];
    Substitution lets;
    for (const Stmt& s : parts->lets) lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
    sum_.term = substitute(parts->terms[0], lets);
    for_each_expr(sum_.term, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (load && load->buffer == sum_.output.buffer)
        refuse_sum(fmt::format("adds elements of {}", load->buffer->name));
    });
  }

  [[noreturn]] void refuse_term(const std::string& note) const {
    refuse(schedule_, application_, 2,
           "its term has one factor select(A && .., x, 0), where A says (a*h + b*r + c) % m == t of one space iter and "
           "one reduce iter or none, constants otherwise, m and one of a and b without a common divisor, m at most 64",
           sum_.path.back(), note);
  }

  std::optional<Congruence> congruence(const Expr& condition) const {
    const std::optional<ResidueCondition> allowed = residue_condition(condition);
    if (!allowed || allowed->modulus > most_residues) return std::nullopt;
    const Affine form = to_affine(allowed->form);
    Congruence c;
    c.condition = condition;
    c.modulus = allowed->modulus;
    c.offset = form.constant - allowed->value;
    for (const AffineTerm& term : form.terms) {
      size_t i = 0;
      while (i < block_.f.iters.size() && term.atom != Expr(block_.f.iters[i].variable)) ++i;
      if (i == block_.f.iters.size()) return std::nullopt;
      const bool of_space = block_.f.iters[i].kind == IterKind::space;
      std::int64_t& step = of_space ? c.space_step : c.reduce_step;
      if (step != 0) return std::nullopt;
      step = term.coefficient;
      if (of_space) {
        c.space = i;
      } else {
        c.reduce = i;
      }
    }
    if (c.space_step == 0) return std::nullopt;
    if (std::gcd(c.reduce_step, c.modulus) != 1 && std::gcd(c.space_step, c.modulus) != 1) return std::nullopt;
    return c;
  }

  /// The factors of a product that are selects with 0.
  static void append_choices(const Expr& e, std::vector<Expr>& choices) {
    if (const Binary* product = e.as<Binary>(); product && product->op == BinaryOp::mul) {
      append_choices(product->a, choices);
      append_choices(product->b, choices);
    } else if (const Unary* negated = e.as<Unary>(); negated && negated->op == UnaryOp::neg) {
      append_choices(negated->a, choices);
    } else if (const Cast* converted = e.as<Cast>()) {
      append_choices(converted->value, choices);
    } else if (const Select* choice = e.as<Select>(); choice && is_constant_zero(choice->when_false)) {
      choices.push_back(e);
    }
  }

  void match_term() {
    std::vector<Expr> choices;
    append_choices(sum_.term, choices);
    for (const Expr& choice : choices) {
      std::vector<Congruence> here;
      for (Expr at = choice; at.as<Select>() && is_constant_zero(at.as<Select>()->when_false);
           at = at.as<Select>()->when_true) {
        for (const Expr& condition : conjuncts_of(at.as<Select>()->condition)) {
          if (const auto c = congruence(condition)) here.push_back(*c);
        }
      }
      if (here.empty()) continue;
      if (!sum_.found.empty()) refuse_term("has several such factors");
      sum_.found = std::move(here);
      sum_.choice = choice;
    }
    if (sum_.found.empty()) refuse_term("has no such factor");
  }

  void check_iters() {
    const std::string text =
        "these iters start at 0, have constant extents, and are in one such condition each; each residue of the reduce "
        "iter has a term, or a and m have no common divisor";
    std::vector<size_t> seen;
    for (Congruence& c : sum_.found) {
      std::vector<size_t> of_condition{c.space};
      if (c.reduce) of_condition.push_back(*c.reduce);
      for (const size_t i : of_condition) {
        const Iter& iter = block_.f.iters[i];
        const std::int64_t* extent = as_int(iter.domain.extent);
        if (!extent || !is_int(iter.domain.min, 0)) {
          refuse(schedule_, application_, 3, text, sum_.path.back(),
                 fmt::format("has iter {} in [{}, + {})", iter.variable->name, print(iter.domain.min),
                             print(iter.domain.extent)));
        }
        (i == c.space ? c.points : c.terms) = *extent;
        if (std::count(seen.begin(), seen.end(), i) > 0) {
          refuse(schedule_, application_, 3, text, sum_.path.back(),
                 fmt::format("asks twice for residues of {}", iter.variable->name));
        }
        seen.push_back(i);
      }
      if (!c.by_space() && std::gcd(c.space_step, c.modulus) != 1) {
        refuse(schedule_, application_, 3, text, sum_.path.back(),
               fmt::format("has {} terms for {} residues of {}, in steps of {}", c.terms, c.modulus,
                           block_.f.iters[c.space].variable->name, c.space_step));
      }
    }
  }

  /// The term with 0 in the place of the choice, which is what is left out.
  Expr left_out() const {
    class Replacer : public Mutator {
     public:
      explicit Replacer(Expr choice) : choice_(std::move(choice)) {}

     protected:
      Expr mutate_Select(const Expr& e, const Select* node) override {
        return e == choice_ ? node->when_false : Mutator::mutate_Select(e, node);
      }

     private:
      const Expr choice_;
    };
    return Replacer(sum_.choice).mutate(sum_.term);
  }

  void check_rest() {
    sum_.rest = left_out();
    for (const Congruence& c : sum_.found) {
      if (!uses_var(sum_.rest, block_.f.iters[c.space].variable.get())) continue;
      refuse(schedule_, application_, 4, "what is multiplied by the factor does not use the space iters",
             sum_.path.back(), fmt::format("uses {} there", block_.f.iters[c.space].variable->name));
    }
    sum_.leaves_values = has_load(sum_.rest) && sum_.output.buffer->dtype.is_float();
  }

  const Schedule& schedule_;
  const std::string& application_;
  const Block& block_;
  ResidueSum sum_;
};

}  // namespace

ResidueSum match_residue_sum(const Schedule& schedule, const BlockRef& block, const std::string& application) {
  return Matcher(schedule, block, application).run();
}

}  // namespace lathe
