#include <fmt/format.h>

#include <limits>

#include "ir/text/parser.h"
#include "ir/text/syntax.h"

namespace lathe::text {
namespace {

constexpr int max_depth = 2000;

std::optional<ForKind> for_kind(std::string_view word) {
  for (const ForKind kind : {ForKind::parallel, ForKind::vectorized, ForKind::unrolled, ForKind::bound}) {
    if (word == to_string(kind)) return kind;
  }
  return std::nullopt;
}

std::optional<IterKind> iter_kind(std::string_view word) {
  for (const IterKind kind : {IterKind::space, IterKind::reduce, IterKind::ordered, IterKind::opaque}) {
    if (word == to_string(kind)) return kind;
  }
  return std::nullopt;
}

}  // namespace

void Parser::deepen(const Token& at) {
  if (++stmt_depth_ > max_depth) fail(at, "less deeply nested statements");
}

Stmt Parser::braced() {
  expect("{");
  const size_t mark = open_scope();
  Stmt body = list();
  close_scope(mark);
  expect("}");
  return body;
}

Stmt Parser::list() {
  const Level level(*this, 4);
  struct OpenLet {
    Token at;
    VarRef variable;
    Expr value;
    std::vector<Stmt> before;
  };
  std::vector<OpenLet> lets;
  std::vector<Stmt> stmts;
  int depth = 1;
  while (!is("}")) {
    const Token at = peek();
    if (!accept("let")) {
      stmts.push_back(stmt());
      depth = std::max(depth, stmt_depth_);
      continue;
    }
    const Token name = name_token("a variable's name");
    std::optional<DType> dtype;
    if (accept(":")) dtype = type();
    expect("=");
    Expr value = expr();
    if (dtype && value->dtype != *dtype) {
      source_.fail(at.offset,
                   fmt::format("expected a value of {}, found {}", to_string(*dtype), to_string(value->dtype)));
    }
    const size_t mark = open_scope();
    const VarRef variable = declare_variable(name, value->dtype);
    if (is("{")) {
      Stmt body = braced();
      close_scope(mark);
      deepen(at);
      stmts.push_back(checked(at, [&] { return Let::make(variable, value, body); }));
      depth = std::max(depth, stmt_depth_);
    } else {
      lets.push_back({at, variable, std::move(value), std::move(stmts)});
      stmts.clear();
    }
  }
  stmt_depth_ = depth;
  // A Let without braces reaches to the end of the list.
  while (!lets.empty()) {
    OpenLet& open = lets.back();
    deepen(open.at);
    Stmt body = Seq::make(std::move(stmts));
    stmts = std::move(open.before);
    stmts.push_back(checked(open.at, [&] { return Let::make(open.variable, open.value, std::move(body)); }));
    lets.pop_back();
  }
  return Seq::make(std::move(stmts));
}

Stmt Parser::stmt() {
  const Token at = peek();
  stmt_depth_ = 1;
  if (is("for") || for_kind(at.text)) return loop();
  if (is("block")) return block();
  if (is("if")) return conditional();
  if (accept("while")) {
    Expr condition = expr();
    Stmt body = braced();
    deepen(at);
    return checked(at, [&] { return While::make(std::move(condition), std::move(body)); });
  }
  if (accept("eval")) return Eval::make(expr());
  if (is("assert")) return assertion();
  if (at.kind == TokenKind::end || at.kind == TokenKind::symbol || at.kind == TokenKind::number)
    fail(at, "a statement or '}'");
  return store();
}

Stmt Parser::store() {
  const Token token = name_token("a statement");
  if (!is("[")) {
    if (!names_.contains(name_text(token))) {
      fail_unknown(
          token, "a statement",
          {"for", "parallel", "vectorized", "unrolled", "bound", "block", "let", "if", "while", "eval", "assert"});
    }
    fail(peek(), fmt::format("'[' behind {}, as in {}[i] = ..", token.text, token.text));
  }
  const Buffer target = buffer(token);
  Expr mask;
  std::vector<Expr> at = indices(&mask);
  expect("=");
  Expr value = expr();
  return checked(token, [&] { return Store::make(target, std::move(at), std::move(value), std::move(mask)); });
}

Stmt Parser::assertion() {
  const Token at = expect("assert");
  Expr condition = expr();
  expect(",", "and the message");
  std::string message = string("the message between double quotes");
  Expr offender;
  if (accept(",")) offender = expr();
  return checked(at, [&] { return Assert::make(std::move(condition), std::move(message), std::move(offender)); });
}

Stmt Parser::conditional() {
  struct Case {
    Token at;
    Expr condition;
    Stmt body;
    int depth;
  };
  std::vector<Case> cases;
  Stmt otherwise;
  int depth = 0;
  do {
    const Token at = expect("if");
    Expr condition = expr();
    Stmt body = braced();
    cases.push_back({at, std::move(condition), std::move(body), stmt_depth_});
    if (!accept("else")) break;
    if (is("if")) continue;
    otherwise = braced();
    depth = stmt_depth_;
    break;
  } while (true);
  for (; !cases.empty(); cases.pop_back()) {
    Case& last = cases.back();
    stmt_depth_ = std::max(depth, last.depth);
    deepen(last.at);
    depth = stmt_depth_;
    otherwise = checked(last.at, [&] { return If::make(last.condition, last.body, otherwise); });
  }
  return otherwise;
}

Range Parser::range() {
  expect("[");
  Expr min = index();
  expect(",");
  // The second number is the end, but behind a plus it is the extent. With a min of zero, both are one.
  const bool is_extent = accept("+");
  Expr extent = index();
  expect(")", "(the end is exclusive)");
  return {min, is_extent ? extent : extent - min};
}

std::vector<Range> Parser::ranges(const std::vector<VarRef>& variables) {
  for (const VarRef& variable : variables) {
    names_.try_emplace(variable->name, variable);
    scope_.push_back(variable->name);
  }
  std::vector<Range> result;
  do {
    result.push_back(range());
  } while (accept(","));
  return result;
}

Stmt Parser::loop() {
  const Token at = peek();
  const ForKind kind = for_kind(at.text).value_or(ForKind::serial);
  std::string thread_axis;
  if (kind != ForKind::serial) take();
  if (kind == ForKind::bound) {
    expect("(", "and the thread axis");
    thread_axis = string("the thread axis between double quotes");
    expect(")");
  }
  expect("for");
  const Token name = name_token("the loop variable");
  DType dtype = i64;
  if (accept(":")) dtype = type();
  expect("in");
  Range range = this->range();
  Annotations notes;
  if (accept("@")) notes = annotations();
  const size_t mark = open_scope();
  VarRef variable = declare_variable(name, dtype);
  Stmt body = braced();
  close_scope(mark);
  deepen(at);
  return checked(at, [&] {
    return For::make(std::move(variable), std::move(range.min), std::move(range.extent), kind, std::move(body),
                     std::move(notes), std::move(thread_axis));
  });
}

std::vector<Iter> Parser::iters(std::vector<Expr>* bindings, std::vector<Token>* names) {
  std::vector<Iter> result;
  expect("(", "and the block's iters");
  while (!is(")")) {
    const Token word = peek();
    const std::optional<IterKind> kind = iter_kind(word.text);
    if (!kind) fail(word, "the kind of an iter (space, reduce, ordered, opaque) or ')'");
    take();
    names->push_back(name_token("the iter's name"));
    DType dtype = i64;
    if (accept(":")) dtype = type();
    expect("in");
    Range domain = range();
    expect("=", "and the iter's binding");
    bindings->push_back(index());
    result.push_back({Var::make(name_text(names->back()), dtype), std::move(domain), *kind});
    if (!accept(",")) break;
  }
  expect(")");
  return result;
}

std::vector<VarRef> Parser::typed_names() {
  std::vector<VarRef> result;
  expect("(");
  while (!is(")")) {
    const Token name = name_token("a variable's name or ')'");
    result.push_back(declare_variable(name, accept(":") ? type() : i64));
    if (!accept(",")) break;
  }
  expect(")");
  return result;
}

Reducer Parser::reducer() {
  const size_t mark = open_scope();
  Reducer result;
  int depth = 0;
  result.lhs = typed_names();
  result.rhs = typed_names();
  expect("{");
  result.results = args("}", &depth);
  close_scope(mark);
  expect("identity");
  expect("{");
  result.identities = args("}", &depth);
  return result;
}

Stmt Parser::block() {
  const Token at = expect("block");
  Block::Fields f;
  if (!is("(")) f.name = name_text(name_token("the block's name or '('"));
  std::vector<Token> names;
  f.iters = iters(&f.bindings, &names);
  // Bindings, domains and the predicate stand outside the block: they see the loops but not the iters.
  if (accept("where")) f.predicate = expr();
  const size_t mark = open_scope();
  for (size_t i = 0; i < names.size(); ++i) declare(names[i], f.iters[i].variable);
  if (accept("reads")) f.reads = regions();
  if (accept("writes")) f.writes = regions();
  if (accept("@")) f.annotations = annotations();
  expect("{");
  while (accept("alloc")) {
    const Token name = name_token("the buffer's name");
    f.allocs.push_back(declaration(name));
  }
  if (is("reducer")) {
    take();
    f.reducer = reducer();
  }
  int depth = 0;
  if (accept("init")) {
    f.init = braced();
    depth = stmt_depth_;
  }
  f.body = list();
  close_scope(mark);
  expect("}");
  stmt_depth_ = std::max(stmt_depth_, depth);
  deepen(at);
  return checked(at, [&] { return Block::make(std::move(f)); });
}

Region Parser::region() {
  const Token name = name_token("a buffer");
  Region result;
  result.buffer = buffer(name);
  expect("[");
  if (is("..") && is("]", 1)) {
    take();
    result = full_region(result.buffer);
  }
  while (!is("]")) {
    if (is("..")) {
      const Token at = take();
      const size_t d = result.ranges.size();
      if (d >= result.buffer->rank())
        fail(at, fmt::format("at most {} ranges of {}", result.buffer->rank(), name.text));
      result.ranges.push_back({lathe::index(0), result.buffer->shape[d]});
    } else {
      Expr min = index();
      result.ranges.push_back({std::move(min), accept(":+") ? index() : lathe::index(1)});
    }
    if (!accept(",")) break;
  }
  expect("]");
  const bool said = is("inferred") || is("checked") || is("trusted");
  if (!said) return result;
  const std::string_view word = take().text;
  result.provenance = word == "checked"   ? Provenance::checked
                      : word == "trusted" ? Provenance::trusted
                                          : Provenance::inferred;
  if (peek().kind == TokenKind::string) result.block = unquote(take().text);
  return result;
}

std::vector<Region> Parser::regions() {
  std::vector<Region> result;
  do {
    result.push_back(region());
  } while (accept(","));
  return result;
}

Buffer Parser::declaration(const Token& name) {
  expect(":", "and the buffer's type");
  const DType dtype = type();
  const auto index_list = [&] {
    expect("[");
    std::vector<Expr> result;
    while (!is("]")) {
      result.push_back(index());
      if (!accept(",")) break;
    }
    expect("]");
    return result;
  };
  std::vector<Expr> shape = index_list(), strides;
  Expr offset;
  std::string where = space::global;
  int alignment = 0;
  std::optional<Region> view_of;
  for (bool more = true; more;) {
    if (accept("strides")) {
      strides = index_list();
    } else if (accept("offset")) {
      offset = index();
    } else if (accept("@")) {
      where = name_text(name_token("a memory space"));
    } else if (accept("align")) {
      alignment = static_cast<int>(integer("a number of bytes", 0, std::numeric_limits<int>::max()));
    } else if (accept("view_of")) {
      view_of = region();
    } else {
      more = false;
    }
  }
  Buffer result = checked(name, [&] {
    return BufferNode::make(name_text(name), dtype, std::move(shape), std::move(where), std::move(strides),
                            std::move(offset), alignment, std::move(view_of));
  });
  declare(name, result);
  return result;
}

}  // namespace lathe::text
