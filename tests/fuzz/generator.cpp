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

std::vector<Extents> shapes_in_runs(const GeneratedProgram& program, const Parameter& parameter) {
  std::vector<Extents> shapes;
  for (const Environment& run : program.runs) {
    Extents shape;
    for (const Expr& extent : parameter.extents) shape.push_back(evaluate(extent, run).value());
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// Lays the parameters of a traced Func out as they say, and lists its scalar parameters. `symbols`: what is known of
/// the extents.
Func lay_out_parameters(GeneratedProgram* program, const Func& func, const std::vector<Fact>& symbols) {
  BufferMap map;
  std::vector<Param> params, strides;
  std::vector<ScalarSource> stride_sources;
  size_t next = 0;
  for (const Param& param : func->params) {
    const Buffer* buffer = std::get_if<Buffer>(&param);
    if (!buffer) {
      params.push_back(param);
      program->scalar_sources.push_back({std::get<VarRef>(param)});
      continue;
    }
    const Parameter& p = program->parameters[next];
    std::vector<VarRef> variables;
    const Buffer laid_out = lay_out(*buffer, p.layout, shapes_in_runs(*program, p), &variables);
    for (size_t d = 0; d < variables.size(); ++d) {
      if (!variables[d]) continue;
      strides.emplace_back(variables[d]);
      stride_sources.push_back({nullptr, next, d});
    }
    map[buffer->get()] = laid_out;
    params.emplace_back(laid_out);
    ++next;
  }
  params.insert(params.end(), strides.begin(), strides.end());
  program->scalar_sources.insert(program->scalar_sources.end(), stride_sources.begin(), stride_sources.end());
  std::vector<Fact> facts;
  for (const Fact& fact : func->facts) {
    facts.push_back(*std::find_if(symbols.begin(), symbols.end(),
                                  [&](const Fact& symbol) { return symbol.variable == fact.variable; }));
  }
  return FuncNode::make(func->name, params, replace_buffers(func->body, map), facts, func->attrs, func->stage);
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
  builder.bad_indices = random.chance(15);
  const bool large = random.chance(4);
  if (large) builder.most_elements = 60000;
  if (random.chance(25)) builder.add_symbols();
  static const std::vector<std::string> families = {"elementwise", "reduction", "contraction", "view"};
  std::map<std::string, std::vector<const Step*>> steps;
  std::vector<const Step*> gathers;
  for (const Step& step : all_steps()) {
    steps[step.family].push_back(&step);
    if (step.name.starts_with("take")) gathers.push_back(&step);
  }
  // One family gives a program its character; half of the programs mix them all.
  const bool mixed = random.chance(50);
  const std::string family = random.pick(families);
  const auto length = static_cast<size_t>(random.between(1, large ? 3 : 6));
  GeneratedProgram program;
  for (int attempt = 0; builder.used.size() < length && attempt < 40; ++attempt) {
    const Step& step = *random.pick(builder.bad_indices && random.chance(20) ? gathers
                                    : mixed || random.chance(30)             ? steps[random.pick(families)]
                                                                             : steps[family]);
    if (step.apply(builder)) program.families.push_back(step.family);
  }
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
    parameter.extents = output.shape();
    program.parameters.push_back(std::move(parameter));
  }
  for (size_t k = 0; k < program.parameters.size(); ++k) {
    Parameter& p = program.parameters[k];
    p.layout = choose_layout(random, k < builder.inputs.size(), p.dtype, p.extents.size());
  }
  program.operators = builder.used;
  program.runs = builder.runs;
  const Func traced = make_func(fmt::format("program_{}", seed), builder.inputs, outputs);
  program.func = lay_out_parameters(&program, traced, builder.symbols);
  return with_run(std::move(program), 0);
}

GeneratedProgram with_run(GeneratedProgram program, size_t k) {
  program.run = k;
  for (Parameter& p : program.parameters) {
    const std::vector<Extents> shapes = shapes_in_runs(program, p);
    p.shape = shapes[k];
    p.strides = strides_for(p.layout, shapes, k);
  }
  program.scalars.clear();
  for (const ScalarSource& source : program.scalar_sources) {
    program.scalars.push_back(source.symbol ? program.runs[k].at(source.symbol.get())
                                            : program.parameters[source.parameter].strides[source.dimension]);
  }
  return program;
}

std::vector<GuardedArray> make_arrays(const GeneratedProgram& program, Against against) {
  std::vector<GuardedArray> arrays;
  Random random(program.seed ^ 0x5eed ^ (program.run << 32));
  for (size_t k = 0; k < program.parameters.size(); ++k) {
    const Parameter& p = program.parameters[k];
    arrays.emplace_back(GuardedArray::Layout{p.dtype, p.shape, p.strides, against, p.layout.misalignment});
    if (k < static_cast<size_t>(program.input_count)) fill_array(random, p.fill, arrays.back());
  }
  return arrays;
}

}  // namespace lathe::testing
