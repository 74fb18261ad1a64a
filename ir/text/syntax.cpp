#include "ir/text/syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace lathe::text {
namespace {

constexpr Infix infix_ops[] = {
    {BinaryOp::logical_or, "||", 1}, {BinaryOp::logical_and, "&&", 2}, {BinaryOp::eq, "==", 3},
    {BinaryOp::ne, "!=", 3},         {BinaryOp::lt, "<", 3},           {BinaryOp::le, "<=", 3},
    {BinaryOp::gt, ">", 3},          {BinaryOp::ge, ">=", 3},          {BinaryOp::bit_or, "|", 4},
    {BinaryOp::bit_xor, "^", 5},     {BinaryOp::bit_and, "&", 6},      {BinaryOp::shl, "<<", 7},
    {BinaryOp::shr, ">>", 7},        {BinaryOp::add, "+", 8},          {BinaryOp::sub, "-", 8},
    {BinaryOp::mul, "*", 9},         {BinaryOp::div, "/", 9},          {BinaryOp::floor_div, "//", 9},
    {BinaryOp::floor_mod, "%", 9},
};

constexpr std::string_view words[] = {
    "func",       "program",  "stage",    "facts",   "attrs",    "memory",      "for",     "in",      "parallel",
    "vectorized", "unrolled", "bound",    "block",   "space",    "reduce",      "ordered", "opaque",  "where",
    "reads",      "writes",   "alloc",    "reducer", "identity", "init",        "let",     "if",      "else",
    "while",      "eval",     "assert",   "true",    "false",    "cast",        "extern",  "strides", "offset",
    "align",      "view_of",  "inferred", "checked", "trusted",  "multiple_of", "equals",  "values",  "edge",
    "inputs",     "outputs",  "symbols",  "param",
};

constexpr std::uint64_t fraction_mask = (std::uint64_t{1} << 52) - 1;
constexpr std::uint64_t quiet_fraction = std::uint64_t{1} << 51;

constexpr std::string_view unary_names[] = {
#define LATHE_NAME(name, ...) #name,
    LATHE_UNARY_OPS(LATHE_NAME)};
constexpr std::string_view binary_names[] = {LATHE_BINARY_OPS(LATHE_NAME)
#undef LATHE_NAME
};

bool is_identifier(std::string_view name) {
  const auto starts = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto continues = [&](char c) { return starts(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && starts(name[0]) && std::all_of(name.begin(), name.end(), continues);
}

std::string escape(std::string_view text, char quote) {
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 32 || c == 127) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out += quote;
}

}  // namespace

const Infix* find_infix(BinaryOp op) {
  const auto found =
      std::find_if(std::begin(infix_ops), std::end(infix_ops), [&](const Infix& i) { return i.op == op; });
  return found == std::end(infix_ops) ? nullptr : found;
}

const Infix* find_infix(std::string_view token) {
  const auto found =
      std::find_if(std::begin(infix_ops), std::end(infix_ops), [&](const Infix& i) { return i.token == token; });
  return found == std::end(infix_ops) ? nullptr : found;
}

std::optional<UnaryOp> parse_unary_op(std::string_view name) {
  const auto found = std::find(std::begin(unary_names), std::end(unary_names), name);
  if (found == std::end(unary_names)) return std::nullopt;
  return static_cast<UnaryOp>(found - std::begin(unary_names));
}

std::optional<BinaryOp> parse_binary_op(std::string_view name) {
  const auto found = std::find(std::begin(binary_names), std::end(binary_names), name);
  if (found == std::end(binary_names)) return std::nullopt;
  return static_cast<BinaryOp>(found - std::begin(binary_names));
}

std::span<const std::string_view> keywords() {
  return words;
}

bool is_keyword(std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::string quote_name(std::string_view name) {
  return is_identifier(name) && !is_keyword(name) ? std::string(name) : escape(name, '`');
}

std::string quote_string(std::string_view text) {
  return escape(text, '"');
}

double make_nan(bool negative, std::uint64_t fraction) {
  return std::bit_cast<double>((std::uint64_t{negative} << 63) | (std::uint64_t{0x7ff} << 52) |
                               (fraction & fraction_mask));
}

std::string float_literal(DType dtype, double value) {
  const std::string type = to_string(dtype);
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return fmt::format("{}inf({})", sign, type);
  if (std::isnan(value)) {
    const std::uint64_t fraction = std::bit_cast<std::uint64_t>(value) & fraction_mask;
    if (fraction == quiet_fraction) return fmt::format("{}nan({})", sign, type);
    return fmt::format("{}nan({}, {:#x})", sign, type, fraction);
  }
  std::string digits = dtype.bits == 64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits + type;
}

std::string int_literal(DType dtype, std::int64_t value) {
  if (dtype == boolean) return value ? "true" : "false";
  const std::string suffix = dtype == i64 ? "" : to_string(dtype);
  if (dtype.is_unsigned()) return fmt::format("{}{}", static_cast<std::uint64_t>(value), suffix);
  return fmt::format("{}{}", value, suffix);
}

}  // namespace lathe::text
