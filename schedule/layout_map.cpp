#include "schedule/layout_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

/// What stands between commas outside of parentheses, without blanks around it.
std::vector<std::string> listed(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else if (c != ' ' || !parts.back().empty()) {
      parts.back() += c;
    }
  }
  for (std::string& part : parts) part.erase(part.find_last_not_of(' ') + 1);
  return parts;
}

}  // namespace

LayoutMap same_layout(size_t rank) {
  LayoutMap map;
  for (size_t d = 0; d < rank; ++d) map.from.push_back(Var::make(fmt::format("i{}", d)));
  map.to.assign(map.from.begin(), map.from.end());
  return map;
}

LayoutMap moved_first(size_t rank, size_t dimension) {
  LayoutMap map = same_layout(rank);
  const auto moved = map.to.begin() + static_cast<std::ptrdiff_t>(dimension);
  std::rotate(map.to.begin(), moved, moved + 1);
  return map;
}

LayoutMap moved_last(size_t rank, size_t dimension) {
  LayoutMap map = same_layout(rank);
  const auto moved = map.to.begin() + static_cast<std::ptrdiff_t>(dimension);
  std::rotate(moved, moved + 1, map.to.end());
  return map;
}

LayoutMap parse_layout_map(std::string_view text) {
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) {
    throw InputError(Mistake::syntax,
                     fmt::format("layout map '{}': expected 'i, j -> i // 4, j, i % 4', found no '->'", text));
  }
  const std::vector<std::string> names = listed(text.substr(0, arrow)), results = listed(text.substr(arrow + 2));
  // The .tir parser reads it as a program that stores the new indices.
  std::string source = fmt::format("func map(layout_map_result: i64[{}]", results.size());
  for (const std::string& name : names) source += fmt::format(", {}: i64", name);
  source += ") stage begin {\n";
  for (size_t d = 0; d < results.size(); ++d) source += fmt::format("layout_map_result[{}] = {}\n", d, results[d]);
  LayoutMap map;
  try {
    const Func func = parse_func(source + "}\n", "layout map");
    map.from = scalar_params(func);
    const std::vector<Stmt> stores = func->body.as<Seq>() ? func->body.as<Seq>()->stmts : std::vector<Stmt>{func->body};
    for (const Stmt& s : stores) {
      if (const Store* store = s.as<Store>()) map.to.push_back(store->value);
    }
  } catch (const InputError& error) {
    throw InputError(Mistake::syntax, fmt::format("layout map '{}': {}", text, error.message()));
  }
  if (map.from.size() != names.size() || map.to.size() != results.size()) {
    throw InputError(Mistake::syntax, fmt::format("layout map '{}': expected indices and expressions of them", text));
  }
  return map;
}

std::string print(const LayoutMap& map) {
  std::vector<std::string> names, results;
  for (const VarRef& variable : map.from) names.push_back(variable->name);
  for (const Expr& e : map.to) results.push_back(print(e));
  return fmt::format("{} -> {}", fmt::join(names, ", "), fmt::join(results, ", "));
}

}  // namespace lathe
