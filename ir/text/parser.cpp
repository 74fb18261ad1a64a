#include "ir/text/parser.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "ir/text/syntax.h"

namespace lathe::text {
namespace {

/// The parser's own recursion, in units of about four kilobytes of stack in the most wasteful build (address
/// sanitizer).
constexpr int max_level = 1000;
constexpr size_t max_listed = 24;

}  // namespace

Parser::Parser(std::string_view text, std::string_view file) : source_{text, file}, tokens_(tokenize(source_)) {}

Parser::Level::Level(Parser& parser, int weight) : parser_(parser), weight_(weight) {
  if (parser.level_ + weight > max_level) parser.fail(parser.peek(), "less deeply nested text");
  parser.level_ += weight;
}

const Token& Parser::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Parser::take() {
  const Token token = peek();
  if (token.kind != TokenKind::end) ++at_;
  return token;
}

bool Parser::is(std::string_view text, size_t ahead) const {
  const Token& token = peek(ahead);
  return (token.kind == TokenKind::word || token.kind == TokenKind::symbol) && token.text == text;
}

bool Parser::accept(std::string_view text) {
  if (!is(text)) return false;
  ++at_;
  return true;
}

Token Parser::expect(std::string_view text, std::string_view why) {
  if (!is(text)) fail(peek(), fmt::format("'{}'{}{}", text, why.empty() ? "" : " ", why));
  return take();
}

void Parser::fail(const Token& at, const std::string& expected) const {
  const std::string found = at.kind == TokenKind::end ? "the end of the file"
                            : at.kind == TokenKind::string || at.kind == TokenKind::quoted_name
                                ? std::string(at.text)
                                : fmt::format("'{}'", at.text);
  source_.fail(at.offset, fmt::format("expected {}, found {}", expected, found));
}

void Parser::fail_unknown(const Token& at, const std::string& what, const std::vector<std::string>& known) const {
  const std::string nearest = nearest_name(name_text(at), known);
  std::string hint = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  hint += known.empty() ? "; none is known here" : (nearest.empty() ? "; known: " : " known: ");
  for (size_t i = 0; i < known.size() && i < max_listed; ++i) hint += (i == 0 ? "" : ", ") + known[i];
  if (known.size() > max_listed) hint += fmt::format(" and {} more", known.size() - max_listed);
  source_.fail(at.offset, fmt::format("expected {}, found '{}'{}", what, name_text(at), hint));
}

Token Parser::name_token(const std::string& expected) {
  const Token& token = peek();
  if (token.kind == TokenKind::quoted_name) return take();
  if (token.kind != TokenKind::word) fail(token, expected);
  if (is_keyword(token.text)) fail(token, expected + " (a keyword is a name only between backquotes)");
  return take();
}

std::string Parser::name_text(const Token& token) {
  return token.kind == TokenKind::quoted_name ? unquote(token.text) : std::string(token.text);
}

std::string Parser::string(const std::string& expected) {
  if (peek().kind != TokenKind::string) fail(peek(), expected);
  return unquote(take().text);
}

std::int64_t Parser::integer(const std::string& expected, std::int64_t min, std::int64_t max) {
  const bool negative = is("-") && peek(1).kind == TokenKind::number;
  const Token token = peek(negative ? 1 : 0);
  std::uint64_t magnitude = 0;
  const char* end = token.text.data() + token.text.size();
  const bool number = token.kind == TokenKind::number;
  const auto [stop, error] = std::from_chars(token.text.data(), number ? end : token.text.data(), magnitude);
  const std::uint64_t limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) + (negative ? 1 : 0);
  if (!number || error != std::errc() || stop != end || magnitude > limit) fail(token, expected);
  const auto value = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
  if (value < min || value > max) fail(token, expected);
  if (negative) take();
  take();
  return value;
}

DType Parser::type() {
  const Token token = peek();
  if (token.kind != TokenKind::word) fail(token, "a type");
  const std::optional<DType> dtype = parse_dtype(token.text);
  if (!dtype) {
    std::vector<std::string> names;
    for (const DType d : all_dtypes) names.push_back(to_string(d));
    fail_unknown(token, "a type", names);
  }
  take();
  return *dtype;
}

void Parser::declare(const Token& token, const Name& name) {
  std::string text = name_text(token);
  if (!names_.try_emplace(text, name).second) {
    source_.fail(token.offset, fmt::format("expected a new name, found '{}', which is declared already", text));
  }
  scope_.push_back(std::move(text));
}

VarRef Parser::declare_variable(const Token& token, DType dtype) {
  VarRef variable = Var::make(name_text(token), dtype);
  declare(token, variable);
  return variable;
}

void Parser::close_scope(size_t mark) {
  while (scope_.size() > mark) {
    names_.erase(scope_.back());
    scope_.pop_back();
  }
}

std::vector<std::string> Parser::known(bool buffers) const {
  std::vector<std::string> result;
  for (const std::string& name : scope_) {
    if (std::holds_alternative<Buffer>(names_.at(name)) == buffers) result.push_back(name);
  }
  return result;
}

VarRef Parser::variable(const Token& token) const {
  const auto found = names_.find(name_text(token));
  if (found == names_.end()) fail_unknown(token, "a variable", known(false));
  if (const VarRef* variable = std::get_if<VarRef>(&found->second)) return *variable;
  source_.fail(token.offset, fmt::format("expected a variable, found the buffer '{}'; an element of it is {}[..]",
                                         name_text(token), token.text));
}

Buffer Parser::buffer(const Token& token) const {
  const auto found = names_.find(name_text(token));
  if (found == names_.end()) fail_unknown(token, "a buffer", known(true));
  if (const Buffer* buffer = std::get_if<Buffer>(&found->second)) return *buffer;
  source_.fail(token.offset, fmt::format("expected a buffer, found the variable '{}'", name_text(token)));
}

Annotation Parser::annotation() {
  if (peek().kind == TokenKind::string) return unquote(take().text);
  const bool negative = accept("-");
  const Token token = peek();
  if (is("inf") || is("nan")) {
    const Expr value = special_float(negative);
    if (value->dtype != f64) fail(token, "an f64");
    return value.as<FloatImm>()->value;
  }
  if (token.kind != TokenKind::number) fail(token, "an integer, a float or a string");
  const char* end = token.text.data() + token.text.size();
  if (token.text.find_first_of(".e") == std::string_view::npos) {
    if (negative) --at_;
    constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                           most = std::numeric_limits<std::int64_t>::max();
    return integer("an integer of 64 bits, a float or a string", least, most);
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (error != std::errc() || stop != end) fail(token, "a float without suffix");
  take();
  return negative ? -value : value;
}

Annotations Parser::annotations() {
  Annotations result;
  expect("{");
  while (!is("}")) {
    const Token key = name_token("a key or '}'");
    expect(":", "behind the key");
    if (!result.try_emplace(name_text(key), annotation()).second) fail(key, "each key once");
    if (!accept(",")) break;
  }
  expect("}");
  return result;
}

}  // namespace lathe::text
