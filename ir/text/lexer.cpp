#include "ir/text/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"

namespace lathe::text {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_word(char c) {
  return is_letter(c) || is_digit(c);
}
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {}

  std::vector<Token> run() {
    for (;;) {
      skip_blank();
      const size_t begin = at_;
      if (begin == text_.size()) {
        tokens_.push_back({TokenKind::end, {}, begin});
        return std::move(tokens_);
      }
      const TokenKind kind = next();
      tokens_.push_back({kind, text_.substr(begin, at_ - begin), begin});
    }
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void skip_blank() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  TokenKind next() {
    const char c = peek();
    if (is_letter(c)) {
      while (is_word(peek())) ++at_;
      return TokenKind::word;
    }
    if (is_digit(c)) return number();
    if (c == '"' || c == '`') return quoted(c);
    constexpr std::string_view pairs[] = {":+", "->", "..", "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "//"};
    if (std::find(std::begin(pairs), std::end(pairs), text_.substr(at_, 2)) != std::end(pairs)) {
      at_ += 2;
      return TokenKind::symbol;
    }
    constexpr std::string_view symbols = "()[]{},:=<>|^&+-*/%!~@";
    if (symbols.find(c) == std::string_view::npos) {
      const bool printable = c > 32 && c < 127;
      source_.fail(at_, printable
                            ? fmt::format("expected a token, found the character '{}'", c)
                            : fmt::format("expected a token, found the byte {:#04x}", static_cast<unsigned char>(c)));
    }
    ++at_;
    return TokenKind::symbol;
  }

  TokenKind number() {
    if (peek() == '0' && peek(1) == 'x') {
      at_ += 2;
      while (is_word(peek())) ++at_;
      return TokenKind::number;
    }
    while (is_digit(peek())) ++at_;
    if (peek() == '.' && is_digit(peek(1))) {
      ++at_;
      while (is_digit(peek())) ++at_;
    }
    const size_t sign = peek(1) == '-' || peek(1) == '+' ? 1 : 0;
    if (peek() == 'e' && is_digit(peek(1 + sign))) {
      at_ += 1 + sign;
      while (is_digit(peek())) ++at_;
    }
    while (is_word(peek())) ++at_;
    return TokenKind::number;
  }

  TokenKind quoted(char quote) {
    const size_t begin = at_++;
    for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == quote) {
        ++at_;
        return quote == '"' ? TokenKind::string : TokenKind::quoted_name;
      }
      if (text_[at_] != '\\') continue;
      const char c = peek(1);
      const bool hex = c == 'x' && hex_digit(peek(2)) >= 0 && hex_digit(peek(3)) >= 0;
      if (!hex && c != quote && c != '\\' && c != 'n' && c != 't') {
        source_.fail(at_, fmt::format("expected an escape (\\{} \\\\ \\n \\t \\xHH), found another", quote));
      }
      at_ += hex ? 3 : 1;
    }
    source_.fail(begin, fmt::format("expected a closing {}, found the end of the line", quote));
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

void Source::fail(size_t offset, const std::string& message) const {
  offset = std::min(offset, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  const size_t newline = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  const size_t end = std::min(text.find('\n', offset), text.size());
  // A long line shows only what stands around the place.
  constexpr size_t before = 80, after = 60;
  const size_t from = offset - begin > before ? offset - before : begin;
  std::string shown(text.substr(from, std::min(end, offset + after) - from));
  for (char& c : shown) {
    if (c < 32 || c == 127) c = static_cast<unsigned char>(c) >= 128 ? '?' : ' ';
  }
  throw InputError(Mistake::syntax, fmt::format("{}:{}:{}: {}\n  {}\n  {}^", file, line, offset - begin + 1, message,
                                                shown, std::string(offset - from, ' ')));
}

std::vector<Token> tokenize(const Source& source) {
  return Lexer(source).run();
}

std::string unquote(std::string_view text) {
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    ++i;
    if (text[i] == 'x') {
      out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
    }
  }
  return out;
}

}  // namespace lathe::text
