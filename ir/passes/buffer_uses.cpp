#include "ir/passes/buffer_uses.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/passes/bounds_scope.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

class Finder : public Visitor {
 public:
  Finder(std::unordered_map<const BufferNode*, BufferUses>& found, Bounds& bounds) : found_(found), bounds_(bounds) {}

 protected:
  void visit_For(const For* node) override {
    visit(node->min);
    visit(node->extent);
    LoopRange range = loop_range(*node);
    // Variables further out may stand in its domain through Lets.
    range.low = without_lets(range.low);
    range.high = without_lets(range.high);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    loops_.push_back(range);
    nodes_.push_back(node);
    visit(node->body);
    loops_.pop_back();
    nodes_.pop_back();
  }
  void visit_Let(const Let* node) override {
    visit(node->value);
    if (node->value->dtype == i64) {
      bounds_.bind_value(node->variable, node->value);
      lets_[node->variable.get()] = without_lets(to_affine(node->value));
    }
    visit(node->body);
  }
  void visit_If(const If* node) override {
    visit(node->condition);
    conditions_.push_back({node->condition, {node, true}});
    visit(node->then_case);
    conditions_.back() = {logical_not(node->condition), {node, false}};
    if (node->else_case) visit(node->else_case);
    conditions_.pop_back();
  }
  void visit_Block(const Block* node) override {
    const size_t count = hints_.size();
    for (const Region& region : node->f.reads) add_hint(region, false, count);
    for (const Region& region : node->f.writes) add_hint(region, true, count);
    visit(node->f.body);
    hints_.resize(count);
  }
  void visit_While(const While* node) override {
    // A loop without a variable: nothing moves into it.
    loops_.push_back({Var::make("while"), Affine::of(0), Affine::of(0)});
    nodes_.push_back(nullptr);
    ++whiles_;
    Visitor::visit_While(node);
    --whiles_;
    loops_.pop_back();
    nodes_.pop_back();
  }
  void visit_Load(const Load* node) override {
    Visitor::visit_Load(node);
    record(node->buffer, node->indices, false, true, static_cast<bool>(node->mask));
  }
  void visit_AddressOf(const AddressOf* node) override {
    Visitor::visit_AddressOf(node);
    touch_whole(node->buffer);
  }
  void visit_Store(const Store* node) override {
    Visitor::visit_Store(node);
    record(node->buffer, node->indices, true, false, static_cast<bool>(node->mask));
  }

 private:
  void touch_whole(Buffer buffer) {
    while (true) {
      if (auto found = found_.find(buffer.get()); found != found_.end()) found->second.whole = true;
      const auto& view = buffer->view_of;
      if (!view) return;
      buffer = view->buffer;
    }
  }

  /// The conditions around a store that may be false at an element of the buffer. One that only cuts off what lies
  /// outside of it, as at the borders of a tile, leaves nothing out.
  std::vector<BufferUse::Omission> omissions(const Buffer& buffer, const std::vector<Expr>& indices) {
    std::vector<BufferUse::Omission> found;
    if (conditions_.empty()) return found;
    BoundsScope scope(bounds_);
    const bool plain = indices.size() == buffer->rank() &&
                       std::all_of(indices.begin(), indices.end(), [](const Expr& i) { return i->dtype.is_scalar(); });
    for (size_t d = 0; plain && d < indices.size(); ++d) {
      bounds_.assume(le(index(0), indices[d]));
      bounds_.assume(lt(indices[d], buffer->shape[d]));
    }
    for (const Condition& condition : conditions_) {
      BufferUse::Omission omission{condition.arm, {}, plain};
      bool any = false;
      for (const Expr& conjunct : conjuncts_of(condition.holds)) {
        if (plain && proves(bounds_, conjunct)) continue;
        any = true;
        const std::optional<Affine> cut = cut_of(conjunct);
        omission.known &= cut.has_value();
        if (cut) omission.cuts.push_back(*cut);
      }
      if (any) found.push_back(std::move(omission));
    }
    return found;
  }

  std::optional<Affine> cut_of(const Expr& condition) const {
    return lathe::cut_of(condition, bounds_, [this](const Affine& side) { return without_lets(side); });
  }

  void record(const Buffer& buffer, const std::vector<Expr>& indices, bool writes, bool reads, bool masked) {
    if (const auto& view = buffer->view_of) touch_whole(view->buffer);
    auto found = found_.find(buffer.get());
    if (found == found_.end()) return;
    BufferUse access{writes, reads, masked || whiles_ > 0, order_++, {}, {}, {}, loops_, nodes_, {}, {}, {}};
    for (const Condition& condition : conditions_) {
      access.arms.push_back(condition.arm);
      for (const Expr& conjunct : conjuncts_of(condition.holds))
        if (const auto cut = cut_of(conjunct)) access.cuts.push_back(*cut);
    }
    if (writes) access.omissions = omissions(buffer, indices);
    for (const Expr& i : indices) {
      Affine a = without_lets(to_affine(i));
      if (a.lanes > 1) {
        if (access.loops.empty() || access.loops.back().variable != lane_variable()) {
          access.loops.push_back({lane_variable(), Affine::of(0), Affine::of(a.lanes - 1)});
          access.loop_nodes.push_back(nullptr);
        }
        a.lanes = 1;
      }
      access.indices.push_back(std::move(a));
    }
    bool hinted = false;
    for (const Hint& hint : hints_) {
      if (hint.writes != writes || hint.buffer != buffer.get()) continue;
      hinted = true;
      access.first = hint.first;
      access.last = hint.last;
      found->second.uses.push_back(access);
    }
    if (!hinted) found->second.uses.push_back(std::move(access));
  }

  /// An outer block's hint survives inner ones: `outer` counts the hints from further out.
  void add_hint(const Region& region, bool writes, size_t outer) {
    for (size_t i = 0; i < outer; ++i) {
      if (hints_[i].buffer == region.buffer.get() && hints_[i].writes == writes) return;
    }
    Hint hint{region.buffer.get(), writes, {}, {}};
    for (const Range& range : region.ranges) {
      hint.first.push_back(without_lets(to_affine(range.min)));
      hint.last.push_back(without_lets(to_affine(range.min + range.extent - 1)));
    }
    hints_.push_back(std::move(hint));
  }

  Affine without_lets(const Affine& a) const {
    if (lets_.empty()) return a;
    Affine result = Affine::of(a.constant, a.lanes);
    for (const AffineTerm& term : a.terms) {
      const Var* var = term.atom.as<Var>();
      auto let = var ? lets_.find(var) : lets_.end();
      bool added = let == lets_.end() ? add_term(result, term.atom, term.coefficient)
                                      : add_scaled(result, let->second, term.coefficient);
      if (!added) return a;
    }
    return result;
  }

  struct Hint {
    const BufferNode* buffer;
    bool writes;
    std::vector<Affine> first, last;
  };

  std::unordered_map<const BufferNode*, BufferUses>& found_;
  Bounds& bounds_;
  std::vector<Hint> hints_;
  std::unordered_map<const Var*, Affine> lets_;
  std::vector<LoopRange> loops_;
  std::vector<const For*> nodes_;
  struct Condition {
    Expr holds;
    BufferUse::Arm arm;
  };
  std::vector<Condition> conditions_;  ///< those of the Ifs around the place reached
  int whiles_ = 0;
  int order_ = 0;
};

}  // namespace

std::optional<Affine> cut_of(const Expr& condition, const Bounds& bounds,
                             const std::function<Affine(const Affine&)>& written_out) {
  const Binary* comparison = condition.as<Binary>();
  if (!comparison || !comparison->dtype.is_scalar() || comparison->a->dtype != i64) return std::nullopt;
  const BinaryOp op = comparison->op;
  const bool less = op == BinaryOp::lt || op == BinaryOp::le, greater = op == BinaryOp::gt || op == BinaryOp::ge;
  if (!less && !greater) return std::nullopt;
  Affine cut = to_affine(less ? comparison->b : comparison->a), other = to_affine(less ? comparison->a : comparison->b);
  if (written_out) {
    cut = written_out(cut);
    other = written_out(other);
  }
  if (may_wrap(bounds, cut) || may_wrap(bounds, other) || !add_scaled(cut, other, -1)) return std::nullopt;
  if ((op == BinaryOp::lt || op == BinaryOp::gt) && !add_constant(cut, -1)) return std::nullopt;
  return cut;
}

std::optional<Affine> limit_of(const Affine& cut, const Affine& index, std::span<const LoopRange> inner, bool upper) {
  if (index.lanes > 1) return std::nullopt;
  // index + cut >= index, and index - cut <= index.
  Affine limit = index;
  if (!add_scaled(limit, cut, upper ? 1 : -1)) return std::nullopt;
  for (const LoopRange& loop : inner) {
    const bool used = std::any_of(limit.terms.begin(), limit.terms.end(),
                                  [&](const AffineTerm& t) { return uses_var(t.atom, loop.variable.get()); });
    if (used) return std::nullopt;
  }
  return limit;
}

std::unordered_map<const BufferNode*, BufferUses> find_uses(const Stmt& s, const std::vector<Buffer>& wanted,
                                                            Bounds& bounds) {
  std::unordered_map<const BufferNode*, BufferUses> found;
  for (const Buffer& buffer : wanted) found[buffer.get()];
  Finder(found, bounds).visit(s);
  return found;
}

}  // namespace lathe
