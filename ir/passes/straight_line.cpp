#include "ir/passes/straight_line.h"

#include <algorithm>

#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

class LoadCollector : public Visitor {
 public:
  explicit LoadCollector(StraightStatement& statement) : statement_(statement) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  void visit_Load(const Load* node) override {
    if (node->buffer->space != space::registers) statement_.loaded.insert(storage_of(node->buffer));
    Visitor::visit_Load(node);
  }
  void visit_Call(const Call* node) override {
    statement_.opaque |= node->call_kind != CallKind::intrinsic;
    Visitor::visit_Call(node);
  }

 private:
  StraightStatement& statement_;
  std::unordered_set<const ExprNode*> seen_;
};

}  // namespace

bool StraightStatement::is_movable() const {
  return store && !opaque && store->buffer->space != space::registers;
}

StraightStatement read_straight(const Stmt& s) {
  StraightStatement result;
  result.stmt = s;
  Stmt inner = s;
  while (const Let* let = inner.as<Let>()) {
    result.lets.push_back(let);
    inner = let->body;
  }
  result.store = inner.as<Store>();
  if (!result.store) return result;
  LoadCollector collector(result);
  collector.visit(result.store->value);
  result.value_loads = !result.loaded.empty();
  for (const Let* let : result.lets) collector.visit(let->value);
  return result;
}

bool StraightRun::takes(const StraightStatement& statement) const {
  return statement.is_movable() && std::none_of(statement.loaded.begin(), statement.loaded.end(),
                                                [&](const BufferNode* buffer) { return stored_.contains(buffer); });
}

void StraightRun::add(StraightStatement statement) {
  stored_.insert(storage_of(statement.store->buffer));
  statements_.push_back(std::move(statement));
}

void StraightRun::clear() {
  statements_.clear();
  stored_.clear();
}

}  // namespace lathe
