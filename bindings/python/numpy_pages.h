#pragma once
#include <Python.h>

#include <cstdint>

namespace lathe::python {

/// Results of so many bytes begin with a page. NumPy's own begin 16 bytes into a line of the cache: every vector that
/// is stored crosses two, and none can be written past the caches. Between arrays that all begin with pages no load
/// meets a store that is just under way at the same place of another page, which it would wait for: cores tell them
/// apart by the place in a page at first (Intel's Optimization Reference Manual, 4-KByte aliasing; on Zen 4 a function
/// of an array that begins a line behind its result takes 1.3 to 1.8 times as long).
inline constexpr std::int64_t least_at_page = 128 << 10;

/// Has NumPy, which is imported, allocate what it makes meanwhile with pages, and free it likewise.
class AtPages {
 public:
  AtPages();
  ~AtPages();
  AtPages(const AtPages&) = delete;
  AtPages& operator=(const AtPages&) = delete;

 private:
  PyObject* before_;
};

}  // namespace lathe::python
