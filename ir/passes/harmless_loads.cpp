#include "ir/passes/harmless_loads.h"

#include "ir/intrinsics.h"
#include "ir/structural.h"

namespace lathe {

std::optional<Slot> slot_of(const std::vector<Expr>& indices) {
  if (indices.size() != 1) return std::nullopt;
  if (const std::int64_t* at = as_int(indices[0])) return Slot{*at, *at + 1};
  const Ramp* ramp = indices[0].as<Ramp>();
  const std::int64_t* base = ramp ? as_int(ramp->base) : nullptr;
  if (!base || !is_int(ramp->stride, 1)) return std::nullopt;
  return Slot{*base, *base + indices[0]->dtype.lanes};
}

bool is_register(const Buffer& buffer) {
  return buffer->space == space::registers && !buffer->view_of;
}

HarmlessLoads::HarmlessLoads(const Stmt& body, const std::unordered_set<const void*>& holders) : holders_(holders) {
  walk(body);
}

void HarmlessLoads::walk(const Stmt& s) {
  if (!holders_.contains(s.get()) && pending_ == 0) return;
  switch (s->kind) {
    case StmtKind::Let: {
      const Let* node = s.as<Let>();
      masks_.bind(node);
      const int pending = pending_;
      if (holders_.contains(node->value.get())) ++pending_;  // whoever uses the variable has a say
      walk(node->body);
      pending_ = pending;
      const auto use = uses_.find(node->variable.get());
      value(node->value, use == uses_.end() ? nullptr : use->second);
      break;
    }
    case StmtKind::Store: {
      const Store* node = s.as<Store>();
      value(node->value, masks_.resolve(node->mask));
      for (const Expr& index : node->indices) value(index, nullptr);
      if (node->mask) value(node->mask, nullptr);
      break;
    }
    case StmtKind::Seq:
      for (const Stmt& child : s.as<Seq>()->stmts) walk(child);
      break;
    case StmtKind::For:
      value(s.as<For>()->min, nullptr);
      value(s.as<For>()->extent, nullptr);
      walk(s.as<For>()->body);
      break;
    case StmtKind::Block:
      walk(s.as<Block>()->f.body);
      break;
    case StmtKind::If:
      value(s.as<If>()->condition, nullptr);
      walk(s.as<If>()->then_case);
      if (s.as<If>()->else_case) walk(s.as<If>()->else_case);
      break;
    default: {
      class Everything : public Visitor {
       public:
        explicit Everything(HarmlessLoads& owner) : owner_(owner) {}
        using Visitor::visit;
        void visit(const Expr& e) override { owner_.value(e, nullptr); }

       private:
        HarmlessLoads& owner_;
      };
      Everything(*this).visit(s);
    }
  }
  seen_.clear();
}

void HarmlessLoads::value(const Expr& e, const Expr& mask) {
  if (!e) return;
  if (const auto [known, first] = seen_.emplace(e.get(), mask); !first) {
    if (!known->second && !mask) return;
    if (known->second && mask && equal(known->second, mask)) return;
    known->second = nullptr;
    return value_new(e, nullptr);
  }
  value_new(e, mask);
}

void HarmlessLoads::value_new(const Expr& e, const Expr& mask) {
  switch (e->kind) {
    case ExprKind::Var: {
      const auto [use, first] = uses_.emplace(e.as<Var>(), mask);
      if (!first && use->second && !(mask && equal(use->second, mask))) use->second = nullptr;
      return;
    }
    case ExprKind::Load: {
      const Load* load = e.as<Load>();
      for (const Expr& index : load->indices) value(index, nullptr);
      if (!load->mask) return;
      value(load->mask, nullptr);
      const bool harmless = mask && is_register(load->buffer) && equal(masks_.resolve(load->mask), mask);
      const auto [known, first] = loads_.emplace(load, harmless);
      if (!first) known->second &= harmless;
      return;
    }
    case ExprKind::Unary:
      return value(e.as<Unary>()->a, mask);
    case ExprKind::Cast:
      return value(e.as<Cast>()->value, mask);
    case ExprKind::Select: {
      const Select* node = e.as<Select>();
      value(node->condition, mask);
      value(node->when_true, mask);
      return value(node->when_false, mask);
    }
    case ExprKind::Binary: {
      // An integer division traps on some operands.
      const Binary* node = e.as<Binary>();
      const Expr kept = e->dtype.is_float() || e->dtype.is_bool() ? mask : nullptr;
      value(node->a, kept);
      return value(node->b, kept);
    }
    case ExprKind::Call: {
      const Call* node = e.as<Call>();
      const Intrinsic* intrinsic = node->call_kind == CallKind::intrinsic ? find_intrinsic(node->callee) : nullptr;
      // A lane of what is permuted may come out in any other.
      const bool lane_by_lane = intrinsic && !intrinsic->reduces && intrinsic->name != "permute";
      for (const Expr& arg : node->args) value(arg, lane_by_lane ? mask : nullptr);
      return;
    }
    case ExprKind::Broadcast:
      return value(e.as<Broadcast>()->value, nullptr);
    case ExprKind::Ramp:
      value(e.as<Ramp>()->base, nullptr);
      return value(e.as<Ramp>()->stride, nullptr);
    case ExprKind::Shuffle:
      for (const Expr& vector : e.as<Shuffle>()->vectors) value(vector, nullptr);
      return;
    case ExprKind::AddressOf:
      for (const Expr& index : e.as<AddressOf>()->indices) value(index, nullptr);
      return;
    default:
      return;
  }
}

}  // namespace lathe
