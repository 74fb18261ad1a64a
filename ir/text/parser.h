#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/device.h"
#include "ir/error.h"
#include "ir/func.h"
#include "ir/program.h"
#include "ir/text/lexer.h"

namespace lathe::text {

/// Reads .tir by recursive descent. Hostile text cannot exhaust the stack: the parser's own recursion and the depth of
/// what it builds are both limited.
class Parser {
 public:
  Parser(std::string_view text, std::string_view file);

  Func func();
  Program program();
  Device device();
  /// `[min, end), [min, end) ..` over the given variables, up to the end of the text.
  std::vector<Range> ranges(const std::vector<VarRef>& variables);
  void end_of_file();

 private:
  using Name = std::variant<VarRef, Buffer>;

  // Tokens and errors (parser.cpp).
  const Token& peek(size_t ahead = 0) const;
  Token take();
  bool is(std::string_view text, size_t ahead = 0) const;
  bool accept(std::string_view text);
  Token expect(std::string_view text, std::string_view why = {});
  [[noreturn]] void fail(const Token& at, const std::string& expected) const;
  [[noreturn]] void fail_unknown(const Token& at, const std::string& what, const std::vector<std::string>& known) const;
  /// Runs `make`, and gives what it refuses the place of `at`.
  template <class F>
  auto checked(const Token& at, F&& make) const {
    try {
      return make();
    } catch (const InputError& error) {
      source_.fail(at.offset, "expected something well-formed, found " + error.message());
    }
  }

  // Names and small pieces (parser.cpp).
  Token name_token(const std::string& expected);
  static std::string name_text(const Token& token);
  std::string string(const std::string& expected);
  std::int64_t integer(const std::string& expected, std::int64_t min, std::int64_t max);
  DType type();
  void declare(const Token& token, const Name& name);
  VarRef declare_variable(const Token& token, DType dtype);
  VarRef variable(const Token& token) const;
  Buffer buffer(const Token& token) const;
  std::vector<std::string> known(bool buffers) const;
  size_t open_scope() const { return scope_.size(); }
  void close_scope(size_t mark);
  Annotations annotations();
  Annotation annotation();

  // Expressions (parse_expr.cpp).
  Expr expr(int precedence = 0);
  Expr unary();
  Expr primary();
  Expr number(const Token& token, bool negative);
  Expr hexadecimal(const Token& token, bool negative);
  Expr special_float(bool negative);
  Expr call();
  Expr typed_call(const Token& callee, DType dtype, CallKind kind);
  Expr shuffle();
  Expr load(const Token& token);
  std::vector<Expr> args(std::string_view close, int* depth);
  /// Indices and the mask between brackets.
  std::vector<Expr> indices(Expr* mask);
  /// An i64 expression.
  Expr index();
  int lanes();
  Expr deeper(const Token& at, int depth, Expr e);

  // Statements (parse_stmt.cpp).
  Stmt braced();
  Stmt list();
  Stmt stmt();
  Stmt loop();
  Stmt block();
  Stmt conditional();
  Stmt store();
  Stmt assertion();
  Stmt let(const Token& at);
  std::vector<Iter> iters(std::vector<Expr>* bindings, std::vector<Token>* names);
  Reducer reducer();
  std::vector<VarRef> typed_names();
  Range range();
  Region region();
  std::vector<Region> regions();
  std::optional<Buffer> view();
  /// What follows a buffer's name: its type, layout, space and view.
  Buffer declaration(const Token& name);
  void deepen(const Token& at);

  // Funcs and Programs (parse.cpp).
  std::vector<Param> params();
  void declare_scalars();
  std::vector<Fact> facts();
  void memory();
  std::vector<Value> values(std::unordered_map<std::string, int>* numbers);
  std::vector<int> value_list(const std::unordered_map<std::string, int>& numbers);
  int value(const std::unordered_map<std::string, int>& numbers);

  // Devices (parse_device.cpp).
  CacheLevel cache_level();
  MemorySpace memory_space();
  /// `{a, b}`, each a name or a string.
  std::vector<std::string> names(const std::string& what);

  /// Counts one turn of the parser's own recursion while it lives.
  class Level {
   public:
    explicit Level(Parser& parser, int weight = 1);
    ~Level() { parser_.level_ -= weight_; }
    Level(const Level&) = delete;

   private:
    Parser& parser_;
    const int weight_;
  };

  Source source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int level_ = 0;
  int expr_depth_ = 0;  ///< of the expression read last
  int stmt_depth_ = 0;  ///< of the statement read last
  std::unordered_map<std::string, Name> names_;
  std::vector<std::string> scope_;  ///< names in order of declaration
  std::unordered_map<std::string, VarRef> symbols_;
};

}  // namespace lathe::text
