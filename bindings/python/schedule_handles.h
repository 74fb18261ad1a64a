#pragma once
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <string>
#include <vector>

#include "bindings/python/convert.h"
#include "ir/error.h"
#include "schedule/schedule.h"

/// What a Python schedule hands out, and takes back.
namespace lathe::python {

/// A handle and the schedule that gave it out: another schedule of the same program refuses it.
template <class Ref>
struct Handle {
  Ref ref;
  std::uint64_t owner;
};
using Loop = Handle<LoopRef>;
using BlockHandle = Handle<BlockRef>;

class PythonSchedule {
 public:
  explicit PythonSchedule(const Func& func) : schedule(func) {}

  Schedule schedule;
  const std::uint64_t number = ++count_;

  Loop give(const LoopRef& loop) const { return {loop, number}; }
  BlockHandle give(const BlockRef& block) const { return {block, number}; }
  const LoopRef& take(const Loop& loop) const {
    if (loop.owner != number) refuse_foreign(fmt::format("loop {}", loop.ref.variable->name));
    return loop.ref;
  }
  std::vector<LoopRef> take(const nanobind::args& loops) const {
    std::vector<LoopRef> taken;
    for (const nanobind::handle loop : loops) taken.push_back(take(nanobind::cast<const Loop&>(loop)));
    return taken;
  }
  const BlockRef& take(const BlockHandle& block) const {
    if (block.owner != number) refuse_foreign(fmt::format("block {}", block.ref.name));
    return block.ref;
  }
  /// A block's handle, or its name.
  BlockRef take_block(nanobind::handle block) const {
    if (const BlockHandle* handle = as_instance<BlockHandle>(block)) return take(*handle);
    if (nanobind::isinstance<nanobind::str>(block)) return schedule.block(nanobind::cast<std::string>(block));
    throw InputError(Mistake::type, "a block is given by its handle or its name");
  }

 private:
  [[noreturn]] static void refuse_foreign(const std::string& what) {
    throw InputError(Mistake::value, fmt::format("{} is a handle of another schedule", what));
  }
  static inline std::atomic<std::uint64_t> count_ = 0;
};

void bind_hints(nanobind::class_<PythonSchedule>& type);   ///< region hints
void bind_layout(nanobind::class_<PythonSchedule>& type);  ///< what moves data: stages, layouts, padding

}  // namespace lathe::python
