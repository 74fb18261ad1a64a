#include "schedule/primitives/fold_columns.h"

#include <fmt/format.h>

#include <bit>
#include <numeric>

#include "schedule/access.h"
#include "schedule/primitives/lane_fold.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Vectors of `count` groups of `group` lanes each: the lanes [from, from + half) of every group of all of them, end to
/// end.
Expr halves(const std::vector<Expr>& vectors, std::int64_t count, std::int64_t group, std::int64_t from) {
  std::vector<int> lanes;
  for (size_t v = 0; v < vectors.size(); ++v) {
    for (std::int64_t g = 0; g < count; ++g) {
      for (std::int64_t i = 0; i < group / 2; ++i) {
        lanes.push_back(static_cast<int>((static_cast<std::int64_t>(v) * count + g) * group + from + i));
      }
    }
  }
  return Shuffle::make(vectors, lanes);
}

/// One vector whose lane v is vectors[v] folded. What is used twice is bound: `lets` gets those, outermost first.
Expr fold_together(BinaryOp op, std::vector<Expr> vectors, std::int64_t lanes, std::vector<Stmt>& lets) {
  const auto bind = [&](Expr& value) {
    const VarRef variable = Var::make("part", value->dtype);
    lets.push_back(Let::make(variable, value, Seq::make({})));
    value = variable;
  };
  std::int64_t groups = 1;  // of each vector; a group belongs to one result
  for (std::int64_t group = lanes; group > 1; group /= 2) {
    for (Expr& value : vectors) bind(value);
    std::vector<Expr> next;
    const size_t step = vectors.size() > 1 ? 2 : 1;
    for (size_t v = 0; v < vectors.size(); v += step) {
      const std::vector<Expr> some(vectors.begin() + static_cast<std::ptrdiff_t>(v),
                                   vectors.begin() + static_cast<std::ptrdiff_t>(v + step));
      next.push_back(binary(op, halves(some, groups, group, 0), halves(some, groups, group, group / 2)));
    }
    groups *= static_cast<std::int64_t>(step);
    vectors = std::move(next);
  }
  return vectors[0];
}

/// e / divisor where every term is a multiple of it; null otherwise.
Expr exact_quotient(const Expr& e, std::int64_t divisor) {
  const LinearForm form = linear_form(e);
  if (form.constant % divisor != 0) return nullptr;
  Expr result = index(form.constant / divisor);
  for (const auto& [atom, coefficient] : form.terms) {
    if (coefficient % divisor != 0) return nullptr;
    result = atom * (coefficient / divisor) + result;
  }
  return result;
}

/// The predicate for whole groups of columns: each condition on `columns` at its first value. False when one does not
/// allow it.
bool whole_groups(const Expr& predicate, const VarRef& columns, std::int64_t n, Expr& result) {
  if (!predicate) return true;
  const Binary* node = predicate.as<Binary>();
  if (node && node->op == BinaryOp::logical_and) {
    return whole_groups(node->a, columns, n, result) && whole_groups(node->b, columns, n, result);
  }
  if (uses_var(predicate, columns.get())) {
    const auto left = node && node->op == BinaryOp::lt ? split_linear(node->a, columns) : std::nullopt;
    if (!left || left->first != 1 || !exact_quotient(left->second, n) || !exact_quotient(node->b, n)) return false;
  }
  result = logical_and(result, substitute(predicate, {{columns.get(), index(0)}}));
  return true;
}

}  // namespace

void fold_columns(Schedule& schedule, const BlockRef& block, const LoopRef& columns, std::int64_t lanes) {
  const std::string application = fmt::format("fold_columns({}, {}, {})", block.name, schedule.place(columns), lanes);
  const LaneFold fold = match_lane_fold(schedule, application, block, lanes);
  const Path path = path_to(schedule, block);
  const Stmt& at = path.back();
  const Block& node = *at.as<Block>();
  const Stmt& around = path[path.size() - 3];
  const For* loop = around.as<For>();
  const std::int64_t* extent = loop ? as_int(loop->extent) : nullptr;
  const std::int64_t n = extent ? *extent : 0;
  // Groups of another size are filled up, and what the last vectors give is left out.
  const auto filled =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
  if (!loop || loop->variable != columns.variable || !is_int(loop->min, 0) || n < 2 || filled > lanes) {
    refuse(schedule, application, 5,
           "columns directly holds the loop of the reduce iter alone, and its extent is a constant of at least 2 whose "
           "next power of two is at most lanes",
           around, "is not so");
  }
  const std::string neighbours =
      "one iter is bound to columns + a multiple of its extent, its domain is [0, a multiple of that extent), it is "
      "the output's last index but for dimensions of one element, and nothing else is bound to columns";
  std::optional<size_t> own;
  Expr first;
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    if (!uses_var(node.f.bindings[i], columns.variable.get())) continue;
    const auto parts = split_linear(node.f.bindings[i], columns.variable);
    first = parts && parts->first == 1 && !own ? exact_quotient(parts->second, n) : nullptr;
    own = i;
    if (!first)
      refuse(schedule, application, 6, neighbours, at,
             fmt::format("binds {} otherwise", node.f.iters[i].variable->name));
  }
  const std::int64_t* domain = own ? as_int(node.f.iters[*own].domain.extent) : nullptr;
  size_t last = fold.output.indices.size();
  while (last > 0 && is_int(fold.output.buffer->shape[last - 1], 1)) --last;
  if (!own || !domain || *domain % n != 0 || !is_int(node.f.iters[*own].domain.min, 0) || last == 0 ||
      fold.output.indices[last - 1] != Expr(node.f.iters[*own].variable)) {
    refuse(schedule, application, 6, neighbours, at, "is not so");
  }
  for (size_t d = 0; d < fold.output.indices.size(); ++d) {
    if (d + 1 == last || !uses_var(fold.output.indices[d], node.f.iters[*own].variable.get())) continue;
    refuse(schedule, application, 6, neighbours, at, "stores along several dimensions at once");
  }
  Expr predicate;
  if (!whole_groups(node.f.predicate, columns.variable, n, predicate)) {
    refuse(schedule, application, 7,
           "a condition of the predicate that uses columns says that this binding is below a multiple of the extent",
           at, "has another");
  }

  const Iter& old = node.f.iters[*own];
  const VarRef group = Var::make(old.variable->name);
  const Expr start = Expr(group) * n;
  std::vector<Expr> vectors;
  for (std::int64_t c = 0; c < n; ++c) {
    std::vector<Expr> indices;
    indices.reserve(fold.term->indices.size());
    for (const Expr& e : fold.term->indices) indices.push_back(substitute(e, {{old.variable.get(), start + c}}));
    vectors.push_back(combined_vector(fold, std::move(indices), lanes));
  }
  vectors.resize(static_cast<size_t>(filled), vectors.back());
  std::vector<Expr> stored = fold.output.indices;
  stored[last - 1] = Ramp::make(start, index(1), static_cast<int>(n));
  std::vector<Stmt> lets;
  Expr folds = fold_together(fold.op, vectors, lanes, lets);
  if (n < filled) {
    std::vector<int> kept(static_cast<size_t>(n));
    std::iota(kept.begin(), kept.end(), 0);
    folds = Shuffle::make({folds}, kept);
  }
  Stmt body = Store::make(fold.output.buffer, stored, folds);
  for (size_t i = lets.size(); i-- > 0;) body = Let::make(lets[i].as<Let>()->variable, lets[i].as<Let>()->value, body);
  const Stmt folded = with_fields(node, [&](Block::Fields& f) {
    f.iters[*own] = {group, {index(0), index(*domain / n)}, IterKind::space};
    f.bindings[*own] = first;
    f.predicate = predicate;
    f.iters.erase(f.iters.begin() + static_cast<std::ptrdiff_t>(fold.reduce_iter));
    f.bindings.erase(f.bindings.begin() + static_cast<std::ptrdiff_t>(fold.reduce_iter));
    f.reducer.reset();
    f.init = nullptr;
    f.body = body;
  });
  const Path outer(path.begin(), path.end() - 2);
  schedule.commit(replace_last(outer, with_inferred_regions(*folded.as<Block>())), application);
}

}  // namespace lathe
