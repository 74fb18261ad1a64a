#include "bindings/python/owned.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "ir/error.h"
#include "jit/dlpack.h"
#include "jit/layout.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// Of every result, in bytes: a cache line, and the widest vector.
constexpr size_t memory_alignment = 64;

/// The strides of a result, in elements; returns how many elements it has.
std::int64_t fill_strides(const OutputSpec& spec, std::int64_t* strides) {
  std::int64_t elements = 1;
  for (size_t d = spec.shape.size(); d-- > 0;) {
    strides[d] = spec.strides.empty() ? elements : spec.strides[d];
    elements *= spec.shape[d];
  }
  return elements;
}

/// Memory with a shape, alive as long as anyone who was handed it.
struct Storage {
  explicit Storage(const OutputSpec& spec) : shape(spec.shape), strides(shape.size()), dtype(spec.dtype) {
    const auto bytes =
        static_cast<size_t>(std::max<std::int64_t>(fill_strides(spec, strides.data()) * dtype.bytes(), 1));
    data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!data) throw std::bad_alloc();
  }
  ~Storage() { std::free(data); }

  void fill(dlpack::Tensor* tensor) {
    *tensor = {data,
               {dlpack::cpu, 0},
               static_cast<std::int32_t>(shape.size()),
               dlpack::data_type(dtype),
               shape.data(),
               strides.data(),
               0};
  }

  void* data;
  std::vector<std::int64_t> shape, strides;
  DType dtype;
};

struct Owned {
  std::shared_ptr<Storage> storage;
};

template <class Managed>
Managed* make_managed(const std::shared_ptr<Storage>& storage) {
  auto* managed = new Managed{};
  managed->context = new std::shared_ptr<Storage>(storage);
  managed->deleter = [](Managed* self) {
    delete static_cast<std::shared_ptr<Storage>*>(self->context);
    delete self;
  };
  storage->fill(&managed->tensor);
  return managed;
}

template <class Managed>
nb::object make_capsule(Managed* managed, const char* name) {
  PyObject* capsule = PyCapsule_New(managed, name, [](PyObject* self) {
    // A capsule that was taken has another name, and another owner.
    for (const char* unused : {"dltensor", "dltensor_versioned"}) {
      if (!PyCapsule_IsValid(self, unused)) continue;
      auto* left = static_cast<Managed*>(PyCapsule_GetPointer(self, unused));
      left->deleter(left);
    }
  });
  if (!capsule) throw nb::python_error();
  return nb::steal(capsule);
}

nb::object to_capsule(const Owned& owned, const nb::kwargs& options) {
  if (options.contains("max_version") && !options["max_version"].is_none() &&
      nb::cast<int>(options["max_version"][nb::int_(0)]) >= 1) {
    auto* managed = make_managed<dlpack::ManagedTensorVersioned>(owned.storage);
    managed->version = {1, 0};
    return make_capsule(managed, "dltensor_versioned");
  }
  return make_capsule(make_managed<dlpack::ManagedTensor>(owned.storage), "dltensor");
}

/// The from_dlpack of the library that `type` or one of its bases comes from: the type's own, or that of a module above
/// it.
nb::object find_from_dlpack(PyTypeObject* type) {
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  nb::object own = nb::getattr(handle, "from_dlpack", nb::none());
  if (!own.is_none()) return own;
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  for (const nb::handle base : nb::borrow<nb::tuple>(handle.attr("__mro__"))) {
    std::string module = nb::cast<std::string>(base.attr("__module__"));
    // jaxlib's arrays are jax's.
    if (module.rfind("jaxlib", 0) == 0) return nb::module_::import_("jax").attr("dlpack").attr("from_dlpack");
    for (;;) {
      const nb::object found = modules.attr("get")(module);
      const nb::object function =
          found.is_none() ? nb::object(nb::none()) : nb::getattr(found, "from_dlpack", nb::none());
      if (!function.is_none()) return function;
      const size_t dot = module.rfind('.');
      if (dot == std::string::npos) break;
      module.resize(dot);
    }
  }
  throw InputError(
      Mistake::type,
      fmt::format("{}.{} can be read through __dlpack__, but its library has no from_dlpack to make a result "
                  "with: pass out=",
                  nb::cast<std::string>(handle.attr("__module__")), type->tp_name));
}

}  // namespace

dlpack::ManagedTensorVersioned* allocate_managed(const OutputSpec& spec, TensorView* view) {
  using Managed = dlpack::ManagedTensorVersioned;
  const size_t rank = spec.shape.size();
  const size_t header = sizeof(Managed) + 2 * rank * sizeof(std::int64_t);
  const auto bytes = static_cast<size_t>(dense_bytes(*view));
  size_t room = bytes + memory_alignment;
  // std::aligned_alloc goes past glibc's cache of small blocks, and costs seven times as much as room to align in.
  void* block = std::malloc(header + room);
  if (!block) throw std::bad_alloc();
  view->data = static_cast<char*>(block) + header;
  std::align(memory_alignment, bytes, view->data, room);
  auto* dims = reinterpret_cast<std::int64_t*>(static_cast<char*>(block) + sizeof(Managed));
  std::copy(spec.shape.begin(), spec.shape.end(), dims);
  fill_strides(spec, dims + rank);
  return new (block) Managed{{1, 0},
                             nullptr,
                             [](Managed* self) { std::free(self); },
                             0,
                             {view->data,
                              {dlpack::cpu, 0},
                              static_cast<std::int32_t>(rank),
                              dlpack::data_type(spec.dtype),
                              dims,
                              dims + rank,
                              0}};
}

PyObject* allocate_owned(const OutputSpec& spec, TensorView* view) {
  const Owned owned{std::make_shared<Storage>(spec)};
  view->data = owned.storage->data;
  return nb::cast(owned).release().ptr();
}

PyObject* hand_over(PyTypeObject* type, PyObject* owned) {
  return find_from_dlpack(type)(nb::handle(owned)).release().ptr();
}

void bind_owned(nb::module_& module) {
  nb::class_<Owned>(module, "_Owned").def("__dlpack__", &to_capsule).def("__dlpack_device__", [](const Owned&) {
    return nb::make_tuple(1, 0);
  });
}

}  // namespace lathe::python
