#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/verify_rules.h"
#include "ir/error.h"
#include "ir/storage.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Makes the node again from its parts: what `make` refuses, or gives another type, has a wrong type.
std::string type_error(const Expr& e) {
  try {
    Expr again;
    switch (e->kind) {
      case ExprKind::IntImm:
      case ExprKind::FloatImm:
      case ExprKind::Var:
        return {};
      case ExprKind::Unary:
        again = Unary::make(e.as<Unary>()->op, e.as<Unary>()->a);
        break;
      case ExprKind::Binary:
        again = Binary::make(e.as<Binary>()->op, e.as<Binary>()->a, e.as<Binary>()->b);
        break;
      case ExprKind::Select:
        again = Select::make(e.as<Select>()->condition, e.as<Select>()->when_true, e.as<Select>()->when_false);
        break;
      case ExprKind::Cast:
        again = Cast::make(e->dtype, e.as<Cast>()->value);
        break;
      case ExprKind::Load:
        again = Load::make(e.as<Load>()->buffer, e.as<Load>()->indices, e.as<Load>()->mask);
        break;
      case ExprKind::Ramp:
        again = Ramp::make(e.as<Ramp>()->base, e.as<Ramp>()->stride, e->dtype.lanes);
        break;
      case ExprKind::Broadcast:
        again = Broadcast::make(e.as<Broadcast>()->value, e->dtype.lanes);
        break;
      case ExprKind::Shuffle:
        again = Shuffle::make(e.as<Shuffle>()->vectors, e.as<Shuffle>()->lanes);
        break;
      case ExprKind::Call: {
        const auto* call = e.as<Call>();
        again = Call::make(call->dtype, call->call_kind, call->callee, call->args);
        break;
      }
      case ExprKind::AddressOf:
        again = AddressOf::make(e.as<AddressOf>()->buffer, e.as<AddressOf>()->indices);
        break;
    }
    if (again->dtype == e->dtype) return {};
    return fmt::format("{} has type {}, its operands give {}", print(e), to_string(e->dtype), to_string(again->dtype));
  } catch (const InputError& error) {
    return error.message();
  }
}

/// Walks with the names that are in scope.
class NameChecker : public Visitor {
 public:
  explicit NameChecker(Report& report) : report_(report) {}
  using Visitor::visit;

  void run(const FuncNode& func) {
    for (const Param& param : func.params) {
      if (const VarRef* scalar = std::get_if<VarRef>(&param)) bind(*scalar);
    }
    for (const Param& param : func.params) {
      if (const Buffer* buffer = std::get_if<Buffer>(&param)) declare(*buffer);
    }
    for (const Fact& fact : func.facts) {
      use(fact.variable.get());
      if (fact.equals) visit(fact.equals);
    }
    visit(func.body);
  }

  void visit(const Expr& e) override {
    if (!seen_.insert(e.get()).second) return;
    Visitor::visit(e);
    if (!typed_.insert(e.get()).second) return;
    if (const std::string error = type_error(e); !error.empty()) report_.wrong("types.consistent", error);
  }

 protected:
  void visit_Var(const Var* node) override { use(node); }
  void visit_buffer(const Buffer& buffer) override { use(buffer); }
  void visit_Store(const Store* node) override {
    Visitor::visit_Store(node);
    typed([&] { Store::make(node->buffer, node->indices, node->value, node->mask); });
  }
  void visit_For(const For* node) override {
    visit(node->min);
    visit(node->extent);
    const size_t mark = open();
    bind(node->variable);
    visit(node->body);
    close(mark);
    typed([&] {
      For::make(node->variable, node->min, node->extent, node->for_kind, node->body, node->annotations,
                node->thread_axis);
    });
  }
  void visit_Let(const Let* node) override {
    visit(node->value);
    const size_t mark = open();
    bind(node->variable);
    visit(node->body);
    close(mark);
    typed([&] { Let::make(node->variable, node->value, node->body); });
  }
  void visit_If(const If* node) override {
    Visitor::visit_If(node);
    typed([&] { If::make(node->condition, node->then_case, node->else_case); });
  }
  void visit_While(const While* node) override {
    Visitor::visit_While(node);
    typed([&] { While::make(node->condition, node->body); });
  }
  void visit_Assert(const Assert* node) override {
    Visitor::visit_Assert(node);
    typed([&] { Assert::make(node->condition, node->message, node->index); });
  }
  void visit_Block(const Block* node) override;

 private:
  template <class F>
  void typed(F&& make) {
    try {
      make();
    } catch (const InputError& error) {
      report_.wrong("types.consistent", error.message());
    }
  }
  size_t open() const { return scope_.size(); }
  void close(size_t mark) {
    for (; scope_.size() > mark; scope_.pop_back()) in_scope_.erase(scope_.back());
    // An expression that was right in the inner scope may be wrong in the outer one.
    seen_.clear();
  }
  void bind(const VarRef& variable) { enter(variable.get(), "variable " + variable->name); }
  void declare(const Buffer& buffer) {
    if (const auto& view = buffer->view_of) use(*view);
    for (const Expr& e : buffer->shape) visit(e);
    for (const Expr& e : buffer->strides) visit(e);
    if (buffer->offset) visit(buffer->offset);
    enter(buffer.get(), "buffer " + buffer->name);
  }
  void enter(const Node* node, const std::string& what) {
    if (!entered_.insert(node).second) report_.wrong("scope.bound_once", what + " is bound at two places");
    in_scope_.insert(node);
    scope_.push_back(node);
  }
  void use(const Var* variable) {
    if (!in_scope_.contains(variable)) {
      report_.wrong("scope.variable_bound", fmt::format("variable {} is used where it is not bound", variable->name));
    }
  }
  void use(const Buffer& buffer) {
    if (in_scope_.contains(buffer.get())) return;
    const bool planned = report_.stage() >= Stage::before_flatten && !entered_.contains(buffer.get()) &&
                         buffer->space != space::registers;
    const bool view = buffer->view_of && in_scope_.contains(storage_of(buffer)) && !entered_.contains(buffer.get());
    if (planned || view || buffer->space == space::constants) return;
    report_.wrong("scope.buffer_declared", fmt::format("buffer {} is used where it is not declared", buffer->name));
  }
  void use(const Region& region) {
    use(region.buffer);
    for (const Range& range : region.ranges) {
      visit(range.min);
      visit(range.extent);
    }
    if (region.ranges.size() != region.buffer->rank()) {
      report_.wrong("block.region_rank", fmt::format("region {} has {} ranges, its buffer {} dimensions", print(region),
                                                     region.ranges.size(), region.buffer->rank()));
    }
  }

  Report& report_;
  std::unordered_set<const Node*> in_scope_, entered_;
  std::vector<const Node*> scope_;
  std::unordered_set<const ExprNode*> seen_, typed_;
};

void NameChecker::visit_Block(const Block* node) {
  const Block::Fields& f = node->f;
  for (const Iter& iter : f.iters) {
    visit(iter.domain.min);
    visit(iter.domain.extent);
  }
  for (const Expr& binding : f.bindings) visit(binding);
  if (f.predicate) visit(f.predicate);
  const size_t mark = open();
  for (const Iter& iter : f.iters) bind(iter.variable);
  for (const Region& region : f.reads) use(region);
  for (const Region& region : f.writes) use(region);
  for (const Buffer& buffer : f.allocs) declare(buffer);
  if (f.reducer) {
    const size_t inner = open();
    for (const Expr& e : f.reducer->identities) visit(e);
    for (const VarRef& variable : f.reducer->lhs) bind(variable);
    for (const VarRef& variable : f.reducer->rhs) bind(variable);
    for (const Expr& e : f.reducer->results) visit(e);
    for (size_t k = 0; k < f.reducer->results.size(); ++k) {
      const DType dtype = f.reducer->results[k]->dtype;
      if (f.reducer->lhs[k]->dtype != dtype || f.reducer->rhs[k]->dtype != dtype ||
          f.reducer->identities[k]->dtype != dtype) {
        report_.wrong("types.consistent",
                      fmt::format("block {}: value {} of the reducer has several types", f.name, k));
      }
    }
    close(inner);
    // One reducer may serve many blocks: its variables live in its results only.
    for (const VarRef& variable : f.reducer->lhs) entered_.erase(variable.get());
    for (const VarRef& variable : f.reducer->rhs) entered_.erase(variable.get());
  }
  if (f.init) visit(f.init);
  visit(f.body);
  close(mark);
  typed([&] { Block::make(f); });
}

/// Rules that look at one statement or access at a time.
class AccessChecker : public Visitor {
 public:
  explicit AccessChecker(Report& report) : report_(report), flat_(report.stage() >= Stage::flatten) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  void visit_Load(const Load* node) override {
    access("load", node->buffer, node->indices);
    Visitor::visit_Load(node);
  }
  void visit_Store(const Store* node) override {
    access("store", node->buffer, node->indices);
    Visitor::visit_Store(node);
  }
  void visit_AddressOf(const AddressOf* node) override {
    access("address", node->buffer, node->indices);
    if (node->buffer->space == space::registers) {
      report_.wrong("access.register_address",
                    fmt::format("the address of {} is taken, which is in registers", node->buffer->name));
    }
    Visitor::visit_AddressOf(node);
  }
  void visit_For(const For* node) override {
    if (!as_int(node->extent)) {
      const std::string message = fmt::format("{} loop {} has the extent {}", to_string(node->for_kind),
                                              node->variable->name, print(node->extent));
      if (node->for_kind == ForKind::vectorized) report_.wrong("loop.constant_extent", message);
      // Such a loop can still run, one iteration after another.
      if (node->for_kind == ForKind::unrolled) report_.unproved("loop.constant_extent", message);
    }
    Visitor::visit_For(node);
  }
  void visit_Block(const Block* node) override {
    if (flat_ && (!is_bare_scope(node->f) || !node->f.reads.empty() || !node->f.writes.empty())) {
      report_.wrong("stage.blocks_lowered",
                    fmt::format("block {} still has iters, regions, a predicate or a reducer", node->f.name));
    }
    Visitor::visit_Block(node);
  }

 private:
  void access(const char* what, const Buffer& buffer, const std::vector<Expr>& indices) {
    // While the passes of flatten run, a Func is at before_flatten and may have both forms.
    const bool right =
        flat_ ? indices.size() == 1
              : indices.size() == buffer->rank() || (indices.size() == 1 && report_.stage() == Stage::before_flatten);
    if (!right) {
      report_.wrong("access.index_count",
                    fmt::format("{} of {} has {} indices, expected {} at {}", what, buffer->name, indices.size(),
                                flat_ ? 1 : buffer->rank(), to_string(report_.stage())));
    }
    if (report_.stage() < Stage::before_emit || buffer->space != space::registers) return;
    for (const Expr& index : indices) {
      const Ramp* ramp = index.as<Ramp>();
      const bool constant = as_int(index) || (ramp && as_int(ramp->base) && as_int(ramp->stride));
      if (!constant) {
        report_.wrong("access.register_index",
                      fmt::format("{} of {}, which is in registers, at {}", what, buffer->name, print(index)));
      }
    }
  }

  Report& report_;
  const bool flat_;
  std::unordered_set<const ExprNode*> seen_;
};

}  // namespace

bool is_bare_scope(const Block::Fields& f) {
  return f.iters.empty() && !f.predicate && !f.reducer && !f.init &&
         std::all_of(f.reads.begin(), f.reads.end(), is_hint) && std::all_of(f.writes.begin(), f.writes.end(), is_hint);
}

void check_names(Report& report) {
  NameChecker(report).run(*report.func());
}
void check_accesses(Report& report) {
  AccessChecker(report).visit(report.func()->body);
}

}  // namespace lathe
