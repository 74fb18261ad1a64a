#include "ir/passes/interleave_stores.h"

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Vectors that are woven at a time, and the lanes that come of it.
constexpr std::int64_t most_vectors = 16;
constexpr int most_lanes = 256;
/// Of numbers that are no power of two, more than this are picked where a shuffle of any two vectors is one
/// instruction.
constexpr std::int64_t few_picked = 3;
constexpr int least_picked_bits = 32;

bool is_power_of_two(std::int64_t count) {
  return (count & (count - 1)) == 0;
}

/// Stores of one vector each, of so many values by turns, lane after lane.
Stmt picked_stores(const Buffer& buffer, const Expr& base, const std::vector<Expr>& parts) {
  const int lanes = parts[0]->dtype.lanes, count = static_cast<int>(parts.size());
  std::vector<Stmt> stores;
  std::vector<VarRef> names;
  names.reserve(parts.size());
  for (int t = 0; t < count; ++t)
    names.push_back(Var::make("woven" + std::to_string(t), parts[static_cast<size_t>(t)]->dtype));
  for (int part = 0; part < count; ++part) {
    const auto value_at = [&](int lane) { return (part * lanes + lane) % count; };
    const auto row_at = [&](int lane) { return (part * lanes + lane) / count; };
    // First the lanes of two values, each where it belongs, then those of another between them.
    Expr all;
    int first = 0;
    for (int t = 0; t < count; ++t) {
      std::vector<int> picked;
      bool found = false;
      for (int lane = 0; lane < lanes; ++lane) {
        found |= value_at(lane) == t;
        const bool begins = all == Expr(names[static_cast<size_t>(first)]) && value_at(lane) == first;
        picked.push_back(value_at(lane) == t ? lanes + row_at(lane) : begins ? row_at(lane) : lane);
      }
      if (!found) continue;
      const Expr value = names[static_cast<size_t>(t)];
      if (!all) first = t;
      all = all ? Shuffle::make({all, value}, std::move(picked)) : value;
    }
    stores.push_back(
        Store::make(buffer, {Ramp::make(base + index(std::int64_t{part} * lanes), index(1), lanes)}, all, nullptr));
  }
  Stmt body = Seq::make(std::move(stores));
  for (size_t t = names.size(); t-- > 0;) body = Let::make(names[t], parts[t], body);
  return body;
}

class Interleaver : public Mutator {
 public:
  explicit Interleaver(const Device& device) : picks_many_(device.mask_registers > 0) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const std::int64_t* count = as_int(node->extent);
    const bool few = count && *count >= 2 && *count <= most_vectors &&
                     (is_power_of_two(*count) || *count <= few_picked || picks_many_);
    if (node->for_kind == ForKind::unrolled && few && is_int(node->min, 0)) {
      if (Stmt woven = interleaved(*node, *count)) return woven;
    }
    return Mutator::mutate_For(s, node);
  }

 private:
  const bool picks_many_;

  Stmt interleaved(const For& loop, std::int64_t count) const {
    const Var* step = loop.variable.get();
    Substitution values;
    Stmt at = loop.body;
    for (; at.as<Let>(); at = at.as<Let>()->body) {
      values[at.as<Let>()->variable.get()] = substitute(at.as<Let>()->value, values);
    }
    const Store* store = at.as<Store>();
    const Ramp* ramp = store ? store->indices[0].as<Ramp>() : nullptr;
    if (!ramp || !is_int(ramp->stride, count) || store->value->dtype.lanes * count > most_lanes) return nullptr;
    const Expr mask = substitute(store->mask, values), value = substitute(store->value, values);
    if (mask && uses_var(mask, step)) return nullptr;
    bool reads_back = false;
    for_each_expr(value, [&](const Expr& e) { reads_back |= e.as<Load>() && e.as<Load>()->buffer == store->buffer; });
    if (reads_back) return nullptr;
    Affine form = to_affine(substitute(ramp->base, values));
    if (form.coefficient(loop.variable) != 1 || !add_term(form, loop.variable, -1)) return nullptr;
    const Expr base = to_expr(form);
    if (uses_var(base, step)) return nullptr;

    std::vector<Expr> parts;
    parts.reserve(static_cast<size_t>(count));
    // Folded, as places in registers have to be.
    for (std::int64_t t = 0; t < count; ++t) parts.push_back(simplify(substitute(value, {{step, index(t)}})));
    const int lanes = value->dtype.lanes;
    if (count > few_picked && !is_power_of_two(count) && value->dtype.bits < least_picked_bits) return nullptr;
    if (!is_power_of_two(count)) return mask ? nullptr : picked_stores(store->buffer, base, parts);
    std::vector<int> woven, stretched;
    for (int i = 0; i < lanes; ++i) {
      for (int t = 0; t < count; ++t) {
        woven.push_back(t * lanes + i);
        stretched.push_back(i);
      }
    }
    return Store::make(store->buffer, {Ramp::make(base, index(1), static_cast<int>(count) * lanes)},
                       Shuffle::make(std::move(parts), std::move(woven)),
                       mask ? Shuffle::make({mask}, std::move(stretched)) : nullptr);
  }
};

}  // namespace

Func interleave_stores(const Func& func, const Device& device) {
  return with_body(func, Interleaver(device).mutate(func->body));
}

}  // namespace lathe
