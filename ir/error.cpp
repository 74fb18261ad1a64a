#include "ir/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace lathe {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

}  // namespace

Bug::Bug(const std::string& message)
    : Error("this is a bug in Lathe, please report it with the text below\n" + message) {}

std::string nearest_name(std::string_view given, std::span<const std::string> known) {
  std::string best;
  size_t best_distance = given.size() / 3 + 1;
  for (const std::string& name : known) {
    const size_t distance = edit_distance(given, name);
    if (distance <= best_distance && (best.empty() || distance < best_distance)) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string unknown_name(std::string_view what, std::string_view given, std::span<const std::string> known) {
  const std::string nearest = nearest_name(given, known);
  const std::string hint = nearest.empty() ? "" : fmt::format(" did you mean '{}'?", nearest);
  return fmt::format("unknown {} '{}';{} known: {}", what, given, hint, fmt::join(known, ", "));
}

void report_bug(const char* condition, const char* file, int line, const std::string& detail) {
  throw Bug(fmt::format("{}:{}: {} does not hold: {}", file, line, condition, detail));
}

}  // namespace lathe
