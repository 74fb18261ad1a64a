#include "ir/analysis/comparison.h"

namespace lathe {

void append_inequalities(BinaryOp op, const Binary& b, std::vector<Affine>& out) {
  if (!(b.a->dtype == i64)) return;
  Affine left = to_affine(b.a), right = to_affine(b.b);
  auto push = [&](const Affine& low, const Affine& high, std::int64_t slack) {
    Affine d = high;
    if (add_scaled(d, low, -1) && !__builtin_sub_overflow(d.constant, slack, &d.constant)) out.push_back(std::move(d));
  };
  switch (op) {
    case BinaryOp::lt:
      return push(left, right, 1);
    case BinaryOp::le:
      return push(left, right, 0);
    case BinaryOp::gt:
      return push(right, left, 1);
    case BinaryOp::ge:
      return push(right, left, 0);
    case BinaryOp::eq:
      push(left, right, 0);
      return push(right, left, 0);
    default:
      return;
  }
}

BinaryOp negated(BinaryOp op) {
  switch (op) {
    case BinaryOp::lt:
      return BinaryOp::ge;
    case BinaryOp::le:
      return BinaryOp::gt;
    case BinaryOp::gt:
      return BinaryOp::le;
    case BinaryOp::ge:
      return BinaryOp::lt;
    case BinaryOp::eq:
      return BinaryOp::ne;
    default:
      return BinaryOp::eq;
  }
}

}  // namespace lathe
