#include "tests/fuzz/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/interpreter/arithmetic.h"
#include "ir/visitor.h"
#include "tests/fuzz/builder.h"

namespace lathe::testing {
namespace {

/// Lays a parameter out in some way that a caller's array may lie: dense, with gaps, transposed, reversed, and for
/// inputs broadcast along a dimension.
void choose_layout(Random& random, bool is_input, Parameter* p) {
  const size_t rank = p->shape.size();
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  const bool plain = random.chance(55);
  if (!plain && random.chance(40)) {
    for (size_t d = rank; d-- > 1;)
      std::swap(order[d], order[static_cast<size_t>(random.between(0, static_cast<std::int64_t>(d)))]);
  }
  p->strides.assign(rank, 0);
  std::int64_t stride = 1;
  for (size_t k = rank; k-- > 0;) {
    const size_t d = order[k];
    if (!plain && random.chance(25)) stride *= 2;
    p->strides[d] = stride;
    stride *= std::max<std::int64_t>(p->shape[d], 1);
    if (!plain && random.chance(20)) stride += random.between(1, 3);
  }
  if (plain) return;
  p->dense = false;
  for (size_t d = 0; d < rank; ++d) {
    if (random.chance(15)) p->strides[d] = -p->strides[d];
    if (is_input && random.chance(12)) p->strides[d] = 0;
  }
  if (random.chance(25)) p->offset = random.between(1, 40);
}

/// The Func with its parameters laid out as `parameters` say.
Func lay_out(const Func& func, const std::vector<Parameter>& parameters) {
  BufferMap map;
  std::vector<Param> params;
  size_t next = 0;
  for (const Param& param : func->params) {
    const Buffer* buffer = std::get_if<Buffer>(&param);
    if (!buffer) {
      params.push_back(param);
      continue;
    }
    const Parameter& p = parameters[next++];
    if (p.dense) {
      params.push_back(param);
      continue;
    }
    std::vector<Expr> strides;
    for (const std::int64_t stride : p.strides) strides.push_back(index(stride));
    const BufferNode& old = **buffer;
    const Buffer laid_out =
        BufferNode::make(old.name, old.dtype, old.shape, old.space, strides, p.offset ? index(p.offset) : Expr());
    map[buffer->get()] = laid_out;
    params.push_back(laid_out);
  }
  return FuncNode::make(func->name, params, replace_buffers(func->body, map), func->facts, func->attrs, func->stage);
}

double random_float(Random& random, const Fill& fill) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (fill.kind) {
    case Fill::Kind::positive:
      return (0.5 + 3.5 * random.unit()) * (random.chance(70) ? 1 : -1);
    case Fill::Kind::unit:
      return 2 * random.unit() - 1;
    case Fill::Kind::special:
      if (random.chance(12)) {
        return random.pick(std::vector<double>{std::nan(""), infinity, -infinity, 0.0, -0.0, 0x1p-140, -0x1p-16, 1e4});
      }
      break;
    default:
      break;
  }
  // Halves and whole numbers often, so that ties, zeros and equal values happen.
  const double value = 8 * random.unit() - 4;
  return random.chance(25) ? std::round(value * 2) / 2 : value;
}

std::int64_t random_integer(Random& random, const Fill& fill) {
  if (fill.kind == Fill::Kind::index) return random.between(fill.low, fill.high);
  if (fill.kind == Fill::Kind::positive) return random.between(1, 20);
  if (random.chance(25)) return static_cast<std::int64_t>(random.bits());
  return random.between(-9, 9);
}

void fill_array(Random& random, const Fill& fill, const GuardedArray& array) {
  const DType dtype = array.layout().dtype;
  for (std::int64_t k = 0; k < array.count(); ++k) {
    interpreter::Cell cell;
    if (dtype.is_float()) {
      cell.d = round_to(dtype, random_float(random, fill));
    } else {
      cell.i = dtype.is_bool() ? random.between(0, 1) : wrap_integer(dtype, random_integer(random, fill));
    }
    interpreter::store_element(dtype, array.element(k), cell);
  }
}

}  // namespace

GeneratedProgram generate(std::uint64_t seed) {
  Builder builder(seed);
  Random& random = builder.random;
  builder.specials = random.chance(12);
  builder.bad_indices = random.chance(35);
  const bool large = random.chance(4);
  if (large) builder.most_elements = 60000;
  static const std::vector<std::string> families = {"elementwise", "reduction", "contraction", "view"};
  std::map<std::string, std::vector<const Step*>> steps;
  for (const Step& step : all_steps()) steps[step.family].push_back(&step);
  // One family gives a program its character; half of the programs mix them all.
  const bool mixed = random.chance(50);
  const std::string family = random.pick(families);
  const auto length = static_cast<size_t>(random.between(1, large ? 3 : 6));
  for (int attempt = 0; builder.used.size() < length && attempt < 40; ++attempt) {
    random.pick(steps[mixed || random.chance(30) ? random.pick(families) : family])->apply(builder);
  }
  GeneratedProgram program;
  program.seed = seed;
  program.bad_indices = builder.bad_indices;
  std::vector<Tensor> outputs;
  std::vector<Value> computed;
  for (size_t k = 0; k < builder.pool.size(); ++k) {
    const Value& value = builder.pool[k];
    const bool is_input = std::any_of(builder.inputs.begin(), builder.inputs.end(),
                                      [&](const Tensor& input) { return input.node() == value.tensor.node(); });
    if (!is_input) computed.push_back(value);
  }
  if (computed.empty()) computed.push_back(builder.operand());
  // The last value, and now and then others: an output that is also read further on.
  for (size_t k = computed.size(); k-- > 0;) {
    if (k + 1 != computed.size() && !random.chance(20)) continue;
    if (outputs.size() == 3) break;
    outputs.push_back(computed[k].tensor);
    program.bitwise.push_back(computed[k].moved_only);
  }
  program.input_count = static_cast<int>(builder.inputs.size());
  program.parameters = builder.parameters;
  for (const Tensor& output : outputs) {
    Parameter parameter;
    parameter.dtype = output.dtype();
    parameter.shape = output.static_shape();
    program.parameters.push_back(std::move(parameter));
  }
  for (size_t k = 0; k < program.parameters.size(); ++k) {
    choose_layout(random, k < builder.inputs.size(), &program.parameters[k]);
  }
  program.operators = builder.used;
  program.func = lay_out(make_func(fmt::format("program_{}", seed), builder.inputs, outputs), program.parameters);
  return program;
}

std::vector<GuardedArray> make_arrays(const GeneratedProgram& program, Against against) {
  std::vector<GuardedArray> arrays;
  Random random(program.seed ^ 0x5eed);
  for (size_t k = 0; k < program.parameters.size(); ++k) {
    const Parameter& p = program.parameters[k];
    arrays.emplace_back(GuardedArray::Layout{p.dtype, p.shape, p.strides, against});
    if (k < static_cast<size_t>(program.input_count)) fill_array(random, p.fill, arrays.back());
  }
  return arrays;
}

}  // namespace lathe::testing
