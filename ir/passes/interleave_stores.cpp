#include "ir/passes/interleave_stores.h"

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Vectors that are woven at a time, a power of two or three, and the lanes that come of it.
constexpr std::int64_t most_vectors = 8;
constexpr int most_lanes = 256, three = 3;

/// Stores of one vector each, lane after lane of three values by turns.
Stmt three_stores(const Buffer& buffer, const Expr& base, const std::vector<Expr>& parts) {
  const int lanes = parts[0]->dtype.lanes;
  std::vector<Stmt> stores;
  std::vector<VarRef> names;
  std::vector<Expr> values;
  for (int t = 0; t < three; ++t) {
    names.push_back(Var::make("woven" + std::to_string(t), parts[static_cast<size_t>(t)]->dtype));
    values.emplace_back(names.back());
  }
  for (int part = 0; part < three; ++part) {
    // First the lanes of two values, each where it belongs, then those of the third between them.
    std::vector<int> pair, all;
    for (int lane = 0; lane < lanes; ++lane) {
      const int place = part * lanes + lane, value = place % three, from = place / three;
      pair.push_back(value < 2 ? value * lanes + from : lane);
      all.push_back(value < 2 ? lane : lanes + from);
    }
    const Expr two = Shuffle::make({values[0], values[1]}, std::move(pair));
    stores.push_back(Store::make(buffer, {Ramp::make(base + index(std::int64_t{part} * lanes), index(1), lanes)},
                                 Shuffle::make({two, values[2]}, std::move(all)), nullptr));
  }
  Stmt body = Seq::make(std::move(stores));
  for (size_t t = three; t-- > 0;) body = Let::make(names[t], parts[t], body);
  return body;
}

class Interleaver : public Mutator {
 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const std::int64_t* count = as_int(node->extent);
    const bool few =
        count && *count >= 2 && *count <= most_vectors && ((*count & (*count - 1)) == 0 || *count == three);
    if (node->for_kind == ForKind::unrolled && few && is_int(node->min, 0)) {
      if (Stmt woven = interleaved(*node, *count)) return woven;
    }
    return Mutator::mutate_For(s, node);
  }

 private:
  static Stmt interleaved(const For& loop, std::int64_t count) {
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
    if (count == three) return mask ? nullptr : three_stores(store->buffer, base, parts);
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

Func interleave_stores(const Func& func) {
  return with_body(func, Interleaver().mutate(func->body));
}

}  // namespace lathe
