#include "ir/structural.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

/// Doubles by bits, so that a NaN equals itself.
bool same_annotations(const Annotations& a, const Annotations& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const double *m = std::get_if<double>(&x.second), *n = std::get_if<double>(&y.second);
    const bool same =
        m && n ? std::bit_cast<std::uint64_t>(*m) == std::bit_cast<std::uint64_t>(*n) : x.second == y.second;
    return x.first == y.first && same;
  });
}

/// Compares two trees in step. What a tree binds is numbered in the order of binding; two uses correspond when their
/// numbers do. Pairs of shared expressions are compared once.
class Comparison {
 public:
  bool funcs(const FuncNode& a, const FuncNode& b);
  bool stmts(const Stmt& a, const Stmt& b);
  bool exprs(const Expr& a, const Expr& b);

 private:
  using Numbers = std::unordered_map<const Node*, int>;
  struct PairHash {
    size_t operator()(const std::pair<const ExprNode*, const ExprNode*>& pair) const {
      return std::hash<const void*>()(pair.first) * 31 + std::hash<const void*>()(pair.second);
    }
  };

  void bind(const Node* a, const Node* b);
  bool bind_variables(const VarRef& a, const VarRef& b);
  bool bind_buffers(const Buffer& a, const Buffer& b);
  bool buffers(const Buffer& a, const Buffer& b);
  bool declarations(const BufferNode& a, const BufferNode& b);
  bool regions(const Region& a, const Region& b);
  bool reducers(const Reducer& a, const Reducer& b);
  bool blocks(const Block::Fields& a, const Block::Fields& b);
  bool params(const FuncNode& a, const FuncNode& b);
  bool facts(const std::vector<Fact>& a, const std::vector<Fact>& b);
  bool children(const Expr& a, const Expr& b);
  bool variables(const Node* a, const Node* b) const;

  template <class T, class F>
  bool lists(const std::vector<T>& a, const std::vector<T>& b, F&& same) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i], b[i])) return false;
    }
    return true;
  }
  bool lists(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    return lists(a, b, [&](const Expr& x, const Expr& y) { return exprs(x, y); });
  }

  Numbers a_numbers_, b_numbers_;
  std::unordered_set<std::pair<const ExprNode*, const ExprNode*>, PairHash> known_;
  int next_ = 0;
  bool renamed_ = false;     ///< something bound corresponds to another node than itself
  bool whole_func_ = false;  ///< buffers of no declaration (planned workspaces) then correspond by use
};

void Comparison::bind(const Node* a, const Node* b) {
  // A node that is bound a second time gives earlier results another meaning.
  if (a_numbers_.contains(a) || b_numbers_.contains(b)) known_.clear();
  a_numbers_[a] = b_numbers_[b] = next_++;
  renamed_ |= a != b;
}

bool Comparison::bind_variables(const VarRef& a, const VarRef& b) {
  bind(a.get(), b.get());
  return a->dtype == b->dtype;
}

bool Comparison::bind_buffers(const Buffer& a, const Buffer& b) {
  if (!declarations(*a, *b)) return false;
  bind(a.get(), b.get());
  return true;
}

bool Comparison::variables(const Node* a, const Node* b) const {
  const auto x = a_numbers_.find(a), y = b_numbers_.find(b);
  if (x == a_numbers_.end() || y == b_numbers_.end()) return x == a_numbers_.end() && y == b_numbers_.end() && a == b;
  return x->second == y->second;
}

bool Comparison::buffers(const Buffer& a, const Buffer& b) {
  if (whole_func_ && !a_numbers_.contains(a.get()) && !b_numbers_.contains(b.get())) return bind_buffers(a, b);
  return variables(a.get(), b.get());
}

bool Comparison::declarations(const BufferNode& a, const BufferNode& b) {
  if (a.view_of.has_value() != b.view_of.has_value()) return false;
  return a.dtype == b.dtype && a.space == b.space && a.alignment == b.alignment && lists(a.shape, b.shape) &&
         lists(a.strides, b.strides) && exprs(a.offset, b.offset) && (!a.view_of || regions(*a.view_of, *b.view_of));
}

bool Comparison::regions(const Region& a, const Region& b) {
  return a.provenance == b.provenance && a.block == b.block && buffers(a.buffer, b.buffer) &&
         lists(a.ranges, b.ranges,
               [&](const Range& x, const Range& y) { return exprs(x.min, y.min) && exprs(x.extent, y.extent); });
}

bool Comparison::reducers(const Reducer& a, const Reducer& b) {
  const auto bind_each = [&](const VarRef& x, const VarRef& y) { return bind_variables(x, y); };
  return lists(a.lhs, b.lhs, bind_each) && lists(a.rhs, b.rhs, bind_each) && lists(a.identities, b.identities) &&
         lists(a.results, b.results);
}

bool Comparison::blocks(const Block::Fields& a, const Block::Fields& b) {
  const auto same_regions = [&](const Region& x, const Region& y) { return regions(x, y); };
  return a.name == b.name && same_annotations(a.annotations, b.annotations) &&
         a.reducer.has_value() == b.reducer.has_value() && lists(a.bindings, b.bindings) &&
         exprs(a.predicate, b.predicate) &&
         lists(a.iters, b.iters,
               [&](const Iter& x, const Iter& y) {
                 return x.kind == y.kind && exprs(x.domain.min, y.domain.min) &&
                        exprs(x.domain.extent, y.domain.extent) && bind_variables(x.variable, y.variable);
               }) &&
         lists(a.allocs, b.allocs, [&](const Buffer& x, const Buffer& y) { return bind_buffers(x, y); }) &&
         lists(a.reads, b.reads, same_regions) && lists(a.writes, b.writes, same_regions) &&
         (!a.reducer || reducers(*a.reducer, *b.reducer)) && stmts(a.init, b.init) && stmts(a.body, b.body);
}

bool Comparison::children(const Expr& a, const Expr& b) {
  switch (a->kind) {
    case ExprKind::IntImm:
      return a.as<IntImm>()->value == b.as<IntImm>()->value;
    case ExprKind::FloatImm:
      return std::bit_cast<std::uint64_t>(a.as<FloatImm>()->value) ==
             std::bit_cast<std::uint64_t>(b.as<FloatImm>()->value);
    case ExprKind::Var:
      return variables(a.get(), b.get());
    case ExprKind::Unary:
      return a.as<Unary>()->op == b.as<Unary>()->op && exprs(a.as<Unary>()->a, b.as<Unary>()->a);
    case ExprKind::Binary: {
      const auto *x = a.as<Binary>(), *y = b.as<Binary>();
      return x->op == y->op && exprs(x->a, y->a) && exprs(x->b, y->b);
    }
    case ExprKind::Select: {
      const auto *x = a.as<Select>(), *y = b.as<Select>();
      return exprs(x->condition, y->condition) && exprs(x->when_true, y->when_true) &&
             exprs(x->when_false, y->when_false);
    }
    case ExprKind::Cast:
      return exprs(a.as<Cast>()->value, b.as<Cast>()->value);
    case ExprKind::Load: {
      const auto *x = a.as<Load>(), *y = b.as<Load>();
      return buffers(x->buffer, y->buffer) && lists(x->indices, y->indices) && exprs(x->mask, y->mask);
    }
    case ExprKind::Ramp:
      return exprs(a.as<Ramp>()->base, b.as<Ramp>()->base) && exprs(a.as<Ramp>()->stride, b.as<Ramp>()->stride);
    case ExprKind::Broadcast:
      return exprs(a.as<Broadcast>()->value, b.as<Broadcast>()->value);
    case ExprKind::Shuffle: {
      const auto *x = a.as<Shuffle>(), *y = b.as<Shuffle>();
      return x->lanes == y->lanes && lists(x->vectors, y->vectors);
    }
    case ExprKind::Call: {
      const auto *x = a.as<Call>(), *y = b.as<Call>();
      return x->call_kind == y->call_kind && x->callee == y->callee && lists(x->args, y->args);
    }
    case ExprKind::AddressOf: {
      const auto *x = a.as<AddressOf>(), *y = b.as<AddressOf>();
      return buffers(x->buffer, y->buffer) && lists(x->indices, y->indices);
    }
  }
  return false;
}

bool Comparison::exprs(const Expr& a, const Expr& b) {
  if (!a || !b) return a == b;
  if (a == b && !renamed_ && !whole_func_) return true;
  if (a->kind != b->kind || a->dtype != b->dtype) return false;
  const bool shared = a->references > 1 && b->references > 1;
  if (shared && known_.contains({a.get(), b.get()})) return true;
  if (!children(a, b)) return false;
  if (shared) known_.insert({a.get(), b.get()});
  return true;
}

bool Comparison::stmts(const Stmt& a, const Stmt& b) {
  if (!a || !b) return a == b;
  if (a == b && !renamed_ && !whole_func_) return true;
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case StmtKind::For: {
      const auto *x = a.as<For>(), *y = b.as<For>();
      return x->for_kind == y->for_kind && x->thread_axis == y->thread_axis &&
             same_annotations(x->annotations, y->annotations) && exprs(x->min, y->min) && exprs(x->extent, y->extent) &&
             bind_variables(x->variable, y->variable) && stmts(x->body, y->body);
    }
    case StmtKind::Block:
      return blocks(a.as<Block>()->f, b.as<Block>()->f);
    case StmtKind::Store: {
      const auto *x = a.as<Store>(), *y = b.as<Store>();
      return buffers(x->buffer, y->buffer) && lists(x->indices, y->indices) && exprs(x->value, y->value) &&
             exprs(x->mask, y->mask);
    }
    case StmtKind::Let: {
      const auto *x = a.as<Let>(), *y = b.as<Let>();
      return exprs(x->value, y->value) && bind_variables(x->variable, y->variable) && stmts(x->body, y->body);
    }
    case StmtKind::If: {
      const auto *x = a.as<If>(), *y = b.as<If>();
      return exprs(x->condition, y->condition) && stmts(x->then_case, y->then_case) &&
             stmts(x->else_case, y->else_case);
    }
    case StmtKind::While: {
      const auto *x = a.as<While>(), *y = b.as<While>();
      return exprs(x->condition, y->condition) && stmts(x->body, y->body);
    }
    case StmtKind::Seq:
      return lists(a.as<Seq>()->stmts, b.as<Seq>()->stmts, [&](const Stmt& x, const Stmt& y) { return stmts(x, y); });
    case StmtKind::Eval:
      return exprs(a.as<Eval>()->value, b.as<Eval>()->value);
    case StmtKind::Assert: {
      const auto *x = a.as<Assert>(), *y = b.as<Assert>();
      return x->message == y->message && exprs(x->condition, y->condition) && exprs(x->index, y->index);
    }
  }
  return false;
}

bool Comparison::params(const FuncNode& a, const FuncNode& b) {
  if (a.params.size() != b.params.size()) return false;
  // Shapes may use scalars that stand behind them, so the scalars are bound first.
  for (size_t i = 0; i < a.params.size(); ++i) {
    if (a.params[i].index() != b.params[i].index()) return false;
    if (const VarRef* x = std::get_if<VarRef>(&a.params[i])) {
      const VarRef& y = std::get<VarRef>(b.params[i]);
      if ((*x)->name != y->name || !bind_variables(*x, y)) return false;
    }
  }
  for (size_t i = 0; i < a.params.size(); ++i) {
    if (const Buffer* x = std::get_if<Buffer>(&a.params[i])) {
      const Buffer& y = std::get<Buffer>(b.params[i]);
      if ((*x)->name != y->name || !bind_buffers(*x, y)) return false;
    }
  }
  return true;
}

bool Comparison::facts(const std::vector<Fact>& a, const std::vector<Fact>& b) {
  return lists(a, b, [&](const Fact& x, const Fact& y) {
    return variables(x.variable.get(), y.variable.get()) && x.min == y.min && x.max == y.max &&
           x.multiple_of == y.multiple_of && exprs(x.equals, y.equals);
  });
}

bool Comparison::funcs(const FuncNode& a, const FuncNode& b) {
  whole_func_ = true;
  return a.name == b.name && a.stage == b.stage && same_annotations(a.attrs, b.attrs) && params(a, b) &&
         facts(a.facts, b.facts) && stmts(a.body, b.body);
}

}  // namespace

bool equal(const Expr& a, const Expr& b) {
  return Comparison().exprs(a, b);
}
bool equal(const Stmt& a, const Stmt& b) {
  return Comparison().stmts(a, b);
}
bool equal(const Func& a, const Func& b) {
  return a == b || Comparison().funcs(*a, *b);
}

}  // namespace lathe
