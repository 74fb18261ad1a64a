#include "schedule/primitives/cache_padding.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/analysis/affine.h"
#include "ir/analysis/fold.h"
#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/structural.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"
#include "schedule/residues.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

class Stager {
 public:
  Stager(Schedule& schedule, const BlockRef& block, const std::string& buffer, const std::string& memory_space,
         std::int64_t apart)
      : schedule_(schedule),
        apart_(apart),
        path_(path_to(schedule, block)),
        block_(*path_.back().as<Block>()),
        buffer_(buffer),
        memory_space_(memory_space),
        application_(fmt::format("cache_padding({}, \"{}\", \"{}\"{})", block.name, buffer, memory_space,
                                 apart > 1 ? fmt::format(", {}", apart) : "")) {}

  BlockRef run() {
    find_select();
    find_ranges();
    std::vector<Expr> shape;
    std::vector<Range> ranges;
    Block::Fields f;
    std::vector<Expr> stored, source, read;
    Bounds known(schedule_.func());
    const auto axis = [&](const Expr& extent) -> Expr {
      const VarRef iter = Var::make(fmt::format("v{}", ranges.size()));
      ranges.push_back({index(0), extent});
      f.iters.push_back({iter, ranges.back(), IterKind::space});
      f.bindings.push_back(index(0));
      known.bind(iter, ranges.back());
      shape.push_back(extent);
      stored.emplace_back(iter);
      return iter;
    };
    for (size_t d = 0; d < ranges_.size(); ++d) {
      const Expr place = simplify(sums_[d] - ranges_[d].min);
      const std::int64_t step = step_of(to_affine(place));
      const std::int64_t apart = d + 1 < ranges_.size() ? 1 : apart_ / std::gcd(apart_, step);
      const Expr extent = simplify(floor_div(ranges_[d].extent + (step * apart - 1), step * apart));
      const Expr within = apart > 1 ? axis(index(apart)) : index(0), iter = axis(extent);
      source.push_back(simplify((iter * apart + within) * step + ranges_[d].min));
      if (apart > 1) read.push_back(simplify(floor_mod(floor_div(place, step), apart)));
      read.push_back(simplify(floor_div(place, step * apart)));
    }
    if (select_) check_places(source);
    const Expr value = select_ ? chosen(select_, source, known) : element(*load_, source, known);
    const Buffer cache =
        BufferNode::make(schedule_.unique_name(buffer_ + "_padded"), load_->dtype, shape, memory_space_);
    f.name = schedule_.unique_name(buffer_ + "_pad");
    f.body = Store::make(cache, stored, value);
    f.writes = {point_region(cache, stored)};
    const std::string name = f.name;
    const Stmt copy = infer_regions(Block::make(std::move(f)), Bounds(schedule_.func()));

    const Stmt reader = with_load(Load::make(cache, read));
    const Stmt body =
        copied_before(schedule_, application_, 4, path_, load_->buffer, make_nest(*copy.as<Block>(), ranges), reader);
    schedule_.commit(add_allocation(body, cache), application_);
    return {name};
  }

 private:
  /// What all terms of a place share: no other places are read.
  static std::int64_t step_of(const Affine& place) {
    std::int64_t step = place.constant;
    for (const AffineTerm& term : place.terms) step = std::gcd(step, term.coefficient);
    return step == 0 ? 1 : std::abs(step);
  }

  /// Nothing but Selects between elements and constants.
  static bool is_choice(const Expr& e) {
    const Select* select = e.as<Select>();
    return select ? is_choice(select->when_true) && is_choice(select->when_false)
                  : e.as<Load>() || e.as<FloatImm>() || e.as<IntImm>();
  }

  void find_select() {
    const std::string text =
        "block reads a buffer of that name once, by a Load in a Select between elements and constants, or by one whose "
        "indices are not all sums";
    int loads = 0;
    for_each_expr(block_.f.body, [&](const Expr& e) {
      if (const Load* load = e.as<Load>(); load && load->buffer->name == buffer_) {
        ++loads;
        load_ = load;
      }
      const AddressOf* address = e.as<AddressOf>();
      if (address && address->buffer->name == buffer_)
        refuse(schedule_, application_, 1, text, path_.back(), fmt::format("takes the address of {}", buffer_));
      const Select* select = e.as<Select>();
      if (!select || e->dtype.lanes > 1 || !is_choice(e)) return;
      bool reads = false, outer = !select_;
      for_each_expr(e, [&](const Expr& part) {
        const Load* load = part.as<Load>();
        reads |= load && load->buffer->name == buffer_;
        outer |= part == select_;
      });
      if (reads && outer) select_ = e;
    });
    if (loads == 0) refuse(schedule_, application_, 1, text, path_.back(), fmt::format("reads no {}", buffer_));
    const bool chosen = std::any_of(load_->indices.begin(), load_->indices.end(),
                                    [&](const Expr& e) { return !is_sum(to_affine(spelt_out(e))); });
    if ((!select_ && apart_ == 1 && (!chosen || !load_->dtype.is_scalar())) || loads > 1)
      refuse(schedule_, application_, 1, text, path_.back(), fmt::format("reads {} in another way", buffer_));
  }

  /// With what the block's Lets stand for in the place of their variables.
  Expr spelt_out(const Expr& e) {
    if (lets_.empty()) {
      for_each_stmt(block_.f.body, [&](const Stmt& s) {
        if (const Let* let = s.as<Let>()) lets_[let->variable.get()] = substitute(let->value, lets_);
      });
    }
    return substitute(e, lets_);
  }

  /// `(iter + a) // c` counts runs of an iter that starts at 0: where the index has nothing else of the iter, it is an
  /// axis of its own. Returns the index with such axes in their places.
  Expr with_run_axes(const Affine& form, std::vector<Axis>& axes) {
    Affine result;
    result.constant = form.constant;
    for (const AffineTerm& term : form.terms) {
      const Binary* runs = term.atom.as<Binary>();
      const std::int64_t* length = runs && runs->op == BinaryOp::floor_div ? as_int(runs->b) : nullptr;
      const Affine counted = length && *length > 0 ? to_affine(runs->a) : Affine();
      const bool alone = counted.terms.size() == 1 && counted.terms[0].coefficient == 1;
      const auto iter = std::find_if(block_.f.iters.begin(), block_.f.iters.end(), [&](const Iter& i) {
        return alone && counted.terms[0].atom == Expr(i.variable) && is_int(i.domain.min, 0);
      });
      const auto uses = std::count_if(form.terms.begin(), form.terms.end(), [&](const AffineTerm& other) {
        return iter != block_.f.iters.end() && uses_var(other.atom, iter->variable.get());
      });
      if (uses != 1) {
        result.terms.push_back(term);
        continue;
      }
      const VarRef count = Var::make(iter->variable->name);
      const Expr first = simplify(floor_div(index(counted.constant), *length));
      const Expr last = simplify(floor_div(iter->domain.extent + (counted.constant - 1), *length));
      axes.push_back({count, {first, simplify(last - first + 1)}});
      result.terms.push_back({count, term.coefficient});
    }
    return to_expr(result);
  }

  /// Does each term belong to an iter?
  bool is_sum(const Affine& form) const {
    return std::all_of(form.terms.begin(), form.terms.end(), [&](const AffineTerm& term) {
      return !uses_iter(term.atom) || std::any_of(block_.f.iters.begin(), block_.f.iters.end(),
                                                  [&](const Iter& iter) { return term.atom == Expr(iter.variable); });
    });
  }

  /// The sum of iters that an index is made of: the first in it, which the others must be but for a constant.
  std::optional<Affine> inner_sum(const Expr& e) const {
    Affine form = to_affine(e);
    if (is_sum(form)) return uses_iter(e) ? std::optional(form) : std::nullopt;
    const Expr atom = std::find_if(form.terms.begin(), form.terms.end(), [&](const AffineTerm& term) {
                        return uses_iter(term.atom) && !term.atom.as<Var>();
                      })->atom;
    std::optional<Affine> found;
    if (const Binary* node = atom.as<Binary>()) {
      found = inner_sum(node->a);
      return found ? found : inner_sum(node->b);
    }
    if (const Select* node = atom.as<Select>()) {
      found = inner_sum(node->when_true);
      return found ? found : inner_sum(node->when_false);
    }
    if (const Unary* node = atom.as<Unary>()) return inner_sum(node->a);
    return std::nullopt;
  }

  /// An index made of `sum` with `value` in its place; null when it uses iters in another way.
  Expr replaced_sum(const Affine& sum, const Expr& value, const Expr& e) const {
    if (!uses_iter(e)) return e;
    if (e->dtype == i64) {
      for (const std::int64_t sign : {1, -1}) {
        Affine rest = to_affine(e);
        if (add_scaled(rest, sum, -sign) && !uses_iter(to_expr(rest)))
          return sign > 0 ? value + to_expr(rest) : to_expr(rest) - value;
      }
    }
    if (const Binary* node = e.as<Binary>()) {
      const Expr a = replaced_sum(sum, value, node->a), b = replaced_sum(sum, value, node->b);
      return a && b ? Binary::make(node->op, a, b) : nullptr;
    }
    if (const Select* node = e.as<Select>()) {
      const Expr condition = replaced_sum(sum, value, node->condition), a = replaced_sum(sum, value, node->when_true),
                 b = replaced_sum(sum, value, node->when_false);
      return condition && a && b ? Select::make(condition, a, b) : nullptr;
    }
    if (const Unary* node = e.as<Unary>()) {
      const Expr a = replaced_sum(sum, value, node->a);
      return a ? Unary::make(node->op, a) : nullptr;
    }
    return nullptr;
  }

  Expr in_terms_of(const Affine& sum, const Expr& value, const Expr& e) const {
    if (const Expr result = replaced_sum(sum, value, e)) return result;
    refuse_index(e);
  }

  [[noreturn]] void refuse_index(const Expr& index) const {
    refuse(schedule_, application_, 2,
           "each index of the Load is a sum of multiples of iters, of runs of an iter that it uses in no other way, "
           "and a constant, of a range that is known; or is made of one such sum and of what no iter changes; no two "
           "use the same iter",
           path_.back(), fmt::format("reads {} at {}", buffer_, print(index)));
  }

  /// Does an index before use an iter of this one? A copy has all combinations of its indices.
  bool shares_iter(const Expr& e) {
    return std::any_of(block_.f.iters.begin(), block_.f.iters.end(), [&](const Iter& iter) {
      return uses_var(e, iter.variable.get()) &&
             std::any_of(load_->indices.begin(), load_->indices.begin() + static_cast<std::ptrdiff_t>(indices_.size()),
                         [&](const Expr& before) { return uses_var(spelt_out(before), iter.variable.get()); });
    });
  }

  void find_ranges() {
    std::vector<Axis> axes;
    axes.reserve(block_.f.iters.size());
    for (const Iter& iter : block_.f.iters) axes.push_back({iter.variable, iter.domain});
    const Bounds bounds(schedule_.func());
    for (const Expr& given : load_->indices) {
      const Expr index = spelt_out(given);
      Affine form = to_affine(index);
      Expr summed = with_run_axes(form, axes);
      const auto range_of = [&](const Expr& e) {
        const Affine sum = to_affine(e);
        const bool sums = std::all_of(sum.terms.begin(), sum.terms.end(), [&](const AffineTerm& term) {
          return std::any_of(axes.begin(), axes.end(),
                             [&](const Axis& axis) { return term.atom == Expr(axis.variable); });
        });
        return sums ? eliminate(Range{e, lathe::index(1)}, axes) : std::nullopt;
      };
      std::optional<Range> range = range_of(summed);
      sums_.push_back(given);
      if (const std::optional<Affine> inner = range ? std::nullopt : inner_sum(index)) {
        // Forward, also where the border is turned around.
        const bool backward = std::all_of(inner->terms.begin(), inner->terms.end(),
                                          [](const AffineTerm& term) { return term.coefficient < 0; });
        form = Affine();
        if (!add_scaled(form, *inner, backward ? -1 : 1)) refuse_index(index);
        sums_.back() = to_expr(form);
        range = range_of(sums_.back());
      }
      if (!range || shares_iter(index)) refuse_index(index);
      indices_.push_back(form);
      ranges_.push_back({simplify(range->min, bounds), simplify(range->extent, bounds)});
    }
  }

  bool uses_iter(const Expr& e) const {
    return std::any_of(block_.f.iters.begin(), block_.f.iters.end(),
                       [&](const Iter& iter) { return uses_var(e, iter.variable.get()); });
  }

  /// How many times the iters in `part` make those in `sum`: conditions lose a factor that all their terms share
  /// (2*i + 2*k < 20 is i + k < 10). Zero where no whole number does.
  std::int64_t multiple(const Affine& sum, const Affine& part) const {
    for (const AffineTerm& term : sum.terms) {
      const std::int64_t coefficient = uses_iter(term.atom) ? part.coefficient(term.atom) : 0;
      if (coefficient != 0) return term.coefficient % coefficient == 0 ? term.coefficient / coefficient : 0;
    }
    return 0;
  }

  /// Does the comparison have the iters' sum on one side, once and nothing but it, so that to compare that with
  /// the other side takes no step that could wrap where the comparison's own did not?
  bool compares_as_it_stands(const Binary& comparison, std::int64_t times, const Affine& sum) const {
    Affine side = to_affine(uses_iter(comparison.a) ? comparison.a : comparison.b);
    const Expr& other = uses_iter(comparison.a) ? comparison.b : comparison.a;
    if (std::abs(times) != 1 || uses_iter(other)) return false;
    return add_scaled(side, sum, -1) && side.is_constant() && side.constant == 0;
  }

  /// A condition on the indices of the Load as one on `values`, which stand for them.
  Expr rewritten(const Expr& condition, const std::vector<Expr>& values) const {
    if (!uses_iter(condition)) return condition;
    if (const Unary* unary = condition.as<Unary>(); unary && unary->op == UnaryOp::logical_not)
      return Unary::make(unary->op, rewritten(unary->a, values));
    const Binary* node = condition.as<Binary>();
    if (node && (node->op == BinaryOp::logical_and || node->op == BinaryOp::logical_or))
      return Binary::make(node->op, rewritten(node->a, values), rewritten(node->b, values));
    if (node && is_comparison(node->op) && node->a->dtype == i64) {
      const Affine difference = to_affine(node->a - node->b);
      for (size_t d = 0; d < indices_.size(); ++d) {
        const std::int64_t times = multiple(indices_[d], difference);
        const int sign = times < 0 ? -1 : 1;
        Affine rest;
        if (times == 0 || !add_scaled(rest, difference, std::abs(times)) || !add_scaled(rest, indices_[d], -sign) ||
            uses_iter(to_expr(rest)))
          continue;
        const Expr other = to_expr(rest);
        if (!compares_as_it_stands(*node, times, indices_[d]) && may_wrap(Bounds(schedule_.func()), rest)) continue;
        return simplify(sign > 0 ? Binary::make(node->op, values[d], index(0) - other)
                                 : Binary::make(node->op, other, values[d]));
      }
    }
    refuse(schedule_, application_, 3,
           "the Select's condition compares these indices, each by itself, with what no iter changes", path_.back(),
           fmt::format("asks {}", print(condition)));
  }

  /// An index of another Load as one on `values`: that of a dimension of the first but for a constant.
  Expr placed(const Expr& e, const std::vector<Expr>& values) {
    Expr place = spelt_out(e);
    if (!uses_iter(place)) return place;
    for (size_t d = 0; d < indices_.size(); ++d) {
      for (const std::int64_t sign : {1, -1}) {
        Affine rest = to_affine(place);
        if (add_scaled(rest, indices_[d], -sign) && !uses_iter(to_expr(rest)))
          return simplify(sign > 0 ? values[d] + to_expr(rest) : to_expr(rest) - values[d]);
      }
    }
    refuse_index(e);
  }

  /// The indices of a Load where `values` stand for those of the first.
  std::vector<Expr> places(const Load& load, const std::vector<Expr>& values) {
    std::vector<Expr> result;
    result.reserve(load.indices.size());
    for (size_t d = 0; d < load.indices.size(); ++d) {
      result.push_back(&load == load_ ? simplify(in_terms_of(indices_[d], values[d], spelt_out(load.indices[d])))
                                      : placed(load.indices[d], values));
    }
    return result;
  }

  /// Refuses the indices of all Loads before any condition.
  void check_places(const std::vector<Expr>& values) {
    for_each_expr(select_, [&](const Expr& e) {
      if (const Load* load = e.as<Load>()) places(*load, values);
    });
  }

  /// What a Load reads where `values` stand for the indices of the first and `known` holds; zero where that is not
  /// known to lie in its buffer: instances that a predicate leaves out are in the copy too, where nobody reads them.
  Expr element(const Load& load, const std::vector<Expr>& values, Bounds known) {
    const std::vector<Expr> place = places(load, values);
    if (&load != load_) require_unwritten(schedule_, application_, 4, path_, load.buffer);
    const Expr mask = load.mask ? rewritten(spelt_out(load.mask), values) : nullptr;
    if (mask) known.assume(mask);
    const Expr inside = unproved_inside(place, load.buffer, known);
    const Expr value = Load::make(load.buffer, place, logical_and(inside, mask));
    return inside ? Select::make(inside, value, zero(load.dtype)) : value;
  }

  /// The same of Selects between elements and constants.
  Expr chosen(const Expr& e, const std::vector<Expr>& values, const Bounds& known) {
    if (const Load* load = e.as<Load>()) return element(*load, values, known);
    const Select* select = e.as<Select>();
    if (!select) return e;
    const Expr condition = rewritten(spelt_out(select->condition), values);
    Bounds when_true = known, when_false = known;
    when_true.assume(condition);
    when_false.assume(logical_not(condition));
    const Expr first = chosen(select->when_true, values, when_true);
    return Select::make(condition, first, chosen(select->when_false, values, when_false));
  }

  Stmt with_load(const Expr& load) const {
    class Replacer : public Mutator {
     public:
      Replacer(const ExprNode* from, Expr to) : from_(from), to_(std::move(to)) {}
      using Mutator::mutate;
      Expr mutate(const Expr& e) override { return e.get() == from_ ? to_ : Mutator::mutate(e); }

     private:
      const ExprNode* from_;
      Expr to_;
    };
    Replacer replacer(select_ ? select_.get() : load_, load);
    const Stmt changed = with_fields(block_, [&](Block::Fields& f) { f.body = replacer.mutate(f.body); });
    return infer_regions(changed, Bounds(schedule_.func()));
  }

  Schedule& schedule_;
  const std::int64_t apart_;
  const Path path_;
  const Block& block_;
  const std::string buffer_, memory_space_, application_;
  Expr select_;  ///< the outermost that chooses the element; null where none does
  const Load* load_ = nullptr;
  Substitution lets_;
  std::vector<Affine> indices_;  ///< the sums that the indices are made of
  std::vector<Expr> sums_;       ///< the same, as the block writes them
  std::vector<Range> ranges_;
};

}  // namespace

BlockRef cache_padding(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                       const std::string& memory_space, std::int64_t apart) {
  return Stager(schedule, block, buffer, memory_space, apart).run();
}

}  // namespace lathe
