#include "tests/fuzz/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <set>

#include "ir/interpreter/arithmetic.h"
#include "ir/text/print.h"

namespace lathe::testing {
namespace {

std::string show(DType dtype, const std::byte* element) {
  const interpreter::Cell cell = interpreter::load_element(dtype, element);
  return dtype.is_float() ? fmt::format("{:.17g}", cell.d) : fmt::format("{}", cell.i);
}

bool same_bytes(DType dtype, const std::byte* a, const std::byte* b) {
  return std::memcmp(a, b, static_cast<size_t>(dtype.bytes())) == 0;
}

bool both_nan(DType dtype, const std::byte* a, const std::byte* b) {
  return dtype.is_float() && std::isnan(interpreter::load_element(dtype, a).d) &&
         std::isnan(interpreter::load_element(dtype, b).d);
}

bool within(const FloatBound& bound, double value) {
  if (bound.radius == std::numeric_limits<double>::infinity()) return true;
  if (std::isnan(bound.exact)) return std::isnan(value);
  if (!std::isfinite(bound.exact)) return value == bound.exact;
  return std::abs(value - bound.exact) <= bound.radius;
}

}  // namespace

Outcome run_interpreted(const GeneratedProgram& program, const Func& func, bool with_bounds) {
  Outcome outcome;
  outcome.arrays = make_arrays(program, Against::high);
  std::vector<HostBuffer> hosts;
  for (size_t k = 0; k < outcome.arrays.size(); ++k) {
    const GuardedArray& array = outcome.arrays[k];
    const Parameter& p = program.parameters[k];
    auto* base = static_cast<std::byte*>(array.data()) - p.layout.offset * p.dtype.bytes();
    hosts.push_back({base, array.begin(), array.end()});
  }
  InterpreterOptions options;
  options.step_limit = 50'000'000;
  if (with_bounds) options.bounds = &outcome.bounds;
  outcome.status = interpret(func, hosts, program.scalars, options, &outcome.message);
  return outcome;
}

std::string compare(const GeneratedProgram& program, const Outcome& reference, const Outcome& outcome,
                    BoundStatistics* statistics) {
  if (reference.status != outcome.status) {
    return fmt::format("status {} ({}), expected {} ({})", outcome.status, outcome.message, reference.status,
                       reference.message);
  }
  // Outputs are unspecified then; that nothing outside was touched still counts.
  const bool failed = reference.status != 0;
  for (size_t k = 0; k < outcome.arrays.size(); ++k) {
    const GuardedArray &expected = reference.arrays[k], &given = outcome.arrays[k];
    const bool is_input = k < static_cast<size_t>(program.input_count);
    const std::string name =
        is_input ? fmt::format("input {}", k) : fmt::format("output {}", k - static_cast<size_t>(program.input_count));
    if (const std::string damage = given.check(); !damage.empty()) return fmt::format("{}: {}", name, damage);
    const DType dtype = program.parameters[k].dtype;
    if (failed && !is_input) continue;
    const bool bitwise = is_input || !dtype.is_float() || program.bitwise[k - static_cast<size_t>(program.input_count)];
    const double scale = bitwise ? 0 : scale_of(reference.bounds[k]);
    for (std::int64_t i = 0; i < given.count(); ++i) {
      const std::byte *a = expected.element(i), *b = given.element(i);
      if (bitwise) {
        if (same_bytes(dtype, a, b) || both_nan(dtype, a, b)) continue;
        return fmt::format("{} ({}), element {}: {}, expected exactly {}", name, to_string(dtype), i, show(dtype, b),
                           show(dtype, a));
      }
      const auto unit = static_cast<size_t>((a - expected.begin()) / dtype.bytes());
      const FloatBound bound = reference.bounds[k][unit];
      const double value = interpreter::load_element(dtype, b).d;
      if (statistics) statistics->add(bound, value, scale);
      if (!within(bound, value)) {
        return fmt::format("{} ({}), element {}: {}, expected {:.17g} within {:.3g} (interpreted: {})", name,
                           to_string(dtype), i, show(dtype, b), bound.exact, bound.radius, show(dtype, a));
      }
    }
  }
  return {};
}

std::string describe(const GeneratedProgram& program, const BoundStatistics& statistics) {
  const std::vector<Buffer> buffers = buffer_params(program.func);
  std::string types;
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (k == static_cast<size_t>(program.input_count)) types += " ->";
    std::vector<std::string> extents;
    for (const Expr& extent : buffers[k]->shape) extents.push_back(print(extent));
    types += fmt::format(" {}[{}]", to_string(buffers[k]->dtype), fmt::join(extents, ", "));
  }
  const std::set<std::string> families(program.families.begin(), program.families.end());
  return fmt::format("seed {}: {} ({}),{}, {} runs: {}", program.seed, fmt::join(families, ", "),
                     fmt::join(program.operators, ", "), types, program.runs.size(), statistics.text());
}

}  // namespace lathe::testing
