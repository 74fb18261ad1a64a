#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/contraction.h"
#include "jit/trace/ops/linear_algebra.h"

namespace lathe::ops {
namespace {

struct Equation {
  std::string left, right, result;
};

Equation parse(std::string_view text) {
  const auto fail = [&](const std::string& why) { fail_value("einsum", fmt::format("{}: given '{}'", why, text)); };
  std::string clean;
  for (char c : text) {
    if (c != ' ') clean += c;
  }
  if (clean.find('.') != std::string::npos) fail("an ellipsis is not taken; name every axis");
  const size_t arrow = clean.find("->");
  const std::string inputs = clean.substr(0, arrow);
  if (std::count(inputs.begin(), inputs.end(), ',') != 1) fail("takes two operands, 'ij,jk->ik'");
  const size_t comma = inputs.find(',');
  Equation equation{inputs.substr(0, comma), inputs.substr(comma + 1), ""};
  const std::string letters = equation.left + equation.right;
  if (arrow == std::string::npos) {
    for (char c : letters) {
      if (std::count(letters.begin(), letters.end(), c) == 1) equation.result += c;
    }
    std::sort(equation.result.begin(), equation.result.end());
  } else {
    equation.result = clean.substr(arrow + 2);
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

}  // namespace

Tensor einsum(std::string_view text, const Tensor& a, const Tensor& b) {
  const Equation equation = parse(text);
  std::map<char, Expr> extents;
  gather_extents(text, equation.left, a, extents);
  gather_extents(text, equation.right, b, extents);
  Shape result, folded;
  std::string folded_letters;
  for (char c : equation.result) result.push_back(extents.at(c));
  for (char c : equation.left + equation.right) {
    if (equation.result.find(c) != std::string::npos || folded_letters.find(c) != std::string::npos) continue;
    folded_letters += c;
    folded.push_back(extents.at(c));
  }
  const auto element = [&](const Tensor& x, const std::string& letters, const Indices& i, const Indices& r) {
    Indices own;
    for (char c : letters) {
      const size_t place = equation.result.find(c);
      own.push_back(place != std::string::npos ? i[place] : r[folded_letters.find(c)]);
    }
    return at_broadcast(x, own);
  };
  return contract(
      "einsum", a, b, result, folded,
      [&](const Indices& i, const Indices& r) { return element(a, equation.left, i, r); },
      [&](const Indices& i, const Indices& r) { return element(b, equation.right, i, r); });
}

}  // namespace lathe::ops
