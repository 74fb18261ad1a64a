#include "backends/llvm/kernel_info.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "ir/error.h"
#include "ir/storage.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe::codegen {
namespace {

constexpr std::int64_t most_lanes = 64, narrow_limit = (std::int64_t{1} << 31) - most_lanes;

}  // namespace

std::optional<std::vector<std::int64_t>> constant_lanes(const Expr& index) {
  const int lanes = index->dtype.lanes;
  if (auto* imm = index.as<IntImm>()) return std::vector<std::int64_t>(lanes, imm->value);
  if (auto* broadcast = index.as<Broadcast>()) {
    auto value = constant_lanes(broadcast->value);
    if (!value) return std::nullopt;
    return std::vector<std::int64_t>(lanes, value->front());
  }
  if (auto* ramp = index.as<Ramp>()) {
    auto base = constant_lanes(ramp->base), stride = constant_lanes(ramp->stride);
    if (!base || !stride) return std::nullopt;
    std::vector<std::int64_t> result(lanes);
    for (int i = 0; i < lanes; ++i) result[i] = base->front() + i * stride->front();
    return result;
  }
  if (auto* op = index.as<Binary>();
      op && (op->op == BinaryOp::add || op->op == BinaryOp::sub || op->op == BinaryOp::mul)) {
    auto a = constant_lanes(op->a), b = constant_lanes(op->b);
    if (!a || !b) return std::nullopt;
    for (int i = 0; i < lanes; ++i) {
      if (op->op == BinaryOp::add)
        (*a)[i] += (*b)[i];
      else if (op->op == BinaryOp::sub)
        (*a)[i] -= (*b)[i];
      else
        (*a)[i] *= (*b)[i];
    }
    return a;
  }
  return std::nullopt;
}

/// Walks statements, and each shared expression once.
class KernelInfo::Collector : public Visitor {
 public:
  explicit Collector(KernelInfo& info) : info_(info) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }

 protected:
  void visit_Var(const Var* node) override { info_.strides_[node] = 1; }
  void visit_For(const For* node) override {
    const std::int64_t *first = as_int(node->min), *count = as_int(node->extent);
    if (first && count && std::max(std::abs(*first), std::abs(*count)) < narrow_limit)
      info_.magnitudes_[node->variable.get()] = std::max(std::abs(*first), std::abs(*first + *count));
    Visitor::visit_For(node);
  }
  void visit_Binary(const Binary* node) override {
    auto* variable = node->a.as<Var>();
    auto* factor = node->b.as<IntImm>();
    if (node->op == BinaryOp::mul && variable && factor && node->dtype == i64)
      info_.strides_[variable] = std::gcd(info_.strides_[variable], factor->value);
    else
      Visitor::visit_Binary(node);
  }
  void visit_Load(const Load* node) override {
    access(node->buffer, node->indices);
    info_.read_.insert(storage_of(node->buffer));
    Visitor::visit_Load(node);
  }
  void visit_Store(const Store* node) override {
    access(node->buffer, node->indices);
    info_.written_.insert(storage_of(node->buffer));
    Visitor::visit_Store(node);
  }
  void visit_AddressOf(const AddressOf* node) override {
    // Whoever gets the address may read and write through it.
    if (node->buffer->space == space::registers)
      throw Refusal("emit", 1, "a register buffer has no address: " + node->buffer->name);
    access(node->buffer, node->indices);
    info_.read_.insert(storage_of(node->buffer));
    info_.written_.insert(storage_of(node->buffer));
    Visitor::visit_AddressOf(node);
  }

 private:
  void access(const Buffer& buffer, const std::vector<Expr>& indices) {
    LATHE_CHECK(indices.size() == 1, "access to " + buffer->name + " is not flat");
    if (info_.accessed_.insert(buffer.get()).second) info_.order_.push_back(buffer);
    if (buffer->space != space::registers) return;
    auto lanes = constant_lanes(indices[0]);
    if (!lanes)
      throw Refusal("emit", 1,
                    "register buffer " + buffer->name + " needs constant indices, got [" + print(indices[0]) +
                        "]; unroll the loops that index it, or give the buffer another space");
    info_.register_accesses_[buffer.get()].push_back(std::move(*lanes));
  }

  KernelInfo& info_;
  NodeSet<const ExprNode*> seen_;
};

KernelInfo::KernelInfo(const Func& func) {
  Collector(*this).visit(func->body);
  lay_out_registers();
}

bool KernelInfo::is_narrow(const Affine& form) const {
  std::int64_t most = std::abs(form.constant);
  for (const AffineTerm& term : form.terms) {
    const auto magnitude = magnitudes_.find(term.atom.as<Var>());
    if (magnitude == magnitudes_.end() || std::abs(term.coefficient) >= narrow_limit) return false;
    most += std::abs(term.coefficient) * magnitude->second;
    if (most >= narrow_limit) return false;
  }
  return most < narrow_limit;
}

std::int64_t KernelInfo::stride_of(const Var* variable) const {
  auto found = strides_.find(variable);
  return found == strides_.end() ? 1 : std::max<std::int64_t>(found->second, 1);
}

void KernelInfo::lay_out_registers() {
  for (const Buffer& buffer : order_) {
    if (buffer->space != space::registers) continue;
    // Intervals [first, last] of all accesses, merged where they overlap.
    std::map<std::int64_t, std::int64_t> intervals;
    size_t widest = 1;
    for (auto& lanes : register_accesses_[buffer.get()]) {
      auto [low, high] = std::minmax_element(lanes.begin(), lanes.end());
      auto& end = intervals.try_emplace(*low, *high).first->second;
      end = std::max(end, *high);
      widest = std::max(widest, lanes.size());
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> merged;
    for (auto [low, high] : intervals) {
      if (!merged.empty() && low <= merged.back().second)
        merged.back().second = std::max(merged.back().second, high);
      else
        merged.emplace_back(low, high);
    }
    auto add_slot = [&](std::int64_t first, int lanes) {
      for (int i = 0; i < lanes; ++i) slot_of_[buffer.get()][first + i] = static_cast<int>(slots_.size());
      slots_.push_back({buffer.get(), first, lanes});
    };
    for (auto [low, high] : merged) {
      const std::int64_t count = high - low + 1;
      // Misaligned vectors that chain into a long run are cheaper as single elements than as one giant value.
      if (count <= static_cast<std::int64_t>(widest))
        add_slot(low, static_cast<int>(count));
      else
        for (std::int64_t i = low; i <= high; ++i) add_slot(i, 1);
    }
  }
}

int KernelInfo::slot_of(const BufferNode* buffer, std::int64_t element) const {
  return slot_of_.at(buffer).at(element);
}

std::vector<int> KernelInfo::slots_of(const BufferNode* buffer) const {
  std::vector<int> result;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].buffer == buffer) result.push_back(static_cast<int>(i));
  return result;
}

std::vector<int> KernelInfo::stored_slots(const Stmt& s) const {
  std::vector<int> result;
  if (slots_.empty()) return result;
  for_each_stmt(s, [&](const Stmt& stmt) {
    auto* store = stmt.as<Store>();
    if (!store || store->buffer->space != space::registers) return;
    const auto elements = constant_lanes(store->indices[0]);
    for (std::int64_t element : *elements) result.push_back(slot_of(store->buffer.get(), element));
  });
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

bool KernelInfo::is_stable(const ExprNode* e) const {
  if (const bool* known = stable_.find(e)) return *known;
  auto all = [&](auto& exprs) {
    return std::all_of(exprs.begin(), exprs.end(), [&](const Expr& child) { return is_stable(child.get()); });
  };
  bool stable = true;
  switch (e->kind) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
    case ExprKind::Var:
      break;
    case ExprKind::Unary:
      stable = is_stable(static_cast<const Unary*>(e)->a.get());
      break;
    case ExprKind::Binary: {
      auto* node = static_cast<const Binary*>(e);
      stable = is_stable(node->a.get()) && is_stable(node->b.get());
      break;
    }
    case ExprKind::Select: {
      auto* node = static_cast<const Select*>(e);
      stable =
          is_stable(node->condition.get()) && is_stable(node->when_true.get()) && is_stable(node->when_false.get());
      break;
    }
    case ExprKind::Cast:
      stable = is_stable(static_cast<const Cast*>(e)->value.get());
      break;
    case ExprKind::Load: {
      auto* node = static_cast<const Load*>(e);
      stable =
          !is_written(storage_of(node->buffer)) && all(node->indices) && (!node->mask || is_stable(node->mask.get()));
      break;
    }
    case ExprKind::Ramp: {
      auto* node = static_cast<const Ramp*>(e);
      stable = is_stable(node->base.get()) && is_stable(node->stride.get());
      break;
    }
    case ExprKind::Broadcast:
      stable = is_stable(static_cast<const Broadcast*>(e)->value.get());
      break;
    case ExprKind::Shuffle:
      stable = all(static_cast<const Shuffle*>(e)->vectors);
      break;
    // An extern callee may read memory whose address it is given.
    case ExprKind::Call:
      stable = all(static_cast<const Call*>(e)->args);
      break;
    case ExprKind::AddressOf:
      stable = false;
      break;
  }
  stable_.emplace(e, stable);
  return stable;
}

}  // namespace lathe::codegen
