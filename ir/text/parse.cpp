#include "ir/text/parse.h"

#include <fmt/format.h>

#include <limits>

#include "ir/text/parser.h"

namespace lathe {
namespace text {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       most = std::numeric_limits<std::int64_t>::max();

void Parser::end_of_file() {
  if (peek().kind != TokenKind::end) fail(peek(), "the end of the file");
}

/// Shapes may use scalars that stand behind them in the list, so the scalars are declared first.
void Parser::declare_scalars() {
  int depth = 0;
  for (size_t ahead = 0;; ++ahead) {
    const Token& token = peek(ahead);
    if (token.kind == TokenKind::end) return;
    if (is("(", ahead) || is("[", ahead) || is("{", ahead)) ++depth;
    if (is(")", ahead) || is("]", ahead) || is("}", ahead)) --depth;
    if (depth == 0) return;
    const bool begins = depth == 1 && (is("(", ahead) || is(",", ahead));
    if (!begins || !is(":", ahead + 2) || is("[", ahead + 4)) continue;
    const size_t back = at_;
    at_ += ahead + 1;
    const Token name = name_token("a parameter's name");
    expect(":");
    const DType dtype = type();
    const auto symbol = symbols_.find(name_text(name));
    if (symbol != symbols_.end() && symbol->second->dtype == dtype) {
      declare(name, symbol->second);
    } else {
      declare_variable(name, dtype);
    }
    at_ = back;
  }
}

std::vector<Param> Parser::params() {
  if (!is("(")) fail(peek(), "'(' and the parameters");
  declare_scalars();
  take();
  std::vector<Param> result;
  while (!is(")")) {
    const Token name = name_token("a parameter's name or ')'");
    if (!is("[", 2)) {
      expect(":", "and the parameter's type");
      type();
      result.emplace_back(variable(name));
    } else {
      result.emplace_back(declaration(name));
    }
    if (!accept(",")) break;
  }
  expect(")");
  return result;
}

std::vector<Fact> Parser::facts() {
  std::vector<Fact> result;
  expect("{");
  while (!is("}")) {
    Fact fact;
    fact.variable = variable(name_token("a parameter's name or '}'"));
    if (accept("in")) {
      expect("[");
      if (!is(",")) fact.min = integer("the least value or ','", least, most);
      expect(",");
      if (!is("]")) fact.max = integer("the greatest value or ']'", least, most);
      expect("]", "(both ends are inclusive)");
    }
    if (accept("multiple_of")) fact.multiple_of = integer("a factor", least, most);
    if (accept("equals")) fact.equals = expr();
    result.push_back(std::move(fact));
    if (!accept(",")) break;
  }
  expect("}");
  return result;
}

void Parser::memory() {
  expect("{");
  while (!is("}")) declaration(name_token("a buffer's name or '}'"));
  expect("}");
}

Func Parser::func() {
  const Token at = expect("func");
  const size_t mark = open_scope();
  std::string name = name_text(name_token("the function's name"));
  std::vector<Param> params = this->params();
  Stage stage = Stage::begin;
  if (accept("stage")) {
    const Token word = peek();
    const std::optional<Stage> named = word.kind == TokenKind::word ? parse_stage(word.text) : std::nullopt;
    if (!named) fail_unknown(word, "a stage", stage_names());
    take();
    stage = *named;
  }
  std::vector<Fact> facts;
  Annotations attrs;
  if (accept("facts")) facts = this->facts();
  if (accept("attrs")) attrs = annotations();
  if (accept("memory")) memory();
  if (!is("{")) fail(peek(), "'{' and the body");
  Stmt body = braced();
  close_scope(mark);
  return checked(at, [&] {
    return FuncNode::make(std::move(name), std::move(params), std::move(body), std::move(facts), std::move(attrs),
                          stage);
  });
}

std::vector<Value> Parser::values(std::unordered_map<std::string, int>* numbers) {
  std::vector<Value> result;
  expect("{");
  while (!is("}")) {
    const Token name = name_token("a value's name or '}'");
    expect(":", "and the value's type");
    Value value;
    value.name = name_text(name);
    value.dtype = type();
    expect("[");
    while (!is("]")) {
      value.shape.push_back(index());
      if (!accept(",")) break;
    }
    expect("]");
    if (!numbers->try_emplace(value.name, static_cast<int>(result.size())).second) fail(name, "each value once");
    result.push_back(std::move(value));
  }
  expect("}");
  return result;
}

int Parser::value(const std::unordered_map<std::string, int>& numbers) {
  const Token name = name_token("a value's name");
  const auto found = numbers.find(name_text(name));
  if (found != numbers.end()) return found->second;
  std::vector<std::string> known(numbers.size());
  for (const auto& [text, number] : numbers) known[static_cast<size_t>(number)] = text;
  fail_unknown(name, "a value", known);
}

std::vector<int> Parser::value_list(const std::unordered_map<std::string, int>& numbers) {
  std::vector<int> result;
  expect("{");
  while (!is("}")) {
    result.push_back(value(numbers));
    if (!accept(",")) break;
  }
  expect("}");
  return result;
}

Program Parser::program() {
  Program program;
  expect("program");
  expect("{");
  if (accept("symbols")) {
    expect("{");
    while (!is("}")) {
      const Token name = name_token("a symbol's name or '}'");
      symbols_[name_text(name)] = declare_variable(name, accept(":") ? type() : i64);
      if (!accept(",")) break;
    }
    expect("}");
  }
  std::unordered_map<std::string, int> numbers;
  expect("values");
  program.values = values(&numbers);
  close_scope(0);
  expect("inputs");
  program.inputs = value_list(numbers);
  expect("outputs");
  program.outputs = value_list(numbers);
  constexpr int most_int = std::numeric_limits<int>::max();
  std::vector<Token> places;
  while (accept("edge")) {
    Edge edge;
    edge.value = value(numbers);
    expect("->");
    places.push_back(expect("func"));
    edge.func = static_cast<int>(integer("the number of a func", 0, most_int));
    expect("param");
    edge.param = static_cast<int>(integer("the number of a buffer parameter", 0, most_int));
    program.edges.push_back(edge);
  }
  expect("}");
  while (peek().kind != TokenKind::end) program.funcs.push_back(func());
  for (size_t i = 0; i < program.edges.size(); ++i) {
    const Edge& edge = program.edges[i];
    const auto func = static_cast<size_t>(edge.func);
    if (func >= program.funcs.size()) {
      source_.fail(places[i].offset,
                   fmt::format("expected one of {} funcs, found func {}", program.funcs.size(), func));
    }
    const size_t count = buffer_params(program.funcs[func]).size();
    if (static_cast<size_t>(edge.param) >= count) {
      source_.fail(places[i].offset, fmt::format("expected one of the {} buffer parameters of {}, found param {}",
                                                 count, program.funcs[func]->name, edge.param));
    }
  }
  return program;
}

}  // namespace text

Func parse_func(std::string_view text, std::string_view file) {
  text::Parser parser(text, file);
  Func func = parser.func();
  parser.end_of_file();
  return func;
}

std::vector<Range> parse_ranges(std::string_view text, const std::vector<VarRef>& variables, std::string_view file) {
  // Of a buffer without dimensions there are none.
  if (text.find_first_not_of(" \t\n") == std::string_view::npos) return {};
  text::Parser parser(text, file);
  std::vector<Range> ranges = parser.ranges(variables);
  parser.end_of_file();
  return ranges;
}

Program parse_program(std::string_view text, std::string_view file) {
  text::Parser parser(text, file);
  Program program = parser.program();
  parser.end_of_file();
  return program;
}

}  // namespace lathe
