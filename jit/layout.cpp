#include "jit/layout.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

#include <bit>

#include "ir/error.h"
#include "jit/compile.h"
#include "schedule/auto/stream_outputs.h"

namespace lathe {
namespace {

struct ByteRange {
  std::uintptr_t begin, end;
};

ByteRange byte_range(const TensorView& view) {
  const auto base = reinterpret_cast<std::uintptr_t>(view.data);
  std::int64_t low = 0, high = 0;
  if (view.strides) {
    for (int d = 0; d < view.rank; ++d) {
      if (view.shape[d] == 0) return {base, base};
      const std::int64_t reach = (view.shape[d] - 1) * view.strides[d];
      (reach < 0 ? low : high) += reach;
    }
  } else {
    high = view.elements() - 1;
  }
  const std::int64_t bytes = view.dtype.bytes();
  return {base + static_cast<std::uintptr_t>(low * bytes), base + static_cast<std::uintptr_t>((high + 1) * bytes)};
}

bool same_layout(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank) return false;
  if (!std::equal(a.shape, a.shape + a.rank, b.shape)) return false;
  std::int64_t dense = 1;
  for (int d = a.rank; d-- > 0;) {
    const std::int64_t x = a.strides ? a.strides[d] : dense, y = b.strides ? b.strides[d] : dense;
    if (x != y && a.shape[d] > 1) return false;
    dense *= a.shape[d];
  }
  return true;
}

/// Calls f(element offset) for every index of `view`, in row-major order.
template <class F>
void for_each_offset(const TensorView& view, F f) {
  std::vector<std::int64_t> index(view.rank, 0), strides(view.rank);
  std::int64_t dense = 1;
  for (int d = view.rank; d-- > 0;) {
    strides[d] = view.strides ? view.strides[d] : dense;
    dense *= view.shape[d];
  }
  const std::int64_t count = view.elements();
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    f(offset);
    for (int d = view.rank; d-- > 0;) {
      offset += strides[d];
      if (++index[d] < view.shape[d]) break;
      offset -= strides[d] * view.shape[d];
      index[d] = 0;
    }
  }
}

/// The order of a dense array's dimensions as StrideClasses say it, or 0 where there are holes, or elements that lie
/// together. Dimensions of one index, whose strides say nothing of the array, go where their strides put them, and
/// where these say nothing either, where row-major order has them: results of torch and NumPy lie that way too.
StrideClasses dense_order(const TensorView& view) {
  if (view.rank > max_permuted_rank) return 0;
  std::int64_t elements = 1, reach = 1;
  for (int d = 0; d < view.rank; ++d) {
    elements *= view.shape[d];
    reach += (view.shape[d] - 1) * view.strides[d];
  }
  if (reach != elements) return 0;  // quick, for most that are not dense
  std::array<int, max_permuted_rank> order;
  for (int n = 0; n < view.rank; ++n) {
    const int d = view.rank - 1 - n;
    int at = n;
    for (int k = n; k-- > 0;) {
      const int other = order[k];
      if (view.strides[d] == 0 || view.strides[other] == 0) continue;
      if (view.strides[d] > view.strides[other]) break;
      if (view.strides[d] < view.strides[other] || view.shape[d] < view.shape[other]) at = k;
    }
    std::copy_backward(order.begin() + at, order.begin() + n, order.begin() + n + 1);
    order[at] = d;
  }
  StrideClasses classes = StrideClasses{1} << 63;
  std::int64_t dense = 1;
  for (int k = 0; k < view.rank; ++k) {
    const int d = order[k];
    if (view.shape[d] > 1 && view.strides[d] != dense) return 0;
    dense *= view.shape[d];
    classes |= static_cast<StrideClasses>(d) << (4 * k);
  }
  return classes;
}

template <class Element>
void scatter(const void* dense, const TensorView& to) {
  const auto* from = static_cast<const Element*>(dense);
  auto* base = static_cast<Element*>(to.data);
  for_each_offset(to, [&](std::int64_t offset) { std::memcpy(base + offset, from++, sizeof(Element)); });
}

}  // namespace

std::string describe(const TensorView& view) {
  std::string text = to_string(view.dtype) + "[";
  for (int d = 0; d < view.rank; ++d) text += (d ? ", " : "") + std::to_string(view.shape[d]);
  return text + "]";
}

ScalarValue ScalarValue::of(double value) {
  return {f64, std::bit_cast<std::int64_t>(value), true};
}
ScalarValue ScalarValue::of(std::int64_t value) {
  return {i64, value, true};
}

StrideClasses classify_strides(const TensorView& view) {
  if (!view.strides) return 0;
  StrideClasses classes = 0;
  std::int64_t dense = 1;
  int last = view.rank - 1;
  while (last > 0 && view.shape[last] <= 1) --last;
  std::int64_t step = 1;
  if (last >= 0 && view.shape[last] > 1 && view.strides[last] >= (last == view.rank - 1 ? -widest_step : 1) &&
      view.strides[last] != 0 && view.strides[last] <= widest_step) {
    step = view.strides[last];
    dense = std::abs(step);
    classes = static_cast<StrideClasses>(dense - 1 + (step < 0 ? widest_step : 0)) << (2 * max_rank);
  }
  for (int d = view.rank; d-- > 0;) {
    const std::int64_t extent = view.shape[d], stride = view.strides[d];
    if (extent > 1 && stride != (d == last ? step : dense)) {
      const StrideClass c = stride == 0 ? StrideClass::zero : stride == 1 ? StrideClass::unit : StrideClass::runtime;
      classes |= static_cast<StrideClasses>(c) << (2 * d);
    }
    dense *= extent;
  }
  // An empty array touches nothing, whatever its strides.
  if (classes == 0 || dense == 0) return 0;
  const StrideClasses order = dense_order(view);
  return order ? order : classes;
}

std::vector<size_t> permuted_dimensions(StrideClasses classes, size_t rank) {
  std::vector<size_t> dimensions;
  for (size_t k = rank; k-- > 0;) dimensions.push_back(permuted_dimension(classes, static_cast<int>(k)));
  return dimensions;
}

std::vector<std::int64_t> permuted_strides(StrideClasses classes, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t dense = 1;
  for (int k = 0; k < static_cast<int>(shape.size()); ++k) {
    const int d = permuted_dimension(classes, k);
    strides[d] = dense;
    dense *= shape[d];
  }
  return strides;
}

AliasClass alias_class(const TensorView& a, const TensorView& b) {
  const ByteRange x = byte_range(a), y = byte_range(b);
  if (x.begin >= y.end || y.begin >= x.end || x.begin == x.end || y.begin == y.end) return AliasClass::disjoint;
  return same_layout(a, b) ? AliasClass::identical : AliasClass::overlapping;
}

bool overlaps_itself(const TensorView& view) {
  if (!view.strides || view.elements() <= 1) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // |stride|, extent
  for (int d = 0; d < view.rank; ++d) {
    if (view.shape[d] > 1) dims.emplace_back(std::abs(view.strides[d]), view.shape[d]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 0;
  bool nested = true;
  for (const auto& [stride, extent] : dims) {
    if (stride == 0) return true;
    nested &= stride > reach;
    reach += stride * (extent - 1);
  }
  if (nested) return false;
  if (view.elements() > (std::int64_t{1} << 22)) return true;
  std::unordered_set<std::int64_t> seen;
  bool overlap = false;
  for_each_offset(view, [&](std::int64_t offset) { overlap |= !seen.insert(offset).second; });
  return overlap;
}

std::int64_t least_streamed_bytes() {
  static const std::int64_t bytes = least_streamed_bytes(compile_device());
  return bytes;
}

std::int64_t dense_bytes(const TensorView& view) {
  return view.elements() * view.dtype.bytes();
}

void scatter_dense(const void* dense, const TensorView& to) {
  if (classify_strides(to) == 0) {
    if (to.elements() > 0) std::memcpy(to.data, dense, static_cast<size_t>(dense_bytes(to)));
    return;
  }
  switch (to.dtype.bytes()) {
    case 1:
      return scatter<std::uint8_t>(dense, to);
    case 2:
      return scatter<std::uint16_t>(dense, to);
    case 4:
      return scatter<std::uint32_t>(dense, to);
    case 8:
      return scatter<std::uint64_t>(dense, to);
    default:
      LATHE_CHECK(false, describe(to));
  }
}

}  // namespace lathe
