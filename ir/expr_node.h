#pragma once
#include <cstdint>
#include <string_view>

#include "ir/dtype.h"
#include "ir/node.h"

namespace lathe {

/// Every kind of expression, once: enum, visitor and printer come from this list.
#define LATHE_EXPR_NODES(X) \
  X(IntImm)                 \
  X(FloatImm)               \
  X(Var)                    \
  X(Unary)                  \
  X(Binary)                 \
  X(Select)                 \
  X(Cast)                   \
  X(Load)                   \
  X(Ramp)                   \
  X(Broadcast)              \
  X(Shuffle)                \
  X(Call)                   \
  X(AddressOf)

#define LATHE_ENUM_ENTRY(name) name,
enum class ExprKind : std::uint8_t { LATHE_EXPR_NODES(LATHE_ENUM_ENTRY) };
#undef LATHE_ENUM_ENTRY
std::string_view to_string(ExprKind kind);

/// What every expression has; ir/expr.h has the kinds and what they mean.
struct ExprNode : Node {
  ExprNode(ExprKind kind, DType dtype) : kind(kind), dtype(dtype) {}
  const ExprKind kind;
  const DType dtype;
};
using Expr = Ref<ExprNode>;

struct BufferNode;
using Buffer = Ref<BufferNode>;

}  // namespace lathe
