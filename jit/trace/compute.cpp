#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/error.h"
#include "ir/reduction.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "jit/trace/check_places.h"
#include "jit/trace/describe.h"
#include "jit/trace/finish_compute.h"
#include "jit/trace/promotion.h"
#include "jit/trace/tensor_node.h"

namespace lathe {
namespace {

/// Space iters of `shape` and the index each dimension is stored at.
void make_space_iters(const Shape& shape, ComputeNode& node) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (is_int(shape[d], 1)) {
      node.indices.push_back(index(0));
      continue;
    }
    VarRef variable = Var::make(fmt::format("vi{}", d));
    node.iters.push_back({variable, {index(0), shape[d]}, IterKind::space});
    node.indices.push_back(variable);
  }
}

bool is_zero(const Expr& e) {
  const FloatImm* real = e.as<FloatImm>();
  return is_int(e, 0) || (real && real->value == 0 && !std::signbit(real->value));
}

/// f16 and bf16 would be rounded at every step.
void check_folds_wide(const std::string& name, DType folded) {
  if (!is_half(folded)) return;
  fail_type(name, fmt::format("the reducer folds {}; expected f32, which {} is computed in", to_string(folded),
                              to_string(folded)));
}

/// The block of `node`'s space iters that folds the reduction.
std::vector<Tensor> finish_reduction(const Shape& shape, std::string name, Reduction reduction, ComputeNode node,
                                     Listener& listener, bool borrows_iters = false) {
  const Unfinished unfinished{
      .within = reduction.within, .otherwise = reduction.reducer.identities, .borrows_iters = borrows_iters};
  if (reduction.heard) listener.add(*reduction.heard);
  for (size_t d = 0; d < reduction.variables.size(); ++d) {
    node.iters.push_back({reduction.variables[d], reduction.domain[d], IterKind::reduce});
  }
  if (reduction.terms.size() != reduction.reducer.results.size()) {
    fail_value(name, fmt::format("the reduction has {} terms; its reducer folds {}", reduction.terms.size(),
                                 reduction.reducer.results.size()));
  }
  for (size_t k = 0; k < reduction.terms.size(); ++k) {
    const DType expected = reduction.reducer.results[k]->dtype;
    check_folds_wide(name, expected);
    if (reduction.terms[k]->dtype != expected) {
      fail_type(name, fmt::format("term {} of the reduction has type {}; its reducer folds {}", k,
                                  to_string(reduction.terms[k]->dtype), to_string(expected)));
    }
  }
  if (reduction.variables.empty()) {
    node.values = combine(reduction.reducer, reduction.reducer.identities, reduction.terms);
    return finish_compute(shape, std::move(name), std::move(node), listener, unfinished);
  }
  node.values = std::move(reduction.terms);
  node.reducer = std::move(reduction.reducer);
  return finish_compute(shape, std::move(name), std::move(node), listener, unfinished);
}

}  // namespace

Bounds domains_of(const ComputeNode& node) {
  Bounds bounds;
  for (const Iter& iter : node.iters) bounds.bind(iter.variable, iter.domain);
  return bounds;
}

Tensor compute(const Shape& shape, const std::function<Expr(const Indices&)>& f, std::string name) {
  Listener listener;
  ComputeNode node;
  make_space_iters(shape, node);
  listener.domains = domains_of(node);
  node.values = {f(node.indices)};
  return finish_compute(shape, std::move(name), std::move(node), listener).front();
}

Tensor compute_rounded(const Shape& shape, DType dtype, const std::function<Expr(const Indices&)>& f,
                       std::string name) {
  Listener listener;
  ComputeNode node;
  make_space_iters(shape, node);
  listener.domains = domains_of(node);
  node.values = {convert(dtype, f(node.indices))};
  node.rounds = true;
  return finish_compute(shape, std::move(name), std::move(node), listener).front();
}

std::vector<Tensor> compute_tuple(const Shape& shape, const std::function<Reduction(const Indices&)>& f,
                                  std::string name) {
  Listener listener;
  ComputeNode node;
  make_space_iters(shape, node);
  listener.domains = domains_of(node);
  Reduction reduction = f(node.indices);
  return finish_reduction(shape, std::move(name), std::move(reduction), std::move(node), listener);
}

Tensor compute(const Shape& shape, const std::function<Reduction(const Indices&)>& f, const std::string& name) {
  const std::vector<Tensor> outputs = compute_tuple(shape, f, name);
  if (outputs.size() != 1) {
    fail_value(name, fmt::format("the reduction gives {} tensors; use compute_tuple", outputs.size()));
  }
  return outputs.front();
}

std::vector<Tensor> scan_tuple(const Shape& shape, size_t axis, const Reducer& reducer,
                               const std::function<std::vector<Expr>(const Indices&)>& f, std::string name) {
  if (axis >= shape.size())
    fail_value(name, fmt::format("axis {} is out of range for the shape {}", axis, describe(shape)));
  Listener listener;
  ComputeNode node;
  make_space_iters(shape, node);
  listener.domains = domains_of(node);
  const std::vector<Expr> terms = f(node.indices);
  const size_t count = reducer.results.size();
  if (terms.size() != count)
    fail_value(name, fmt::format("the scan has {} terms; its reducer folds {}", terms.size(), count));
  for (size_t k = 0; k < count; ++k) {
    const DType dtype = reducer.results[k]->dtype;
    check_folds_wide(name, dtype);
    if (terms[k]->dtype == dtype) continue;
    fail_type(name, fmt::format("the terms of the scan have type {}; its reducer folds {}", to_string(terms[k]->dtype),
                                to_string(dtype)));
  }
  std::vector<Expr> before = reducer.identities;
  for (Iter& iter : node.iters) {
    if (node.indices[axis] != Expr(iter.variable)) continue;
    iter.kind = IterKind::ordered;
    std::string buffer_name = name;
    std::replace(buffer_name.begin(), buffer_name.end(), '.', '_');
    Indices place = node.indices;
    place[axis] = iter.variable - 1;
    const Expr behind_first = ge(iter.variable, index(1));
    for (size_t k = 0; k < count; ++k) {
      const std::string suffix = count > 1 ? fmt::format("_{}", k) : "";
      node.buffers.push_back(BufferNode::make(buffer_name + suffix, terms[k]->dtype, shape));
      const Expr previous = Load::make(node.buffers[k], place, behind_first);
      before[k] = is_zero(before[k]) ? previous : select(behind_first, previous, before[k]);
    }
  }
  node.values = combine(reducer, before, terms);
  return finish_compute(shape, std::move(name), std::move(node), listener);
}

Tensor scan(const Shape& shape, size_t axis, const Reducer& reducer, const std::function<Expr(const Indices&)>& f,
            const std::string& name) {
  if (reducer.results.size() != 1)
    fail_value(name, fmt::format("a scan's reducer has one value; given {}; use scan_tuple", reducer.results.size()));
  const auto terms = [&](const Indices& i) { return std::vector<Expr>{f(i)}; };
  return scan_tuple(shape, axis, reducer, terms, name).front();
}

Tensor scatter(const Tensor& begin, const Reducer& reducer, const Shape& extents,
               const std::function<Contribution(const Indices&)>& f, std::string name) {
  if (reducer.results.size() != 1)
    fail_value(name, fmt::format("a scatter's reducer has one value; given {}", reducer.results.size()));
  const DType dtype = reducer.results[0]->dtype;
  check_folds_wide(name, dtype);
  Listener listener;
  ComputeNode start, node;
  make_space_iters(begin.shape(), start);
  node.begin = Beginning{start.iters, start.indices, convert(dtype, begin.at(start.indices))};
  Indices box;
  for (size_t d = 0; d < extents.size(); ++d) {
    node.iters.push_back({Var::make(fmt::format("vi{}", d)), {index(0), extents[d]}, IterKind::ordered});
    box.emplace_back(node.iters.back().variable);
  }
  listener.domains = domains_of(node);
  Contribution given = f(box);
  if (given.place.size() != begin.rank())
    fail_value(name, fmt::format("a place has {} indices; expected {}", given.place.size(), begin.rank()));
  if (given.term->dtype != dtype) {
    fail_type(name, fmt::format("the term of the scatter has type {}; its reducer folds {}",
                                to_string(given.term->dtype), to_string(dtype)));
  }
  for (Iter& iter : node.iters) {
    const bool apart = std::find(given.place.begin(), given.place.end(), Expr(iter.variable)) != given.place.end();
    if (apart) iter.kind = IterKind::space;
  }
  std::string buffer_name = name;
  std::replace(buffer_name.begin(), buffer_name.end(), '.', '_');
  node.buffers = {BufferNode::make(buffer_name, dtype, begin.shape())};
  node.indices = std::move(given.place);
  node.values = combine(reducer, {Load::make(node.buffers[0], node.indices)}, {given.term});
  return finish_compute(begin.shape(), std::move(name), std::move(node), listener).front();
}

namespace {

/// The extent itself; where it hangs on what counts in the body, the greatest that it comes to.
Expr greatest_extent(const Expr& extent, const Bounds& domains) {
  const std::vector<VarRef> used = used_vars(extent);
  const bool counted =
      std::any_of(used.begin(), used.end(), [&](const VarRef& v) { return domains.domain(v.get()) != nullptr; });
  if (!counted && !has_load(extent)) return extent;
  const Interval values = domains.interval(extent);
  if (!values.max) {
    fail_value("reduce",
               fmt::format("nothing says how far the extent {} reaches: bound it with lathe.minimum", print(extent)));
  }
  return index(std::max(*values.max, std::int64_t{0}));
}

/// What an inner part of a body touches, which `around` does not hear of.
class InnerListener {
 public:
  explicit InnerListener(Listener* around) : around_(around) {
    inner_.domains = around->domains;
    inner_.met = around->met;
    inner_.reads = around->reads;
    inner_.views = around->views;
    inner_.before_ends = around->before_ends;
  }
  ~InnerListener() {
    around_->reads = inner_.reads;
    around_->views = inner_.views;
  }
  InnerListener(const InnerListener&) = delete;
  InnerListener& operator=(const InnerListener&) = delete;

  Listener& listener() { return inner_; }
  /// Notes what an expression touches that stood in the body before.
  void hear_again(const Expr& e) {
    for (const Tensor& source : around_->sources)
      if (reads(e, source)) inner_.read(source);
    inner_.accesses.insert(inner_.accesses.end(), around_->accesses.begin(), around_->accesses.end());
  }
  std::shared_ptr<const Heard> heard() {
    return std::make_shared<const Heard>(Heard{.sources = std::move(inner_.sources),
                                               .requirements = std::move(inner_.requirements),
                                               .accesses = std::move(inner_.accesses),
                                               .saw_view = inner_.saw_view});
  }

 private:
  Listener* around_;
  Listener inner_;
};

/// Of the ends of the axes around, outermost first, those that what is made of `parts` has to do with: it is folded for
/// each iteration of their axes anyhow, or takes elements at places that are not known to lie inside, of which those
/// behind an end may be nowhere. Where it is the same for all of an axis, that is asked whether it has any.
std::vector<Expr> ends_that_count(const std::vector<Expr>& around, std::vector<Expr> parts, const Listener& heard) {
  for (const Requirement& requirement : heard.requirements) parts.push_back(requirement.condition);
  const auto uses = [&](const VarRef& variable) {
    return std::any_of(parts.begin(), parts.end(), [&](const Expr& e) { return uses_var(e, variable.get()); });
  };
  const bool may_be_nowhere =
      std::any_of(heard.accesses.begin(), heard.accesses.end(), [&](const ElementAccess& access) {
        for (size_t d = 0; d < access.indices.size(); ++d) {
          if (!is_inside(heard.domains, convert(i64, access.indices[d]), access.tensor.shape()[d])) return true;
        }
        return false;
      });
  std::vector<Expr> found;
  for (auto end = around.rbegin(); end != around.rend(); ++end) {
    const VarRef counter(end->as<Binary>()->a.as<Var>());
    const bool counts = uses(counter);
    const Expr asked = counts ? *end : substitute(*end, {{counter.get(), index(0)}});
    const std::vector<VarRef> used = used_vars(asked);
    const bool own = std::all_of(used.begin(), used.end(), uses);
    if (counts ? !own && !may_be_nowhere : !own || !may_be_nowhere) continue;
    found.insert(found.begin(), asked);
    parts.push_back(asked);
  }
  return found;
}

}  // namespace

Reduction reduce_tuple(const Reducer& reducer, const Shape& given,
                       const std::function<std::vector<Expr>(const Indices&)>& f) {
  Reduction reduction{.reducer = reducer, .domain = {}, .variables = {}, .terms = {}, .within = {}, .heard = {}};
  std::optional<InnerListener> inner;
  if (Listener* around = Listener::active()) inner.emplace(around);
  Shape extents;
  Indices indices;
  std::vector<Expr> shorter;
  for (size_t d = 0; d < given.size(); ++d) {
    if (!given[d]->dtype.is_integer()) {
      fail_type("reduce", fmt::format("an axis is as long as an integer says; given {}, of type {}", print(given[d]),
                                      to_string(given[d]->dtype)));
    }
    extents.push_back(convert(i64, given[d]));
    // The end keeps the elements that it takes as the body has them, for their places are looked up by these.
    const Expr end = extents[d];
    if (inner) extents[d] = simplify(end, inner->listener().domains);
    // A single step is none: what has no others is element-wise.
    if (is_int(extents[d], 1)) {
      indices.push_back(index(0));
      continue;
    }
    VarRef variable = Var::make(fmt::format("vr{}", d));
    const Expr most = inner ? greatest_extent(extents[d], inner->listener().domains) : extents[d];
    if (most != extents[d]) shorter.push_back(lt(variable, end));
    reduction.variables.push_back(variable);
    reduction.domain.push_back({index(0), most});
    if (inner) inner->listener().domains.bind(variable, reduction.domain.back());
    indices.push_back(variable);
  }
  std::vector<Expr> around;
  if (inner) {
    around = inner->listener().before_ends;
    inner->listener().before_ends.insert(inner->listener().before_ends.end(), shorter.begin(), shorter.end());
  }
  reduction.terms = f(indices);
  if (inner) {
    std::vector<Expr> parts = reduction.terms;
    parts.insert(parts.end(), shorter.begin(), shorter.end());
    // What is folded within does not go on behind the ends of the axes around it.
    reduction.within = ends_that_count(around, std::move(parts), inner->listener());
    reduction.within.insert(reduction.within.end(), shorter.begin(), shorter.end());
    if (!reduction.within.empty()) inner->hear_again(conjunction(reduction.within));
  }
  if (inner) reduction.heard = inner->heard();
  return reduction;
}

std::vector<Expr> folded(const Reduction& reduction, std::optional<DType> rounded) {
  std::vector<Expr> values;
  const Listener* around = Listener::active();
  if (!around) {
    for (const Expr& result : reduction.reducer.results)
      values.push_back(Var::make("folded", rounded.value_or(result->dtype)));
    return values;
  }
  ComputeNode node;
  Shape shape;
  Indices used;
  std::vector<Expr> parts = reduction.terms;
  parts.insert(parts.end(), reduction.within.begin(), reduction.within.end());
  if (reduction.heard)
    for (const Requirement& requirement : reduction.heard->requirements) parts.push_back(requirement.condition);
  for (const Bounds::Entry& entry : around->domains.entries_since({})) {
    const auto uses = [&](const Expr& e) { return uses_var(e, entry.variable.get()); };
    const bool counts = entry.domain && std::any_of(parts.begin(), parts.end(), uses);
    if (!counts) continue;
    node.iters.push_back({entry.variable, entry.domain->range, IterKind::space});
    shape.push_back(entry.domain->range.extent);
    used.push_back(entry.variable);
  }
  node.indices = used;
  std::vector<Tensor> results;
  {
    Listener listener;
    listener.domains = around->domains;
    results = finish_reduction(shape, "compute.reduce", reduction, std::move(node), listener, true);
  }
  for (const Tensor& result : results) {
    const auto value = [&](const Indices& i) { return result.at(i); };
    values.push_back((rounded ? compute_rounded(shape, *rounded, value, "astype") : result).at(used));
  }
  return values;
}

Reduction reduce(const Reducer& reducer, const Shape& extents, const std::function<Expr(const Indices&)>& f) {
  return reduce_tuple(reducer, extents, [&](const Indices& indices) { return std::vector<Expr>{f(indices)}; });
}

}  // namespace lathe
