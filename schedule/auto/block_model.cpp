#include "schedule/auto/block_model.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/exact_floats.h"
#include "ir/intrinsics.h"
#include "ir/passes/math/functions.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/auto/block_memo.h"

namespace lathe {
namespace {

double unary_cost(UnaryOp op, DType dtype) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::bit_not:
    case UnaryOp::logical_not:
    case UnaryOp::abs:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::trunc:
    case UnaryOp::round:
    case UnaryOp::is_nan:
    case UnaryOp::is_inf:
    case UnaryOp::is_finite:
    case UnaryOp::signbit:
      return 1;
    case UnaryOp::sqrt:
    case UnaryOp::rsqrt:
      return 8;
    case UnaryOp::exp:
    case UnaryOp::exp2:
    case UnaryOp::log:
    case UnaryOp::log2:
      return dtype.bits == 32 ? 16 : 40;
    default:
      return dtype.bits == 32 ? 24 : 60;
  }
}

/// A power by a constant that takes a few products or a root.
bool is_power_by_products(const Binary& power) {
  if (power.op != BinaryOp::pow) return false;
  if (as_int(power.b)) return true;
  const FloatImm* exponent = power.b.as<FloatImm>();
  return exponent && math::is_constant_power(power.dtype, exponent->value);
}

double binary_cost(BinaryOp op, DType dtype, bool by_products) {
  switch (op) {
    case BinaryOp::div:
      return 6;
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod:
      return dtype.is_float() ? 10 : 20;
    case BinaryOp::pow:
      return by_products ? 4 : 50;
    case BinaryOp::atan2:
    case BinaryOp::hypot:
      return 40;
    case BinaryOp::nextafter:
      return 8;
    default:
      return 1;
  }
}

/// Rounding to bf16: by hand, since the instruction for it flushes subnormal numbers.
constexpr double narrowing_cost = 9;

bool is_rounded(const Cast& cast) {
  return cast.dtype.element() == bf16 && cast.value->dtype.is_float() && !fits_exactly(cast.value, cast.dtype);
}

/// Adds up costs of value computations; index arithmetic is taken for free, as it is shared along a vector.
class CostSum : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (!e || !seen_.insert(e.get())) return;
    switch (e->kind) {
      case ExprKind::Load:
        total += 1;
        if (const Load* load = e.as<Load>(); load->mask) total += 1;
        for (const Expr& index : e.as<Load>()->indices) {
          for_each_expr(index, [&](const Expr& sub) { total += sub.as<Load>() ? 4 : 0; });
        }
        return;
      case ExprKind::Unary:
        total += unary_cost(e.as<Unary>()->op, e->dtype);
        break;
      case ExprKind::Binary:
        total +=
            e->dtype == i64 ? 0.5 : binary_cost(e.as<Binary>()->op, e->dtype, is_power_by_products(*e.as<Binary>()));
        break;
      case ExprKind::Select:
        total += 1;
        break;
      case ExprKind::Cast:
        total += is_rounded(*e.as<Cast>()) ? narrowing_cost : 1;
        break;
      case ExprKind::Call:
        total += e.as<Call>()->call_kind == CallKind::intrinsic ? 1 : 60;
        break;
      default:
        break;
    }
    Visitor::visit(e);
  }
  double total = 0;

 protected:
  void visit_Store(const Store* node) override {
    total += 1;
    visit(node->value);
  }

 private:
  NodeSet<const ExprNode*> seen_;
};

}  // namespace

std::int64_t extent_estimate(const Expr& extent, const std::vector<Fact>& facts) {
  if (const std::int64_t* value = as_int(extent)) return *value;
  if (const Var* variable = extent.as<Var>()) {
    std::int64_t value = assumed_extent;
    for (const Fact& fact : facts) {
      if (fact.variable.get() != variable) continue;
      if (fact.max) value = std::min(value, *fact.max);
      if (fact.min) value = std::max(value, *fact.min);
    }
    return value;
  }
  const Binary* node = extent.as<Binary>();
  if (!node) return assumed_extent;
  const std::int64_t a = extent_estimate(node->a, facts), b = extent_estimate(node->b, facts);
  switch (node->op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return std::max<std::int64_t>(a - b, 0);
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::floor_div:
      return a / std::max<std::int64_t>(b, 1);
    case BinaryOp::floor_mod:
      return a % std::max<std::int64_t>(b, 1);
    case BinaryOp::min:
      return std::min(a, b);
    case BinaryOp::max:
      return std::max(a, b);
    default:
      return assumed_extent;
  }
}

std::optional<std::int64_t> greatest_extent(const Expr& extent, const Func& func) {
  if (const std::int64_t* value = as_int(extent)) return *value;
  return Bounds(func).interval(extent).max;
}

std::int64_t load_count(const std::vector<Access>& accesses, const Buffer& buffer) {
  return std::count_if(accesses.begin(), accesses.end(),
                       [&](const Access& access) { return !access.store && access.buffer == buffer; });
}

bool goes_on(const Block& block, size_t outer, size_t inner) {
  const std::int64_t* extent = as_int(block.f.iters[inner].domain.extent);
  const Accesses accesses = block_accesses(block);
  return extent && *extent >= 1 && std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
           const std::optional<std::int64_t>&a = access.strides[outer], &b = access.strides[inner];
           return a && b && *a == *b * *extent;
         });
}

bool only_space(const Block& block) {
  if (block.f.reducer) return false;
  return std::all_of(block.f.iters.begin(), block.f.iters.end(),
                     [](const Iter& i) { return i.kind == IterKind::space; });
}

std::optional<size_t> dimension_of(const Region& region, const Block& block, size_t iter) {
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    if (region.ranges[d].min == Expr(block.f.iters[iter].variable)) return d;
  }
  return std::nullopt;
}

bool is_float_extreme(const Block& block) {
  const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
  return (op == BinaryOp::min || op == BinaryOp::max) && block.f.writes[0].buffer->dtype.is_float();
}

double instance_count(const Block& block, const std::vector<Fact>& facts) {
  double count = 1;
  for (const Iter& iter : block.f.iters) count *= static_cast<double>(extent_estimate(iter.domain.extent, facts));
  return count;
}

double estimated_elements(const Buffer& buffer, const std::vector<Fact>& facts) {
  double elements = 1;
  for (const Expr& extent : buffer->shape) elements *= static_cast<double>(extent_estimate(extent, facts));
  return elements;
}

namespace {

/// What the blocks read and write, each buffer once.
std::vector<Buffer> buffers_of(const std::vector<const Block*>& blocks) {
  std::vector<Buffer> found;
  for (const Block* block : blocks) {
    for (const auto* regions : {&block->f.reads, &block->f.writes}) {
      for (const Region& region : *regions) {
        if (std::find(found.begin(), found.end(), region.buffer) == found.end()) found.push_back(region.buffer);
      }
    }
  }
  return found;
}

}  // namespace

double bytes_of_buffers(const std::vector<const Block*>& blocks, const std::vector<Fact>& facts) {
  double bytes = 0;
  for (const Buffer& buffer : buffers_of(blocks))
    bytes += static_cast<double>(buffer->dtype.bytes()) * estimated_elements(buffer, facts);
  return bytes;
}

double expression_cost(const Expr& e) {
  CostSum sum;
  sum.visit(e);
  return sum.total;
}

void ConditionCosts::take(const Select& choice) {
  if (std::find(taken_.begin(), taken_.end(), choice.condition) != taken_.end()) return;
  taken_.push_back(choice.condition);
  total_ += expression_cost(choice.condition);
}

double elements_walked(const Block& block, const Load& load, const std::vector<Fact>& facts) {
  double elements = 1;
  for (const Iter& iter : block.f.iters) {
    const auto uses = [&](const Expr& e) { return uses_var(e, iter.variable.get()); };
    if ((load.mask && uses(load.mask)) || std::any_of(load.indices.begin(), load.indices.end(), uses))
      elements *= static_cast<double>(extent_estimate(iter.domain.extent, facts));
  }
  return elements;
}

double body_cost(const Stmt& body) {
  CostSum sum;
  sum.visit(body);
  return sum.total;
}

double body_cost(const Block& block) {
  return BlockMemo::ask(block, &BlockMemo::Known::cost, [&] { return body_cost(block.f.body); });
}

namespace {

/// Bytes of arrays that the block reads and writes, each element once however often it is, a share for each instance.
double moved_bytes(const Block& block, const std::vector<Fact>& facts) {
  const double instances = std::max(instance_count(block, facts), 1.0);
  double bytes = 0;
  for (const Buffer& buffer : buffers_of({&block})) {
    if (buffer->space != space::global) continue;
    bytes += static_cast<double>(buffer->dtype.bytes()) * std::min(estimated_elements(buffer, facts) / instances, 1.0);
  }
  return bytes;
}

}  // namespace

double instance_nanoseconds(const Block& block, bool vector, const std::vector<Fact>& facts) {
  // A unit of expression_cost in vector code of 16 lanes at about 4 GHz, two instructions a cycle; in scalar code.
  constexpr double vector_unit = 0.02, scalar_unit = 0.2;
  // What a reduction accumulates in stays in registers, and tiles share what they load.
  const double cost = body_cost(block) - (block.f.reducer ? 4 : 0);
  // From and to a second-level cache, from which 100 GB/s come.
  constexpr double byte_nanoseconds = 0.01;
  return std::max(std::max(cost, 1.0) * (vector ? vector_unit : scalar_unit),
                  moved_bytes(block, facts) * byte_nanoseconds);
}

double shuffled_nanoseconds(const Block& block, const std::vector<Fact>& facts) {
  constexpr double share = 0.5;
  return share * instance_nanoseconds(block, false, facts);
}

bool masks_by_branches(const Device& device, DType dtype) {
  constexpr int least_masked_bits = 32;
  return device.mask_registers == 0 && dtype.bits < least_masked_bits;
}

int widest_bits(const Block& block, const std::function<bool(const Buffer&)>& counts) {
  int bits = 8;
  const auto widen = [&](DType dtype) { bits = std::max(bits, static_cast<int>(dtype.bits)); };
  for (const Region& region : block.f.reads) {
    if (!counts || counts(region.buffer)) widen(region.buffer->dtype);
  }
  for (const Region& region : block.f.writes) widen(region.buffer->dtype);
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (e->dtype != i64) widen(e->dtype);
  });
  return bits;
}

bool takes_shared_elements(const Block& block) {
  bool pairs = false;
  for_each_expr(block.f.body, [&](const Expr& e) { pairs |= as_intrinsic(e, "dot_halves") != nullptr; });
  return !pairs;
}

int vector_lanes(const Block& block, const Device& device) {
  return std::max(1, device.lanes(widest_bits(block)));
}

int widest_bits(const Block& block, const std::vector<Access>& accesses, size_t iter) {
  const int bits = widest_bits(block);
  if (bits < i64.bits) return bits;
  const auto varies = [&](const Buffer& buffer) {
    return std::any_of(accesses.begin(), accesses.end(),
                       [&](const Access& a) { return a.buffer == buffer && a.strides[iter] != 0; });
  };
  return widest_bits(block, varies);
}

int vector_lanes(const Block& block, const Device& device, const std::vector<Access>& accesses, size_t iter) {
  return std::max(1, device.lanes(widest_bits(block, accesses, iter)));
}

}  // namespace lathe
