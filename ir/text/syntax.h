#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/expr.h"

namespace lathe::text {

/// A binary operation that is written between its operands. All associate to the left; a higher precedence binds
/// tighter.
struct Infix {
  BinaryOp op;
  std::string_view token;
  int precedence;
};

inline constexpr int comparison_precedence = 3;
inline constexpr int unary_precedence = 10;
inline constexpr int primary_precedence = 11;

/// Null when `op` is written as a call.
const Infix* find_infix(BinaryOp op);
/// Null when `token` is no infix operator.
const Infix* find_infix(std::string_view token);

std::optional<UnaryOp> parse_unary_op(std::string_view name);
std::optional<BinaryOp> parse_binary_op(std::string_view name);

/// Words that are no name unless they are quoted.
std::span<const std::string_view> keywords();
bool is_keyword(std::string_view word);

/// `name` itself, or between backquotes when it is a keyword or no identifier.
std::string quote_name(std::string_view name);
/// `text` between double quotes, with \" \\ \n \t and \xHH escapes.
std::string quote_string(std::string_view text);

/// The literal of a float constant, sign included: "2.0f32", "-0.0f64", "inf(f32)", "nan(f16x8, 0x1)". A NaN's second
/// argument is the fraction of its double; absent for the default one.
std::string float_literal(DType dtype, double value);
/// The literal of an integer or bool constant: "7", "-3i32", "true", "1boolx8".
std::string int_literal(DType dtype, std::int64_t value);
/// A NaN with the fraction bits of `fraction`.
double make_nan(bool negative, std::uint64_t fraction);

}  // namespace lathe::text
