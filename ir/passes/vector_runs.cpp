#include "ir/passes/vector_runs.h"

#include <algorithm>
#include <vector>

#include "ir/analysis/remainders.h"
#include "ir/analysis/simplify.h"
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

/// What an index divides, where that is one run of neighbours by one constant of at least as many as lanes. Of what
/// only the remainder is taken, multiples of the divisor may be missing.
class RowFinder : public Visitor {
 public:
  /// Nothing where anything else is divided.
  std::optional<Rows> find(const Expr& index, const Bounds& bounds) {
    visit(index);
    if (!rows_.run && !remainders_.empty()) rows_.run = remainders_.front();
    const bool alike = std::all_of(remainders_.begin(), remainders_.end(), [&](const Expr& remainder) {
      return same_remainder(bounds, remainder, rows_.run, rows_.length);
    });
    return other_ || !rows_.run || !alike ? std::nullopt : std::optional(rows_);
  }

 protected:
  using Visitor::visit;
  void visit_Binary(const Binary* node) override {
    const Ramp* ramp = node->a.as<Ramp>();
    const std::int64_t* length = node->dtype.lanes > 1 ? divisor_of(node) : nullptr;
    if (!length) return Visitor::visit_Binary(node);
    const bool divides = node->op == BinaryOp::floor_div;
    const bool fits = ramp && is_int(ramp->stride, 1) && *length >= node->dtype.lanes && node->dtype.element() == i64;
    if (!fits || (rows_.lanes > 0 && rows_.length != *length) ||
        (divides && rows_.run && !equal(rows_.run, ramp->base))) {
      other_ = true;
      return;
    }
    rows_.length = *length;
    rows_.lanes = node->dtype.lanes;
    if (divides) {
      rows_.run = ramp->base;
    } else {
      remainders_.push_back(ramp->base);
    }
  }
  void visit_Load(const Load*) override { other_ = true; }

 private:
  Rows rows_;
  std::vector<Expr> remainders_;  ///< the first numbers of what is only taken the remainder of
  bool other_ = false;
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

}  // namespace

bool cuts_runs(const Device& device) {
  return device.mask_registers > 0;
}

std::optional<Runs> runs_of(const Expr& place, const Bounds& bounds) {
  const int lanes = place->dtype.lanes;
  if (lanes < 2 || place.as<Ramp>()) return std::nullopt;
  const std::optional<Rows> rows = RowFinder().find(place, bounds);
  if (!rows || rows->lanes != lanes) return std::nullopt;
  const Expr begin = floor_div(rows->run, rows->length), end = floor_div(rows->run + (lanes - 1), rows->length);
  const Expr first = simplify(InRow(begin, *rows).mutate(place), bounds),
             second = simplify(InRow(end, *rows).mutate(place), bounds);
  for (const Expr& run : {first, second}) {
    const Ramp* ramp = run.as<Ramp>();
    if (!ramp || !is_int(ramp->stride, 1)) return std::nullopt;
  }
  if (equal(first, second)) return Runs{first, second, nullptr};
  const Expr offset = simplify(rows->run - begin * rows->length, bounds);
  return Runs{first, second, lt(Ramp::make(offset, index(1), lanes), Broadcast::make(index(rows->length), lanes))};
}

}  // namespace lathe
