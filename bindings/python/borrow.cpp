#include "bindings/python/borrow.h"

#define NPY_NO_DEPRECATED_API NPY_1_20_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL lathe_numpy_api
#include <fmt/format.h>
#include <numpy/arrayobject.h>

#include <cstring>
#include <deque>
#include <optional>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include "bindings/python/numpy_pages.h"
#include "bindings/python/owned.h"
#include "bindings/python/torch_flags.h"
#include "ir/error.h"
#include "jit/layout.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// What is known of one Python type. Types live forever here: the table holds a reference to each.
struct KnownType {
  PyTypeObject* type;
  ArrayKind kind;  ///< none: not an array
  bool torch;      ///< its tensors may require grad, or be negated lazily
};

std::deque<KnownType> known_types;  // under the GIL

bool import_numpy() {
  // Python code runs within, and other threads: a guarded static would keep them waiting with the GIL in hand.
  static bool imported = false;
  if (imported) return true;
  imported = _import_array() == 0;
  if (!imported) PyErr_Clear();
  return imported;
}

bool is_named(PyTypeObject* type, const char* module, const char* name) {
  const nb::object given = nb::getattr(reinterpret_cast<PyObject*>(type), "__module__", nb::none());
  return nb::isinstance<nb::str>(given) && std::strcmp(nb::cast<const char*>(given), module) == 0 &&
         std::strcmp(nb::cast<const char*>(nb::handle(reinterpret_cast<PyObject*>(type)).attr("__name__")), name) == 0;
}

bool derives_from_numpy(const PyTypeObject* type) {
  while (type && std::strcmp(type->tp_name, "numpy.ndarray") != 0) type = type->tp_base;
  return type != nullptr;
}

/// The exchange API that `type` itself publishes; an inherited one says nothing about a subclass, but for torch's
/// Parameter, which adds no meaning to its data.
const dlpack::ExchangeApi* find_exchange_api(PyTypeObject* type) {
  const char* attribute = "__dlpack_c_exchange_api__";
  nb::handle handle(reinterpret_cast<PyObject*>(type));
  const nb::object own = handle.attr("__dict__");
  const bool parameter = is_named(type, "torch.nn.parameter", "Parameter");
  if (!parameter && !nb::cast<bool>(own.attr("__contains__")(attribute))) return nullptr;
  const nb::object capsule = nb::getattr(handle, attribute, nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api && api->version.major != 1) api = api->previous;
  return api && api->view_object && api->to_object ? api : nullptr;
}

const KnownType& learn_type(PyTypeObject* type) {
  KnownType known{type, {}, false};
  const char* full = type->tp_name;
  if (std::strcmp(full, "numpy.ndarray") == 0 && import_numpy() && type == &PyArray_Type) {
    known.kind.library = ArrayKind::numpy;
  } else if (const dlpack::ExchangeApi* api = find_exchange_api(type)) {
    known.kind = {ArrayKind::exchange, type, api};
    known.torch = is_named(type, "torch", "Tensor") || is_named(type, "torch.nn.parameter", "Parameter");
  } else if (derives_from_numpy(type) && !is_named(type, "numpy", "memmap")) {
    known.kind = {ArrayKind::refused, type, nullptr};
  } else if (PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "__dlpack__")) {
    known.kind = {ArrayKind::dlpack, type, nullptr};
  }
  Py_INCREF(type);
  known_types.push_back(known);
  return known_types.back();
}

const KnownType& find_type(PyTypeObject* type) {
  for (const KnownType& known : known_types) {
    if (known.type == type) return known;
  }
  return learn_type(type);
}

/// NumPy's number for the bfloat16 of ml_dtypes, which counts as any type that is added at run time; -1 until an array
/// of it has come, or a result has wanted one.
int bfloat16_number = -1;

/// Imports ml_dtypes where it is installed.
int find_bfloat16() {
  if (bfloat16_number >= 0) return bfloat16_number;
  const nb::object module = nb::steal(PyImport_ImportModule("ml_dtypes"));
  if (!module.is_valid()) {
    PyErr_Clear();
    return -1;
  }
  PyArray_Descr* descr = nullptr;
  if (PyArray_DescrConverter(module.attr("bfloat16").ptr(), &descr) != NPY_SUCCEED) throw nb::python_error();
  bfloat16_number = descr->type_num;
  Py_DECREF(descr);
  return bfloat16_number;
}

DType numpy_dtype(PyArrayObject* array, const ArrayName& array_name) {
  switch (PyArray_TYPE(array)) {
    case NPY_BOOL:
      return boolean;
    case NPY_INT8:
      return i8;
    case NPY_INT16:
      return i16;
    case NPY_INT32:
      return i32;
    case NPY_UINT8:
      return u8;
    case NPY_UINT16:
      return u16;
    case NPY_UINT32:
      return u32;
    case NPY_LONG:
    case NPY_LONGLONG:
      return i64;
    case NPY_ULONG:
    case NPY_ULONGLONG:
      return u64;
    case NPY_FLOAT16:
      return f16;
    case NPY_FLOAT32:
      return f32;
    case NPY_FLOAT64:
      return f64;
    default:
      if (PyArray_TYPE(array) == bfloat16_number) return bf16;
      if (PyArray_TYPE(array) >= NPY_USERDEF && PyArray_TYPE(array) == find_bfloat16()) return bf16;
      break;
  }
  const nb::object dtype = nb::handle(reinterpret_cast<PyObject*>(array)).attr("dtype");
  throw InputError(Mistake::type, fmt::format("{} is a NumPy array of dtype {}, which Lathe has no type for",
                                              array_name.text(), nb::str(dtype).c_str()));
}

int numpy_type(DType dtype) {
  if (dtype == boolean) return NPY_BOOL;
  if (dtype == i8) return NPY_INT8;
  if (dtype == i16) return NPY_INT16;
  if (dtype == i32) return NPY_INT32;
  if (dtype == i64) return NPY_INT64;
  if (dtype == u8) return NPY_UINT8;
  if (dtype == u16) return NPY_UINT16;
  if (dtype == u32) return NPY_UINT32;
  if (dtype == u64) return NPY_UINT64;
  if (dtype == f16) return NPY_FLOAT16;
  if (dtype == f32) return NPY_FLOAT32;
  if (dtype == f64) return NPY_FLOAT64;
  if (dtype == bf16 && find_bfloat16() >= 0) return bfloat16_number;
  throw InputError(Mistake::type, fmt::format("NumPy has no dtype of its own for a result of {}: install ml_dtypes, or "
                                              "let the function return astype(.., lathe.float32)",
                                              to_string(dtype)));
}

void check_torch(PyObject* object, const ArrayName& array_name) {
  const TorchFlags& flags = TorchFlags::of(object);
  if (flags.records_gradients(object)) {
    throw InputError(Mistake::value, fmt::format("{} requires grad, and Lathe records no gradients: call it under "
                                                 "torch.no_grad() or torch.inference_mode(), or pass detach()",
                                                 array_name.text()));
  }
  if (flags.is_negated(object)) {
    throw InputError(Mistake::value, fmt::format("{} is a lazily negated view, whose memory has the other sign: pass "
                                                 "resolve_neg()",
                                                 array_name.text()));
  }
}

}  // namespace

std::string ArrayKind::name() const {
  switch (library) {
    case none:
      return "none";
    case numpy:
      return "numpy.ndarray";
    default:
      return nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(type)).attr("__module__")) + "." +
             nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(type)).attr("__qualname__"));
  }
}

std::string ArgumentPlace::text() const {
  if (!container) return fmt::format("argument {}", position);
  return container->text() + "[" + (key ? nb::repr(key).c_str() : std::to_string(position)) + "]";
}

bool is_array_type(PyTypeObject* type) {
  return find_type(type).kind.library != ArrayKind::none;
}

void Borrowed::release() {
  if (managed_ && managed_->deleter) managed_->deleter(managed_);
  if (managed_old_ && managed_old_->deleter) managed_old_->deleter(managed_old_);
}

std::int64_t* Borrowed::dims(int count) {
  if (count <= static_cast<int>(inline_dims_.size())) return inline_dims_.data();
  more_dims_ = std::make_unique<std::int64_t[]>(static_cast<size_t>(count));
  return more_dims_.get();
}

bool Borrowed::borrow(PyObject* object, bool writable, const ArrayName& array_name) {
  const KnownType& known = find_type(Py_TYPE(object));
  kind = known.kind;
  switch (kind.library) {
    case ArrayKind::none:
      return false;
    case ArrayKind::numpy:
      borrow_numpy(object, writable, array_name);
      break;
    case ArrayKind::exchange:
      if (known.torch) check_torch(object, array_name);
      borrow_exchange(object, writable, array_name);
      break;
    case ArrayKind::dlpack:
      borrow_dlpack(object, writable, array_name);
      break;
    case ArrayKind::refused:
      throw InputError(Mistake::type, fmt::format("{} is a {}, an ndarray of another meaning, which its memory does "
                                                  "not hold: pass numpy.asarray of it, or its data",
                                                  array_name.text(), kind.name()));
  }
  if (!view.data && view.elements() > 0) {
    throw InputError(Mistake::value, fmt::format("{} has {} elements but no data (a fake or meta tensor?)",
                                                 array_name.text(), view.elements()));
  }
  return true;
}

void Borrowed::borrow_numpy(PyObject* object, bool writable, const ArrayName& array_name) {
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  view.dtype = numpy_dtype(array, array_name);
  if (!PyArray_ISNOTSWAPPED(array)) {
    throw InputError(Mistake::type, fmt::format("{} is a NumPy array of foreign byte order", array_name.text()));
  }
  if (writable && !PyArray_ISWRITEABLE(array))
    throw InputError(Mistake::value, fmt::format("{} is read-only", array_name.text()));
  view.data = PyArray_DATA(array);
  view.rank = PyArray_NDIM(array);
  const npy_intp* shape = PyArray_DIMS(array);
  const npy_intp* strides = PyArray_STRIDES(array);
  view.shape = reinterpret_cast<const std::int64_t*>(shape);
  view.strides = nullptr;
  if (PyArray_IS_C_CONTIGUOUS(array)) return;
  std::int64_t* elements = dims(view.rank);
  const std::int64_t size = view.dtype.bytes();
  for (int d = 0; d < view.rank; ++d) {
    if (strides[d] % size != 0 && shape[d] > 1) {
      throw InputError(Mistake::value, fmt::format("{} has a stride of {} bytes, no multiple of its element's {}",
                                                   array_name.text(), strides[d], size));
    }
    elements[d] = strides[d] / size;
  }
  view.strides = elements;
}

void Borrowed::take(const dlpack::Tensor& tensor, const ArrayName& array_name) {
  if (tensor.device.type != dlpack::cpu) {
    throw InputError(Mistake::value,
                     fmt::format("{} lives on DLPack device type {}, and kernels here run on the CPU (type 1)",
                                 array_name.text(), tensor.device.type));
  }
  view.dtype = dlpack::element_type(tensor.dtype);
  if (!dlpack::is_known(tensor.dtype)) {
    throw InputError(Mistake::type,
                     fmt::format("{} has DLPack dtype (code {}, bits {}, lanes {}), which Lathe has no type for",
                                 array_name.text(), tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes));
  }
  view.data = tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
  view.rank = tensor.rank;
  view.shape = tensor.shape;
  view.strides = tensor.strides;
}

/// The array's library has raised. An interrupt goes on as it is. The message may go on with a stack of its own calls,
/// which says nothing to a caller.
[[noreturn]] void throw_unreadable(const ArrayKind& kind, const ArrayName& array_name) {
  const nb::python_error error;
  if (!error.matches(PyExc_Exception)) throw nb::python_error(error);
  const std::string text = nb::str(error.value()).c_str();
  throw InputError(Mistake::type, fmt::format("{} is a {} whose memory cannot be read: {}", array_name.text(),
                                              kind.name(), text.substr(0, text.find('\n'))));
}

void Borrowed::borrow_exchange(PyObject* object, bool, const ArrayName& array_name) {
  dlpack::Tensor tensor;
  if (kind.api->view_object(object, &tensor) != 0) throw_unreadable(kind, array_name);
  take(tensor, array_name);
}

void Borrowed::borrow_dlpack(PyObject* object, bool writable, const ArrayName& array_name) {
  nb::object capsule;
  const nb::object method = nb::handle(object).attr("__dlpack__");
  try {
    capsule = method(nb::arg("max_version") = nb::make_tuple(1, 1));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = method();
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed =
        static_cast<dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1) {
      throw InputError(Mistake::type,
                       fmt::format("{} speaks DLPack {}, expected 1", array_name.text(), managed->version.major));
    }
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    managed_ = managed;
    if (writable && (managed->flags & dlpack::flag_read_only)) {
      throw InputError(Mistake::value, fmt::format("{} is read-only", array_name.text()));
    }
    take(managed->tensor, array_name);
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    managed_old_ = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    take(managed_old_->tensor, array_name);
  } else {
    throw InputError(Mistake::type,
                     fmt::format("{}: __dlpack__ of {} gave no DLPack capsule", array_name.text(), kind.name()));
  }
}

PyObject* allocate(const ArrayKind& kind, const OutputSpec& spec, TensorView* view) {
  view->dtype = spec.dtype;
  view->rank = static_cast<std::int32_t>(spec.shape.size());
  view->shape = spec.shape.data();
  view->strides = spec.strides.empty() ? nullptr : spec.strides.data();
  if (kind.library == ArrayKind::exchange) {
    void* object = nullptr;
    if (kind.api->to_object(allocate_managed(spec, view), &object) != 0) throw nb::python_error();
    return static_cast<PyObject*>(object);
  }
  if (kind.library == ArrayKind::dlpack) return allocate_owned(spec, view);
  if (!import_numpy()) throw nb::import_error("results need NumPy when no argument is an array");
  std::array<npy_intp, max_permuted_rank> bytes;
  for (size_t d = 0; d < spec.strides.size(); ++d) bytes[d] = spec.strides[d] * spec.dtype.bytes();
  std::optional<AtPages> at_pages;
  if (dense_bytes(*view) >= least_at_page) at_pages.emplace();
  PyObject* array =
      PyArray_New(&PyArray_Type, view->rank, const_cast<npy_intp*>(reinterpret_cast<const npy_intp*>(view->shape)),
                  numpy_type(spec.dtype), view->strides ? bytes.data() : nullptr, nullptr, 0, 0, nullptr);
  if (!array) throw nb::python_error();
  view->data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(array));
  return array;
}

PyObject* finish(const ArrayKind& kind, PyObject* allocated) {
  if (kind.library != ArrayKind::dlpack) return Py_NewRef(allocated);
  return hand_over(kind.type, allocated);
}

}  // namespace lathe::python
