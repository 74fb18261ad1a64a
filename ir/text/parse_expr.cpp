#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "ir/intrinsics.h"
#include "ir/text/parser.h"
#include "ir/text/syntax.h"

namespace lathe::text {
namespace {

/// Nodes are destroyed and visited recursively, so their depth is limited, chains of one operator included.
constexpr int max_depth = 2000;
constexpr int max_lanes = std::numeric_limits<std::uint16_t>::max();

std::vector<std::string> function_names() {
  std::vector<std::string> names = {"select", "ramp", "broadcast", "shuffle", "inf", "nan"};
#define LATHE_NAME(name, ...) names.emplace_back(#name);
  LATHE_UNARY_OPS(LATHE_NAME)
  LATHE_BINARY_OPS(LATHE_NAME)
#undef LATHE_NAME
  for (const Intrinsic& intrinsic : intrinsics()) names.emplace_back(intrinsic.name);
  return names;
}

}  // namespace

Expr Parser::deeper(const Token& at, int depth, Expr e) {
  if (depth >= max_depth) fail(at, "a less deeply nested expression");
  expr_depth_ = depth + 1;
  return e;
}

Expr Parser::expr(int precedence) {
  const Level level(*this);
  Expr left = unary();
  for (;;) {
    const Token token = peek();
    const Infix* infix = token.kind == TokenKind::symbol ? find_infix(token.text) : nullptr;
    if (!infix || infix->precedence < precedence) return left;
    const int left_depth = expr_depth_;
    take();
    Expr right = expr(infix->precedence + 1);
    const int depth = std::max(left_depth, expr_depth_);
    left = deeper(token, depth,
                  checked(token, [&] { return Binary::make(infix->op, std::move(left), std::move(right)); }));
  }
}

Expr Parser::unary() {
  const Level level(*this);
  const Token token = peek();
  if (is("-") && (peek(1).kind == TokenKind::number || ((is("inf", 1) || is("nan", 1)) && is("(", 2)))) {
    take();
    return peek().kind == TokenKind::number ? number(take(), true) : special_float(true);
  }
  const std::optional<UnaryOp> op = is("-")   ? std::optional(UnaryOp::neg)
                                    : is("~") ? std::optional(UnaryOp::bit_not)
                                    : is("!") ? std::optional(UnaryOp::logical_not)
                                              : std::nullopt;
  if (!op) return primary();
  take();
  Expr operand = unary();
  return deeper(token, expr_depth_, checked(token, [&] { return Unary::make(*op, std::move(operand)); }));
}

Expr Parser::primary() {
  const Token token = peek();
  expr_depth_ = 1;
  if (token.kind == TokenKind::number) return number(take(), false);
  if (accept("true")) return IntImm::make(boolean, 1);
  if (accept("false")) return IntImm::make(boolean, 0);
  if (accept("(")) {
    Expr inner = expr();
    expect(")");
    return inner;
  }
  if (accept("&")) {
    const Token name = name_token("a buffer");
    const Buffer target = buffer(name);
    Expr mask;
    std::vector<Expr> at = indices(&mask);
    if (mask) fail(name, "an address without mask");
    return deeper(token, expr_depth_, checked(token, [&] { return AddressOf::make(target, std::move(at)); }));
  }
  if (accept("cast")) {
    expect("<");
    const DType dtype = type();
    expect(">");
    expect("(");
    Expr value = expr();
    expect(")");
    return deeper(token, expr_depth_, checked(token, [&] { return Cast::make(dtype, std::move(value)); }));
  }
  if (accept("extern")) {
    expect("<");
    const DType dtype = type();
    expect(">");
    if (peek().kind != TokenKind::string) fail(peek(), "the callee's symbol between double quotes");
    return typed_call(take(), dtype, CallKind::extern_scalar);
  }
  if (token.kind == TokenKind::word && (is("(", 1) || (is("<", 1) && is(">", 3) && is("(", 4)))) return call();
  const Token name = name_token("an expression");
  if (is("[")) return load(name);
  return variable(name);
}

Expr Parser::number(const Token& token, bool negative) {
  const std::string_view text = token.text;
  expr_depth_ = 1;
  if (text.starts_with("0x")) return hexadecimal(token, negative);
  const bool fraction = text.find('.') != std::string_view::npos;
  std::uint64_t magnitude = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, magnitude);
  double value = 0;
  const auto [float_stop, float_error] = std::from_chars(text.data(), end, value);
  const bool exponent = float_stop != stop;
  const std::string_view suffix(fraction || exponent ? float_stop : stop,
                                static_cast<size_t>(end - (fraction || exponent ? float_stop : stop)));
  const std::optional<DType> dtype =
      suffix.empty() && !fraction && !exponent ? std::optional(i64) : parse_dtype(suffix);
  if (!dtype)
    fail(token,
         suffix.empty() ? "a float with its type, as in 2.0f32" : "a number with a type behind it, as in 2.0f32");
  if (dtype->is_float()) {
    // Digits are rounded once, straight to the type: through double, a value between two floats could round twice.
    float single = 0;
    if (dtype->bits < 64) {
      const auto [single_stop, single_error] = std::from_chars(text.data(), end, single);
      if (single_error == std::errc::result_out_of_range)
        single = value > 1 ? std::numeric_limits<float>::infinity() : 0.0f;
    } else if (float_error == std::errc::result_out_of_range) {
      fail(token, "a number in the range of f64");
    }
    const double rounded = dtype->bits < 64 ? static_cast<double>(single) : value;
    return FloatImm::make(*dtype, negative ? -rounded : rounded);
  }
  if (fraction || exponent) fail(token, fmt::format("an integer, as {} demands", to_string(*dtype)));
  const auto most = static_cast<std::uint64_t>(integer_max(*dtype));
  const std::uint64_t limit = negative ? (dtype->is_signed() ? most + 1 : 0) : most;
  if (error != std::errc() || magnitude > limit)
    fail(token, fmt::format("a number in the range of {}", to_string(*dtype)));
  return IntImm::make(*dtype, static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude));
}

Expr Parser::hexadecimal(const Token& token, bool negative) {
  const char* end = token.text.data() + token.text.size();
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(token.text.data() + 2, end, value, 16);
  if (error != std::errc() || stop != end) fail(token, "a hexadecimal number in the range of i64, without a type");
  return IntImm::make(i64, negative ? -value : value);
}

Expr Parser::special_float(bool negative) {
  expr_depth_ = 1;
  const bool infinite = take().text == "inf";
  expect("(");
  const Token type_token = peek();
  const DType dtype = type();
  if (!dtype.is_float()) fail(type_token, "a float type");
  std::uint64_t fraction = std::uint64_t{1} << 51;
  if (!infinite && accept(",")) {
    const Token token = take();
    const char* end = token.text.data() + token.text.size();
    const bool hex = token.kind == TokenKind::number && token.text.starts_with("0x");
    const auto [stop, error] =
        std::from_chars(token.text.data() + (hex ? 2 : 0), hex ? end : token.text.data(), fraction, 16);
    if (!hex || error != std::errc() || stop != end || fraction == 0 || fraction >> 52 != 0) {
      fail(token, "the fraction of a NaN, from 0x1 to 0xfffffffffffff");
    }
  }
  expect(")");
  if (infinite)
    return FloatImm::make(
        dtype, negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  return FloatImm::make(dtype, make_nan(negative, fraction));
}

std::vector<Expr> Parser::args(std::string_view close, int* depth) {
  std::vector<Expr> list;
  while (!is(close)) {
    list.push_back(expr());
    *depth = std::max(*depth, expr_depth_);
    if (!accept(",")) break;
  }
  expect(close);
  return list;
}

int Parser::lanes() {
  return static_cast<int>(integer(fmt::format("a number of lanes, from 1 to {}", max_lanes), 1, max_lanes));
}

Expr Parser::shuffle() {
  const Token at = expect("[");
  int depth = 0;
  std::vector<Expr> vectors = args("]", &depth);
  expect(",");
  expect("[");
  std::vector<int> picked;
  while (!is("]")) {
    picked.push_back(static_cast<int>(integer("the number of a lane", 0, std::numeric_limits<int>::max())));
    if (!accept(",")) break;
  }
  expect("]");
  expect(")");
  if (picked.size() > static_cast<size_t>(max_lanes)) fail(at, fmt::format("at most {} lanes", max_lanes));
  return deeper(at, depth, checked(at, [&] { return Shuffle::make(std::move(vectors), std::move(picked)); }));
}

Expr Parser::typed_call(const Token& callee, DType dtype, CallKind kind) {
  expect("(");
  int depth = 0;
  std::vector<Expr> list = args(")", &depth);
  std::string symbol = callee.kind == TokenKind::string ? unquote(callee.text) : std::string(callee.text);
  return deeper(callee, depth,
                checked(callee, [&] { return Call::make(dtype, kind, std::move(symbol), std::move(list)); }));
}

Expr Parser::call() {
  if ((is("inf") || is("nan")) && is("(", 1)) return special_float(false);
  const Token callee = take();
  const Intrinsic* intrinsic = find_intrinsic(callee.text);
  if (accept("<")) {
    const DType dtype = type();
    expect(">");
    if (!intrinsic) fail_unknown(callee, "a function that takes a type", {"cast", "reinterpret"});
    return typed_call(callee, dtype, CallKind::intrinsic);
  }
  expect("(");
  if (callee.text == "shuffle") return shuffle();
  int depth = 0;
  if (callee.text == "ramp" || callee.text == "broadcast") {
    Expr base = expr(), stride;
    depth = expr_depth_;
    expect(",");
    if (callee.text == "ramp") {
      stride = expr();
      depth = std::max(depth, expr_depth_);
      expect(",");
    }
    const int count = lanes();
    expect(")");
    return deeper(callee, depth, checked(callee, [&] {
                    return stride ? Ramp::make(base, stride, count) : Broadcast::make(base, count);
                  }));
  }
  std::vector<Expr> list = args(")", &depth);
  const auto arity = [&](size_t count) {
    if (list.size() != count) {
      source_.fail(callee.offset, fmt::format("expected {} argument{} of {}, found {}", count, count == 1 ? "" : "s",
                                              callee.text, list.size()));
    }
  };
  const std::optional<UnaryOp> unary_op = parse_unary_op(callee.text);
  const std::optional<BinaryOp> binary_op = parse_binary_op(callee.text);
  if (callee.text == "select") {
    arity(3);
  } else if (unary_op) {
    arity(1);
  } else if (binary_op) {
    arity(2);
  } else if (intrinsic) {
    arity(static_cast<size_t>(intrinsic->arity));
  } else {
    fail_unknown(callee, "a function", function_names());
  }
  return deeper(callee, depth, checked(callee, [&] {
                  if (unary_op) return Unary::make(*unary_op, list[0]);
                  if (binary_op) return Binary::make(*binary_op, list[0], list[1]);
                  if (!intrinsic) return Select::make(list[0], list[1], list[2]);
                  const DType dtype = intrinsic->reduces ? list[0]->dtype.element() : list[0]->dtype;
                  return Call::make(dtype, CallKind::intrinsic, std::string(callee.text), std::move(list));
                }));
}

std::vector<Expr> Parser::indices(Expr* mask) {
  expect("[");
  int depth = 0;
  std::vector<Expr> list;
  if (!is("]") && !is("if")) {
    do {
      list.push_back(index());
      depth = std::max(depth, expr_depth_);
    } while (accept(","));
  }
  if (accept("if")) {
    *mask = expr();
    depth = std::max(depth, expr_depth_);
  }
  expect("]");
  expr_depth_ = depth;
  return list;
}

Expr Parser::load(const Token& token) {
  const Buffer source = buffer(token);
  Expr mask;
  std::vector<Expr> at = indices(&mask);
  return deeper(token, expr_depth_, checked(token, [&] { return Load::make(source, std::move(at), std::move(mask)); }));
}

Expr Parser::index() {
  const Token token = peek();
  Expr e = expr();
  if (e->dtype.element() != i64)
    source_.fail(token.offset, fmt::format("expected an index of i64, found {}", to_string(e->dtype)));
  return e;
}

}  // namespace lathe::text
