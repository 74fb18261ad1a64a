#include "ir/passes/math/builder.h"

#include "ir/intrinsics.h"

namespace lathe::math {
namespace {

bool is_atom(const Expr& e) { return e.as<Var>() || e.as<IntImm>() || e.as<FloatImm>(); }

/// A vector of any lane count folded by `or`: padded with its own first lane to a power of two.
Expr any_lane(Expr v) {
  const int lanes = v->dtype.lanes;
  int padded = 1;
  while (padded < lanes) padded *= 2;
  if (padded != lanes) {
    std::vector<int> chosen(static_cast<size_t>(padded), 0);
    for (int i = 0; i < lanes; ++i) chosen[static_cast<size_t>(i)] = i;
    v = Shuffle::make({std::move(v)}, std::move(chosen));
  }
  return reduce_lanes(BinaryOp::logical_or, std::move(v));
}

}  // namespace

Expr Builder::bind(const char* name, Expr value) {
  if (!binds_ || is_atom(value)) return value;
  VarRef variable = Var::make(name, value->dtype);
  steps_.push_back({variable, std::move(value), nullptr, nullptr});
  return variable;
}

Expr Builder::multiply_add(const Expr& a, const Expr& b, const Expr& c) const {
  return device_.fused_multiply_add ? fma(a, b, c) : a * b + c;
}

Expr Builder::unless(const Expr& rare, const Expr& usual, const Expr& replacement) {
  if (!binds_) return select(rare, replacement, usual);
  const DType dtype = usual->dtype;
  const Buffer result = BufferNode::make("result", dtype.element(), {index(dtype.lanes)}, space::registers);
  const Expr place = dtype.is_scalar() ? index(0) : Ramp::make(index(0), index(1), dtype.lanes);
  const Stmt fallback = Store::make(result, {place}, select(rare, replacement, usual));
  Stmt fill = Seq::make({Store::make(result, {place}, usual), If::make(any_lane(rare), fallback)});
  steps_.push_back({nullptr, nullptr, result, std::move(fill)});
  return bind("value", load(result, {place}));
}

Stmt Builder::wrap(Stmt stmt) {
  for (size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    if (step.temporary) {
      Block::Fields scope;
      scope.name = "large_arguments";
      scope.allocs = {step.temporary};
      scope.body = Seq::make({step.before, std::move(stmt)});
      stmt = Block::make(std::move(scope));
    } else {
      stmt = Let::make(step.variable, step.value, std::move(stmt));
    }
  }
  steps_.clear();
  return stmt;
}

Expr bits(const Expr& x) {
  return reinterpret({TypeCode::integer, x->dtype.bits, 1}, x);
}

Expr pattern(DType dtype, std::uint64_t pattern) { return constant(dtype, static_cast<std::int64_t>(pattern)); }

Expr with_sign_of(const Expr& magnitude, const Expr& sign) {
  const Expr image = bits(sign);
  const Expr sign_bit = binary(BinaryOp::bit_and, image, pattern(image->dtype, std::uint64_t{1} << (image->dtype.bits - 1)));
  return reinterpret(magnitude->dtype, binary(BinaryOp::bit_or, bits(magnitude), sign_bit));
}

}  // namespace lathe::math
