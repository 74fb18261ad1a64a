#include "tests/fuzz/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/visitor.h"
#include "jit/trace/ops/registry.h"

namespace lathe::testing {

Coverage::Coverage() {
#define LATHE_ROW(name, ...) rows_["expression " #name] = 0;
  LATHE_EXPR_NODES(LATHE_ROW)
#undef LATHE_ROW
#define LATHE_ROW(name, ...) rows_["statement " #name] = 0;
  LATHE_STMT_NODES(LATHE_ROW)
#undef LATHE_ROW
#define LATHE_ROW(name, ...) rows_["operation " #name] = 0;
  LATHE_UNARY_OPS(LATHE_ROW)
  LATHE_BINARY_OPS(LATHE_ROW)
#undef LATHE_ROW
  for (const DType dtype : all_dtypes) rows_["dtype " + to_string(dtype)] = 0;
  for (const ops::Operator& op : ops::operators()) rows_["operator " + std::string(op.name)] = 0;
  for (const char* row : {"shape empty",
                          "shape with an extent of 1",
                          "shape odd",
                          "shape of rank 0",
                          "shape symbolic",
                          "shape symbolic, least",
                          "shape symbolic, greatest",
                          "shape symbolic, odd",
                          "shape symbolic, multiple of 2 or more",
                          "shape symbolic, computed",
                          "symbolic elementwise",
                          "symbolic reduction",
                          "symbolic contraction",
                          "symbolic view",
                          "layout dense",
                          "layout strided",
                          "layout reversed",
                          "layout broadcast",
                          "layout offset",
                          "layout strided, symbolic shape",
                          "layout of run-time strides",
                          "layout of run-time strides, reversed",
                          "layout of run-time strides, broadcast",
                          "layout of run-time strides, symbolic shape",
                          "layout of stride classes",
                          "layout vector-misaligned",
                          "layout element-misaligned",
                          "input with NaN and infinities",
                          "loop serial",
                          "loop parallel",
                          "loop vectorized",
                          "loop unrolled",
                          "access masked"}) {
    rows_[row] = 0;
  }
}

void Coverage::add(const GeneratedProgram& program) {
  for (const std::string& name : std::set<std::string>(program.operators.begin(), program.operators.end()))
    ++rows_["operator " + name];
  for (const Parameter& p : program.parameters) {
    ++rows_["dtype " + to_string(p.dtype)];
    rows_["input with NaN and infinities"] += p.dtype.is_float() && p.fill.kind == Fill::Kind::special;
  }
  for (size_t k = 0; k < program.runs.size(); ++k) add_run(with_run(program, k));
  for (const Fact& fact : program.func->facts) {
    rows_["shape symbolic, multiple of 2 or more"] += fact.multiple_of > 1;
    for (const Environment& run : program.runs) {
      const std::int64_t value = run.at(fact.variable.get());
      rows_["shape symbolic, least"] += value == fact.min;
      rows_["shape symbolic, greatest"] += value == fact.max;
      rows_["shape symbolic, odd"] += value % 2 == 1;
    }
  }
  if (!program.func->facts.empty()) {
    for (const std::string& family : std::set<std::string>(program.families.begin(), program.families.end()))
      ++rows_["symbolic " + family];
  }
  add(program.func);
}

void Coverage::add_run(const GeneratedProgram& program) {
  const auto any = [](const auto& list, auto&& is) { return std::any_of(list.begin(), list.end(), is); };
  for (size_t k = 0; k < program.parameters.size(); ++k) {
    const Parameter& p = program.parameters[k];
    rows_["shape of rank 0"] += p.shape.empty();
    rows_["shape empty"] += any(p.shape, [](std::int64_t extent) { return extent == 0; });
    rows_["shape with an extent of 1"] += any(p.shape, [](std::int64_t extent) { return extent == 1; });
    rows_["shape odd"] += any(p.shape, [](std::int64_t extent) { return extent > 1 && extent % 2 == 1; });
    const bool symbolic = any(p.extents, [](const Expr& extent) { return !as_int(extent); });
    rows_["shape symbolic"] += symbolic;
    rows_["shape symbolic, computed"] += any(p.extents, [](const Expr& e) { return !as_int(e) && !e.as<Var>(); });

    const bool strided = p.layout.strides != LayoutPlan::Strides::compact;
    rows_[strided ? "layout strided" : "layout dense"] += 1;
    rows_["layout strided, symbolic shape"] += strided && symbolic;
    rows_["layout reversed"] += any(p.strides, [](std::int64_t stride) { return stride < 0; });
    rows_["layout broadcast"] += any(p.strides, [](std::int64_t stride) { return stride == 0; });
    rows_["layout offset"] += p.layout.offset != 0;
    rows_["layout of stride classes"] += p.layout.strides == LayoutPlan::Strides::classes;
    std::vector<std::int64_t> runtime;
    for (const ScalarSource& source : program.scalar_sources) {
      if (!source.symbol && source.parameter == k) runtime.push_back(p.strides[source.dimension]);
    }
    rows_["layout of run-time strides"] += !runtime.empty();
    rows_["layout of run-time strides, reversed"] += any(runtime, [](std::int64_t stride) { return stride < 0; });
    rows_["layout of run-time strides, broadcast"] += any(runtime, [](std::int64_t stride) { return stride == 0; });
    rows_["layout of run-time strides, symbolic shape"] += !runtime.empty() && symbolic;
    rows_["layout vector-misaligned"] += p.layout.misalignment > 0 && p.layout.element_aligned;
    rows_["layout element-misaligned"] += !p.layout.element_aligned;
  }
}

void Coverage::add(const Func& func) {
  for_each_stmt(func->body, [&](const Stmt& s) {
    ++rows_[fmt::format("statement {}", to_string(s->kind))];
    if (const For* loop = s.as<For>()) ++rows_[fmt::format("loop {}", to_string(loop->for_kind))];
    if (const Store* store = s.as<Store>()) rows_["access masked"] += store->mask ? 1 : 0;
  });
  for_each_expr(func->body, [&](const Expr& e) {
    ++rows_[fmt::format("expression {}", to_string(e->kind))];
    if (const Load* load = e.as<Load>()) rows_["access masked"] += load->mask ? 1 : 0;
    if (const Unary* unary = e.as<Unary>()) ++rows_[fmt::format("operation {}", to_string(unary->op))];
    if (const Binary* binary = e.as<Binary>()) ++rows_[fmt::format("operation {}", to_string(binary->op))];
  });
}

std::string Coverage::table() const {
  std::string text;
  for (const auto& [row, count] : rows_) text += fmt::format("{:>10}  {}\n", count, row);
  return text;
}

std::vector<std::string> Coverage::missing(const std::vector<std::string>& prefixes) const {
  std::vector<std::string> rows;
  for (const auto& [row, count] : rows_) {
    bool asked = prefixes.empty();
    for (const std::string& prefix : prefixes) asked = asked || row.starts_with(prefix);
    if (asked && count == 0) rows.push_back(row);
  }
  return rows;
}

}  // namespace lathe::testing
