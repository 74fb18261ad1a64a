#include "bindings/python/convert.h"
#include "bindings/python/schedule_handles.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "schedule/primitives/annotate_buffer_access.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {
namespace {

using S = PythonSchedule;

/// The region that a function of the block's iters gives: (begin, end) for each dimension, ends exclusive.
std::vector<Range> call_region(nb::handle region, const std::vector<Expr>& iters) {
  nb::list arguments;
  for (const Expr& iter : iters) arguments.append(nb::cast(iter));
  std::vector<Range> ranges;
  const nb::object result = region(*nb::tuple(arguments));
  for (const nb::handle range : result) {
    if (!nb::isinstance<nb::sequence>(range) || nb::len(range) != 2) {
      throw InputError(Mistake::type, "annotate_buffer_access: the region is one (begin, end) for each dimension");
    }
    const Expr begin = to_expr(range[0], i64), end = to_expr(range[1], i64);
    if (begin->dtype != i64 || end->dtype != i64) {
      throw InputError(Mistake::type,
                       fmt::format("annotate_buffer_access: ({}, {}) are no integers", print(begin), print(end)));
    }
    ranges.push_back({begin, simplify(end - begin)});
  }
  return ranges;
}

void annotate_access(S& s, nb::handle block, const std::string& buffer, const std::string& access, nb::handle region,
                     bool trusted) {
  if (access != "read" && access != "write") {
    throw InputError(Mistake::value,
                     "annotate_buffer_access: expected \"read\" or \"write\", found \"" + access + "\"");
  }
  annotate_buffer_access(
      s.schedule, s.take_block(block), buffer, access == "read" ? BufferAccess::read : BufferAccess::write,
      [&](const std::vector<Expr>& iters) { return call_region(region, iters); },
      trusted ? HintCheck::never : HintCheck::when_unproved);
}

}  // namespace

void bind_hints(nb::class_<S>& type) {
  type.def("annotate_buffer_access", &annotate_access, "block"_a, "buffer"_a, "access"_a, "region"_a, nb::kw_only(),
           "trusted"_a = false,
           "Says what a block touches of a buffer: access \"read\" or \"write\", and a function of the block's iters "
           "that gives (begin, end) for each dimension. What is not proved is checked when the kernel runs, unless "
           "trusted.");
}

}  // namespace lathe::python
