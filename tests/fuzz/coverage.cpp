#include "tests/fuzz/coverage.h"

#include <fmt/format.h>

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
  for (const char* row :
       {"shape empty", "shape with an extent of 1", "shape odd", "shape of rank 0", "layout dense", "layout strided",
        "layout reversed", "layout broadcast", "layout offset", "input with NaN and infinities", "loop serial",
        "loop parallel", "loop vectorized", "loop unrolled", "access masked"}) {
    rows_[row] = 0;
  }
}

void Coverage::add(const GeneratedProgram& program) {
  for (const std::string& name : std::set<std::string>(program.operators.begin(), program.operators.end()))
    ++rows_["operator " + name];
  for (const Parameter& p : program.parameters) {
    ++rows_["dtype " + to_string(p.dtype)];
    if (p.shape.empty()) ++rows_["shape of rank 0"];
    bool empty = false, one = false, odd = false;
    for (const std::int64_t extent : p.shape) {
      empty = empty || extent == 0;
      one = one || extent == 1;
      odd = odd || (extent > 1 && extent % 2 == 1);
    }
    rows_["shape empty"] += empty;
    rows_["shape with an extent of 1"] += one;
    rows_["shape odd"] += odd;
    bool reversed = false, zero = false;
    for (const std::int64_t stride : p.strides) {
      reversed = reversed || stride < 0;
      zero = zero || stride == 0;
    }
    rows_[p.dense ? "layout dense" : "layout strided"] += 1;
    rows_["layout reversed"] += reversed;
    rows_["layout broadcast"] += zero;
    rows_["layout offset"] += p.offset != 0;
    rows_["input with NaN and infinities"] += p.dtype.is_float() && p.fill.kind == Fill::Kind::special;
  }
  add(program.func);
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
