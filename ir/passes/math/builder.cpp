#include "ir/passes/math/builder.h"

#include "ir/error.h"
#include "ir/intrinsics.h"

namespace lathe::math {
namespace {

bool is_atom(const Expr& e) {
  if (const Broadcast* broadcast = e.as<Broadcast>()) return is_atom(broadcast->value);
  return e.as<Var>() || e.as<IntImm>() || e.as<FloatImm>();
}

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

/// A vector that statements set and get.
struct Register {
  Register(const char* name, DType dtype)
      : buffer(BufferNode::make(name, dtype.element(), {index(dtype.lanes)}, space::registers)),
        place(dtype.is_scalar() ? index(0) : Ramp::make(index(0), index(1), dtype.lanes)) {}
  Expr get() const { return load(buffer, {place}); }
  Stmt set(const Expr& value) const { return Store::make(buffer, {place}, value); }
  Buffer buffer;
  Expr place;
};

}  // namespace

bool Builder::has_avx512() const {
  return device_.triple.starts_with("x86_64") && device_.has_feature("avx512f") && device_.has_feature("avx512vl");
}

bool Builder::scales_by_exponent() const {
  return has_avx512();
}

bool Builder::permutes(DType dtype, int lanes) const {
  if (has_avx512()) return dtype.bits == 32 || device_.vector_bits >= 512;
  return dtype.bits == 32 && lanes <= 8 && device_.triple.starts_with("x86_64") && device_.has_feature("avx2");
}

// AMD's cores before AVX-512, which alone have sse4a: VPERMPS is two instructions there, and VPERMILPS starts twice a
// cycle (Agner Fog's instruction tables; measured on Zen 3, 1.33 cycles and 0.5). Others start one of either.
bool Builder::permutes_in_halves() const {
  return permutes(f32, 8) && !has_avx512() && device_.has_feature("sse4a");
}

bool Builder::estimates_reciprocals() const {
  return has_avx512();
}

bool Builder::splits_floats() const {
  return has_avx512();
}

Expr Builder::inverse(const Expr& x, const Expr& low) {
  const Expr one = constant(x->dtype, 1.0);
  const bool estimates = estimates_reciprocals() && x->dtype.bits == 32;  // f64 takes two steps: as long as dividing
  if (!estimates && !low) return div(one, x);
  const Expr estimate = bind("estimate", estimates ? reciprocal(x) : div(one, x));
  Expr missing = multiply_add(-estimate, x, one);
  if (low) missing = multiply_add(-estimate, low, missing);
  return multiply_add(missing, estimate, estimate);
}

Expr Builder::bind(const char* name, Expr value) {
  if (!binds_ || is_atom(value)) return value;
  VarRef variable = Var::make(name, value->dtype);
  steps_.push_back({variable, std::move(value), {}, nullptr});
  return variable;
}

Expr Builder::multiply_add(const Expr& a, const Expr& b, const Expr& c) const {
  return device_.fused_multiply_add ? fma(a, b, c) : a * b + c;
}

Expr Builder::unless(const Expr& rare, const Expr& usual, const Expr& replacement) {
  if (!binds_) return select(rare, replacement, usual);
  const Register result("result", usual->dtype);
  const Stmt fallback = result.set(select(rare, replacement, usual));
  steps_.push_back(
      {nullptr, nullptr, {result.buffer}, Seq::make({result.set(usual), If::make(any_lane(rare), fallback)})});
  return bind("value", result.get());
}

std::vector<Expr> Builder::loop(const std::vector<Expr>& initial,
                                const std::function<Iteration(const std::vector<Expr>&)>& step) {
  LATHE_CHECK(binds_, "a loop needs a statement to stand before");
  std::vector<Register> registers;
  std::vector<Buffer> buffers;
  std::vector<VarRef> now, next;
  std::vector<Expr> inside, last;
  std::vector<Stmt> fill, update;
  for (const Expr& value : initial) {
    registers.emplace_back("state", value->dtype);
    buffers.push_back(registers.back().buffer);
    now.push_back(Var::make("now", value->dtype));
    next.push_back(Var::make("next", value->dtype));
    inside.push_back(now.back());
    last.push_back(registers.back().get());
    fill.push_back(registers.back().set(value));
    update.push_back(registers.back().set(next.back()));
  }
  // Every new value is computed before the first of the old ones is overwritten.
  const Iteration turn = step(inside);
  Stmt body = Seq::make(std::move(update));
  for (size_t i = initial.size(); i-- > 0;) body = Let::make(next[i], turn.next[i], std::move(body));
  for (size_t i = initial.size(); i-- > 0;) body = Let::make(now[i], last[i], std::move(body));
  fill.push_back(While::make(any_lane(step(last).runs), std::move(body)));
  steps_.push_back({nullptr, nullptr, std::move(buffers), Seq::make(std::move(fill))});
  for (Expr& value : last) value = bind("value", std::move(value));
  return last;
}

Stmt Builder::wrap(Stmt stmt) {
  for (size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    if (!step.temporaries.empty()) {
      Block::Fields scope;
      scope.name = "registers";
      scope.allocs = std::move(step.temporaries);
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

Expr pattern(DType dtype, std::uint64_t pattern) {
  return constant(dtype, static_cast<std::int64_t>(pattern));
}

Expr with_sign_of(const Expr& magnitude, const Expr& sign) {
  const Expr image = bits(sign);
  const Expr sign_bit =
      binary(BinaryOp::bit_and, image, pattern(image->dtype, std::uint64_t{1} << (image->dtype.bits - 1)));
  return reinterpret(magnitude->dtype, binary(BinaryOp::bit_or, bits(magnitude), sign_bit));
}

}  // namespace lathe::math
