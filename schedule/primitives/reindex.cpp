#include "schedule/primitives/reindex.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/structural.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/beforehand.h"

namespace lathe {
namespace {

/// What says which element is read, and whether it is.
std::vector<Expr> places_of(const Load& load) {
  std::vector<Expr> places = load.indices;
  if (load.mask) places.push_back(load.mask);
  return places;
}

/// The one Load of the buffer, or of that element, or why there is none.
std::string find_load(const Block& block, const Buffer& buffer, std::optional<size_t> element, const Load*& load) {
  std::string reason;
  Expr named;
  if (element) {
    const std::vector<Expr> elements = elements_of(block, buffer);
    if (*element >= elements.size()) return fmt::format("reads no {} elements of {}", *element + 1, buffer->name);
    named = elements[*element];
  }
  const auto look = [&](const Expr& e) {
    const AddressOf* taken = e.as<AddressOf>();
    if (taken && taken->buffer == buffer) reason = "takes the address of " + buffer->name;
    const Load* other = e.as<Load>();
    if (!other || other->buffer != buffer || (named && !equal(named, e))) return;
    for (const Expr& at : other->indices) {
      if (!at->dtype.is_scalar()) reason = fmt::format("reads {} at vector indices", buffer->name);
    }
    for (size_t d = 0; load && d < load->indices.size(); ++d) {
      if (!equal(load->indices[d], other->indices[d]))
        reason = fmt::format("reads several elements of {}", buffer->name);
    }
    if (load && !(load->mask ? other->mask && equal(load->mask, other->mask) : !other->mask))
      reason = fmt::format("reads {} under several masks", buffer->name);
    load = other;
  };
  for_each_expr(block.f.body, look);
  if (block.f.init) for_each_expr(block.f.init, look);
  if (!load && reason.empty()) reason = fmt::format("reads no {} in its own statements", buffer->name);
  if (!reason.empty()) return reason;
  for (const Expr& at : places_of(*load)) {
    for (const VarRef& used : used_vars(at)) {
      const bool is_iter = std::any_of(block.f.iters.begin(), block.f.iters.end(),
                                       [&](const Iter& iter) { return iter.variable == used; });
      if (!is_iter) return fmt::format("reads {} at {}, which is no iter", buffer->name, used->name);
    }
    bool calls = false;
    for_each_expr(at, [&](const Expr& part) { calls |= part.as<Call>() != nullptr; });
    if (calls) return fmt::format("reads {} at an index that is computed by a call", buffer->name);
  }
  return "";
}

/// The iters, those that lead to data which says what is read in the order in which it lies.
std::vector<Iter> in_order_of_data(const std::vector<Iter>& iters, const std::vector<Expr>& places) {
  std::vector<Iter> order;
  const auto is_there = [&](const Iter& iter) {
    return std::any_of(order.begin(), order.end(), [&](const Iter& o) { return o.variable == iter.variable; });
  };
  for (const Expr& place : places) {
    for_each_expr(place, [&](const Expr& part) {
      const Load* data = part.as<Load>();
      for (size_t d = 0; data && d < data->indices.size(); ++d) {
        for (const Iter& iter : iters)
          if (data->indices[d] == Expr(iter.variable) && !is_there(iter)) order.push_back(iter);
      }
    });
  }
  for (const Iter& iter : iters)
    if (!is_there(iter)) order.push_back(iter);
  return order;
}

/// The buffer, and those that say which element of it is read.
std::vector<Buffer> buffers_of(const Load& load) {
  std::vector<Buffer> buffers{load.buffer};
  for (const Expr& at : places_of(load)) {
    for_each_expr(at, [&](const Expr& part) {
      if (const Load* index = part.as<Load>()) buffers.push_back(index->buffer);
    });
  }
  return buffers;
}

}  // namespace

BlockRef reindex(Schedule& schedule, const BlockRef& block, const std::string& buffer, std::optional<size_t> element) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application =
      fmt::format("reindex({}, \"{}\"{})", block.name, buffer, element ? fmt::format(", {}", *element) : "");
  const std::string loads =
      "block reads a buffer of that name, by Loads all of one element, or of the one that is named, under one mask or "
      "none, that its iters and what other buffers hold determine, and does not write it";
  Buffer source;
  for (const Region& region : node.f.reads) {
    if (region.buffer->name == buffer) source = region.buffer;
  }
  if (!source) refuse(schedule, application, 1, loads, path.back(), fmt::format("reads no {}", buffer));
  if (writes(node, source)) refuse(schedule, application, 1, loads, path.back(), fmt::format("writes {}", buffer));
  const Load* load = nullptr;
  if (const std::string reason = find_load(node, source, element, load); !reason.empty()) {
    refuse(schedule, application, 1, loads, path.back(), reason);
  }
  const std::vector<Buffer> buffers = buffers_of(*load);
  for_each_stmt(path[nest_level(path)], [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    for (const Buffer& read : buffers) {
      if (!other || !writes(*other, read)) continue;
      refuse(schedule, application, 2, "nothing in the nest that holds block writes the buffer, or what is its index",
             s, fmt::format("writes {}", read->name));
    }
  });

  Bounds bounds(schedule.func());
  OverIters over;
  const std::vector<Expr> places = places_of(*load);
  for (const Iter& iter : in_order_of_data(node.f.iters, places)) {
    bounds.bind(iter.variable, iter.domain);
    const bool used =
        std::any_of(places.begin(), places.end(), [&](const Expr& e) { return uses_var(e, iter.variable.get()); });
    if (used) over.add(iter);
  }
  if (load->mask) bounds.assume(load->mask);
  for (size_t d = 0; d < load->indices.size(); ++d) {
    for (const Expr& inside : {ge(load->indices[d], index(0)), lt(load->indices[d], source->shape[d])}) {
      if (proves(bounds, inside)) continue;
      refuse(schedule, application, 3, "the element is proved to lie in the buffer for every value of the iters",
             path.back(), fmt::format("is not proved to read {} where {}", buffer, print(inside)));
    }
  }
  const Buffer target = BufferNode::make(schedule.unique_name(source->name + "_reindex"), source->dtype, over.shape());
  const Stmt copy = over.nest(target, Expr(load));
  const Stmt changed = with_fields(node, [&](Block::Fields& f) {
    f.body = replace_element(f.body, Expr(load), lathe::load(target, over.places()));
  });
  const Stmt body = put_before(path, {copy}, with_inferred_regions(*changed.as<Block>()));
  schedule.commit(add_allocation(body, target), application);
  return {target->name};
}

}  // namespace lathe
