#include "schedule/primitives/split_residues.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/primitives/residue_sum.h"

namespace lathe {
namespace {

class Splitter {
 public:
  Splitter(const Schedule& schedule, ResidueSum sum)
      : schedule_(schedule), sum_(std::move(sum)), block_(*sum_.path.back().as<Block>()) {}

  std::string dense_name;

  Stmt run() {
    for (Congruence& c : sum_.found) {
      const std::string space = block_.f.iters[c.space].variable->name,
                        reduce = c.reduce ? block_.f.iters[*c.reduce].variable->name : space + "_term";
      c.quotient = Var::make(space + "_quotient");
      c.residue = Var::make(space + "_residue");
      c.class_ = c.by_space() ? c.residue : Var::make(reduce + "_residue");
      c.taken = Var::make(reduce + "_quotient");
    }
    std::vector<Stmt> nests;
    std::vector<Buffer> allocations;
    if (sum_.leaves_values) {
      add_skipped(nests, allocations);
    }
    nests.push_back(dense_nest(allocations));
    nests.push_back(result_nest());
    const Path above(sum_.path.begin(), sum_.path.begin() + static_cast<std::ptrdiff_t>(sum_.own) + 1);
    Stmt body = replace_last(above, Seq::make(std::move(nests)));
    for (const Buffer& buffer : allocations) body = add_allocation(body, buffer);
    return body;
  }

 private:
  const Congruence* of_space(size_t iter) const {
    const auto found =
        std::find_if(sum_.found.begin(), sum_.found.end(), [&](const Congruence& c) { return c.space == iter; });
    return found == sum_.found.end() ? nullptr : &*found;
  }
  const Congruence* of_reduce(size_t iter) const {
    const auto found =
        std::find_if(sum_.found.begin(), sum_.found.end(), [&](const Congruence& c) { return c.reduce == iter; });
    return found == sum_.found.end() ? nullptr : &*found;
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
    f.reducer = sum_.reducer;
    const std::vector<ReductionOutput> outputs = {{buffer, at}};
    f.init = make_init(sum_.reducer, outputs);
    f.body = make_update(sum_.reducer, outputs, {term});
    return nest_of(std::move(f));
  }

  Buffer allocated(const std::string& base, const std::vector<Range>& dimensions,
                   std::vector<Buffer>& allocations) const {
    std::vector<Expr> shape;
    shape.reserve(dimensions.size());
    for (const Range& range : dimensions) shape.push_back(range.extent);
    allocations.push_back(BufferNode::make(schedule_.unique_name(base), sum_.output.buffer->dtype, shape));
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
    for (const Congruence& c : sum_.found) {
      if (c.points % c.modulus == 0) continue;
      within = logical_and(within, lt(by_class ? space_of_class(c) : space_of_residue(c), index(c.points)));
    }
    return within;
  }

  /// The dense term. It is taken also where there is no such point, and reads nothing out of bounds there.
  Expr dense_term(const Block::Fields& f) const {
    Parts parts(sum_.found, block_);
    if (!within_output(true)) return simplify(parts.mutate(sum_.term));
    Bounds bounds(schedule_.func());
    for (const Iter& iter : f.iters) bounds.bind(iter.variable, iter.domain);
    parts.replace(sum_.choice, zero_outside(parts.mutate(sum_.choice), bounds));
    return simplify(parts.mutate(sum_.term), bounds);
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
    for (const Congruence& c : sum_.found) {
      dimensions.push_back({index(0), index(c.classes())});
      dense_at_.emplace_back(c.class_);
    }
    for (size_t d = 0; d < sum_.output.indices.size(); ++d) {
      dimensions.push_back({index(0), sum_.output.buffer->shape[d]});
      dense_at_.push_back(sum_.output.indices[d]);
      for (const Congruence& c : sum_.found) {
        if (sum_.output.indices[d] != Expr(block_.f.iters[c.space].variable)) continue;
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
    for (const Congruence& c : sum_.found) {
      points[block_.f.iters[c.space].variable.get()] = space_of_residue(c);
      const ClassOfResidue of_residue = class_of_residue(c);
      classes[c.class_.get()] = of_residue.at;
      exists = logical_and(exists, of_residue.exists);
    }
    std::vector<Expr> at, dense_at;
    for (const Expr& index : sum_.output.indices) at.push_back(substitute(index, points));
    for (const Expr& index : dense_at_) dense_at.push_back(substitute(index, classes));
    Expr value = Load::make(dense_, std::move(dense_at), exists);
    if (exists) value = select(exists, value, constant(value->dtype, 0));
    if (skipped_) value = value + load(skipped_, skipped_at_);
    f.body = Store::make(sum_.output.buffer, at, value);
    return nest_of(std::move(f));
  }

  /// Sums of what is left out: first over all iters but those whose residues decide, whose elements lie in memory as
  /// those of the operand do, then for each residue over those that do not match.
  void add_skipped(std::vector<Stmt>& nests, std::vector<Buffer>& allocations) {
    std::vector<size_t> kept;
    for (size_t i = 0; i < block_.f.iters.size(); ++i) {
      const Iter& iter = block_.f.iters[i];
      if ((iter.kind == IterKind::space || of_reduce(i)) && uses_var(sum_.rest, iter.variable.get())) kept.push_back(i);
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
    nests.push_back(sum_nest(std::move(sums), zeros, at, simplify(substitute(sum_.rest, turned))));

    Block::Fields f;
    f.name = schedule_.unique_name(block_.f.name + "_skipped");
    dimensions.clear();
    const auto add = [&](const VarRef& variable, const Range& domain) {
      add_iter(f, variable, domain, IterKind::space);
      dimensions.push_back(domain);
      skipped_at_.emplace_back(variable);
    };
    Expr matches;
    for (const Congruence& c : sum_.found) {
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
    for (const Congruence& c : sum_.found) {
      if (!c.reduce) continue;
      const Iter& iter = block_.f.iters[*c.reduce];
      add_iter(f, iter.variable, iter.domain, IterKind::reduce);
    }
    skipped_ = allocated(f.name, dimensions, allocations);
    const Expr zero = constant(zeros->dtype, 0);
    const Expr left = select(matches, zero, load(zeros, reversed_at));
    const bool sums_steps =
        std::any_of(sum_.found.begin(), sum_.found.end(), [](const Congruence& c) { return c.reduce; });
    if (!sums_steps) f.body = Store::make(skipped_, skipped_at_, left);
    nests.push_back(sums_steps ? sum_nest(std::move(f), skipped_, skipped_at_, left) : nest_of(std::move(f)));
  }

  /// Orders iters as the dimensions of the first Load that they index, and turns round those that it walks backwards.
  void order_as_in_memory(std::vector<size_t>& iters, Substitution& turned) const {
    const Load* operand = nullptr;
    for_each_expr(sum_.rest, [&](const Expr& e) {
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
  ResidueSum sum_;
  const Block& block_;
  Buffer dense_, skipped_;
  std::vector<Expr> dense_at_, skipped_at_;
};

}  // namespace

BlockRef split_residues(Schedule& schedule, const BlockRef& block) {
  const std::string application = fmt::format("split_residues({})", block.name);
  Splitter splitter(schedule, match_residue_sum(schedule, block, application));
  Stmt body = splitter.run();
  schedule.commit(std::move(body), application);
  return {splitter.dense_name};
}

}  // namespace lathe
