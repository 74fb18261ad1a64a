#pragma once
/// What every operation of ir/expr.h means, on single elements: one kernel for each operation and dtype, working lane
/// by lane on cells.
#include <cstddef>
#include <cstdint>

#include "ir/expr.h"

namespace lathe::interpreter {

/// One lane of a value. Integers and bools are in `i`, wrapped to their dtype (u64 as its bits); floats of every width
/// are in `d`, rounded to their dtype.
union Cell {
  std::int64_t i;
  double d;
};

using UnaryKernel = void (*)(Cell* out, const Cell* a, int lanes);
using BinaryKernel = void (*)(Cell* out, const Cell* a, const Cell* b, int lanes);
using TernaryKernel = void (*)(Cell* out, const Cell* a, const Cell* b, const Cell* c, int lanes);

/// `dtype` is the operands' element type. With `exact`, floats of every width are computed as f64.
UnaryKernel unary_kernel(UnaryOp op, DType dtype, bool exact);
BinaryKernel binary_kernel(BinaryOp op, DType dtype, bool exact);
UnaryKernel cast_kernel(DType to, DType from, bool exact);
BinaryKernel scaleb_kernel(DType dtype, bool exact);
TernaryKernel fma_kernel(DType dtype, bool exact);

/// One element of memory to a cell and back.
Cell load_element(DType dtype, const std::byte* address);
void store_element(DType dtype, std::byte* address, Cell value);

/// The bits of an element, zero-extended.
std::uint64_t to_bits(DType dtype, Cell value);
Cell from_bits(DType dtype, std::uint64_t bits);

}  // namespace lathe::interpreter
