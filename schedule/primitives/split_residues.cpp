#include "schedule/primitives/split_residues.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/reduction.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/residues.h"

namespace lathe {
namespace {

/// More would be sums of few points each.
constexpr std::int64_t most_residues = 64;

class Splitter {
 public:
  Splitter(const Schedule& schedule, const BlockRef& block)
      : application(fmt::format("split_residues({})", block.name)),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        block_(*path_.back().as<Block>()) {
    match_sum();
    match_term();
    check_iters();
    check_rest();
  }

  const std::string application;
  std::string dense_name;

  Stmt run() {
    for (Congruence& c : found_) {
      const std::string space = block_.f.iters[c.space].variable->name,
                        reduce = c.reduce ? block_.f.iters[*c.reduce].variable->name : space + "_term";
      c.quotient = Var::make(space + "_quotient");
      c.residue = Var::make(space + "_residue");
      c.class_ = c.by_space() ? c.residue : Var::make(reduce + "_residue");
      c.taken = Var::make(reduce + "_quotient");
    }
    std::vector<Stmt> nests;
    std::vector<Buffer> allocations;
    if (leaves_values_) {
      add_skipped(nests, allocations);
    }
    nests.push_back(dense_nest(allocations));
    nests.push_back(result_nest());
    const Path above(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(own_) + 1);
    Stmt body = replace_last(above, Seq::make(std::move(nests)));
    for (const Buffer& buffer : allocations) body = add_allocation(body, buffer);
    return body;
  }

 private:
  // ---- preconditions ----

  [[noreturn]] void refuse_sum(const std::string& note) const {
    refuse(schedule_, application, 1,
           "block is a sum from zero, runs over its whole domain, each iter by a serial loop of its own with no other "
           "block in those loops, writes at its space iters, and reads its output nowhere else",
           path_.back(), note);
  }

  void match_sum() {
    const std::optional<ReductionParts> parts = match_update(block_);
    if (block_.f.reducer) reducer_ = *block_.f.reducer;
    if (!parts || !block_.f.reducer || simple_op(reducer_) != BinaryOp::add || parts->outputs.size() != 1 ||
        !starts_at_identity(block_))
      refuse_sum("is no such sum");
    if (const std::string reason = why_not_alone(path_, own_); !reason.empty()) refuse_sum(reason);
    if (const std::string reason = why_not_pointwise(block_); !reason.empty()) refuse_sum(reason);
    output_ = parts->outputs[0];
    Substitution lets;
    for (const Stmt& s : parts->lets) lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
    term_ = substitute(parts->terms[0], lets);
    for_each_expr(term_, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (load && load->buffer == output_.buffer) refuse_sum(fmt::format("adds elements of {}", load->buffer->name));
    });
  }

  [[noreturn]] void refuse_term(const std::string& note) const {
    refuse(schedule_, application, 2,
           "its term has one factor select(A && .., x, 0), where A says (a*h + b*r + c) % m == t of one space iter and "
           "one reduce iter or none, constants otherwise, m and one of a and b without a common divisor, m at most 64",
           path_.back(), note);
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
    append_choices(term_, choices);
    for (const Expr& choice : choices) {
      std::vector<Congruence> here;
      for (Expr at = choice; at.as<Select>() && is_constant_zero(at.as<Select>()->when_false);
           at = at.as<Select>()->when_true) {
        for (const Expr& condition : conjuncts_of(at.as<Select>()->condition)) {
          if (const auto c = congruence(condition)) here.push_back(*c);
        }
      }
      if (here.empty()) continue;
      if (!found_.empty()) refuse_term("has several such factors");
      found_ = std::move(here);
      choice_ = choice;
    }
    if (found_.empty()) refuse_term("has no such factor");
  }

  void check_iters() {
    const std::string text =
        "these iters start at 0, have constant extents, and are in one such condition each; each residue of the reduce "
        "iter has a term, or a and m have no common divisor";
    std::vector<size_t> seen;
    for (Congruence& c : found_) {
      std::vector<size_t> of_condition{c.space};
      if (c.reduce) of_condition.push_back(*c.reduce);
      for (const size_t i : of_condition) {
        const Iter& iter = block_.f.iters[i];
        const std::int64_t* extent = as_int(iter.domain.extent);
        if (!extent || !is_int(iter.domain.min, 0)) {
          refuse(schedule_, application, 3, text, path_.back(),
                 fmt::format("has iter {} in [{}, + {})", iter.variable->name, print(iter.domain.min),
                             print(iter.domain.extent)));
        }
        (i == c.space ? c.points : c.terms) = *extent;
        if (std::count(seen.begin(), seen.end(), i) > 0) {
          refuse(schedule_, application, 3, text, path_.back(),
                 fmt::format("asks twice for residues of {}", iter.variable->name));
        }
        seen.push_back(i);
      }
      if (!c.by_space() && std::gcd(c.space_step, c.modulus) != 1) {
        refuse(schedule_, application, 3, text, path_.back(),
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
    return Replacer(choice_).mutate(term_);
  }

  void check_rest() {
    rest_ = left_out();
    for (const Congruence& c : found_) {
      if (!uses_var(rest_, block_.f.iters[c.space].variable.get())) continue;
      refuse(schedule_, application, 4, "what is multiplied by the factor does not use the space iters", path_.back(),
             fmt::format("uses {} there", block_.f.iters[c.space].variable->name));
    }
    leaves_values_ = has_load(rest_) && output_.buffer->dtype.is_float();
  }

  // ---- what is made ----

  const Congruence* of_space(size_t iter) const {
    const auto found = std::find_if(found_.begin(), found_.end(), [&](const Congruence& c) { return c.space == iter; });
    return found == found_.end() ? nullptr : &*found;
  }
  const Congruence* of_reduce(size_t iter) const {
    const auto found =
        std::find_if(found_.begin(), found_.end(), [&](const Congruence& c) { return c.reduce == iter; });
    return found == found_.end() ? nullptr : &*found;
  }

  static Range up_to(std::int64_t count, std::int64_t step) { return {index(0), index((count + step - 1) / step)}; }

  static void add_iter(Block::Fields& f, const VarRef& variable, const Range& domain, IterKind kind) {
    f.iters.push_back({variable, domain, kind});
    f.bindings.push_back(domain.min);
  }

  /// The block in loops of its own; its predicate, over its iters, becomes one over these.
  static Stmt nest_of(Block::Fields f) {
    std::vector<Range> ranges;
    ranges.reserve(f.iters.size());
    for (const Iter& iter : f.iters) ranges.push_back(iter.domain);
    const std::vector<Iter> iters = f.iters;
    const Expr predicate = std::exchange(f.predicate, nullptr);
    const Stmt block = fresh_copy(Block::make(std::move(f)));
    const Stmt inferred = with_inferred_regions(*block.as<Block>());
    Stmt nest = make_nest(*inferred.as<Block>(), ranges);
    if (!predicate) return nest;
    return rewrite_blocks(nest, [&](const Block& made) {
      Substitution loops;
      for (size_t i = 0; i < iters.size(); ++i) loops[iters[i].variable.get()] = made.f.bindings[i];
      return add_predicate(made, simplify(substitute(predicate, loops)));
    });
  }

  Stmt sum_nest(Block::Fields f, const Buffer& buffer, const std::vector<Expr>& at, const Expr& term) const {
    f.reducer = reducer_;
    const std::vector<ReductionOutput> outputs = {{buffer, at}};
    f.init = make_init(reducer_, outputs);
    f.body = make_update(reducer_, outputs, {term});
    return nest_of(std::move(f));
  }

  Buffer allocated(const std::string& base, const std::vector<Range>& dimensions,
                   std::vector<Buffer>& allocations) const {
    std::vector<Expr> shape;
    shape.reserve(dimensions.size());
    for (const Range& range : dimensions) shape.push_back(range.extent);
    allocations.push_back(BufferNode::make(schedule_.unique_name(base), output_.buffer->dtype, shape));
    return allocations.back();
  }

  /// The space iters of the parts, in the places of the block's own. Where a residue has fewer points than another,
  /// the last is none.
  void add_space_parts(Block::Fields& f, bool by_class) const {
    for (size_t i = 0; i < block_.f.iters.size(); ++i) {
      const Iter& iter = block_.f.iters[i];
      if (iter.kind != IterKind::space) continue;
      if (const Congruence* c = of_space(i)) {
        add_iter(f, c->quotient, up_to(c->points, c->modulus), IterKind::space);
        add_iter(f, by_class ? c->class_ : c->residue, {index(0), index(by_class ? c->classes() : c->modulus)},
                 IterKind::space);
      } else {
        f.iters.push_back(iter);
        f.bindings.push_back(iter.domain.min);
      }
    }
  }

  static Expr space_of_residue(const Congruence& c) { return Expr(c.quotient) * c.modulus + Expr(c.residue); }

  /// Where the parts are a point of the output; null when they all are.
  Expr within_output(bool by_class) const {
    Expr within;
    for (const Congruence& c : found_) {
      if (c.points % c.modulus == 0) continue;
      within = logical_and(within, lt(by_class ? space_of_class(c) : space_of_residue(c), index(c.points)));
    }
    return within;
  }

  /// The dense term. It is taken also where there is no such point, and reads nothing out of bounds there.
  Expr dense_term(const Block::Fields& f) const {
    Parts parts(found_, block_);
    if (!within_output(true)) return simplify(parts.mutate(term_));
    Bounds bounds(schedule_.func());
    for (const Iter& iter : f.iters) bounds.bind(iter.variable, iter.domain);
    parts.replace(choice_, zero_outside(parts.mutate(choice_), bounds));
    return simplify(parts.mutate(term_), bounds);
  }

  /// Residues first, so that what is contiguous in the output is in each of the sums.
  Stmt dense_nest(std::vector<Buffer>& allocations) {
    Block::Fields f;
    f.name = dense_name = schedule_.unique_name(block_.f.name + "_dense");
    add_space_parts(f, true);
    for (size_t i = 0; i < block_.f.iters.size(); ++i) {
      const Iter& iter = block_.f.iters[i];
      if (iter.kind == IterKind::space) continue;
      if (const Congruence* c = of_reduce(i)) {
        add_iter(f, c->taken, up_to(c->terms, c->period()), iter.kind);
        if (c->terms > c->period() && c->terms % c->period() != 0)
          f.predicate = logical_and(f.predicate, lt(reduce_of_class(*c), index(c->terms)));
      } else {
        f.iters.push_back(iter);
        f.bindings.push_back(iter.domain.min);
      }
    }
    std::vector<Range> dimensions;
    for (const Congruence& c : found_) {
      dimensions.push_back({index(0), index(c.classes())});
      dense_at_.emplace_back(c.class_);
    }
    for (size_t d = 0; d < output_.indices.size(); ++d) {
      dimensions.push_back({index(0), output_.buffer->shape[d]});
      dense_at_.push_back(output_.indices[d]);
      for (const Congruence& c : found_) {
        if (output_.indices[d] != Expr(block_.f.iters[c.space].variable)) continue;
        dimensions.back() = up_to(c.points, c.modulus);
        dense_at_.back() = c.quotient;
      }
    }
    dense_ = allocated(dense_name, dimensions, allocations);
    const Expr term = dense_term(f);
    return sum_nest(std::move(f), dense_, dense_at_, term);
  }

  Stmt result_nest() const {
    Block::Fields f;
    f.name = block_.f.name;
    add_space_parts(f, false);
    f.predicate = within_output(false);
    Substitution points, classes;
    Expr exists;
    for (const Congruence& c : found_) {
      points[block_.f.iters[c.space].variable.get()] = space_of_residue(c);
      const ClassOfResidue of_residue = class_of_residue(c);
      classes[c.class_.get()] = of_residue.at;
      exists = logical_and(exists, of_residue.exists);
    }
    std::vector<Expr> at, dense_at;
    for (const Expr& index : output_.indices) at.push_back(substitute(index, points));
    for (const Expr& index : dense_at_) dense_at.push_back(substitute(index, classes));
    Expr value = Load::make(dense_, std::move(dense_at), exists);
    if (exists) value = select(exists, value, constant(value->dtype, 0));
    if (skipped_) value = value + load(skipped_, skipped_at_);
    f.body = Store::make(output_.buffer, at, value);
    return nest_of(std::move(f));
  }

  /// Sums of what is left out: first over all iters but those whose residues decide, whose elements lie in memory as
  /// those of the operand do, then for each residue over those that do not match.
  void add_skipped(std::vector<Stmt>& nests, std::vector<Buffer>& allocations) {
    std::vector<size_t> kept;
    for (size_t i = 0; i < block_.f.iters.size(); ++i) {
      const Iter& iter = block_.f.iters[i];
      if ((iter.kind == IterKind::space || of_reduce(i)) && uses_var(rest_, iter.variable.get())) kept.push_back(i);
    }
    Substitution turned;
    order_as_in_memory(kept, turned);
    Block::Fields sums;
    sums.name = schedule_.unique_name(block_.f.name + "_zeros");
    std::vector<Range> dimensions;
    std::vector<Expr> at, reversed_at;
    for (const size_t i : kept) {
      const Iter& iter = block_.f.iters[i];
      add_iter(sums, iter.variable, iter.domain, IterKind::space);
      dimensions.push_back(iter.domain);
      at.emplace_back(iter.variable);
      const auto found = turned.find(iter.variable.get());
      reversed_at.push_back(found == turned.end() ? at.back() : found->second);
    }
    for (size_t i = 0; i < block_.f.iters.size(); ++i) {
      const Iter& iter = block_.f.iters[i];
      if (iter.kind != IterKind::space && !of_reduce(i)) add_iter(sums, iter.variable, iter.domain, iter.kind);
    }
    const Buffer zeros = allocated(sums.name, dimensions, allocations);
    nests.push_back(sum_nest(std::move(sums), zeros, at, simplify(substitute(rest_, turned))));

    Block::Fields f;
    f.name = schedule_.unique_name(block_.f.name + "_skipped");
    dimensions.clear();
    const auto add = [&](const VarRef& variable, const Range& domain) {
      add_iter(f, variable, domain, IterKind::space);
      dimensions.push_back(domain);
      skipped_at_.emplace_back(variable);
    };
    Expr matches;
    for (const Congruence& c : found_) {
      add(c.residue, {index(0), index(c.modulus)});
      const ClassOfResidue found = class_of_residue(c);
      matches = logical_and(matches, found.exists);
      if (!c.reduce) continue;
      const Expr step(block_.f.iters[*c.reduce].variable);
      matches = logical_and(matches, eq(floor_mod(step, c.period()), reduce_residue_of(c, found.at)));
    }
    for (const size_t i : kept) {
      const Iter& iter = block_.f.iters[i];
      if (iter.kind == IterKind::space) add(iter.variable, iter.domain);
    }
    for (const Congruence& c : found_) {
      if (!c.reduce) continue;
      const Iter& iter = block_.f.iters[*c.reduce];
      add_iter(f, iter.variable, iter.domain, IterKind::reduce);
    }
    skipped_ = allocated(f.name, dimensions, allocations);
    const Expr zero = constant(zeros->dtype, 0);
    const Expr left = select(matches, zero, load(zeros, reversed_at));
    const bool sums_steps = std::any_of(found_.begin(), found_.end(), [](const Congruence& c) { return c.reduce; });
    if (!sums_steps) f.body = Store::make(skipped_, skipped_at_, left);
    nests.push_back(sums_steps ? sum_nest(std::move(f), skipped_, skipped_at_, left) : nest_of(std::move(f)));
  }

  /// Orders iters as the dimensions of the first Load that they index, and turns round those that it walks backwards.
  void order_as_in_memory(std::vector<size_t>& iters, Substitution& turned) const {
    const Load* operand = nullptr;
    for_each_expr(rest_, [&](const Expr& e) {
      if (!operand) operand = e.as<Load>();
    });
    std::vector<size_t> ordered;
    for (const Expr& at : operand->indices) {
      const Affine form = to_affine(at);
      for (const size_t i : iters) {
        const Iter& iter = block_.f.iters[i];
        const std::int64_t step = form.coefficient(iter.variable);
        if (step == 0 || std::count(ordered.begin(), ordered.end(), i) > 0) continue;
        ordered.push_back(i);
        const std::int64_t* extent = as_int(iter.domain.extent);
        if (step < 0 && extent && is_int(iter.domain.min, 0))
          turned[iter.variable.get()] = index(*extent - 1) - Expr(iter.variable);
      }
    }
    for (const size_t i : iters) {
      if (std::count(ordered.begin(), ordered.end(), i) == 0) ordered.push_back(i);
    }
    iters = std::move(ordered);
  }

  const Schedule& schedule_;
  const Path path_;
  const Block& block_;
  size_t own_ = 0;  ///< the level of the outermost of the block's loops
  ReductionOutput output_;
  Reducer reducer_;
  Expr term_, choice_, rest_;
  bool leaves_values_ = false;  ///< is what is left out anything but 0?
  std::vector<Congruence> found_;
  Buffer dense_, skipped_;
  std::vector<Expr> dense_at_, skipped_at_;
};

}  // namespace

BlockRef split_residues(Schedule& schedule, const BlockRef& block) {
  Splitter splitter(schedule, block);
  Stmt body = splitter.run();
  schedule.commit(std::move(body), splitter.application);
  return {splitter.dense_name};
}

}  // namespace lathe
