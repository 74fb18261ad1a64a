#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/verify_rules.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Walks to every Block with the steps that lead there.
class PromiseChecker {
 public:
  explicit PromiseChecker(Report& report) : report_(report), bounds_(report.func()) {}

  void walk(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::For:
        return within(Step::of_loop(s.as<For>()), s.as<For>()->body);
      case StmtKind::Let:
        return within(Step::of_value(s.as<Let>()->variable, s.as<Let>()->value), s.as<Let>()->body);
      case StmtKind::If:
        within(Step::of_condition(s.as<If>()->condition), s.as<If>()->then_case);
        if (s.as<If>()->else_case)
          within(Step::of_condition(logical_not(s.as<If>()->condition)), s.as<If>()->else_case);
        return;
      case StmtKind::While:
        return within(Step::of_unknown(), s.as<While>()->body);
      case StmtKind::Seq:
        return sequence(s.as<Seq>()->stmts);
      case StmtKind::Block:
        return block(s.as<Block>());
      default:
        return;
    }
  }

 private:
  void push(Step step) {
    steps_.push_back(std::move(step));
    assume_steps(bounds_, steps_, steps_.size() - 1);
  }
  void within(Step step, const Stmt& body) {
    const size_t count = steps_.size();
    const Bounds::Mark mark = bounds_.mark();
    push(std::move(step));
    walk(body);
    drop(count, mark);
  }
  void drop(size_t count, const Bounds::Mark& mark) {
    steps_.resize(count, Step::of_unknown());
    bounds_.rollback(mark);
  }
  void sequence(const std::vector<Stmt>& stmts) {
    const size_t count = steps_.size();
    const Bounds::Mark mark = bounds_.mark();
    for (const Stmt& s : stmts) {
      walk(s);
      // Behind an assertion, what it asserts holds.
      if (const Assert* assertion = s.as<Assert>()) push(Step::of_condition(assertion->condition));
    }
    drop(count, mark);
  }

  void block(const Block* node) {
    const Block::Fields& f = node->f;
    if (is_bare_scope(f)) return walk(f.body);
    const size_t count = steps_.size(), outer = outer_;
    const Bounds::Mark mark = bounds_.mark();
    if (f.predicate) push(Step::of_condition(f.predicate));
    bindings(f);
    const PlacedBlock placed{node, steps_, outer_, bounds_};
    check_covers(placed, report_);
    check_independent(placed, report_);
    check_reduction(placed, report_);
    check_order(placed, report_);
    for (size_t i = 0; i < f.iters.size(); ++i) push(Step::of_iter(f.iters[i], f.bindings[i]));
    outer_ = steps_.size();
    walk(f.body);
    outer_ = outer;
    drop(count, mark);
  }

  /// Promise 3.
  void bindings(const Block::Fields& f) {
    for (size_t i = 0; i < f.iters.size(); ++i) {
      const Range& domain = f.iters[i].domain;
      const int lanes = f.bindings[i]->dtype.lanes;
      const auto spread = [&](const Expr& e) { return Broadcast::make(e, lanes); };
      const Expr inside =
          logical_and(le(spread(domain.min), f.bindings[i]), lt(f.bindings[i], spread(domain.min + domain.extent)));
      report_.decided("block.bindings_in_domain", decide(report_.func(), bounds_, steps_, inside),
                      fmt::format("block {}: iter {} = {} lies in [{}, {})", f.name, f.iters[i].variable->name,
                                  print(f.bindings[i]), print(domain.min), print(domain.min + domain.extent)));
    }
  }

  Report& report_;
  Bounds bounds_;
  std::vector<Step> steps_;
  size_t outer_ = 0;
};

/// Promise 1. A variable is foreign to a block when it is a loop's outside of it, or a Let's outside of it whose value
/// depends on such a loop.
class OwnVariables : public Visitor {
 public:
  explicit OwnVariables(Report& report) : report_(report) {}
  using Visitor::visit;

  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  void visit_Var(const Var* node) override {
    const auto found = depths_.find(node);
    if (found == depths_.end()) return;
    if (found->second < blocks_.size()) {
      report_.wrong("block.own_variables",
                    fmt::format("block {} uses the loop variable {} of outside; bind an iter to it",
                                blocks_.back()->name, node->name));
    }
    used_foreign_ = true;
  }
  void visit_For(const For* node) override {
    visit(node->min);
    visit(node->extent);
    depths_[node->variable.get()] = blocks_.size();
    visit(node->body);
  }
  void visit_Let(const Let* node) override {
    seen_.clear();
    used_foreign_ = false;
    visit(node->value);
    if (used_foreign_) depths_[node->variable.get()] = blocks_.size();
    visit(node->body);
  }
  void visit_Block(const Block* node) override {
    const Block::Fields& f = node->f;
    if (is_bare_scope(f)) return visit(f.body);
    for (const Expr& binding : f.bindings) visit(binding);
    if (f.predicate) visit(f.predicate);
    seen_.clear();
    blocks_.push_back(&f);
    for (const Iter& iter : f.iters) visit(iter.domain);
    for (const Region& region : f.reads) visit(region);
    for (const Region& region : f.writes) visit(region);
    for (const Buffer& buffer : f.allocs) {
      for (const Expr& e : buffer->shape) visit(e);
      for (const Expr& e : buffer->strides) visit(e);
      if (buffer->offset) visit(buffer->offset);
    }
    if (f.init) visit(f.init);
    visit(f.body);
    blocks_.pop_back();
    seen_.clear();
  }

 private:
  void visit(const Range& range) {
    visit(range.min);
    visit(range.extent);
  }
  void visit(const Region& region) {
    for (const Range& range : region.ranges) visit(range);
  }

  Report& report_;
  std::vector<const Block::Fields*> blocks_;
  std::unordered_map<const Var*, size_t> depths_;  ///< how many blocks enclose the loop
  std::unordered_set<const ExprNode*> seen_;
  bool used_foreign_ = false;
};

}  // namespace

void check_promises(Report& report) {
  if (report.stage() >= Stage::flatten) return;
  OwnVariables(report).visit(report.func()->body);
  PromiseChecker(report).walk(report.func()->body);
}

}  // namespace lathe
