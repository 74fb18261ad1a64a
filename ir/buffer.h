#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/expr_node.h"
#include "ir/region.h"

namespace lathe {

/// Where memory lives, by the name of a MemorySpace of the device (ir/device.h). These four every device has.
namespace space {
inline constexpr const char* global = "global";  ///< the caller's memory, and workspaces every thread can reach
inline constexpr const char* worker =
    "worker";  ///< workspace of one worker: private to an iteration of a parallel loop
inline constexpr const char* registers = "register";  ///< SSA values after unrolling: constant indices only, no address
inline constexpr const char* constants = "constant";  ///< read-only data of the kernel
}  // namespace space

/// An array in some memory space. Identity is the node's address. Distinct buffers never alias, unless one is a view of
/// the other.
struct BufferNode : Node {
  std::string name;
  DType dtype;
  std::vector<Expr> shape;    ///< extents, i64
  std::vector<Expr> strides;  ///< in elements, one a dimension; empty means compact row-major
  Expr offset;                ///< in elements, from the base pointer; null means 0
  std::string space = space::global;
  int alignment = 0;  ///< bytes that the base is known to be a multiple of; 0 means the element's size
  std::optional<Region> view_of;

  size_t rank() const { return shape.size(); }
  static Buffer make(std::string name, DType dtype, std::vector<Expr> shape, std::string space = space::global,
                     std::vector<Expr> strides = {}, Expr offset = nullptr, int alignment = 0,
                     std::optional<Region> view_of = std::nullopt);
};

/// The stride of each dimension, the compact ones written out.
std::vector<Expr> strides_of(const Buffer& buffer);
/// The flat element offset of `indices`: offset + sum of index * stride.
Expr flat_index(const Buffer& buffer, const std::vector<Expr>& indices);
/// The number of elements of the shape, and the same where no extent is symbolic.
Expr element_count(const Buffer& buffer);
std::optional<std::int64_t> constant_elements(const Buffer& buffer);

/// From the first element to behind the last one, counted from the base pointer.
struct ElementSpan {
  std::int64_t first, end;
  std::int64_t length() const { return end - first; }
};
/// Nothing when that is no constant, or some lie before the base pointer.
std::optional<ElementSpan> constant_span(const Buffer& buffer);

Expr load(const Buffer& buffer, std::vector<Expr> indices, Expr mask = nullptr);

}  // namespace lathe
