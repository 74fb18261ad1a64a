#pragma once
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

/// Base of everything that Lathe throws. The three children are told apart by type: whoever catches one knows whose
/// move it is. `what()` is the whole message, one line or more, ready to show to a person.
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& message() const noexcept { return message_; }

 private:
  std::string message_;
};

/// What a caller's mistake is about; a binding maps it to its language's own error.
enum class Mistake {
  value,  ///< a shape, a number or a name is wrong: Python's ValueError
  type,   ///< a dtype or a kind of object is wrong: Python's TypeError
  index,  ///< an index lies outside: Python's IndexError
  syntax  ///< text that does not parse: Python's SyntaxError
};

/// The caller's mistake. The message says what was given, what was expected, and names the operator.
class InputError : public Error {
 public:
  InputError(Mistake mistake, std::string message) : Error(std::move(message)), mistake(mistake) {}
  Mistake mistake;
};

/// A well-formed request that cannot be carried out on this program: the message names the primitive or pass, the
/// number of the condition that fails, and the culprit.
class Refusal : public Error {
 public:
  Refusal(std::string subject, int condition, std::string message)
      : Error(std::move(message)), subject(std::move(subject)), condition(condition) {}
  std::string subject;
  int condition;
};

/// Lathe's own bug. The message asks for a report and carries the IR where there is one.
class Bug : public Error {
 public:
  explicit Bug(const std::string& message);
};

/// The name among `known` nearest to `given` by edit distance, or "" when none is near (over a third of its length).
std::string nearest_name(std::string_view given, std::span<const std::string> known);

/// "unknown <what> '<given>'; did you mean '<nearest>'? known: a, b, c": the message for a name that does not exist.
std::string unknown_name(std::string_view what, std::string_view given, std::span<const std::string> known);

[[noreturn]] void report_bug(const char* condition, const char* file, int line, const std::string& detail);

/// Checks Lathe's own invariant, in every build; a failure is a Bug.
#define LATHE_CHECK(condition, detail)                                             \
  do {                                                                             \
    if (!(condition)) ::lathe::report_bug(#condition, __FILE__, __LINE__, detail); \
  } while (false)

}  // namespace lathe
