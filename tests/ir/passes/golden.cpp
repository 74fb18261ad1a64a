#include "tests/ir/passes/golden.h"

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

#include "ir/analysis/simplify.h"
#include "ir/interpreter/interpreter.h"
#include "ir/visitor.h"

namespace lathe::testing {
namespace {

std::int64_t evaluate(const Expr& e, const Substitution& scalars) {
  Expr value = simplify(substitute(e, scalars));
  const std::int64_t* constant = as_int(value);
  if (!constant) throw std::runtime_error("an extent is not determined by the scalars");
  return *constant;
}

void fill(DType dtype, std::byte* at, std::mt19937& random) {
  int value = static_cast<int>(random() % 7) - 3;
  auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  if (dtype.is_bool()) return put(static_cast<std::uint8_t>(value > 0));
  if (dtype == f64) return put(static_cast<double>(value));
  if (dtype == f32) return put(static_cast<float>(value));
  if (dtype.is_float()) return put(static_cast<std::uint16_t>(0));
  std::int64_t wide = dtype.is_unsigned() ? value + 3 : value;
  std::memcpy(at, &wide, static_cast<size_t>(dtype.bytes()));
}

}  // namespace

GoldenCase read_case(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  GoldenCase c{path, {}, {}, {}, {}, {}};
  std::string line;
  bool in_after = false;
  while (std::getline(file, line)) {
    if (line.rfind("# after", 0) == 0) {
      in_after = true;
    } else if (in_after) {
      c.after += line + "\n";
    } else if (line.rfind("# pass: ", 0) == 0) {
      c.pass = line.substr(8);
      c.header += line + "\n";
    } else if (line.rfind("# scalars:", 0) == 0) {
      std::istringstream numbers(line.substr(10));
      std::vector<std::int64_t> values;
      for (std::int64_t v; numbers >> v;) values.push_back(v);
      c.runs.push_back(values);
      c.header += line + "\n";
    } else if (line.rfind("#", 0) == 0 && c.before.empty()) {
      c.header += line + "\n";
    } else {
      c.before += line + "\n";
    }
  }
  if (c.runs.empty()) c.runs.emplace_back();
  return c;
}

void write_case(const GoldenCase& c, const std::string& after) {
  std::ofstream file(c.path);
  file << c.header << c.before << "# after\n" << after;
}

Outcome run(const Func& func, const std::vector<std::int64_t>& scalars, int seed) {
  Substitution values;
  std::vector<VarRef> params = scalar_params(func);
  if (params.size() != scalars.size()) throw std::runtime_error("the case gives the wrong number of scalars");
  for (size_t i = 0; i < params.size(); ++i) values[params[i].get()] = constant(params[i]->dtype, scalars[i]);
  std::mt19937 random(static_cast<unsigned>(seed));
  Outcome outcome;
  std::vector<HostBuffer> host;
  std::vector<Buffer> buffers = buffer_params(func);
  for (const Buffer& buffer : buffers) {
    std::int64_t count = buffer->offset ? evaluate(buffer->offset, values) : 0;
    std::vector<Expr> strides = strides_of(buffer);
    bool empty = false;
    for (size_t d = 0; d < buffer->rank(); ++d) {
      std::int64_t extent = evaluate(buffer->shape[d], values);
      empty |= extent == 0;
      count += (extent - 1) * evaluate(strides[d], values);
    }
    count = empty ? 0 : count + 1;
    auto size = static_cast<size_t>(buffer->dtype.bytes());
    outcome.buffers.emplace_back(static_cast<size_t>(count) * size);
    for (std::int64_t i = 0; i < count; ++i)
      fill(buffer->dtype, outcome.buffers.back().data() + size * static_cast<size_t>(i), random);
  }
  for (std::vector<std::byte>& bytes : outcome.buffers)
    host.push_back({bytes.data(), bytes.data(), bytes.data() + bytes.size()});
  outcome.status = interpret(func, host, scalars, {}, &outcome.message, &outcome.index);
  if (outcome.status != 0) outcome.buffers.clear();  // outputs are unspecified then
  return outcome;
}

}  // namespace lathe::testing
