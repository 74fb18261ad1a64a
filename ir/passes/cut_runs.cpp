#include "ir/passes/cut_runs.h"

#include <optional>

#include "ir/analysis/simplify.h"
#include "ir/passes/bounds_scope.h"
#include "ir/storage.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Quotients and remainders of one run of numbers by one constant, as lanes of a vector have them.
struct Rows {
  Expr run;  ///< the first number
  std::int64_t length = 0;
  int lanes = 0;
};

/// The constant that a vector is divided by; null where it is by none.
const std::int64_t* divisor_of(const Binary* node) {
  return node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod ? as_int(node->b) : nullptr;
}

/// What an index divides, where that is one run of neighbours by one constant of at least as many as lanes.
class RowFinder : public Visitor {
 public:
  using Visitor::visit;
  Rows rows;
  bool other = false;  ///< something else is divided

 protected:
  void visit_Binary(const Binary* node) override {
    const Ramp* ramp = node->a.as<Ramp>();
    const std::int64_t* length = node->dtype.lanes > 1 ? divisor_of(node) : nullptr;
    if (!length) return Visitor::visit_Binary(node);
    const bool fits = ramp && is_int(ramp->stride, 1) && *length >= node->dtype.lanes && node->dtype.element() == i64;
    if (!fits || (rows.lanes > 0 && (rows.length != *length || !equal(rows.run, ramp->base)))) {
      other = true;
    } else {
      rows = {ramp->base, *length, node->dtype.lanes};
    }
  }
  void visit_Load(const Load*) override { other = true; }
};

/// The index with all quotients taken for `quotient`, and remainders accordingly.
class InRow : public Mutator {
 public:
  InRow(Expr quotient, const Rows& rows) : quotient_(std::move(quotient)), rows_(rows) {}

 protected:
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    if (node->dtype.lanes < 2 || !divisor_of(node)) return Mutator::mutate_Binary(e, node);
    if (node->op == BinaryOp::floor_div) return Broadcast::make(quotient_, rows_.lanes);
    return Ramp::make(rows_.run - quotient_ * rows_.length, index(1), rows_.lanes);
  }

 private:
  const Expr quotient_;
  const Rows& rows_;
};

/// The two runs of an index, and which lanes are in the first; null where they are one.
struct Runs {
  Expr first, second, in_first;
};

class Cutter : public Mutator {
 public:
  explicit Cutter(const Func& func) : bounds_(func) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    return Mutator::mutate_For(s, node);
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    const auto runs = runs_of(node->buffer, node->indices, node->dtype.lanes);
    if (!runs) return Mutator::mutate_Load(e, node);
    const Expr mask = node->mask ? mutate(node->mask) : Expr();
    if (!runs->in_first) return Load::make(node->buffer, {runs->first}, mask);
    return Select::make(runs->in_first, Load::make(node->buffer, {runs->first}, logical_and(mask, runs->in_first)),
                        Load::make(node->buffer, {runs->second}, logical_and(mask, logical_not(runs->in_first))));
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const auto runs = runs_of(node->buffer, node->indices, node->value->dtype.lanes);
    if (!runs) return Mutator::mutate_Store(s, node);
    const Expr mask = node->mask ? mutate(node->mask) : Expr();
    if (!runs->in_first) return Store::make(node->buffer, {runs->first}, mutate(node->value), mask);
    const VarRef value = Var::make("run", node->value->dtype);
    return Let::make(
        value, mutate(node->value),
        Seq::make(
            {Store::make(node->buffer, {runs->first}, Expr(value), logical_and(mask, runs->in_first)),
             Store::make(node->buffer, {runs->second}, Expr(value), logical_and(mask, logical_not(runs->in_first)))}));
  }

 private:
  std::optional<Runs> runs_of(const Buffer& buffer, const std::vector<Expr>& indices, int lanes) const {
    if (lanes < 2 || indices.size() != 1 || indices[0].as<Ramp>() || buffer->space == space::registers)
      return std::nullopt;
    RowFinder finder;
    finder.visit(indices[0]);
    const Rows& rows = finder.rows;
    if (finder.other || rows.lanes != lanes) return std::nullopt;
    const Expr begin = floor_div(rows.run, rows.length), end = floor_div(rows.run + (lanes - 1), rows.length);
    const Expr first = simplify(InRow(begin, rows).mutate(indices[0]), bounds_),
               second = simplify(InRow(end, rows).mutate(indices[0]), bounds_);
    for (const Expr& run : {first, second}) {
      const Ramp* ramp = run.as<Ramp>();
      if (!ramp || !is_int(ramp->stride, 1)) return std::nullopt;
    }
    if (equal(first, second)) return Runs{first, second, nullptr};
    const Expr place = simplify(rows.run - begin * rows.length, bounds_);
    return Runs{first, second, lt(Ramp::make(place, index(1), lanes), Broadcast::make(index(rows.length), lanes))};
  }

  Bounds bounds_;
};

}  // namespace

Func cut_runs(const Func& func, const Device& device) {
  return device.mask_registers > 0 ? with_body(func, Cutter(func).mutate(func->body)) : func;
}

}  // namespace lathe
