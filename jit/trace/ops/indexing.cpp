#include "jit/trace/ops/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/error.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/known_places.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/joining.h"
#include "jit/trace/promotion.h"
#include "jit/trace/tensor_node.h"

namespace lathe::ops {
namespace {

/// How one axis of the result, or a dropped one, walks along an axis of the source.
struct Walk {
  Expr start;
  std::int64_t step = 1;
  Expr extent;           ///< of the result's axis
  bool dropped = false;  ///< an integer subscript
  bool added = false;    ///< a new axis: no axis of the source
  Tensor places = {};    ///< an integer tensor's, checked; dropped, as its axes are elsewhere in the result
};

/// Where the axes of the integer tensors among subscripts stand in the result, and their shape.
struct GatheredAxes {
  size_t first = 0;
  Shape shape;
};

/// Finds them: `walks` of such tensors, and of integers beside them, are dropped.
GatheredAxes gathered_axes(const std::vector<Walk>& walks, const Tensor& x) {
  std::vector<Tensor> places;
  size_t first = walks.size(), last = 0, integers = 0, between = 0, axes = 0;
  for (size_t i = 0; i < walks.size(); ++i) {
    if (walks[i].places) places.push_back(walks[i].places);
    if (!walks[i].dropped) continue;
    integers += !walks[i].places;
    first = std::min(first, i);
    last = i;
  }
  for (size_t i = 0; i < walks.size(); ++i) {
    if (walks[i].dropped) continue;
    axes += i < first;
    between += first < i && i < last;
  }
  if (between > 0 && integers > 0) {
    fail_value("getitem", fmt::format("an integer and a tensor among the subscripts of {} have a slice between them; "
                                      "take the integer first: x[..][..]",
                                      describe(x)));
  }
  return {between > 0 ? 0 : axes, broadcast_shapes("getitem", places)};
}

Walk walk_slice(const Slice& slice, const Expr& extent) {
  if (slice.step == 0) fail_value("getitem", "a slice's step is 0; expected another");
  const std::int64_t* size = as_int(extent);
  if (!size) {
    const bool whole = !slice.start && !slice.stop && (slice.step == 1 || slice.step == -1);
    if (!whole)
      fail_value("getitem", fmt::format("the symbolic extent {} takes the slices : and ::-1 only", describe(extent)));
    return {.start = slice.step > 0 ? index(0) : extent - index(1), .step = slice.step, .extent = extent};
  }
  const std::int64_t n = *size;
  const std::int64_t least = slice.step > 0 ? 0 : -1, greatest = slice.step > 0 ? n : n - 1;
  const auto clamp = [&](std::int64_t place) { return std::clamp(place < 0 ? place + n : place, least, greatest); };
  const std::int64_t start = slice.start ? clamp(*slice.start) : (slice.step > 0 ? least : greatest);
  const std::int64_t stop = slice.stop ? clamp(*slice.stop) : (slice.step > 0 ? greatest : least);
  const std::int64_t span = slice.step > 0 ? stop - start : start - stop;
  const std::int64_t stride = slice.step > 0 ? slice.step : -slice.step;
  return {.start = index(start), .step = slice.step, .extent = index(span > 0 ? (span + stride - 1) / stride : 0)};
}

Walk walk_integer(std::int64_t place, const Tensor& x, size_t axis) {
  const Expr& extent = x.shape()[axis];
  const std::int64_t* size = as_int(extent);
  if (!size) fail_value("getitem", fmt::format("the symbolic extent {} takes no integer subscript", describe(extent)));
  if (place < -*size || place >= *size) {
    throw InputError(Mistake::index,
                     fmt::format("getitem: index {} is out of range for axis {} of {}", place, axis, describe(x)));
  }
  return {.start = index(place < 0 ? place + *size : place), .extent = nullptr, .dropped = true};
}

/// The indices, wrapped and checked, as i64: where they are known ahead, without a Block.
Tensor checked_indices(std::string name, const Tensor& indices, size_t axis, const Expr& extent) {
  if (!indices.dtype().is_integer()) {
    fail_type(name, fmt::format("takes integer indices; given {}", describe(indices)));
  }
  if (const auto known = known_places(indices, extent)) {
    return view(
        indices.shape(), i64,
        [known](const Indices& i, const Expr&) {
          Substitution places;
          for (size_t d = 0; d < i.size(); ++d) places[known->places[d].get()] = i[d];
          return substitute(known->value, places);
        },
        name + ".index");
  }
  if (lies_inside(indices, extent)) {
    return view(
        indices.shape(), i64,
        [indices](const Indices& i, const Expr& mask) { return convert(i64, indices.at(i, mask)); }, name + ".index");
  }
  return compute(
      indices.shape(),
      [&](const Indices& i) {
        const Expr given = indices.at(i);
        Expr place = convert(i64, given);
        const std::string message = fmt::format("{}|axis {}|index", name, axis);
        if (given->dtype.is_unsigned()) {
          require(lt(convert(u64, given), convert(u64, extent)), message, place);
          return place;
        }
        const Expr wrapped = select(lt(place, index(0)), place + extent, place);
        require(logical_and(ge(wrapped, index(0)), lt(wrapped, extent)), message, place);
        return wrapped;
      },
      name + ".index");
}

/// The check has passed where this is read; the clamp says so to whoever bounds the access.
Expr clamp_index(const Expr& place, const Expr& extent) {
  return lathe::min(lathe::max(place, index(0)), extent - index(1));
}

Expr nothing(DType dtype) {
  return constant(dtype, std::int64_t{0});
}

}  // namespace

Tensor getitem(const Tensor& x, const std::vector<Subscript>& subscripts) {
  size_t named = 0, ellipses = 0;
  for (const Subscript& subscript : subscripts) {
    if (std::holds_alternative<Ellipsis>(subscript)) {
      ++ellipses;
    } else if (!std::holds_alternative<NewAxis>(subscript)) {
      ++named;
    }
  }
  if (ellipses > 1) fail_value("getitem", "a subscript has one ellipsis at most");
  if (named > x.rank()) {
    throw InputError(Mistake::index,
                     fmt::format("getitem: {} subscripts for the {} axes of {}", named, x.rank(), describe(x)));
  }
  std::vector<Walk> walks;
  size_t axis = 0;
  const auto take_whole_axes = [&](size_t count) {
    for (; count > 0; --count) walks.push_back({.start = index(0), .extent = x.shape()[axis++]});
  };
  for (const Subscript& subscript : subscripts) {
    if (const auto* place = std::get_if<std::int64_t>(&subscript)) {
      walks.push_back(walk_integer(*place, x, axis));
      ++axis;
    } else if (const auto* slice = std::get_if<Slice>(&subscript)) {
      walks.push_back(walk_slice(*slice, x.shape()[axis++]));
    } else if (const auto* places = std::get_if<Tensor>(&subscript)) {
      walks.push_back({.start = nullptr,
                       .extent = nullptr,
                       .dropped = true,
                       .places = checked_indices("getitem", *places, axis, x.shape()[axis])});
      ++axis;
    } else if (std::holds_alternative<NewAxis>(subscript)) {
      walks.push_back({.start = index(0), .extent = index(1), .added = true});
    } else {
      take_whole_axes(x.rank() - named);
    }
  }
  take_whole_axes(x.rank() - axis);

  Shape shape;
  for (const Walk& walk : walks) {
    if (!walk.dropped) shape.push_back(walk.extent);
  }
  const bool gathers = std::any_of(walks.begin(), walks.end(), [](const Walk& walk) { return bool(walk.places); });
  const GatheredAxes gathered = gathers ? gathered_axes(walks, x) : GatheredAxes{};
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(gathered.first), gathered.shape.begin(),
               gathered.shape.end());
  return view(
      shape, x.dtype(),
      [x, walks, gathered](const Indices& i, const Expr& mask) {
        Indices source;
        size_t next = 0, axis = 0;
        for (const Walk& walk : walks) {
          if (walk.places) {
            if (is_int(x.shape()[axis], 0)) return nothing(x.dtype());
            Indices own;
            const size_t rank = walk.places.rank();
            for (size_t d = 0; d < rank; ++d) {
              const Expr& at = i[gathered.first + gathered.shape.size() - rank + d];
              own.push_back(is_int(walk.places.shape()[d], 1) ? index(0) : at);
            }
            source.push_back(clamp_index(walk.places.at(own, mask), x.shape()[axis]));
          } else if (walk.dropped) {
            source.push_back(walk.start);
          } else {
            const size_t at = next++;
            const Expr& own = i[at < gathered.first ? at : at + gathered.shape.size()];
            if (!walk.added) source.push_back(walk.start + own * walk.step);
          }
          axis += !walk.added;
        }
        return x.at(source, mask);
      },
      "getitem");
}

Tensor getitem(const Tensor& x, std::vector<Subscript> subscripts, size_t at, const std::vector<std::int64_t>& given) {
  const auto names = [](const Subscript& s) {
    return !std::holds_alternative<Ellipsis>(s) && !std::holds_alternative<NewAxis>(s);
  };
  subscripts[at] = Slice{0, 0};
  const Tensor none = getitem(x, subscripts);  // refuses what is wrong with the others
  const auto hidden = x.rank() - static_cast<size_t>(std::count_if(subscripts.begin(), subscripts.end(), names));
  size_t axis = 0, result_axis = 0;
  for (size_t i = 0; i < at; ++i) {
    const bool all = std::holds_alternative<Ellipsis>(subscripts[i]);
    axis += all ? hidden : names(subscripts[i]);
    result_axis += all ? hidden : !std::holds_alternative<std::int64_t>(subscripts[i]);
  }
  std::vector<std::int64_t> places;
  for (const std::int64_t place : given) places.push_back(*as_int(walk_integer(place, x, axis).start));
  std::vector<Tensor> runs;
  for (size_t first = 0; first < places.size();) {
    size_t end = first + 1;
    const std::int64_t step = end < places.size() ? places[end] - places[first] : 1;
    while (step != 0 && end < places.size() && places[end] - places[end - 1] == step) ++end;
    const std::int64_t last = places[end - 1] + (step < 0 ? -1 : 1);
    subscripts[at] = Slice{places[first], last < 0 ? std::nullopt : std::optional(last), step == 0 ? 1 : step};
    runs.push_back(getitem(x, subscripts));
    first = end;
  }
  if (runs.empty()) return none;
  return runs.size() == 1 ? runs[0] : concat(runs, static_cast<std::int64_t>(result_axis));
}

Tensor take(const Tensor& x, const Tensor& indices, std::int64_t given_axis) {
  const size_t axis = normalize_axis("take", given_axis, x.rank());
  const Expr extent = x.shape()[axis];
  const Tensor places = checked_indices("take", indices, axis, extent);
  Shape shape(x.shape().begin(), x.shape().begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), x.shape().begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.shape().end());
  return view(
      shape, x.dtype(),
      [=](const Indices& i, const Expr& mask) {
        const auto first = i.begin() + static_cast<std::ptrdiff_t>(axis);
        const auto last = first + static_cast<std::ptrdiff_t>(places.rank());
        const Expr place = clamp_index(places.at(Indices(first, last), mask), extent);
        if (is_int(extent, 0)) return nothing(x.dtype());
        Indices source(i.begin(), first);
        source.push_back(place);
        source.insert(source.end(), last, i.end());
        return x.at(source, mask);
      },
      "take");
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t given_axis) {
  if (indices.rank() != x.rank()) {
    fail_value("take_along_axis",
               fmt::format("takes indices of x's rank: given {} and {}", describe(x), describe(indices)));
  }
  const size_t axis = normalize_axis("take_along_axis", given_axis, x.rank());
  const Expr extent = x.shape()[axis];
  const Tensor places = checked_indices("take_along_axis", indices, axis, extent);
  Shape other = x.shape();
  other[axis] = index(1);
  Shape own = indices.shape();
  own[axis] = index(1);
  Shape shape = broadcast_shapes("take_along_axis", std::array{other, own}, describe(std::array{x, indices}));
  shape[axis] = indices.shape()[axis];
  return view(
      shape, x.dtype(),
      [=](const Indices& i, const Expr& mask) {
        const Expr place = clamp_index(at_broadcast(places, i, mask), extent);
        if (is_int(extent, 0)) return nothing(x.dtype());
        Indices source = i;
        source[axis] = place;
        for (size_t d = 0; d < source.size(); ++d) {
          if (d != axis && is_int(x.shape()[d], 1)) source[d] = index(0);
        }
        return x.at(source, mask);
      },
      "take_along_axis");
}

Tensor index_add(const Tensor& x, const Tensor& indices, const Tensor& source, std::int64_t given_axis) {
  const DType type = result_type("index_add", std::array{x, source}, accepts_number);
  const size_t axis = normalize_axis("index_add", given_axis, x.rank());
  if (indices.rank() != 1) fail_value("index_add", fmt::format("takes 1-d indices; given {}", describe(indices)));
  const Expr extent = x.shape()[axis];
  Shape box = x.shape();
  box[axis] = indices.shape()[0];
  const Shape both = broadcast_shapes("index_add", std::array{box, source.shape()}, describe(std::array{x, source}));
  if (!same_shape(both, box)) {
    fail_value("index_add", fmt::format("the source broadcasts to {}: given {}", describe(box), describe(source)));
  }
  if (is_int(extent, 0)) {
    if (!is_int(box[axis], 0)) fail_value("index_add", fmt::format("{} has no element to add to", describe(x)));
    return astype(x, type);
  }
  const Tensor places = checked_indices("index_add", indices, axis, extent);
  const DType wide = arithmetic_type(type);
  const auto contribution = [&](const Indices& i) {
    Contribution result{i, convert(wide, convert(type, at_broadcast(source, i, nullptr)))};
    result.place[axis] = clamp_index(places.at({i[axis]}), extent);
    for (size_t d = 0; d < result.place.size(); ++d) {
      if (d != axis && is_int(x.shape()[d], 1)) result.place[d] = index(0);
    }
    return result;
  };
  const Tensor sums = scatter(astype(x, type), simple_reducer(BinaryOp::add, wide), box, contribution, "index_add");
  return round_result(sums, type);
}

Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype) {
  if (!indices.dtype().is_integer())
    fail_type("one_hot", fmt::format("takes integer indices; given {}", describe(indices)));
  if (classes < 0) fail_value("one_hot", fmt::format("the number of classes is not negative: given {}", classes));
  Shape shape = indices.shape();
  shape.push_back(index(classes));
  return compute(
      shape,
      [&](const Indices& i) {
        return convert(dtype, eq(convert(i64, indices.at(Indices(i.begin(), i.end() - 1))), i.back()));
      },
      "one_hot");
}

}  // namespace lathe::ops
