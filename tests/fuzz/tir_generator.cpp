#include "tests/fuzz/tir_generator.h"

#include <fmt/format.h>

#include "ir/intrinsics.h"
#include "ir/reduction.h"

namespace lathe::testing {
namespace {

constexpr std::int64_t length = 64;

class TirBuilder {
 public:
  explicit TirBuilder(std::uint64_t seed) : random_(seed ^ 0x71a) {}

  GeneratedProgram build(std::uint64_t seed) {
    for (const DType dtype : all_dtypes) {
      inputs_.push_back(BufferNode::make("in_" + to_string(dtype), dtype, {index(length)}));
    }
    const std::int64_t count = random_.between(1, 4);
    for (std::int64_t k = 0; k < count; ++k) {
      const DType dtype = all_dtypes[random_.between(0, std::size(all_dtypes) - 1)];
      outputs_.push_back(BufferNode::make(fmt::format("out{}", k), dtype, {index(length)}));
    }
    counter_ = BufferNode::make("counter", i64, {index(1)});
    std::vector<Stmt> body;
    for (const Buffer& output : outputs_) body.push_back(statement(output));
    Block::Fields root;
    root.name = "root";
    root.allocs = {counter_};
    root.body = Seq::make(std::move(body));

    GeneratedProgram program;
    program.seed = seed;
    program.runs.resize(1);
    std::vector<Param> params;
    for (const auto& [buffers, is_input] : {std::pair(&inputs_, true), {&outputs_, false}}) {
      for (const Buffer& buffer : *buffers) {
        params.push_back(buffer);
        Parameter p;
        p.dtype = buffer->dtype;
        p.extents = {index(length)};
        p.layout.order = {0};
        p.layout.dimensions.resize(1);
        program.parameters.push_back(p);
        if (!is_input) program.bitwise.push_back(false);
      }
    }
    program.input_count = static_cast<int>(inputs_.size());
    program.func = FuncNode::make(fmt::format("tir_{}", seed), params, Block::make(std::move(root)), {}, {},
                                  Stage::before_flatten);
    return with_run(std::move(program), 0);
  }

 private:
  /// Fills the whole of `output`, one way or another.
  Stmt statement(const Buffer& output) {
    const VarRef i = Var::make("i");
    const int lanes = random_.pick(std::vector<int>{1, 1, 2, 4, 8, 16});
    variables_ = {i};
    const Expr at = lanes == 1 ? Expr(i) : Ramp::make(i * lanes, index(1), lanes);
    const ForKind kind = random_.chance(25) ? ForKind::parallel : ForKind::serial;
    Stmt body = store(output, at, lanes);
    if (kind == ForKind::parallel) return For::make(i, index(0), index(length / lanes), kind, body);
    if (random_.chance(20)) {
      // while (counter < n) { i = counter; counter = counter + 1; .. }
      const Stmt step = Store::make(counter_, {index(0)}, load(counter_, {index(0)}) + 1);
      const Stmt loop = While::make(lt(load(counter_, {index(0)}), index(length / lanes)),
                                    Let::make(i, load(counter_, {index(0)}), Seq::make({step, body})));
      return Seq::make({Store::make(counter_, {index(0)}, index(0)), loop});
    }
    return For::make(i, index(0), index(length / lanes), kind, body);
  }

  Stmt store(const Buffer& output, const Expr& at, int lanes) {
    const DType dtype = output->dtype.with_lanes(lanes);
    if (random_.chance(20)) {
      // A value with a name, used twice.
      const VarRef t = Var::make("t", value_type(output->dtype).with_lanes(lanes));
      const Expr value = t->dtype.is_float() ? leaf(t->dtype) : expr(t->dtype, 2);
      named_ = t;
      const Expr result = stored(dtype);
      named_ = nullptr;
      return Let::make(t, value, Store::make(output, {at}, result));
    }
    if (random_.chance(15)) {
      const Expr condition = expr(boolean, 2);
      return If::make(condition, Store::make(output, {at}, stored(dtype)), Store::make(output, {at}, stored(dtype)));
    }
    if (random_.chance(15)) {
      const Expr mask = expr(boolean.with_lanes(lanes), 2);
      return Seq::make({Store::make(output, {at}, stored(dtype)), Store::make(output, {at}, stored(dtype), mask)});
    }
    if (random_.chance(10)) {
      const Stmt check = Assert::make(le(Expr(variables_[0]), index(length)), "tir|axis 0|index", variables_[0]);
      return Seq::make(
          {check, Eval::make(AddressOf::make(output, {index(0)})), Store::make(output, {at}, stored(dtype))});
    }
    return Store::make(output, {at}, stored(dtype));
  }

  /// f16 and bf16 are storage types: what goes there is computed in f32.
  static DType value_type(DType dtype) { return dtype.is_float() && dtype.bits == 16 ? f32 : dtype.element(); }
  Expr stored(DType dtype) {
    const Expr value = expr(value_type(dtype).with_lanes(dtype.lanes), 3);
    return cast(dtype, value);
  }

  Expr literal(DType dtype) {
    if (dtype.is_float()) return constant(dtype, random_.pick(std::vector<double>{-1.5, 0.25, 1, 3, 0}));
    if (dtype.is_bool()) return constant(dtype, random_.between(0, 1));
    return constant(dtype, random_.pick(std::vector<std::int64_t>{0, 1, -1, 2, 3, 7, 8, 31, 63, 64, integer_min(dtype),
                                                                  integer_max(dtype)}));
  }

  /// Indices within an input: affine with some stride, constant, or gathered.
  Expr index_vector(int lanes) {
    const Expr i = random_.pick(variables_);
    if (lanes == 1) return floor_mod(i * random_.between(1, 5) + random_.between(-9, 40), length);
    if (random_.chance(40)) {
      const std::int64_t stride = random_.pick(std::vector<std::int64_t>{1, 1, 1, 2, 3, -1});
      const std::int64_t room = length - (lanes - 1) * std::abs(stride) - 1;
      const Expr base = floor_mod(Expr(i), room + 1);
      return Ramp::make(stride < 0 ? base + (lanes - 1) * -stride : base, index(stride), lanes);
    }
    const Expr data = cast(i64, load(input(random_.pick(std::vector<DType>{i8, i32, i64, u8})), {index_ramp(lanes)}));
    return floor_mod(data, Broadcast::make(index(length), lanes));
  }
  Expr index_ramp(int lanes) { return Ramp::make(index(random_.between(0, length - lanes)), index(1), lanes); }

  const Buffer& input(DType dtype) const {
    for (const Buffer& buffer : inputs_) {
      if (buffer->dtype == dtype) return buffer;
    }
    return inputs_[0];
  }

  /// A value that every evaluation agrees on, for floats: an element as it lies in memory.
  Expr leaf(DType dtype) {
    if (named_ && named_->dtype == dtype && random_.chance(60)) return named_;
    if (random_.chance(15)) return literal(dtype);
    if (dtype.is_float() && dtype.bits == 32 && random_.chance(25))
      return cast(dtype, load_of(random_.chance(50) ? f16 : bf16, dtype.lanes));
    return load_of(dtype, dtype.lanes);
  }

  Expr load_of(DType dtype, int lanes) {
    const Expr at = index_vector(lanes);
    Expr mask;
    if (random_.chance(15)) mask = lt(load(input(i8), {at}), constant(i8.with_lanes(at->dtype.lanes), 3));
    return load(input(dtype.element()), {at}, mask);
  }

  Expr expr(DType dtype, int depth) {
    if (depth == 0) return leaf(dtype);
    const int lanes = dtype.lanes;
    if (lanes > 1 && random_.chance(8)) return Broadcast::make(expr(dtype.element(), depth - 1), lanes);
    if (lanes > 1 && random_.chance(8)) {
      std::vector<int> order;
      for (int l = 0; l < lanes; ++l) order.push_back(static_cast<int>(random_.between(0, 2 * lanes - 1)));
      return Shuffle::make({expr(dtype, depth - 1), expr(dtype, depth - 1)}, order);
    }
    if (lanes == 1 && random_.chance(8) && !dtype.is_float()) {
      const BinaryOp op = dtype.is_bool()
                              ? random_.pick(std::vector<BinaryOp>{BinaryOp::logical_and, BinaryOp::logical_or})
                              : random_.pick(std::vector<BinaryOp>{BinaryOp::add, BinaryOp::mul, BinaryOp::min,
                                                                   BinaryOp::max, BinaryOp::bit_and, BinaryOp::bit_or});
      return reduce_lanes(op, expr(dtype.with_lanes(8), depth - 1));
    }
    if (lanes == 1 && dtype.is_float() && random_.chance(8)) {
      const BinaryOp op =
          random_.pick(std::vector<BinaryOp>{BinaryOp::add, BinaryOp::mul, BinaryOp::min, BinaryOp::max});
      return reduce_lanes(op, leaf(dtype.with_lanes(4)));
    }
    if (random_.chance(10))
      return select(expr(boolean.with_lanes(lanes), depth - 1), expr(dtype, depth - 1), expr(dtype, depth - 1));
    if (dtype.is_bool()) return truth(lanes, depth);
    return dtype.is_float() ? real(dtype, depth) : whole(dtype, depth);
  }

  Expr truth(int lanes, int depth) {
    const DType dtype = boolean.with_lanes(lanes);
    if (random_.chance(25)) return logical_not(expr(dtype, depth - 1));
    if (random_.chance(30)) {
      return binary(
          random_.pick(std::vector<BinaryOp>{BinaryOp::logical_and, BinaryOp::logical_or, BinaryOp::eq, BinaryOp::ne}),
          expr(dtype, depth - 1), expr(dtype, depth - 1));
    }
    const DType of = value_type(all_dtypes[random_.between(1, std::size(all_dtypes) - 1)]).with_lanes(lanes);
    if (of.is_float() && random_.chance(30)) {
      return unary(
          random_.pick(std::vector<UnaryOp>{UnaryOp::is_nan, UnaryOp::is_inf, UnaryOp::is_finite, UnaryOp::signbit}),
          leaf(of));
    }
    if (random_.chance(10)) return Cast::make(boolean, leaf(of));
    const BinaryOp op = random_.pick(
        std::vector<BinaryOp>{BinaryOp::eq, BinaryOp::ne, BinaryOp::lt, BinaryOp::le, BinaryOp::gt, BinaryOp::ge});
    return of.is_float() ? binary(op, leaf(of), leaf(of)) : binary(op, expr(of, depth - 1), expr(of, depth - 1));
  }

  Expr whole(DType dtype, int depth) {
    if (random_.chance(12)) {
      return unary(random_.pick(std::vector<UnaryOp>{UnaryOp::neg, UnaryOp::abs, UnaryOp::bit_not}),
                   expr(dtype, depth - 1));
    }
    if (random_.chance(15)) {
      const DType from = all_dtypes[random_.between(0, std::size(all_dtypes) - 1)].with_lanes(dtype.lanes);
      if (!from.is_float()) return cast(dtype, expr(from, depth - 1));
      // Within every integer type's range.
      const Expr small = unary(UnaryOp::abs, cast(f32, leaf(from)));
      return cast(dtype, min(max(small, constant(small->dtype, 0)), constant(small->dtype, 100)));
    }
    if (random_.chance(6)) {
      return Call::make(dtype, CallKind::intrinsic, "population_count", {expr(dtype, depth - 1)});
    }
    if (random_.chance(6) && dtype.bits >= 32)
      return reinterpret(dtype, leaf((dtype.bits == 32 ? f32 : f64).with_lanes(dtype.lanes)));
    if (random_.chance(6) && dtype == u64) {
      return AddressOf::make(input(f32), {index(random_.between(0, 63))}) -
             AddressOf::make(input(f32), {index(random_.between(0, 63))});
    }
    if (dtype.is_scalar() && dtype == i64 && random_.chance(10)) return random_.pick(variables_);
    const BinaryOp op = random_.pick(
        std::vector<BinaryOp>{BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::floor_div, BinaryOp::floor_mod,
                              BinaryOp::min, BinaryOp::max, BinaryOp::bit_and, BinaryOp::bit_or, BinaryOp::bit_xor,
                              BinaryOp::shl, BinaryOp::shr, BinaryOp::pow});
    return Binary::make(op, expr(dtype, depth - 1), expr(dtype, depth - 1));
  }

  Expr real(DType dtype, int depth) {
    const auto next = [&] { return expr(dtype, depth - 1); };
    if (random_.chance(20)) return unary(random_.pick(std::vector<UnaryOp>{UnaryOp::neg, UnaryOp::abs}), next());
    if (random_.chance(20)) {
      return unary(random_.pick(std::vector<UnaryOp>{UnaryOp::floor, UnaryOp::ceil, UnaryOp::trunc, UnaryOp::round,
                                                     UnaryOp::sqrt, UnaryOp::exp, UnaryOp::log, UnaryOp::sin,
                                                     UnaryOp::tanh, UnaryOp::erf, UnaryOp::rsqrt, UnaryOp::atan}),
                   leaf(dtype));
    }
    if (random_.chance(10)) return fma(next(), next(), next());
    if (random_.chance(12)) {
      const DType from = random_.pick(std::vector<DType>{i8, i32, i64, u32, u64, boolean, dtype.bits == 32 ? f64 : f32})
                             .with_lanes(dtype.lanes);
      return cast(dtype, from.is_float() ? leaf(from) : expr(from, depth - 1));
    }
    if (random_.chance(12)) {
      return Binary::make(
          random_.pick(std::vector<BinaryOp>{BinaryOp::floor_div, BinaryOp::floor_mod, BinaryOp::pow, BinaryOp::atan2,
                                             BinaryOp::hypot, BinaryOp::copysign, BinaryOp::nextafter}),
          leaf(dtype), leaf(dtype));
    }
    return Binary::make(random_.pick(std::vector<BinaryOp>{BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div,
                                                           BinaryOp::min, BinaryOp::max}),
                        next(), next());
  }

  Random random_;
  std::vector<Buffer> inputs_, outputs_;
  Buffer counter_;
  std::vector<VarRef> variables_;
  VarRef named_;
};

}  // namespace

GeneratedProgram generate_tir(std::uint64_t seed) {
  return TirBuilder(seed).build(seed);
}

}  // namespace lathe::testing
