#include <algorithm>

#include "ir/analysis/access_walk.h"
#include "ir/analysis/regions.h"
#include "ir/analysis/relax.h"
#include "ir/analysis/simplify_expr.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

void append_conditions(const Expr& e, std::vector<Expr>& out) {
  if (!e) return;
  if (auto* b = e.as<Binary>(); b && b->op == BinaryOp::logical_and) {
    append_conditions(b->a, out);
    append_conditions(b->b, out);
  } else if (auto* v = e.as<Broadcast>()) {
    append_conditions(v->value, out);
  } else {
    out.push_back(e);
  }
}

/// One variable of a store index, with the number of its values.
struct Digit {
  Expr variable;
  std::int64_t coefficient;
  Affine extent;
};

/// (walk // divisor) % count, without the remainder where count is 0.
struct Part {
  Expr walk;
  std::int64_t divisor = 1, count = 0;
  size_t dimension = 0;  ///< of the index that it is a term of
  Affine rest;           ///< the others of that index
};

/// What a quotient or remainder by constants is a part of; of anything else, all of it.
std::optional<Part> part_of(const Expr& e) {
  auto* b = e.as<Binary>();
  const bool divides = b && b->op == BinaryOp::floor_div, rests = b && b->op == BinaryOp::floor_mod;
  const std::int64_t* by = divides || rests ? as_int(b->b) : nullptr;
  if (!by) {
    Part all;
    all.walk = e;
    return all;
  }
  auto part = part_of(b->a);
  if (!part || *by < 1 || part->count % *by != 0) return std::nullopt;
  if (rests) {
    part->count = *by;
  } else {
    if (__builtin_mul_overflow(part->divisor, *by, &part->divisor)) return std::nullopt;
    part->count /= *by;
  }
  return part;
}

/// Indices of a store that count one walk, as those of an array that is passed over as one run: x // 12, x // 4 % 3 and
/// x % 4. Rows are written whole where the walk leaves none of their elements out.
struct CountedWalk {
  Affine place;
  std::vector<Part> parts;  ///< the last index first

  std::int64_t row = 1;  ///< elements of the parts but for the first index

  /// Sorts the parts, and counts a row; false where these do not count each place once.
  bool count_row() {
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.divisor < b.divisor; });
    for (const Part& part : parts) {
      const bool first = &part == &parts.back();
      if (part.divisor != row || (part.count == 0) != first) return false;
      if (!first && __builtin_mul_overflow(row, part.count, &row)) return false;
    }
    return true;
  }
};

class MustCollector : public AccessWalk {
 public:
  MustCollector(const Bounds& outer, const std::function<bool(const Buffer&)>& considered)
      : AccessWalk(outer, false), around_(outer), considered_(considered) {}

  std::vector<Region> regions;

 protected:
  void accessed(const Access& access) override {
    if (!access.is_write) return;
    if (considered_ && !considered_(access.region.buffer)) return;
    for (const Range& r : access.region.ranges)
      if (!is_int(r.extent, 1)) return;  // an address that was handed out, or a flat index: nothing is sure
    auto region = covered(access);
    if (!region) return;
    for (const Region& known : regions)
      if (contains(known, *region, around_)) return;
    regions.push_back(std::move(*region));
  }

  bool passes_over(const Block& block) override {
    return considered_ && !block.f.writes.empty() &&
           std::none_of(block.f.writes.begin(), block.f.writes.end(),
                        [&](const Region& region) { return considered_(region.buffer); });
  }
  /// A hint says what may be written, never what must.
  bool governs(const Region&, const Block&, bool) override { return false; }
  void enter(const Stmt& s) override {
    if (auto* loop = s.as<For>()) loops_.push_back(loop);
  }
  void leave(const Stmt& s) override {
    if (s.as<For>()) loops_.pop_back();
  }

 private:
  /// The form over loop variables: iters and Lets become what they stand for.
  std::optional<Affine> expanded(const Expr& e) const {
    Affine a = to_affine(e);
    for (int round = 0; round < 32; ++round) {
      auto bound = std::find_if(a.terms.begin(), a.terms.end(), [&](const AffineTerm& t) {
        auto* v = t.atom.as<Var>();
        return v && bounds_.bound_since(outer_, v) && bounds_.value(v);
      });
      if (bound == a.terms.end()) return a;
      // A copy: taking it out of the sum moves the others.
      const AffineTerm t = *bound;  // NOLINT(performance-unnecessary-copy-initialization)
      if (!add_term(a, t.atom, -t.coefficient) ||
          !add_scaled(a, to_affine(*bounds_.value(t.atom.as<Var>())), t.coefficient))
        return std::nullopt;
    }
    return std::nullopt;
  }

  /// A term of the index that is part of a walk over inner variables, where it is the only one that has any.
  std::optional<Part> inner_part(const Affine& index, const Relaxation& relaxation) const {
    const auto is_inner = [&](const AffineTerm& t) { return relaxation.is_inner(t.atom); };
    const auto term = std::find_if(index.terms.begin(), index.terms.end(), is_inner);
    if (term == index.terms.end() || std::any_of(term + 1, index.terms.end(), is_inner) || term->coefficient != 1 ||
        index.lanes != 1 || term->atom->dtype != i64)
      return std::nullopt;
    auto part = part_of(term->atom);
    if (!part || (part->divisor == 1 && part->count == 0)) return std::nullopt;
    part->rest = index;
    return add_term(part->rest, term->atom, -1) ? part : std::nullopt;
  }

  /// The walks that the indices count; nothing where one of them does not count each place once, or may wrap.
  std::optional<std::vector<CountedWalk>> walks_of(const std::vector<Affine>& indices,
                                                   const Relaxation& relaxation) const {
    std::vector<CountedWalk> walks;
    for (size_t d = 0; d < indices.size(); ++d) {
      auto part = inner_part(indices[d], relaxation);
      if (!part) continue;
      part->dimension = d;
      auto same = std::find_if(walks.begin(), walks.end(),
                               [&](const CountedWalk& walk) { return identical(walk.parts.front().walk, part->walk); });
      if (same == walks.end()) same = walks.insert(same, CountedWalk());
      same->parts.push_back(std::move(*part));
    }
    for (CountedWalk& walk : walks) {
      const auto place = expanded(walk.parts.front().walk);
      if (!place || may_wrap(bounds_, *place) || !walk.count_row()) return std::nullopt;
      walk.place = *place;
    }
    return walks;
  }

  /// Indices, and the least ones and those behind the greatest.
  struct Box {
    std::vector<Affine> indices;
    std::vector<Expr> begins, ends;
  };

  /// Takes the index, all of whose values are written; false where they have gaps.
  bool add(Box& box, Affine index, Relaxation& relaxation, std::vector<const Var*>& used) {
    const auto ends = dense(index, relaxation, used);
    if (!ends) return false;
    box.indices.push_back(std::move(index));
    box.begins.push_back(to_expr(ends->first));
    box.ends.push_back(to_expr(ends->second) + 1);
    return true;
  }

  /// Whole rows of each walk.
  static void lay_rows(const std::vector<CountedWalk>& walks, const Box& walked, Box& box) {
    for (size_t w = 0; w < walks.size(); ++w) {
      const std::int64_t row = walks[w].row;
      for (const Part& part : walks[w].parts) {
        const Expr rest = to_expr(part.rest);
        const bool first = part.count == 0;
        box.begins[part.dimension] = first ? rest + floor_div(walked.begins[w] + (row - 1), row) : rest;
        box.ends[part.dimension] = rest + (first ? floor_div(walked.ends[w], row) : index(part.count));
      }
    }
  }

  /// The box that the store writes for sure, over outer variables.
  std::optional<Region> covered(const Access& access) {
    Relaxation relaxation(bounds_, outer_);
    std::vector<Affine> indices;
    for (const Range& r : access.region.ranges) {
      auto a = expanded(r.min);
      if (!a || may_wrap(bounds_, *a)) return std::nullopt;
      indices.push_back(*a);
    }
    const auto walks = walks_of(indices, relaxation);
    if (!walks) return std::nullopt;
    const auto is_counted = [&](size_t d) {
      return std::any_of(walks->begin(), walks->end(), [&](const CountedWalk& walk) {
        return std::any_of(walk.parts.begin(), walk.parts.end(), [&](const Part& part) { return part.dimension == d; });
      });
    };
    Box box, walked;
    std::vector<const Var*> used;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (is_counted(d)) {
        box.indices.push_back(indices[d]);
        box.begins.emplace_back();
        box.ends.emplace_back();
      } else if (!add(box, indices[d], relaxation, used)) {
        return std::nullopt;
      }
    }
    for (const CountedWalk& walk : *walks)
      if (!add(walked, walk.place, relaxation, used)) return std::nullopt;
    // A loop that no index uses must run at least once.
    for (const For* loop : loops_)
      if (std::find(used.begin(), used.end(), loop->variable.get()) == used.end() && !runs(loop)) return std::nullopt;
    ExprSimplifier s(around_);
    std::vector<Expr> conditions, others;
    for (const Expr& guard : guards_) append_conditions(guard, conditions);
    append_conditions(access.mask, conditions);
    for (const Expr& condition : conditions)
      if (!apply(condition, walked, relaxation)) others.push_back(condition);
    lay_rows(*walks, walked, box);
    for (const Expr& condition : others)
      if (!apply(condition, box, relaxation)) return std::nullopt;
    Region result{access.region.buffer, {}, Provenance::inferred, {}};
    for (size_t d = 0; d < indices.size(); ++d) {
      Expr begin = s.simplify(box.begins[d]);
      result.ranges.push_back({begin, s.simplify(max(box.ends[d] - begin, index(0)))});
    }
    return result;
  }

  bool runs(const For* loop) const {
    Affine extent = to_affine(loop->extent);
    extent.constant -= 1;
    // Inside a loop its extent is known to be positive: only what holds around can say so of it.
    return prove_nonnegative(around_, extent);
  }

  /// First and last value of an index whose values have no gap.
  std::optional<std::pair<Affine, Affine>> dense(Affine& a, Relaxation& relaxation, std::vector<const Var*>& used) {
    std::vector<Digit> digits;
    for (const AffineTerm& t : a.terms) {
      if (!relaxation.is_inner(t.atom)) continue;
      auto* v = t.atom.as<Var>();
      if (!v || std::find(used.begin(), used.end(), v) != used.end()) return std::nullopt;
      used.push_back(v);
      if (v == lane_variable().get()) {
        digits.push_back({t.atom, t.coefficient, Affine::of(a.lanes)});
        continue;
      }
      const Bounds::Entry* entry = bounds_.find(v);
      const Bounds::Domain* domain = entry->domain.get();
      if (!domain || relaxation.is_inner(domain->low) || relaxation.is_inner(domain->high)) return std::nullopt;
      Affine extent = domain->high;
      if (!add_scaled(extent, domain->low, -1)) return std::nullopt;
      extent.constant += 1;
      digits.push_back({t.atom, t.coefficient, extent});
    }
    std::sort(digits.begin(), digits.end(),
              [](const Digit& x, const Digit& y) { return std::abs(x.coefficient) < std::abs(y.coefficient); });
    std::int64_t span = 1;
    for (size_t i = 0; i < digits.size(); ++i) {
      const Digit& digit = digits[i];
      std::int64_t step = std::abs(digit.coefficient);
      if (digit.extent.is_constant() && digit.extent.constant == 1) continue;
      bool last = i + 1 == digits.size();
      if (step > span || (!digit.extent.is_constant() && !last)) return std::nullopt;
      if (!digit.extent.is_constant()) {
        // An empty loop gives an empty range only where the digits fit exactly.
        Affine positive = digit.extent;
        positive.constant -= 1;
        if (step != span && !prove_nonnegative(around_, positive)) return std::nullopt;
        break;
      }
      if (digit.extent.constant < 1) return std::nullopt;
      span += step * (digit.extent.constant - 1);
    }
    auto low = relaxation.end(a, false), high = relaxation.end(a, true);
    if (!low || !high) return std::nullopt;
    return std::pair(*low, *high);
  }

  /// Narrows the box to where `condition` holds; false when that is no box.
  bool apply(const Expr& condition, Box& box, Relaxation& relaxation) {
    auto* b = condition.as<Binary>();
    if (!b || !is_comparison(b->op) || b->op == BinaryOp::eq || b->op == BinaryOp::ne || b->a->dtype.element() != i64)
      return false;
    auto left = expanded(b->a), right = expanded(b->b);
    if (!left || !right || may_wrap(bounds_, *left) || may_wrap(bounds_, *right)) return false;
    if (b->op == BinaryOp::gt || b->op == BinaryOp::ge) std::swap(left, right);
    // d >= 0 where the condition holds.
    Affine d = *right;
    if (!add_scaled(d, *left, -1)) return false;
    if (b->op == BinaryOp::lt || b->op == BinaryOp::gt) d.constant -= 1;
    if (prove_nonnegative(bounds_, d)) return true;
    for (size_t i = 0; i < box.indices.size(); ++i) {
      Affine above = d, below = d;
      if (add_scaled(above, box.indices[i], 1) && !relaxation.is_inner(above)) {  // index <= above
        above.lanes = 1;
        box.ends[i] = min(box.ends[i], to_expr(above) + 1);
        return true;
      }
      if (add_scaled(below, box.indices[i], -1) && !relaxation.is_inner(below)) {  // index >= -below
        Affine begin = Affine::of(0);
        if (!add_scaled(begin, below, -1)) return false;
        begin.lanes = 1;
        box.begins[i] = max(box.begins[i], to_expr(begin));
        return true;
      }
    }
    return false;
  }

  const Bounds around_;
  const std::function<bool(const Buffer&)>& considered_;
  std::vector<const For*> loops_;
};

}  // namespace

std::vector<Region> must_write_regions(const Stmt& body, const Bounds& outer,
                                       const std::function<bool(const Buffer&)>& considered) {
  MustCollector collector(outer, considered);
  collector.walk(body);
  return std::move(collector.regions);
}

}  // namespace lathe
