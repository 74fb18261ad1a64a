#include "ir/passes/flatten_buffers.h"

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

struct Place {
  Buffer buffer;
  Expr index;
};

/// Indices into a view as indices into what it views: dimensions of extent 1 that the view dropped are put back.
std::vector<Expr> through_view(const Buffer& view, const Region& region, const std::vector<Expr>& indices) {
  std::vector<Expr> result;
  size_t next = 0;
  size_t dropped = region.ranges.size() - view->rank();
  for (const Range& range : region.ranges) {
    if (dropped > 0 && is_int(range.extent, 1)) {
      --dropped;
      result.push_back(range.min);
      continue;
    }
    LATHE_CHECK(next < indices.size(), "view " + view->name);
    const Expr& i = indices[next++];
    result.push_back(i + Broadcast::make(range.min, i->dtype.lanes));
  }
  LATHE_CHECK(next == indices.size(), "view " + view->name);
  return result;
}

class Flattener : public Mutator {
 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    bool changed = false;
    Place place = flatten(node->buffer, mutate_all(node->indices, &changed));
    // A scalar index under a vector mask keeps its lanes by the mask.
    return Load::make(std::move(place.buffer), {std::move(place.index)}, mutate(node->mask));
  }

  Expr mutate_AddressOf(const Expr& e, const AddressOf* node) override {
    bool changed = false;
    Place place = flatten(node->buffer, mutate_all(node->indices, &changed));
    return AddressOf::make(std::move(place.buffer), {std::move(place.index)});
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    bool changed = false;
    Place place = flatten(node->buffer, mutate_all(node->indices, &changed));
    return Store::make(std::move(place.buffer), {std::move(place.index)}, mutate(node->value), mutate(node->mask));
  }

 private:
  Place flatten(Buffer buffer, std::vector<Expr> indices) {
    while (const auto& region = buffer->view_of) {
      indices = through_view(buffer, *region, indices);
      buffer = region->buffer;
    }
    LATHE_CHECK(indices.size() == buffer->rank(), buffer->name);
    auto found = strides_.find(buffer.get());
    if (found == strides_.end()) found = strides_.emplace(buffer.get(), strides_of(buffer)).first;
    const std::vector<Expr>& strides = found->second;
    Expr base = buffer->offset ? buffer->offset : index(0);
    Expr step = index(0);
    Expr rest;  // vectors that are no ramps
    int lanes = 1;
    for (size_t d = 0; d < indices.size(); ++d) {
      const Expr& i = indices[d];
      lanes = std::max<int>(lanes, i->dtype.lanes);
      if (const Ramp* ramp = i.as<Ramp>()) {
        base = base + ramp->base * strides[d];
        step = step + ramp->stride * strides[d];
      } else if (const Broadcast* broadcast = i.as<Broadcast>()) {
        base = base + broadcast->value * strides[d];
      } else if (i->dtype.is_scalar()) {
        base = base + i * strides[d];
      } else {
        Expr term = is_int(strides[d], 1) ? i : i * Broadcast::make(strides[d], i->dtype.lanes);
        rest = rest ? rest + term : term;
      }
    }
    if (lanes == 1) return {buffer, base};
    Expr affine = is_int(step, 0) ? Broadcast::make(base, lanes) : Ramp::make(base, step, lanes);
    if (!rest) return {buffer, affine};
    return {buffer, is_int(base, 0) && is_int(step, 0) ? rest : affine + rest};
  }

  std::unordered_map<const BufferNode*, std::vector<Expr>> strides_;
};

}  // namespace

Func flatten_buffers(const Func& func) {
  return with_body(func, simplify(Flattener().mutate(func->body), Bounds(func)));
}

}  // namespace lathe
