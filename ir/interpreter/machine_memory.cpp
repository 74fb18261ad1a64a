#include <fmt/format.h>

#include "ir/interpreter/machine.h"

namespace lathe::interpreter {
namespace {

bool same_bits(DType dtype, Cell a, Cell b) {
  return to_bits(dtype, a) == to_bits(dtype, b);
}

std::string element_name(const Array& array, const std::byte* address) {
  return fmt::format("element {} (counted from the base) of {}", (address - array.base) / array.dtype.bytes(),
                     array.storage->name);
}

}  // namespace

void Machine::declare(const BufferCode& code, Storage* storage, std::byte* base) {
  Array& array = arrays_[static_cast<size_t>(code.array)];
  array.storage = storage;
  array.dtype = code.buffer->dtype;
  array.base = base;
  array.shape.clear();
  array.strides.clear();
  for (const int slot : code.shape) array.shape.push_back(integer(slot));
  for (const int slot : code.strides) array.strides.push_back(integer(slot));
  array.offset = code.offset == none ? 0 : integer(code.offset);
  if (code.view_parent >= 0) {
    const Array& parent = arrays_[static_cast<size_t>(code.view_parent)];
    std::int64_t first = parent.offset;
    for (size_t d = 0; d < code.view_mins.size(); ++d) first += integer(code.view_mins[d]) * parent.strides[d];
    array.storage = parent.storage;
    array.base = parent.base + first * array.dtype.bytes();
  }
}

void Machine::allocate(const BufferCode& code) {
  if (code.view_parent >= 0) return declare(code, nullptr, nullptr);
  auto& own = own_[static_cast<size_t>(code.array)];
  if (!own) own = std::make_unique<Storage>(code.buffer->name, static_cast<int>(code.buffer->dtype.bytes()));
  declare(code, own.get(), nullptr);
  Array& array = arrays_[static_cast<size_t>(code.array)];
  std::int64_t last = array.offset;
  bool empty = false;
  for (size_t d = 0; d < array.shape.size(); ++d) {
    if (array.strides[d] < 0) trap(fmt::format("allocation {} has a negative stride", code.buffer->name));
    empty = empty || array.shape[d] <= 0;
    last += (array.shape[d] - 1) * array.strides[d];
  }
  own->renew(empty ? 0 : (last + 1) * array.dtype.bytes());
  own->parallel_depth = tasks_.size();
  array.base = own->begin();
}

std::byte* Machine::locate(const AccessCode& access, const Array& array, int lane) {
  std::int64_t element = 0;
  if (access.flat) {
    element = integer(access.indices[0].slot + lane * access.indices[0].step);
  } else {
    element = array.offset;
    for (size_t d = 0; d < access.indices.size(); ++d) {
      const std::int64_t i = integer(access.indices[d].slot + lane * access.indices[d].step);
      if (i < 0 || i >= array.shape[d]) {
        trap(fmt::format("index {} of {} is out of range: {} in [0, {})", d, array.storage->name, i, array.shape[d]));
      }
      element += i * array.strides[d];
    }
  }
  std::byte* address = array.base + element * array.dtype.bytes();
  if (!array.storage || !array.storage->holds(address, array.dtype.bytes())) {
    trap(fmt::format("element {} (counted from the base) of {} is out of range", element,
                     array.storage ? array.storage->name : "a buffer out of scope"));
  }
  return address;
}

void Machine::check_read(Storage& storage, std::int64_t unit) {
  for (size_t level = storage.parallel_depth; level < tasks_.size(); ++level) {
    const Task& task = tasks_[level];
    Storage::Access& access = storage.access(level, unit);
    if (access.writer > task.first && access.writer <= task.last && access.writer != task.current) {
      trap(fmt::format("two iterations of a parallel loop conflict: one reads what another wrote in {}", storage.name));
    }
    // Several readers are remembered as the loop itself, whose id no iteration has.
    const bool read_before = access.reader >= task.first && access.reader <= task.last;
    access.reader = read_before && access.reader != task.current ? task.first : task.current;
  }
}

void Machine::check_write(Storage& storage, std::int64_t unit) {
  for (size_t level = storage.parallel_depth; level < tasks_.size(); ++level) {
    const Task& task = tasks_[level];
    Storage::Access& access = storage.access(level, unit);
    if (access.writer > task.first && access.writer <= task.last && access.writer != task.current) {
      trap(fmt::format("two iterations of a parallel loop conflict: both write an element of {}", storage.name));
    }
    if (access.reader >= task.first && access.reader <= task.last && access.reader != task.current) {
      trap(fmt::format("two iterations of a parallel loop conflict: one writes what another read in {}", storage.name));
    }
    access.writer = task.current;
  }
}

Cell Machine::read(const Array& array, std::byte* address) {
  Storage& storage = *array.storage;
  const std::int64_t first = storage.unit_of(address), count = storage.units(array.dtype.bytes());
  for (std::int64_t unit = first; unit < first + count; ++unit) {
    if (options_.trap_uninitialized && !storage.is_written(unit)) {
      trap(fmt::format("{} is read before it is written", element_name(array, address)));
    }
    if (!tasks_.empty() && options_.check_parallel) check_read(storage, unit);
  }
  const Cell value = load_element(array.dtype, address);
  if (options_.exact_floats && array.dtype.is_float()) {
    const Cell wide{.d = storage.wide(first)};
    if (same_bits(array.dtype, value, wide)) return wide;
  }
  return value;
}

void Machine::write(const Array& array, std::byte* address, int slot) {
  const Cell value = *at(slot);
  Storage& storage = *array.storage;
  const std::int64_t first = storage.unit_of(address), count = storage.units(array.dtype.bytes());
  for (std::int64_t unit = first; unit < first + count; ++unit) {
    if (!tasks_.empty() && options_.check_parallel) check_write(storage, unit);
    storage.set_written(unit);
  }
  store_element(array.dtype, address, value);
  if (options_.exact_floats && array.dtype.is_float()) storage.wide(first) = value.d;
  if (tracked_ && array.dtype.is_float()) storage.note(first) = {tracked_[slot], value.d};
}

}  // namespace lathe::interpreter
