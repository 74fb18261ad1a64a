#include <fmt/format.h>

#include <llvm/TargetParser/Triple.h>

#include "backends/cpu/features.h"
#include "ir/buffer.h"

namespace lathe {
namespace {

/// c[] += the sum of `group` products of a and b, widened to c's type.
Func dot_product(DType a, DType b, DType c, int group) {
  const Buffer x = BufferNode::make("a", a, {index(group)}), y = BufferNode::make("b", b, {index(group)});
  const Buffer sum = BufferNode::make("c", c, {});
  const VarRef t = Var::make("t");
  const Expr product = cast(c, load(x, {t})) * cast(c, load(y, {t}));
  const Stmt body =
      For::make(t, index(0), index(group), ForKind::serial, Store::make(sum, {}, load(sum, {}) + product));
  return FuncNode::make(fmt::format("dot{}_{}_{}", group, to_string(a), to_string(b)), {x, y, sum}, body);
}

}  // namespace

std::vector<Func> dot_products(const Device& device) {
  std::vector<Func> found;
  if (!llvm::Triple(device.triple).isX86()) return found;
  // vpdpbusd takes bytes of one signedness each. Without it, pairs of words serve all, with shifts that part them.
  const bool bytes =
      (device.has_feature("avx512vnni") && device.has_feature("avx512vl")) || device.has_feature("avxvnni");
  found.push_back(dot_product(u8, i8, i32, 4));
  if (!bytes) {
    found.push_back(dot_product(i8, i8, i32, 4));
    found.push_back(dot_product(u8, u8, i32, 4));
  }
  if (device.has_feature("avx512bf16") && device.has_feature("avx512vl")) {
    found.push_back(dot_product(bf16, bf16, f32, 2));
  }
  return found;
}

}  // namespace lathe
