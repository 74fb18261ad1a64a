#include "ir/passes/permute_windows.h"

#include <bit>
#include <unordered_set>

#include "ir/analysis/fold.h"
#include "ir/analysis/narrow.h"
#include "ir/analysis/simplify.h"
#include "ir/analysis/window.h"
#include "ir/intrinsics.h"
#include "ir/passes/bounds_scope.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Do lanes divide, and keep the remainder?
bool begins_again(const Expr& index) {
  bool found = false;
  for_each_expr(index, [&](const Expr& e) {
    const Binary* node = e.as<Binary>();
    found |= node && node->op == BinaryOp::floor_mod && node->dtype.lanes > 1;
  });
  return found;
}

/// Steps of elements up to which a vector is shuffled out of as many.
constexpr std::int64_t most_shuffled = 4;

class Permuter : public Mutator {
 public:
  Permuter(const Func& func, const Device& device) : device_(device), bounds_(func) {
    for (const Buffer& buffer : buffer_params(func)) inputs_.insert(buffer.get());
    for_each_stmt(func->body, [&](const Stmt& s) {
      if (const Store* store = s.as<Store>()) inputs_.erase(store->buffer.get());
    });
  }

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    return Mutator::mutate_For(s, node);
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (!is_pickable(*node)) return Mutator::mutate_Load(e, node);
    if (const Expr picked = by_window(*node)) return picked;
    if (const Expr picked = of_short_stretch(*node)) return picked;
    const Expr picked = of_table(*node);
    return picked ? picked : Mutator::mutate_Load(e, node);
  }

 private:
  bool is_pickable(const Load& load) const {
    const Expr& index = load.indices[0];
    return load.dtype.lanes > 1 && !load.dtype.is_bool() && longest_table(device_, load.dtype.bits) > 0 &&
           inputs_.contains(load.buffer.get()) && !index.as<Broadcast>() && (!index.as<Ramp>() || lies_apart(load));
  }

  /// Bytes by steps that shuffles of whole vectors do not follow.
  static bool lies_apart(const Load& load) {
    const Ramp* ramp = load.indices[0].as<Ramp>();
    const std::int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
    return stride && load.dtype.bits < 32 && *stride > most_shuffled;
  }

  /// The lanes at `places`, which are i32, of what was loaded; zero where the load is masked.
  Expr pick(const Load& load, const Expr& stretch, const Expr& places) {
    const int lanes = load.dtype.lanes, bits = load.dtype.bits;
    const DType type = bits == 8 ? u8 : bits == 16 ? u16 : bits == 32 ? i32 : i64;
    Expr picked = permute(stretch, cast(type.with_lanes(lanes), places));
    if (!load.mask) return picked;
    return Select::make(mutate(load.mask), picked, Broadcast::make(constant(load.dtype.element(), 0), lanes));
  }

  /// So many elements from `first` on, as lanes of a power of two: under a mask of those where these may pass `end`,
  /// as `first` is known not to exceed `last_first`.
  static Expr stretch_of(const Buffer& buffer, const Expr& first, std::int64_t last_first, std::int64_t count,
                         std::int64_t end) {
    const int lanes = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(count)));
    Expr mask;
    if (last_first + lanes > end)
      mask = lt(Ramp::make(lathe::index(0), lathe::index(1), lanes), Broadcast::make(lathe::index(count), lanes));
    return Load::make(buffer, {Ramp::make(first, lathe::index(1), lanes)}, mask);
  }

  /// All that the lanes can reach from the place that they have in common, where that is as short as a vector.
  Expr of_short_stretch(const Load& load) {
    const Expr& index = load.indices[0];
    if (load.dtype.bits < 32 || !begins_again(index)) return nullptr;
    const LaneSum parts = lane_sum(index);
    const auto elements = constant_span(load.buffer);
    if (!parts.varying || !elements) return nullptr;
    const Expr base = parts.uniform ? parts.uniform : lathe::index(0);
    // Each by itself: what one stretch covers may be more than the lanes reach where the two hang on one another.
    const Interval bases = bounds_.interval(base), own = lanes_interval(parts.varying, bounds_);
    const Expr places = narrow_to_i32(parts.varying, bounds_);
    if (!places || !own.min || !own.max || !bases.min || !bases.max || *bases.min + *own.min < 0 ||
        *bases.max + *own.max >= elements->end)
      return nullptr;
    const std::int64_t span = *own.max - *own.min + 1;
    const int window = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(span)));
    if (span < 2 || window > device_.lanes(load.dtype.bits)) return nullptr;
    const Expr least = lathe::index(*own.min);
    const Expr stretch =
        stretch_of(load.buffer, simplify(base + least, bounds_), *bases.max + *own.min, span, elements->end);
    return pick(load, stretch, places - Broadcast::make(cast(i32, least), load.dtype.lanes));
  }

  /// Any lanes of a table: what a load reads lies in its buffer.
  Expr of_table(const Load& load) {
    const auto elements = constant_span(load.buffer);
    const int bits = load.dtype.bits;
    const bool one_place = scalar_of(load.indices[0]) != nullptr || load.indices[0]->dtype.lanes != load.dtype.lanes;
    if (one_place || !elements || elements->length() < 2 || elements->length() > longest_table(device_, bits))
      return nullptr;
    Expr index = mutate(load.indices[0]);
    if (elements->first > 0) index = index - Broadcast::make(lathe::index(elements->first), load.dtype.lanes);
    const Expr first = lathe::index(elements->first);
    return pick(load, stretch_of(load.buffer, first, elements->first, elements->length(), elements->end), index);
  }

  /// One element for all lanes, which is there where no lane is masked.
  static Expr one_place(const Load& load) {
    const Expr first = load.mask ? nullptr : first_lane(load.indices[0]);
    return first ? Broadcast::make(Load::make(load.buffer, {first}), load.dtype.lanes) : nullptr;
  }

  Expr by_window(const Load& load) {
    const int bits = load.dtype.bits, lanes = load.dtype.lanes;
    const Expr& index = load.indices[0];
    const auto gain = greatest_gain(index, bounds_);
    const auto elements = gain ? constant_span(load.buffer) : std::nullopt;
    if (!gain || !elements) return nullptr;
    if (*gain == 0) return one_place(load);
    const auto window = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(*gain) + 1));
    if (window > longest_table(device_, bits) || window > elements->length()) return nullptr;

    const LaneSum parts = lane_sum(index);
    if (!parts.varying) return nullptr;  // one element for all lanes
    const Expr places = narrow_to_i32(parts.varying, bounds_), first = first_lane(parts.varying);
    if (!places || !first) return nullptr;
    const Expr begin = simplify(parts.uniform ? parts.uniform + first : first, bounds_),
               inside = simplify(max(min(begin, lathe::index(elements->end - window)), lathe::index(elements->first)),
                                 bounds_);
    const Expr behind = simplify(parts.uniform ? inside - parts.uniform : inside, bounds_);
    const Expr stretch = Load::make(load.buffer, {Ramp::make(inside, lathe::index(1), static_cast<int>(window))});
    // Both may wrap, their difference is a lane.
    return pick(load, stretch, places - Broadcast::make(cast(i32, behind), lanes));
  }

  const Device& device_;
  Bounds bounds_;
  std::unordered_set<const BufferNode*> inputs_;
};

}  // namespace

bool picks_in_registers(const Device& device) {
  return device.has_feature("avx512f") && device.has_feature("avx512vl");
}

std::int64_t longest_table(const Device& device, int bits) {
  if (!picks_in_registers(device)) return 0;
  if (bits == 32 || bits == 64) return std::int64_t{2} * device.lanes(bits);
  if (device.vector_bits < 512) return 0;
  if (bits == 16) return device.has_feature("avx512bw") ? std::int64_t{2} * device.lanes(bits) : 0;
  return bits == 8 && device.has_feature("avx512vbmi") ? std::int64_t{4} * device.lanes(bits) : 0;
}

Func permute_windows(const Func& func, const Device& device) {
  if (!picks_in_registers(device)) return func;
  return with_body(func, Permuter(func, device).mutate(func->body));
}

}  // namespace lathe
