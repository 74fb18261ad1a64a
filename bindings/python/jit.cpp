#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <new>

#include "bindings/python/bind.h"
#include "bindings/python/borrow.h"
#include "bindings/python/call_lists.h"
#include "bindings/python/convert.h"
#include "bindings/python/errors.h"
#include "bindings/python/trace_scope.h"
#include "bindings/python/variant.h"
#include "ir/error.h"
#include "jit/cache/epoch.h"
#include "jit/compile.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// What @lathe.jit returns: a CPython object with a vectorcall slot, so that a call builds no tuple and no dict.
struct JitFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weakrefs;
  PyObject* function;     ///< the Python function
  PyObject* bind;         ///< maps (args, kwargs) to positional arguments with defaults filled in
  PyObject* defaults;     ///< a tuple: what the last parameters have that a call need not give; null in a dead object
  Py_ssize_t positional;  ///< parameters that a call gives by position on the fast path; -1 - n for n and any more
  std::string* name;
  std::vector<std::unique_ptr<Variant>>* variants;
};

/// One call's arguments, sorted by what they become.
struct Call {
  ArrayList arrays;
  SmallList<TensorView, 8> inputs;
  SmallList<ScalarValue, 8> scalars;
  SmallList<Role, 16> roles;
  SmallList<PyObject*, 8> fixed;
  ArrayKind kind;
};

bool is_out(PyObject* keyword) {
  static PyObject* const out = PyUnicode_InternFromString("out");
  return keyword == out || PyUnicode_CompareWithASCIIString(keyword, "out") == 0;
}

/// Appends arguments `first` .. `first + count` of a call.
void sort_arguments(const JitFunction* self, PyObject* const* arguments, Py_ssize_t first, Py_ssize_t count,
                    Call* call) {
  for (Py_ssize_t i = first; i < first + count; ++i) {
    PyObject* argument = arguments[i - first];
    if (PyFloat_CheckExact(argument)) {
      call->scalars.push(ScalarValue::of(PyFloat_AS_DOUBLE(argument)));
      call->roles.push(Role::scalar);
      continue;
    }
    Borrowed& array = call->arrays.next();
    const bool simple = PyLong_Check(argument) || PyUnicode_Check(argument) || argument == Py_None;
    if (!simple && array.borrow(argument, false, {"argument", static_cast<int>(i)})) {
      if (call->kind.library == ArrayKind::none) {
        call->kind = array.kind;
      } else if (!call->kind.same_as(array.kind)) {
        throw InputError(Mistake::type,
                         fmt::format("{}: arguments are both {} and {}: results are of the arguments' kind, "
                                     "so give it one",
                                     *self->name, call->kind.name(), array.kind.name()));
      }
      call->inputs.push(array.view);
      call->roles.push(Role::array);
      continue;
    }
    call->arrays.drop_last();
    if (!simple && as_instance<Tensor>(nb::handle(argument))) {
      throw InputError(Mistake::type,
                       fmt::format("{}: argument {} is a traced tensor, which has no value outside of the "
                                   "function that is being traced",
                                   *self->name, i));
    }
    if (!simple && PyObject_Hash(argument) == -1) {
      PyErr_Clear();
      throw InputError(Mistake::type,
                       fmt::format("{}: argument {} is a {}: an argument is an array (NumPy, torch, DLPack), a "
                                   "float, or a hashable static value",
                                   *self->name, i, Py_TYPE(argument)->tp_name));
    }
    call->fixed.push(argument);
    call->roles.push(Role::fixed);
  }
}

/// Equal static values of different types (1, 1.0, True) are different.
bool same_fixed(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) throw nb::python_error();
  return equal == 1;
}

bool matches(const Variant& variant, Call& call) {
  const auto roles = call.roles.span();
  if (!std::equal(roles.begin(), roles.end(), variant.roles.begin(), variant.roles.end())) return false;
  for (size_t i = 0; i < variant.fixed.size(); ++i) {
    if (!same_fixed(variant.fixed[i].ptr(), call.fixed[i])) return false;
  }
  for (const Guard& guard : variant.guards) {
    if (!guard.holds()) return false;
  }
  return true;
}

Variant& find_variant(JitFunction* self, Call& call) {
  for (const auto& variant : *self->variants) {
    if (matches(*variant, call)) return *variant;
  }
  auto variant = std::make_unique<Variant>();
  const auto roles = call.roles.span();
  variant->roles.assign(roles.begin(), roles.end());
  for (PyObject* value : call.fixed.span()) variant->fixed.push_back(nb::borrow(value));
  variant->guards = collect_guards(self->function);
  Variant* raw = variant.get();
  PyObject* function = self->function;
  variant->function = std::make_unique<Function>(
      *self->name, [raw, function](const std::vector<Tensor>& inputs, const std::vector<Tensor>& scalars) {
        return trace_python(*raw, function, inputs, scalars);
      });
  self->variants->push_back(std::move(variant));
  return *raw;
}

/// Appends the captured arrays' views as they are now.
void add_captured(const Variant& variant, Call* call, size_t from) {
  for (size_t i = from; i < variant.captured.size(); ++i) {
    Borrowed& array = call->arrays.next();
    array.borrow(variant.captured[i].array, false, {"a captured array"});
    if (call->kind.library == ArrayKind::none) call->kind = array.kind;
    call->inputs.push(array.view);
  }
}

/// The first trace finds the captured arrays, the second has them as inputs; one more for what only that one finds.
constexpr int most_traces = 3;

/// Finds or compiles; compiling releases the GIL (a trace takes it back). Arrays that the function turns out to capture
/// become inputs, and the look-up starts again.
const Specialization& specialize(const Variant& variant, Call* call, std::span<const TensorView> outputs) {
  size_t captured = variant.captured.size();
  add_captured(variant, call, 0);
  for (int traces = 0;; ++traces) {
    if (traces == most_traces) {
      throw InputError(Mistake::value, fmt::format("{} makes an array of other values each time it is traced: give it "
                                                   "as an argument",
                                                   variant.function->name()));
    }
    if (const Specialization* found = variant.function->find(outputs, call->inputs.span(), call->scalars.span()))
      return *found;
    try {
      const nb::gil_scoped_release release;
      return variant.function->specialize(outputs, call->inputs.span(), call->scalars.span());
    } catch (const RetraceWithCaptures&) {
      add_captured(variant, call, captured);
      captured = variant.captured.size();
    }
  }
}

/// Calls that touch more memory than this give the GIL up: about 20 µs of streaming.
constexpr std::int64_t gil_free_bytes = 128 << 10;

void run(const Function& function, const Specialization& entry, std::span<const TensorView> outputs, const Call& call) {
  std::int64_t bytes = 0;
  for (const TensorView& view : call.inputs.span()) bytes += dense_bytes(view);
  for (const TensorView& view : outputs) bytes += dense_bytes(view);
  if (bytes < gil_free_bytes) return function.run(entry, outputs, call.inputs.span(), call.scalars.span());
  const nb::gil_scoped_release release;
  function.run(entry, outputs, call.inputs.span(), call.scalars.span());
}

PyObject* call_into(Variant& variant, Call* call, PyObject* out) {
  SmallList<TensorView, 8> views;
  const auto add = [&](PyObject* object) {
    Borrowed& array = call->arrays.next();
    if (!array.borrow(object, true, {"out"})) {
      throw InputError(Mistake::type, fmt::format("{}: out is a {}, expected an array", variant.function->name(),
                                                  Py_TYPE(object)->tp_name));
    }
    if (call->kind.library != ArrayKind::none && !call->kind.same_as(array.kind)) {
      throw InputError(Mistake::type, fmt::format("{}: out is a {}, the arguments are {}", variant.function->name(),
                                                  array.kind.name(), call->kind.name()));
    }
    views.push(array.view);
  };
  if (PyTuple_Check(out) || PyList_Check(out)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i) add(PySequence_Fast_GET_ITEM(out, i));
  } else {
    add(out);
  }
  const EpochGuard guard;
  run(*variant.function, specialize(variant, call, views.span()), views.span(), *call);
  return Py_NewRef(out);
}

PyObject* call_new(Variant& variant, Call* call) {
  const EpochGuard guard;
  const Specialization& entry = specialize(variant, call, {});
  SmallList<TensorView, 8> views;
  const auto make = [&](const OutputSpec& spec) {
    TensorView view;
    nb::object memory = nb::steal(allocate(call->kind, spec, &view));
    views.push(view);
    return memory;
  };
  if (entry.outputs.size() == 1) {
    const nb::object memory = make(entry.outputs[0]);
    run(*variant.function, entry, views.span(), *call);
    return finish(call->kind, memory.ptr());
  }
  std::vector<nb::object> memory;
  memory.reserve(entry.outputs.size());
  for (const OutputSpec& spec : entry.outputs) memory.push_back(make(spec));
  run(*variant.function, entry, views.span(), *call);
  nb::list results;
  for (const nb::object& object : memory) results.append(nb::steal(finish(call->kind, object.ptr())));
  return nb::tuple(results).release().ptr();
}

/// Does a function that is being traced call this one on what it computes? Then its operators join that trace.
bool is_traced_call(PyObject* const* arguments, Py_ssize_t count) {
  if (!TraceScope::active()) return false;
  return std::any_of(arguments, arguments + count,
                     [](PyObject* argument) { return as_instance<Tensor>(nb::handle(argument)) != nullptr; });
}

PyObject* vectorcall(PyObject* object, PyObject* const* arguments, size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<JitFunction*>(object);
  try {
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (is_traced_call(arguments, count + (names ? PyTuple_GET_SIZE(names) : 0)))
      return PyObject_Vectorcall(self->function, arguments, flags, names);
    PyObject* out = nullptr;
    const Py_ssize_t missing = self->positional - count;
    bool plain = self->positional >= 0 ? 0 <= missing && missing <= PyTuple_GET_SIZE(self->defaults)
                                       : count >= -1 - self->positional;
    const Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < keywords; ++i) {
      if (is_out(PyTuple_GET_ITEM(names, i))) {
        out = arguments[count + i] == Py_None ? nullptr : arguments[count + i];
      } else {
        plain = false;
      }
    }
    nb::object bound;
    if (!plain) {
      nb::list positional;
      nb::dict named;
      for (Py_ssize_t i = 0; i < count; ++i) positional.append(nb::handle(arguments[i]));
      for (Py_ssize_t i = 0; i < keywords; ++i) {
        const nb::handle name = PyTuple_GET_ITEM(names, i);
        if (!is_out(name.ptr())) named[name] = nb::handle(arguments[count + i]);
      }
      bound = nb::handle(self->bind)(nb::tuple(positional), named);
      arguments = PySequence_Fast_ITEMS(bound.ptr());
      count = PySequence_Fast_GET_SIZE(bound.ptr());
    }
    Call call;
    sort_arguments(self, arguments, 0, count, &call);
    if (plain && missing > 0) {
      PyObject* const* end = PySequence_Fast_ITEMS(self->defaults) + PyTuple_GET_SIZE(self->defaults);
      sort_arguments(self, end - missing, count, missing, &call);
    }
    Variant& variant = find_variant(self, call);
    return out ? call_into(variant, &call, out) : call_new(variant, &call);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// A traced call, to be looked at.
struct Lowered {
  Func func;
  std::string signature;
};

Lowered lower(nb::handle object, const nb::args& args, const nb::kwargs& kwargs) {
  auto* self = reinterpret_cast<JitFunction*>(object.ptr());
  const nb::object bound = nb::handle(self->bind)(args, kwargs);
  Call call;
  sort_arguments(self, PySequence_Fast_ITEMS(bound.ptr()), 0, PySequence_Fast_GET_SIZE(bound.ptr()), &call);
  Variant& variant = find_variant(self, call);
  const EpochGuard guard;
  const Specialization& entry = specialize(variant, &call, {});
  return {variant.function->trace({}, call.inputs.span(), call.scalars.span()), entry.signature.to_string()};
}

PyObject* lower_method(PyObject* self, PyObject* args, PyObject* kwargs) {
  try {
    const nb::object keywords = kwargs ? nb::borrow(kwargs) : nb::object(nb::dict());
    return nb::cast(lower(self, nb::borrow<nb::args>(args), nb::borrow<nb::kwargs>(keywords))).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

void deallocate(PyObject* object) {
  auto* self = reinterpret_cast<JitFunction*>(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->function);
  Py_CLEAR(self->bind);
  Py_CLEAR(self->defaults);
  delete self->name;
  delete self->variants;
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<JitFunction*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dict);
  Py_VISIT(self->function);
  Py_VISIT(self->bind);
  Py_VISIT(self->defaults);
  for (const auto& variant : *self->variants) {
    for (const Captured& captured : variant->captured) Py_VISIT(captured.array);
    for (const Guard& guard : variant->guards) {
      Py_VISIT(guard.container.ptr());
      Py_VISIT(guard.expected.ptr());
    }
  }
  return 0;
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<JitFunction*>(object);
  Py_CLEAR(self->dict);
  Py_CLEAR(self->bind);
  self->variants->clear();
  return 0;
}

PyTypeObject* jit_type;

PyObject* make_jit_function(nb::handle function, nb::handle bind, Py_ssize_t positional, const nb::tuple& defaults,
                            const std::string& name) {
  auto* self = reinterpret_cast<JitFunction*>(jit_type->tp_alloc(jit_type, 0));
  if (!self) throw nb::python_error();
  self->vectorcall = &vectorcall;
  self->function = Py_NewRef(function.ptr());
  self->bind = Py_NewRef(bind.ptr());
  self->defaults = Py_NewRef(defaults.ptr());
  self->positional = positional;
  self->name = new std::string(name);
  self->variants = new std::vector<std::unique_ptr<Variant>>();
  return reinterpret_cast<PyObject*>(self);
}

PyObject* bind_to_instance(PyObject* self, PyObject* instance, PyObject*) {
  return instance == nullptr || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

void create_type(nb::module_& module) {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(JitFunction, vectorcall), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(JitFunction, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(JitFunction, weakrefs), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyMethodDef methods[] = {
      {"lower", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&lower_method)),
       METH_VARARGS | METH_KEYWORDS,
       "lower(*args): what a call with these arguments compiles; .text(stage) prints any stage."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {{"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&deallocate)},
                                {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                                {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(&bind_to_instance)},
                                {Py_tp_members, members},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {0, nullptr}};
  static PyType_Spec spec{"lathe.JitFunction", sizeof(JitFunction), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  jit_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!jit_type) throw nb::python_error();
  module.attr("JitFunction") = nb::handle(reinterpret_cast<PyObject*>(jit_type));
}

}  // namespace

nb::handle jitted_function(nb::handle object) {
  if (Py_TYPE(object.ptr()) != jit_type) return {};
  return reinterpret_cast<JitFunction*>(object.ptr())->function;
}

void bind_jit(nb::module_& module) {
  create_type(module);
  module.def("_make_jit_function", [](nb::handle function, nb::handle bind, Py_ssize_t positional,
                                      const nb::tuple& defaults, const std::string& name) {
    return nb::steal(make_jit_function(function, bind, positional, defaults, name));
  });
  nb::class_<Lowered>(module, "Lowered", "One call's program, at every stage of its compilation.")
      .def(
          "text",
          [](const Lowered& lowered, const std::string& stage) {
            return stage_text(lowered.func, compile_device(), stage);
          },
          nb::arg("stage") = "scheduled",
          "The program after `stage`: traced, scheduled, begin .. end, llvm, asm (lathe.stages lists them).")
      .def_ro("func", &Lowered::func, "The traced program.")
      .def_ro("signature", &Lowered::signature, "What the compiled kernel depends on, one field a line.")
      .def("__repr__", [](const Lowered& lowered) { return fmt::format("<lathe.Lowered {}>", lowered.func->name); });
  module.attr("stages") = nb::cast(text_stages());
}

}  // namespace lathe::python
