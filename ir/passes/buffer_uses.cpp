#include "ir/passes/buffer_uses.h"

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
    ++conditions_;
    visit(node->then_case);
    if (node->else_case) visit(node->else_case);
    --conditions_;
  }
  void visit_While(const While* node) override {
    // A loop without a variable: nothing moves into it.
    loops_.push_back({Var::make("while"), Affine::of(0), Affine::of(0)});
    nodes_.push_back(nullptr);
    ++conditions_;
    Visitor::visit_While(node);
    --conditions_;
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
      if (!buffer->view_of) return;
      buffer = buffer->view_of->buffer;
    }
  }

  void record(const Buffer& buffer, const std::vector<Expr>& indices, bool writes, bool reads, bool masked) {
    if (buffer->view_of) touch_whole(buffer->view_of->buffer);
    auto found = found_.find(buffer.get());
    if (found == found_.end()) return;
    BufferUse access{writes, reads, masked || conditions_ > 0, order_++, {}, loops_, nodes_};
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
    found->second.uses.push_back(std::move(access));
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

  std::unordered_map<const BufferNode*, BufferUses>& found_;
  Bounds& bounds_;
  std::unordered_map<const Var*, Affine> lets_;
  std::vector<LoopRange> loops_;
  std::vector<const For*> nodes_;
  int conditions_ = 0;
  int order_ = 0;
};

}  // namespace

std::unordered_map<const BufferNode*, BufferUses> find_uses(const Stmt& s, const std::vector<Buffer>& wanted,
                                                            Bounds& bounds) {
  std::unordered_map<const BufferNode*, BufferUses> found;
  for (const Buffer& buffer : wanted) found[buffer.get()];
  Finder(found, bounds).visit(s);
  return found;
}

}  // namespace lathe
