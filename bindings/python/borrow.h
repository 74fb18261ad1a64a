#pragma once
#include <Python.h>

#include <array>
#include <memory>
#include <string>

#include "jit/dlpack.h"
#include "jit/function.h"
#include "jit/tensor_view.h"

namespace lathe::python {

/// Which library an array belongs to; results are made by the same one.
struct ArrayKind {
  /// refused: a subclass of NumPy's array, which may mean something else by the same memory (a mask, matrix products).
  enum Library { none, numpy, exchange, dlpack, refused } library = none;
  PyTypeObject* type = nullptr;              ///< of exchange, dlpack and refused
  const dlpack::ExchangeApi* api = nullptr;  ///< of exchange

  /// Results may be mixed only within one library.
  bool same_as(const ArrayKind& other) const {
    return library == other.library && api == other.api && (library != dlpack || type == other.type);
  }
  std::string name() const;
};

/// Where an argument stands: by its position, in a list or tuple too, or by its key in a dict.
struct ArgumentPlace {
  Py_ssize_t position;
  const ArgumentPlace* container = nullptr;
  PyObject* key = nullptr;
  /// "argument 2", "argument 2['bias'][0]"
  std::string text() const;
};

/// How messages name an array: "out", or an argument's place. Put into words only when a message is made.
struct ArrayName {
  const char* word;
  const ArgumentPlace* place = nullptr;
  std::string text() const { return place ? place->text() : word; }
};

/// An array argument, borrowed for one call. The Python object outlives it.
class Borrowed {
 public:
  Borrowed() {}  // not defaulted: that would clear inline_dims_ at each call
  ~Borrowed() {
    if (managed_ || managed_old_) release();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  /// Borrows `object` and returns true, or returns false when it is no array of any kind. Throws for arrays that cannot
  /// be taken: on another device, of an unknown dtype, requiring grad while grad mode is on, lazily negated or
  /// conjugated, with elements but without data, of a subclass of NumPy's array other than memmap; and with `writable`,
  /// read-only ones.
  bool borrow(PyObject* object, bool writable, const ArrayName& array_name);

  TensorView view;
  ArrayKind kind;

 private:
  void borrow_numpy(PyObject* object, bool writable, const ArrayName& array_name);
  void borrow_exchange(PyObject* object, bool writable, const ArrayName& array_name);
  void borrow_dlpack(PyObject* object, bool writable, const ArrayName& array_name);
  void release();
  void take(const dlpack::Tensor& tensor, const ArrayName& array_name);
  std::int64_t* dims(int count);

  std::array<std::int64_t, 16> inline_dims_;
  std::unique_ptr<std::int64_t[]> more_dims_;
  dlpack::ManagedTensorVersioned* managed_ = nullptr;
  dlpack::ManagedTensor* managed_old_ = nullptr;
};

/// True when `type` is known to be an array type (a cheap test for the common ones, a look-up once for the others).
bool is_array_type(PyTypeObject* type);

/// Memory for a result of `kind` (NumPy's when none), in `*view`; a new reference.
PyObject* allocate(const ArrayKind& kind, const OutputSpec& spec, TensorView* view);
/// The array of what allocate returned, once it is computed; a new reference.
PyObject* finish(const ArrayKind& kind, PyObject* allocated);

}  // namespace lathe::python
