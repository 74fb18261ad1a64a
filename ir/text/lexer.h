#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::text {

enum class TokenKind : std::uint8_t { word, quoted_name, string, number, symbol, end };

/// A piece of the text. `text` points into the source, quotes included.
struct Token {
  TokenKind kind;
  std::string_view text;
  size_t offset;
};

/// The text being read, for positions in messages.
struct Source {
  std::string_view text;
  std::string_view file;

  /// Throws InputError(syntax): "FILE:LINE:COLUMN: message", then the line and a caret below the place.
  [[noreturn]] void fail(size_t offset, const std::string& message) const;
};

/// Every token of `source`, an `end` behind them. `#` begins a comment that runs to the end of its line.
std::vector<Token> tokenize(const Source& source);

/// What a quoted name or string stands for, its escapes resolved.
std::string unquote(std::string_view text);

}  // namespace lathe::text
