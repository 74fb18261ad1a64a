#pragma once
#include <nanobind/nanobind.h>

namespace lathe::python {

/// Counts as one of Python's calls while it lives: containers nest only so deep, and one may hold itself.
class Recursion {
 public:
  explicit Recursion(const char* where) {
    if (Py_EnterRecursiveCall(where)) throw nanobind::python_error();
  }
  ~Recursion() { Py_LeaveRecursiveCall(); }
  Recursion(const Recursion&) = delete;
  Recursion& operator=(const Recursion&) = delete;
};

}  // namespace lathe::python
