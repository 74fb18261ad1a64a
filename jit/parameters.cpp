#include "jit/parameters.h"

#include <fmt/format.h>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "jit/layout.h"

namespace lathe {
namespace {

Substitution scalar_values(const Func& func, std::span<const std::int64_t> scalars) {
  Substitution map;
  const std::vector<VarRef> params = scalar_params(func);
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i]->dtype == i64) map[params[i].get()] = index(scalars[i]);
  }
  return map;
}

void check_facts(const Func& func, std::span<const std::int64_t> scalars) {
  if (func->facts.empty()) return;
  const std::vector<VarRef> params = scalar_params(func);
  const Substitution values = scalar_values(func, scalars);
  for (const Fact& fact : func->facts) {
    for (size_t i = 0; i < params.size(); ++i) {
      if (params[i] != fact.variable) continue;
      const std::int64_t value = scalars[i];
      const bool holds = (!fact.min || value >= *fact.min) && (!fact.max || value <= *fact.max) &&
                         (fact.multiple_of <= 1 || value % fact.multiple_of == 0) &&
                         (!fact.equals || is_int(simplify(substitute(fact.equals, values)), value));
      if (!holds) {
        throw InputError(Mistake::value, fmt::format("{}: scalar {} is {}, which breaks a fact of the program",
                                                     func->name, params[i]->name, value));
      }
    }
  }
}

/// Bytes that the address of an array is to be a multiple of.
std::int64_t expected_alignment(const Buffer& buffer) {
  return buffer->alignment > 0 ? buffer->alignment : buffer->dtype.bytes();
}

bool is_aligned(const TensorView& view, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(bytes) == 0 || view.elements() == 0;
}

void check_array(const Func& func, const Buffer& buffer, const TensorView& view,
                 std::span<const std::int64_t> scalars) {
  std::string expected = to_string(buffer->dtype) + "[";
  bool fits = view.dtype == buffer->dtype && view.rank == static_cast<int>(buffer->rank());
  for (size_t d = 0; d < buffer->rank(); ++d) {
    const std::int64_t extent = evaluate_extent(func, buffer->shape[d], scalars);
    expected += (d ? ", " : "") + std::to_string(extent);
    fits = fits && view.shape[d] == extent;
  }
  if (!fits) {
    throw InputError(view.dtype == buffer->dtype ? Mistake::value : Mistake::type,
                     fmt::format("{}: {} is {}, expected {}]", func->name, buffer->name, describe(view), expected));
  }
  if (const std::int64_t bytes = expected_alignment(buffer); !is_aligned(view, bytes)) {
    throw InputError(Mistake::value, fmt::format("{}: {} begins at an address that is no multiple of {} bytes, which "
                                                 "the program expects",
                                                 func->name, buffer->name, bytes));
  }
  if (!view.strides) return;
  const std::vector<Expr> strides = strides_of(buffer);
  for (size_t d = 0; d < buffer->rank(); ++d) {
    const std::int64_t stride = evaluate_extent(func, strides[d], scalars);
    if (view.shape[d] > 1 && view.strides[d] != stride) {
      throw InputError(Mistake::value, fmt::format("{}: {} has stride {} in dimension {}, the program expects {}",
                                                   func->name, buffer->name, view.strides[d], d, stride));
    }
  }
}

}  // namespace

std::int64_t evaluate_extent(const Func& func, const Expr& extent, std::span<const std::int64_t> scalars) {
  const Expr value = simplify(substitute(extent, scalar_values(func, scalars)));
  const std::int64_t* number = as_int(value);
  if (!number) {
    throw InputError(Mistake::value,
                     fmt::format("{}: the extent {} does not follow from the scalars", func->name, print(extent)));
  }
  return *number;
}

Parameters::Parameters(Func func) : func_(std::move(func)), scalars_(scalar_params(func_)) {
  const std::vector<Buffer> buffers = buffer_params(func_);
  const std::vector<bool> written = written_params(func_);
  for (size_t i = 0; i < buffers.size(); ++i) {
    ArrayParameter& array =
        arrays_.emplace_back(ArrayParameter{buffers[i], written[i], true, expected_alignment(buffers[i]), {}, {}});
    const auto numbers = [&](const std::vector<Expr>& values, std::vector<std::int64_t>* into) {
      for (const Expr& value : values) {
        const std::int64_t* number = as_int(value);
        array.constant &= number != nullptr;
        if (number) into->push_back(*number);
      }
    };
    numbers(buffers[i]->shape, &array.extents);
    numbers(strides_of(buffers[i]), &array.strides);
  }
}

bool Parameters::ArrayParameter::fits(const TensorView& view) const {
  if (!constant || view.dtype != buffer->dtype || view.rank != static_cast<int>(extents.size()) ||
      !is_aligned(view, alignment))
    return false;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (view.shape[d] != extents[d]) return false;
    if (view.strides && extents[d] > 1 && view.strides[d] != strides[d]) return false;
  }
  return true;
}

void Parameters::check(std::span<const TensorView> arrays, std::span<const std::int64_t> scalars) const {
  if (arrays.size() != arrays_.size() || scalars.size() != scalars_.size()) {
    throw InputError(Mistake::value,
                     fmt::format("{}: it takes {} arrays and {} scalars, {} and {} were given", func_->name,
                                 arrays_.size(), scalars_.size(), arrays.size(), scalars.size()));
  }
  check_facts(func_, scalars);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays_[i].fits(arrays[i])) check_array(func_, arrays_[i].buffer, arrays[i], scalars);
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if ((written(i) || written(j)) && alias_class(arrays[i], arrays[j]) != AliasClass::disjoint) {
        throw InputError(Mistake::value,
                         fmt::format("{}: {} and {} share memory, and one is written", func_->name, name(j), name(i)));
      }
    }
  }
}

}  // namespace lathe
