#include "ir/passes/device_storage_access.h"

#include <fmt/format.h>

#include <map>
#include <unordered_set>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/passes/bounds_scope.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

[[noreturn]] void refuse(int condition, const char* text, const std::string& what) {
  throw Refusal("device_storage_access", condition,
                fmt::format("device_storage_access refused: condition {}, {}: {}", condition, text, what));
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

class Rewriter : public BoundedMutator {
 public:
  Rewriter(const Func& func, const Device& device) : BoundedMutator(func), func_(func), device_(device) {
    for (const Buffer& param : buffer_params(func)) params_.insert(param.get());
    for (const ThreadAxis& axis : device.axes) axes_.bind(axis.variable, Interval::between(0, axis.extent - 1));
    scopes_.emplace_back();
  }

  Stmt run(const Stmt& body) { return with_places(mutate(body)); }

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    if (node->for_kind != ForKind::bound) return Mutator::mutate_For(s, node);
    Scope inner;
    inner.axis = device_.find_axis(node->thread_axis);
    inner.position = node->variable;
    scopes_.push_back(std::move(inner));
    forget();
    Stmt body = with_places(mutate(node->body));
    scopes_.pop_back();
    forget();
    return For::make(node->variable, node->min, node->extent, node->for_kind, std::move(body), node->annotations,
                     node->thread_axis);
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    const MemorySpace* space = own_space(node->buffer);
    if (!space) return Mutator::mutate_Load(e, node);
    return Load::make(merged(node->buffer, *space), {index_of(node->buffer, *space, node->indices[0])},
                      mutate(node->mask));
  }

  Expr mutate_AddressOf(const Expr& e, const AddressOf* node) override {
    const MemorySpace* space = own_space(node->buffer);
    if (!space) return Mutator::mutate_AddressOf(e, node);
    if (space->addressing == Addressing::opaque_index) {
      refuse(4, "no address is taken in an opaque space", fmt::format("{} in space {}", print(e), space->name));
    }
    return AddressOf::make(merged(node->buffer, *space), {index_of(node->buffer, *space, node->indices[0])});
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const MemorySpace* space = own_space(node->buffer);
    if (!space) return Mutator::mutate_Store(s, node);
    return Store::make(merged(node->buffer, *space), {index_of(node->buffer, *space, node->indices[0])},
                       mutate(node->value), mutate(node->mask));
  }

 private:
  /// The body of a loop along an axis, or of the Func, with the places that are bound at its start.
  struct Scope {
    const ThreadAxis* axis = nullptr;
    VarRef position;
    std::vector<std::pair<VarRef, Expr>> places;
    std::unordered_map<const BufferNode*, VarRef> place_of;
  };

  Stmt with_places(Stmt body) {
    std::vector<std::pair<VarRef, Expr>>& places = scopes_.back().places;
    for (size_t i = places.size(); i-- > 0;) body = Let::make(places[i].first, places[i].second, std::move(body));
    places.clear();
    return body;
  }

  /// The space that the buffer is planned in, when accesses to it are to be rewritten.
  const MemorySpace* own_space(const Buffer& buffer) const {
    if (params_.contains(buffer.get())) return nullptr;
    const MemorySpace* space = device_.find_space(buffer->space);
    const bool own =
        space && (space->addressing == Addressing::head_address || space->addressing == Addressing::opaque_index);
    return own && !made_.contains(buffer.get()) ? space : nullptr;
  }

  std::int64_t planned_bytes(const MemorySpace& space) const {
    const auto found = func_->attrs.find("space_" + space.name + "_bytes");
    const std::int64_t* bytes = found == func_->attrs.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    return bytes ? *bytes : space.capacity_bytes();
  }

  static std::int64_t elements_of_unit(const MemorySpace& space, DType dtype) {
    return std::max<std::int64_t>(1, space.unit_bits / (8 * dtype.bytes()));
  }

  const Buffer& merged(const Buffer& buffer, const MemorySpace& space) {
    Buffer& made = merged_[{space.name, to_string(buffer->dtype)}];
    if (made) return made;
    const std::int64_t size = buffer->dtype.bytes();
    std::vector<Expr> shape;
    Expr offset;
    if (space.addressing == Addressing::head_address) {
      const Interval head = axes_.interval(space.head);
      LATHE_CHECK(head.min && head.max, space.name);
      const std::int64_t first = head.min.value_or(0), last = head.max.value_or(0);
      shape = {index(divided_up(last + planned_bytes(space), size) - first / size)};
      offset = index(first / size);
    } else if (const std::int64_t in_unit = elements_of_unit(space, buffer->dtype); in_unit > 1) {
      shape = {index(divided_up(planned_bytes(space), size * in_unit)), index(in_unit)};
    } else {
      shape = {index(divided_up(planned_bytes(space), size))};
    }
    made = BufferNode::make(space.name + "_" + to_string(buffer->dtype), buffer->dtype, std::move(shape), space.name,
                            {}, std::move(offset), space.max_simd_bits / 8);
    made_.insert(made.get());
    return made;
  }

  Expr index_of(const Buffer& buffer, const MemorySpace& space, const Expr& flat) {
    const Expr at = mutate(flat);
    return space.addressing == Addressing::head_address ? address(buffer, space, at) : units(buffer, space, at);
  }

  Expr address(const Buffer& buffer, const MemorySpace& space, const Expr& flat) {
    const Expr place = place_of(buffer, space);
    const Expr from = place - (buffer->offset ? buffer->offset : index(0));
    if (const Ramp* ramp = flat.as<Ramp>()) {
      return Ramp::make(simplify(ramp->base + from, bounds_), ramp->stride, flat->dtype.lanes);
    }
    return flat->dtype.lanes > 1 ? flat + Broadcast::make(from, flat->dtype.lanes) : simplify(flat + from, bounds_);
  }

  /// The variable that holds where the buffer lies, bound in the innermost loop along an axis of the head address.
  Expr place_of(const Buffer& buffer, const MemorySpace& space) {
    Substitution positions;
    size_t home = 0;
    for (const VarRef& axis : used_vars(space.head)) {
      size_t level = scopes_.size() - 1;
      while (level > 0 && !(scopes_[level].axis && scopes_[level].axis->variable == axis)) --level;
      if (level == 0) {
        refuse(1, "each axis in a head address is bound around the accesses",
               fmt::format("buffer {} in space {}, whose head address is {}, in no loop along {}", buffer->name,
                           space.name, print(space.head), axis->name));
      }
      positions[axis.get()] = scopes_[level].position;
      home = std::max(home, level);
    }
    Scope& scope = scopes_[home];
    VarRef& place = scope.place_of[buffer.get()];
    if (place) return place;
    const std::int64_t size = buffer->dtype.bytes();
    const Expr head = substitute(space.head, positions);
    const std::int64_t alignment = std::max<std::int64_t>(buffer->alignment, size);
    if (!proves_equal(bounds_, floor_mod(head, index(alignment)), index(0))) {
      refuse(2, "a head address is a multiple of the alignment that its buffers were planned with",
             fmt::format("space {} begins at {}, buffer {} wants {} bytes", space.name, print(space.head), buffer->name,
                         alignment));
    }
    place = Var::make(buffer->name + "_at");
    const Expr offset = buffer->offset ? buffer->offset : index(0);
    scope.places.emplace_back(place, floor_div(simplify(head + offset * size, bounds_), index(size)));
    return place;
  }

  Expr units(const Buffer& buffer, const MemorySpace& space, const Expr& flat) {
    const std::int64_t in_unit = elements_of_unit(space, buffer->dtype);
    if (in_unit == 1) return flat;
    const Ramp* ramp = flat.as<Ramp>();
    const Expr first = ramp ? ramp->base : flat;
    const bool whole = ramp && is_int(ramp->stride, 1) && flat->dtype.lanes % in_unit == 0 &&
                       proves_equal(bounds_, floor_mod(first, index(in_unit)), index(0));
    if (!whole) {
      refuse(3, "an access to an opaque space is of whole units",
             fmt::format("buffer {} at {}; space {} has units of {} bits, {} elements", buffer->name, print(flat),
                         space.name, space.unit_bits, in_unit));
    }
    const Expr unit = simplify(floor_div(first, index(in_unit)), bounds_);
    return Ramp::make(unit * in_unit, index(1), flat->dtype.lanes);
  }

  const Func& func_;
  const Device& device_;
  Bounds axes_;
  std::unordered_set<const BufferNode*> params_, made_;
  std::map<std::pair<std::string, std::string>, Buffer> merged_;
  std::vector<Scope> scopes_;
};

}  // namespace

Func device_storage_access(const Func& func, const Device& device) {
  return with_body(func, Rewriter(func, device).run(func->body));
}

}  // namespace lathe
