#include "ir/stmt.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace lathe {
namespace {

#define LATHE_NAME(name) #name,
constexpr std::string_view stmt_names[] = {LATHE_STMT_NODES(LATHE_NAME)};
#undef LATHE_NAME

/// A macro, so that the message is only made when it is needed: every node passes here.
#define LATHE_EXPECT(condition, message)                        \
  do {                                                          \
    if (!(condition)) throw InputError(Mistake::type, message); \
  } while (false)

}  // namespace

std::string_view to_string(StmtKind kind) {
  return stmt_names[static_cast<int>(kind)];
}

std::string_view to_string(ForKind kind) {
  constexpr std::string_view names[] = {"serial", "parallel", "vectorized", "unrolled", "bound"};
  return names[static_cast<int>(kind)];
}

std::string_view to_string(IterKind kind) {
  constexpr std::string_view names[] = {"space", "reduce", "ordered", "opaque"};
  return names[static_cast<int>(kind)];
}

Stmt For::make(VarRef variable, Expr min, Expr extent, ForKind for_kind, Stmt body, Annotations annotations,
               std::string thread_axis) {
  LATHE_EXPECT(variable && variable->dtype == i64 && min->dtype == i64 && extent->dtype == i64,
               "for: variable, min and extent must be i64");
  LATHE_EXPECT(static_cast<bool>(body), "for: no body");
  LATHE_EXPECT((for_kind == ForKind::bound) == !thread_axis.empty(),
               "for: a thread axis belongs to a bound loop, and only there");
  return Stmt(new For(std::move(variable), std::move(min), std::move(extent), for_kind, std::move(body),
                      std::move(annotations), std::move(thread_axis)));
}

Stmt Block::make(Fields f) {
  LATHE_EXPECT(f.iters.size() == f.bindings.size(),
               fmt::format("block {}: {} iters but {} bindings", f.name, f.iters.size(), f.bindings.size()));
  for (size_t i = 0; i < f.iters.size(); ++i) {
    LATHE_EXPECT(f.iters[i].variable->dtype == i64 && f.bindings[i] && f.bindings[i]->dtype.element() == i64,
                 fmt::format("block {}: iter {} and its binding must be i64", f.name, f.iters[i].variable->name));
  }
  LATHE_EXPECT(!f.predicate || f.predicate->dtype.is_bool(),
               fmt::format("block {}: the predicate is not bool", f.name));
  LATHE_EXPECT(static_cast<bool>(f.body), fmt::format("block {}: no body", f.name));
  if (f.reducer) {
    const size_t n = f.reducer->results.size();
    LATHE_EXPECT(f.reducer->lhs.size() == n && f.reducer->rhs.size() == n && f.reducer->identities.size() == n && n > 0,
                 fmt::format("block {}: the reducer's tuples differ in length", f.name));
  }
  return Stmt(new Block(std::move(f)));
}

Stmt Store::make(Buffer buffer, std::vector<Expr> indices, Expr value, Expr mask) {
  const Expr access = Load::make(buffer, indices, mask);
  LATHE_EXPECT(access->dtype == value->dtype, fmt::format("store to {}: the value is {}, expected {}", buffer->name,
                                                          to_string(value->dtype), to_string(access->dtype)));
  return Stmt(new Store(std::move(buffer), std::move(indices), std::move(value), std::move(mask)));
}

Stmt Let::make(VarRef variable, Expr value, Stmt body) {
  LATHE_EXPECT(variable->dtype == value->dtype, fmt::format("let {}: the variable is {}, the value {}", variable->name,
                                                            to_string(variable->dtype), to_string(value->dtype)));
  LATHE_EXPECT(static_cast<bool>(body), "let: no body");
  return Stmt(new Let(std::move(variable), std::move(value), std::move(body)));
}

Stmt If::make(Expr condition, Stmt then_case, Stmt else_case) {
  LATHE_EXPECT(condition->dtype.element() == boolean, "if: the condition is not bool");
  LATHE_EXPECT(static_cast<bool>(then_case), "if: no body");
  return Stmt(new If(std::move(condition), std::move(then_case), std::move(else_case)));
}

Stmt While::make(Expr condition, Stmt body) {
  LATHE_EXPECT(condition->dtype == boolean, "while: the condition is not a scalar bool");
  LATHE_EXPECT(static_cast<bool>(body), "while: no body");
  return Stmt(new While(std::move(condition), std::move(body)));
}

Stmt Seq::make(std::vector<Stmt> stmts) {
  std::vector<Stmt> flat;
  flat.reserve(stmts.size());
  for (Stmt& s : stmts) {
    if (const Seq* inner = s.as<Seq>()) {
      flat.insert(flat.end(), inner->stmts.begin(), inner->stmts.end());
    } else if (s) {
      flat.push_back(std::move(s));
    }
  }
  if (flat.size() == 1) return flat[0];
  return Stmt(new Seq(std::move(flat)));
}

Stmt Eval::make(Expr value) {
  return Stmt(new Eval(std::move(value)));
}

Stmt Assert::make(Expr condition, std::string message, Expr index) {
  LATHE_EXPECT(condition->dtype.is_bool(), "assert: the condition is not bool");
  LATHE_EXPECT(!index || index->dtype == i64.with_lanes(condition->dtype.lanes),
               "assert: the index must be i64 with the condition's lanes");
  return Stmt(new Assert(std::move(condition), std::move(message), std::move(index)));
}

}  // namespace lathe
