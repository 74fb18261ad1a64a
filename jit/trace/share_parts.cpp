#include "jit/trace/share_parts.h"

#include <algorithm>

#include "ir/visitor.h"

namespace lathe {
namespace {

/// Nodes of a part that is worth a variable.
constexpr int least_part_nodes = 8;

/// Takes off the budget what it meets, as often as that occurs, until none is left.
class Length : public Visitor {
 public:
  explicit Length(int budget) : budget_(budget) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (--budget_ >= 0) Visitor::visit(e);
  }
  bool is_spent() const { return budget_ < 0; }

 private:
  int budget_;
};

bool is_long(const Expr& e, int nodes) {
  Length length(nodes);
  length.visit(e);
  return length.is_spent();
}

/// How many nodes use each node, those that are shared looked into once.
class Users : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    int& users = counts_[e.get()];
    if (++users == 1) Visitor::visit(e);
  }
  int of(const Expr& e) {
    const int* users = counts_.find(e.get());
    return users ? *users : 0;
  }

 private:
  NodeMap<const ExprNode*, int> counts_;
};

class Sharer : public Mutator {
 public:
  explicit Sharer(Users& users) : users_(users) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override {
    if (!e) return e;
    if (const VarRef* known = bound_.find(e)) return *known;
    const Expr result = Mutator::mutate(e);
    if (users_.of(e) < 2 || !is_long(result, least_part_nodes)) return result;
    const VarRef part = Var::make("part", result->dtype);
    parts.emplace_back(part, result);
    bound_.emplace(e, part);
    return part;
  }

  std::vector<std::pair<VarRef, Expr>> parts;

 private:
  Users& users_;
  NodeMap<Expr, VarRef> bound_;
};

}  // namespace

std::vector<std::pair<VarRef, Expr>> share_parts(std::vector<Expr>& values) {
  if (std::none_of(values.begin(), values.end(), [](const Expr& e) { return is_long(e, most_value_nodes); })) return {};
  Users users;
  for (const Expr& value : values) users.visit(value);
  Sharer sharer(users);
  for (Expr& value : values) value = sharer.mutate(value);
  return std::move(sharer.parts);
}

}  // namespace lathe
