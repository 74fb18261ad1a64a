#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/contraction.h"
#include "jit/trace/ops/linear_algebra.h"
#include "jit/trace/ops/reduction.h"
#include "jit/trace/ops/view_shape.h"
#include "jit/trace/promotion.h"

namespace lathe::ops {
namespace {

/// The axes of each operand and of the result, a letter each.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

/// The axes that an ellipsis of the term stands for, of an operand of so many.
size_t unnamed_axes(const std::string& term, size_t rank) {
  const size_t named = term.size() - std::string_view("...").size();
  return rank > named ? rank - named : 0;
}

/// Puts letters, which it returns, in the place of ellipses: those of the last axes are the same in all operands, as
/// shapes broadcast, and the result has all of them.
std::string name_ellipses(std::string_view text, Equation& equation, const std::vector<Tensor>& operands) {
  const std::string_view ellipsis = "...";
  const auto fail = [&](const char* why) { fail_value("einsum", fmt::format("{}: given '{}'", why, text)); };
  const auto has_one = [&](const std::string& term) {
    const auto dots = std::count(term.begin(), term.end(), '.');
    if (dots > 0 && (dots != 3 || term.find(ellipsis) == std::string::npos))
      fail("a term has one ellipsis of three dots");
    return dots > 0;
  };
  std::vector<size_t> unnamed;
  size_t most = 0;
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    const std::string& term = equation.operands[i];
    unnamed.push_back(has_one(term) && i < operands.size() ? unnamed_axes(term, operands[i].rank()) : 0);
    most = std::max(most, unnamed.back());
  }
  std::string letters;
  for (char c = 'A'; c <= 'z' && letters.size() < most; c = c == 'Z' ? 'a' : static_cast<char>(c + 1))
    if (text.find(c) == std::string_view::npos) letters += c;
  if (letters.size() < most) fail("there are not enough letters for the axes of the ellipses");
  const auto put = [&](std::string& term, size_t axes) {
    if (has_one(term)) term.replace(term.find(ellipsis), ellipsis.size(), letters.substr(most - axes));
  };
  for (size_t i = 0; i < equation.operands.size(); ++i) put(equation.operands[i], unnamed[i]);
  put(equation.result, most);
  return letters;
}

Equation parse(std::string_view text, const std::vector<Tensor>& tensors) {
  const auto fail = [&](const std::string& why) { fail_value("einsum", fmt::format("{}: given '{}'", why, text)); };
  std::string clean;
  for (char c : text) {
    if (c != ' ') clean += c;
  }
  const size_t arrow = clean.find("->");
  Equation equation{{""}, arrow == std::string::npos ? "" : clean.substr(arrow + 2)};
  for (char c : clean.substr(0, arrow)) {
    if (c == ',') {
      equation.operands.emplace_back();
    } else {
      equation.operands.back() += c;
    }
  }
  const std::string unnamed = name_ellipses(text, equation, tensors);
  std::string letters;
  for (const std::string& operand : equation.operands) letters += operand;
  if (arrow == std::string::npos) {
    for (char c : letters) {
      if (std::count(letters.begin(), letters.end(), c) == 1 && unnamed.find(c) == std::string::npos)
        equation.result += c;
    }
    std::sort(equation.result.begin(), equation.result.end());
    equation.result = unnamed + equation.result;
  }
  for (char c : letters + equation.result) {
    if (!std::isalpha(static_cast<unsigned char>(c))) fail(fmt::format("axes are letters, but '{}' is none", c));
  }
  for (char c : equation.result) {
    if (letters.find(c) == std::string::npos) fail(fmt::format("axis '{}' of the result occurs in no operand", c));
    if (std::count(equation.result.begin(), equation.result.end(), c) > 1)
      fail(fmt::format("axis '{}' of the result occurs twice", c));
  }
  return equation;
}

void gather_extents(std::string_view text, const std::string& letters, const Tensor& x, std::map<char, Expr>& extents) {
  if (letters.size() != x.rank()) {
    fail_value("einsum",
               fmt::format("'{}' in '{}' names {} axes; given {}", letters, text, letters.size(), describe(x)));
  }
  for (size_t d = 0; d < letters.size(); ++d) {
    Expr& extent = extents.emplace(letters[d], x.shape()[d]).first->second;
    if (is_int(extent, 1)) extent = x.shape()[d];
    if (!same_extent(extent, x.shape()[d]) && !is_int(x.shape()[d], 1)) {
      fail_value("einsum", fmt::format("axis '{}' of '{}' has extents {} and {}", letters[d], text, describe(extent),
                                       describe(x.shape()[d])));
    }
  }
}

/// One operand takes no product: the view of its axes in the result's order, then those that are summed.
Tensor rearrange_and_sum(const std::string& letters, const std::string& result, const Tensor& x,
                         const std::map<char, Expr>& extents) {
  std::string order = result;
  for (char c : letters) {
    if (order.find(c) == std::string::npos) order += c;
  }
  Tensor ordered = x;
  if (order.size() == letters.size()) {
    std::vector<std::int64_t> axes;
    for (char c : order) axes.push_back(static_cast<std::int64_t>(letters.find(c)));
    ordered = permute_dims(x, axes);
  } else {
    Shape shape;
    for (char c : order) shape.push_back(extents.at(c));
    ordered = view(
        shape, x.dtype(),
        [x, letters, order](const Indices& i, const Expr& mask) {
          Indices own;
          for (char c : letters) own.push_back(i[order.find(c)]);
          return at_broadcast(x, own, mask);
        },
        "einsum");
  }
  std::vector<std::int64_t> summed(order.size() - result.size());
  std::iota(summed.begin(), summed.end(), static_cast<std::int64_t>(result.size()));
  return summed.empty() ? ordered : sum(ordered, summed, false, x.dtype());
}

/// The view of x's elements as `common`, in the type that sums of their products are kept in.
Tensor as_factor(const Tensor& x, DType common) {
  const DType arithmetic = arithmetic_type(common);
  if (x.dtype() == arithmetic && !x.is_weak()) return x;
  return view(
      x.shape(), arithmetic,
      [=](const Indices& i, const Expr& mask) { return convert(arithmetic, convert(common, x.at(i, mask))); },
      "einsum");
}

/// The product of two operands, summed over the axes that are not the result's.
Tensor contract_pair(const std::array<std::string, 2>& axes, const std::string& kept, const Tensor& left,
                     const Tensor& right, const std::map<char, Expr>& extents) {
  const Tensor a = as_operand("einsum", left), b = as_operand("einsum", right);
  Shape result, folded;
  std::string folded_letters;
  for (char c : kept) result.push_back(extents.at(c));
  for (char c : axes[0] + axes[1]) {
    if (kept.find(c) != std::string::npos || folded_letters.find(c) != std::string::npos) continue;
    folded_letters += c;
    folded.push_back(extents.at(c));
  }
  const auto element = [&](const Tensor& x, const std::string& letters, const Indices& i, const Indices& r) {
    Indices own;
    for (char c : letters) {
      const size_t place = kept.find(c);
      own.push_back(place != std::string::npos ? i[place] : r[folded_letters.find(c)]);
    }
    return at_broadcast(x, own);
  };
  return contract(
      "einsum", a, b, result, folded, [&](const Indices& i, const Indices& r) { return element(a, axes[0], i, r); },
      [&](const Indices& i, const Indices& r) { return element(b, axes[1], i, r); });
}

/// The letters of both that the result or another operand wants, in the order of the result's.
std::string kept_axes(const Equation& equation, size_t a, size_t b) {
  std::string kept, rest;
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    if (i != a && i != b) rest += equation.operands[i];
  }
  const std::string both = equation.operands[a] + equation.operands[b];
  for (char c : equation.result + rest) {
    if (both.find(c) != std::string::npos && kept.find(c) == std::string::npos) kept += c;
  }
  return kept;
}

/// What is left to multiply once two operands have become one.
Equation joined(Equation equation, size_t a, size_t b) {
  std::string kept = kept_axes(equation, a, b);
  equation.operands[a] = std::move(kept);
  equation.operands.erase(equation.operands.begin() + static_cast<std::ptrdiff_t>(b));
  return equation;
}

/// Products that a pair takes.
double pair_work(const std::string& letters, const std::map<char, Expr>& extents) {
  constexpr double unknown = 64;
  double work = 1;
  for (const char c : std::set<char>(letters.begin(), letters.end())) {
    const std::int64_t* extent = as_int(extents.at(c));
    work *= extent ? static_cast<double>(*extent) : unknown;
  }
  return work;
}

/// A pair of operands to multiply first, and the products that it and what comes after it take.
struct Step {
  size_t left = 0, right = 1;
  double work = std::numeric_limits<double>::infinity();
};

/// The pair that begins the order of the least work in all; of many operands, whose orders are too many, the cheapest
/// pair, which is never a product of everything.
Step first_pair(const Equation& equation, const std::map<char, Expr>& extents) {
  constexpr size_t most_searched = 5;
  const size_t count = equation.operands.size();
  Step best;
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) {
      double work = pair_work(equation.operands[a] + equation.operands[b], extents);
      if (count > 2 && count <= most_searched) work += first_pair(joined(equation, a, b), extents).work;
      if (work < best.work) best = {a, b, work};
    }
  }
  return best;
}

/// The letters of an operand that neither the result nor another operand has, and that are summed over something.
std::string own_axes(const Equation& equation, size_t operand, const std::map<char, Expr>& extents) {
  std::string others = equation.result, own;
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    if (i != operand) others += equation.operands[i];
  }
  for (char c : equation.operands[operand]) {
    if (others.find(c) == std::string::npos && own.find(c) == std::string::npos && !is_int(extents.at(c), 0)) own += c;
  }
  return own;
}

/// Sums operands over the axes that are theirs alone before anything is multiplied: a product takes as many steps for
/// each of their elements as all other axes have together.
void sum_own_axes(Equation& equation, std::vector<Tensor>& tensors, const std::map<char, Expr>& extents, DType common) {
  const size_t count = tensors.size();
  std::vector<std::string> own;
  for (size_t i = 0; i < count; ++i) own.push_back(own_axes(equation, i, extents));
  if (std::all_of(own.begin(), own.end(), [](const std::string& axes) { return axes.empty(); })) return;
  for (size_t i = 0; i < count; ++i) {
    tensors[i] = as_factor(tensors[i], common);
    if (own[i].empty()) continue;
    std::string kept;
    for (char c : equation.operands[i]) {
      if (own[i].find(c) == std::string::npos && kept.find(c) == std::string::npos) kept += c;
    }
    tensors[i] = rearrange_and_sum(equation.operands[i], kept, tensors[i], extents);
    equation.operands[i] = std::move(kept);
  }
}

}  // namespace

Tensor einsum(std::string_view text, const std::vector<Tensor>& operands) {
  Equation equation = parse(text, operands);
  std::vector<Tensor> tensors = operands;
  if (tensors.size() != equation.operands.size()) {
    fail_value("einsum", fmt::format("'{}' names the axes of {} operand{}; given {}", text, equation.operands.size(),
                                     equation.operands.size() == 1 ? "" : "s", tensors.size()));
  }
  std::map<char, Expr> extents;
  for (size_t i = 0; i < tensors.size(); ++i) gather_extents(text, equation.operands[i], tensors[i], extents);
  const DType common = result_type("einsum", tensors, accepts_number);
  if (tensors.size() == 1) {
    return round_result(rearrange_and_sum(equation.operands[0], equation.result, tensors[0], extents), common);
  }
  sum_own_axes(equation, tensors, extents, common);
  if (tensors.size() > 2) {
    // What a pair gives is rounded with the result, not before.
    for (Tensor& x : tensors) x = as_factor(x, common);
  }
  while (tensors.size() > 2) {
    const auto [left, right, work] = first_pair(equation, extents);
    tensors[left] = contract_pair({equation.operands[left], equation.operands[right]}, kept_axes(equation, left, right),
                                  tensors[left], tensors[right], extents);
    equation = joined(std::move(equation), left, right);
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(right));
  }
  return round_result(
      contract_pair({equation.operands[0], equation.operands[1]}, equation.result, tensors[0], tensors[1], extents),
      common);
}

Tensor einsum(std::string_view text, const Tensor& a, const Tensor& b) {
  return einsum(text, std::vector{a, b});
}

}  // namespace lathe::ops
