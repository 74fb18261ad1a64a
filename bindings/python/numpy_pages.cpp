#include "bindings/python/numpy_pages.h"

#define NO_IMPORT_ARRAY
#define NPY_NO_DEPRECATED_API NPY_1_20_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL lathe_numpy_api
#include <nanobind/nanobind.h>
#include <numpy/arrayobject.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace nb = nanobind;

namespace lathe::python {
namespace {

constexpr size_t page_bytes = 4096;

/// What lies before an array's first page.
struct Heap {
  void* memory;
  size_t bytes;  ///< of the array
};

Heap& heap_of(void* array) {
  return static_cast<Heap*>(array)[-1];
}

/// By malloc, which keeps memory of a size that was freed; what is allocated aligned is new, and faults page by page.
void* allocate_at_page(void*, size_t bytes) {
  void* const memory = std::malloc(bytes + sizeof(Heap) + page_bytes);
  if (!memory) return nullptr;
  const auto first = reinterpret_cast<std::uintptr_t>(memory) + sizeof(Heap);
  void* const array = reinterpret_cast<void*>((first + page_bytes - 1) / page_bytes * page_bytes);
  heap_of(array) = {memory, bytes};
#ifdef MADV_HUGEPAGE
  // As NumPy has it.
  constexpr size_t least_huge = size_t{1} << 22;
  static const bool huge = [] {
    const char* wish = std::getenv("NUMPY_MADVISE_HUGEPAGE");
    return !wish || std::string_view(wish) != "0";
  }();
  if (huge && bytes >= least_huge) madvise(array, bytes, MADV_HUGEPAGE);
#endif
  return array;
}

void* allocate_zeros(void* context, size_t count, size_t bytes) {
  void* const array = allocate_at_page(context, count * bytes);
  return array ? std::memset(array, 0, count * bytes) : nullptr;
}

void free_at_page(void*, void* array, size_t) {
  if (array) std::free(heap_of(array).memory);
}

void* reallocate_at_page(void* context, void* array, size_t bytes) {
  void* const larger = allocate_at_page(context, bytes);
  if (!larger || !array) return larger;
  std::memcpy(larger, array, std::min(bytes, heap_of(array).bytes));
  free_at_page(context, array, 0);
  return larger;
}

PyObject* handler() {
  static PyDataMem_Handler functions = {
      "lathe",
      1,
      {nullptr, allocate_at_page, allocate_zeros, reallocate_at_page, free_at_page},
  };
  static PyObject* const capsule = PyCapsule_New(&functions, "mem_handler", nullptr);
  if (!capsule) throw nb::python_error();
  return capsule;
}

}  // namespace

AtPages::AtPages() : before_(PyDataMem_SetHandler(handler())) {
  if (!before_) throw nb::python_error();
}

AtPages::~AtPages() {
  Py_XDECREF(PyDataMem_SetHandler(before_));
  Py_DECREF(before_);
}

}  // namespace lathe::python
