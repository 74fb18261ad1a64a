#include "bindings/python/schedule_handles.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "schedule/primitives/cache_cast.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/group_bytes.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/rolling_buffer.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/shift_operand.h"
#include "schedule/primitives/split_domain.h"
#include "schedule/primitives/split_iter.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/transform_layout.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {

namespace {

/// A layout map as text, or as a function of the indices that gives the new ones.
LayoutMap to_layout_map(nb::handle map) {
  if (nb::isinstance<nb::str>(map)) return parse_layout_map(nb::cast<std::string>(map));
  if (!nb::hasattr(map, "__code__")) {
    throw InputError(Mistake::type, "a layout map is text, 'i, j -> i // 4, j, i % 4', or a function of the indices");
  }
  const nb::object code = map.attr("__code__");
  const auto count = nb::cast<size_t>(code.attr("co_argcount"));
  LayoutMap result;
  nb::list arguments;
  for (size_t i = 0; i < count; ++i) {
    result.from.push_back(Var::make(nb::cast<std::string>(code.attr("co_varnames")[i])));
    arguments.append(nb::cast(Expr(result.from.back())));
  }
  const nb::object given = map(*nb::tuple(arguments));
  const nb::tuple to = nb::isinstance<nb::tuple>(given) ? nb::borrow<nb::tuple>(given) : nb::make_tuple(given);
  for (const nb::handle e : to) result.to.push_back(to_expr(e, i64));
  return result;
}

using S = PythonSchedule;

/// A primitive that has a block read a buffer through a copy in a space.
template <auto primitive>
auto copies_operand(S& s, nb::handle block, const std::string& buffer, const std::string& space) {
  return s.give(primitive(s.schedule, s.take_block(block), buffer, space));
}

}  // namespace

void bind_layout(nb::class_<S>& type) {
  type.def("cache_cast", &copies_operand<cache_cast>, "block"_a, "buffer"_a, "space"_a,
           "Copies what a block casts the elements of a buffer to into a space; gives the copy's block.")
      .def(
          "cache_padding",
          [](S& s, nb::handle block, const std::string& buffer, const std::string& space, std::int64_t apart) {
            return s.give(cache_padding(s.schedule, s.take_block(block), buffer, space, apart));
          },
          "block"_a, "buffer"_a, "space"_a, "apart"_a = 1,
          "Copies what a block reads and pads of a buffer into a padded one, the elements of a row set apart by their "
          "place "
          "in a step of `apart`; gives the copy's block.")
      .def(
          "cache_read",
          [](S& s, nb::handle block, const std::string& buffer, const std::string& space, std::optional<size_t> place) {
            return s.give(cache_read(s.schedule, s.take_block(block), buffer, space, place));
          },
          "block"_a, "buffer"_a, "space"_a, "place"_a = nb::none(),
          "Copies what a block reads of a buffer into a space, or the `place`-th of the elements alone that it reads "
          "of "
          "it; gives the copy's block.")
      .def(
          "cache_write",
          [](S& s, nb::handle block, const std::string& space, const std::optional<std::string>& buffer) {
            return s.give(cache_write(s.schedule, s.take_block(block), space, buffer));
          },
          "block"_a, "space"_a, "buffer"_a = nb::none(),
          "Computes a block, or what it leaves in that one of several buffers, into a space and copies from there. "
          "Gives the block of the copy.")
      .def(
          "group_bytes",
          [](S& s, nb::handle block, const Loop& loop) {
            std::vector<BlockHandle> copies;
            for (const BlockRef& copy : group_bytes(s.schedule, s.take_block(block), s.take(loop)))
              copies.push_back(s.give(copy));
            return copies;
          },
          "block"_a, "loop"_a,
          "Has a sum of products of bytes take four steps of a loop at once, of bf16 two; gives the blocks that copy "
          "its "
          "factors.")
      .def(
          "shift_operand",
          [](S& s, nb::handle block, const std::string& buffer) {
            return s.give(shift_operand(s.schedule, s.take_block(block), buffer));
          },
          "block"_a, "buffer"_a,
          "Reads a factor of 8-bit integers in the other signedness, and corrects the results; gives the copy's block.")
      .def(
          "set_space",
          [](S& s, nb::handle block, const std::string& space) { set_space(s.schedule, s.take_block(block), space); },
          "block"_a, "space"_a, "Moves what a block writes into another memory space.")
      .def(
          "reindex",
          [](S& s, nb::handle block, const std::string& buffer, std::optional<size_t> element) {
            return s.give(reindex(s.schedule, s.take_block(block), buffer, element));
          },
          "block"_a, "buffer"_a, "element"_a = nb::none(),
          "Lets a block read a buffer, or one of the elements that it reads of it, through a copy laid out along its "
          "iters; gives the copy's block.")
      .def(
          "storage_align",
          [](S& s, nb::handle block, const std::string& buffer, std::int64_t dimension, std::int64_t factor,
             std::int64_t offset) {
            storage_align(s.schedule, s.take_block(block), buffer, dimension, factor, offset);
          },
          "block"_a, "buffer"_a, "dimension"_a, "factor"_a, "offset"_a = 0,
          "Pads a buffer that a block writes, so that steps of a dimension lie a multiple of `factor` plus `offset` "
          "elements apart.")
      .def(
          "transform_layout",
          [](S& s, nb::handle block, const std::string& buffer, nb::handle map) {
            transform_layout(s.schedule, s.take_block(block), buffer, to_layout_map(map));
          },
          "block"_a, "buffer"_a, "map"_a,
          "Lays an allocation that a block touches out anew: `map` gives the new indices, as a function of the old "
          "ones, "
          "or as text: 'i, j -> i // 4, j, i % 4'.")
      .def(
          "double_buffer",
          [](S& s, nb::handle block, const Loop& loop) {
            return s.give(double_buffer(s.schedule, s.take_block(block), s.take(loop)));
          },
          "block"_a, "loop"_a,
          "Fills a buffer one iteration of a loop ahead, in two halves that take turns; gives the block that fills the "
          "first.")
      .def(
          "rolling_buffer",
          [](S& s, nb::handle block, const Loop& loop) {
            return s.give(rolling_buffer(s.schedule, s.take_block(block), s.take(loop)));
          },
          "block"_a, "loop"_a,
          "Keeps a window of rows that moves with a loop in a ring, and computes only the rows that come in; gives the "
          "block that fills the first window.")
      .def(
          "pad_einsum",
          [](S& s, nb::handle block, const std::vector<std::int64_t>& padding) {
            pad_einsum(s.schedule, s.take_block(block), padding);
          },
          "block"_a, "padding"_a,
          "Pads the domains of a contraction's iters to multiples, one factor an iter, through operands with a border "
          "of "
          "zeros.")
      .def(
          "decompose_padding",
          [](S& s, nb::handle block, const Loop& loop) {
            return s.give(decompose_padding(s.schedule, s.take_block(block), s.take(loop)));
          },
          "block"_a, "loop"_a, "Fills a padded border in a nest of its own before a loop; gives the block that fills.")
      .def(
          "split_domain",
          [](S& s, nb::handle block, const Loop& loop, std::int64_t point) {
            return s.give(split_domain(s.schedule, s.take_block(block), s.take(loop), point));
          },
          "block"_a, "loop"_a, "point"_a,
          "Makes two blocks of one: of the first `point` iterations of a loop, and of the rest, each without what its "
          "part "
          "decides; gives the block of the rest.")
      .def(
          "split_iter",
          [](S& s, nb::handle block, const Loop& loop, std::int64_t factor) {
            const auto [outer, inner] = split_iter(s.schedule, s.take_block(block), s.take(loop), factor);
            return nb::make_tuple(s.give(outer), s.give(inner));
          },
          "block"_a, "loop"_a, "factor"_a,
          "Makes two iters of the one that a loop drives, its quotient and its remainder by `factor`, each with a loop "
          "of its own; gives the loops.")
      .def(
          "join_iters",
          [](S& s, nb::handle block, const Loop& outer, const Loop& inner) {
            return s.give(join_iters(s.schedule, s.take_block(block), s.take(outer), s.take(inner)));
          },
          "block"_a, "outer"_a, "inner"_a,
          "Makes one iter of the two that loops drive, one directly in the other, as if its rows lay one behind the "
          "other; gives the loop.");
}

}  // namespace lathe::python
