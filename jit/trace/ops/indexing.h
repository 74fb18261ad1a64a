#pragma once
#include <optional>
#include <variant>

#include "jit/trace/tensor.h"

namespace lathe::ops {

/// start:stop:step as Python has it: negative ones count from the end, ones outside are clamped.
struct Slice {
  std::optional<std::int64_t> start, stop;
  std::int64_t step = 1;
};
struct NewAxis {};
struct Ellipsis {};
/// One place of a subscript. A plain integer takes one element and drops the axis; integer tensors take one for each of
/// their elements.
using Subscript = std::variant<std::int64_t, Slice, NewAxis, Ellipsis, Tensor>;

/// x[subscripts], a view. Shapes of integer tensors broadcast, and stand in the result where the tensors do: in the
/// place of neighbouring ones, first where others lie between them, as in NumPy (where an integer among them is one of
/// them too, so that it has to be a neighbour). Their indices are checked as those of `take` are.
Tensor getitem(const Tensor& x, const std::vector<Subscript>& subscripts);

/// The same with the places of a list in the place of the subscript at `at`, whatever that is: slices where they go on
/// by a step, joined where they do not. Negative ones count from the end; one out of range is an InputError.
Tensor getitem(const Tensor& x, std::vector<Subscript> subscripts, size_t at, const std::vector<std::int64_t>& places);

/// Elements along `axis` by an integer tensor: a view, behind a Block that checks each index. Negative ones count from
/// the end; one out of range stops the kernel with "take|axis N|index", before anything is read outside.
Tensor take(const Tensor& x, const Tensor& indices, std::int64_t axis);
/// The index for each element of the result; shapes broadcast but for `axis`.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis = -1);
/// x, with what `source` holds along `axis` added at an index each: equal indices add up, in their order. Negative ones
/// count from the end; one out of range stops the kernel. `source` broadcasts to x's shape with as many elements along
/// `axis` as there are indices; f16 and bf16 are added up in f32. Sums of segments are those into zeros.
Tensor index_add(const Tensor& x, const Tensor& indices, const Tensor& source, std::int64_t axis = 0);
/// A last axis of `classes`, 1 at the index and 0 elsewhere; all 0 for an index outside.
Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = f32);

}  // namespace lathe::ops
