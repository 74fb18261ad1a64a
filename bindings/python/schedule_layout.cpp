#include "bindings/python/schedule_handles.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/storage_align.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {

using S = PythonSchedule;

void bind_layout(nb::class_<S>& type) {
  type.def(
          "cache_read",
          [](S& s, nb::handle block, const std::string& buffer, const std::string& space) {
            return s.give(cache_read(s.schedule, s.take_block(block), buffer, space));
          },
          "block"_a, "buffer"_a, "space"_a,
          "Copies what a block reads of a buffer into a space; gives the copy's block.")
      .def(
          "cache_write",
          [](S& s, nb::handle block, const std::string& space) {
            return s.give(cache_write(s.schedule, s.take_block(block), space));
          },
          "block"_a, "space"_a, "Computes a block into a space and copies from there; gives the copy's block.")
      .def(
          "set_space",
          [](S& s, nb::handle block, const std::string& space) { set_space(s.schedule, s.take_block(block), space); },
          "block"_a, "space"_a, "Moves what a block writes into another memory space.")
      .def(
          "reindex",
          [](S& s, nb::handle block, const std::string& buffer) {
            return s.give(reindex(s.schedule, s.take_block(block), buffer));
          },
          "block"_a, "buffer"_a,
          "Lets a block read a buffer through a copy laid out along its iters; gives the copy's block.")
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
          "decompose_padding",
          [](S& s, nb::handle block, const Loop& loop) {
            return s.give(decompose_padding(s.schedule, s.take_block(block), s.take(loop)));
          },
          "block"_a, "loop"_a, "Fills a padded border in a nest of its own before a loop; gives the block that fills.");
}

}  // namespace lathe::python
