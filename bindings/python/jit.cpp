#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>

#include <algorithm>
#include <new>
#include <optional>

#include "bindings/python/arguments.h"
#include "bindings/python/bind.h"
#include "bindings/python/borrow.h"
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
  PyObject* function;            ///< the Python function
  PyObject* describe;            ///< tells of its parameters: bind, and what the fields below hold (lathe/__init__.py)
  PyObject* described_defaults;  ///< the function's own defaults as they were then: a tuple, or null
  PyObject* described_code;
  PyObject* bind;      ///< maps (args, kwargs) to one tuple of arguments with defaults filled in
  PyObject* names;     ///< of all parameters but *args, in the order of that tuple
  PyObject* defaults;  ///< theirs, or no_default
  PyObject* no_default;
  PyObject* keyword_only;  ///< the names of the last of them, which are given by keyword
  Py_ssize_t positional;   ///< parameters that may be given by position; -1 for any number
  Py_ssize_t positional_only;
  Py_ssize_t required;  ///< arguments by position from which on a call without keywords is complete
  bool always_binds;    ///< only `bind` can put arguments in their places
  std::string* name;
  Precision precision;
  std::vector<std::unique_ptr<Variant>>* variants;
  std::uint64_t calls;  ///< Variant::last_use counts them
  std::uint64_t moves;  ///< of variants toward the front
};

bool is_out(PyObject* keyword) {
  static PyObject* const out = PyUnicode_InternFromString("out");
  return keyword == out || PyUnicode_CompareWithASCIIString(keyword, "out") == 0;
}

bool matches(const Variant& variant, Call& call) {
  return same_arguments(variant, call) &&
         std::all_of(variant.guards.begin(), variant.guards.end(), [](const Guard& guard) { return guard.holds(); });
}

/// As many readings as one function keeps: static values that never come again (an object that is made for each call
/// and equals itself alone) would add one a call, each of which holds its values and is compared with those of every
/// later call. A reading that comes again after it has gone finds its kernels, if it has to be traced anew.
constexpr size_t most_variants = 256;

void drop_least_recent(JitFunction* self) {
  auto& variants = *self->variants;
  const auto oldest = std::min_element(variants.begin(), variants.end(), [](const auto& a, const auto& b) {
    return std::pair(a->users > 0, a->last_use) < std::pair(b->users > 0, b->last_use);
  });
  if ((*oldest)->users > 0) return;
  const std::unique_ptr<Variant> dropped = std::move(*oldest);  // its values may run Python as they go
  variants.erase(oldest);
}

/// Half way to the front: what comes again and again is soon there, and functions that go through a handful of values
/// in turn do not find each of them last, as they would if each hit went to the very front.
void move_forward(JitFunction* self, const Variant& variant) {
  const auto begin = self->variants->begin(), end = self->variants->end();
  const auto at = std::find_if(begin, end, [&](const auto& one) { return one.get() == &variant; });
  if (at == end || at == begin) return;
  std::rotate(begin + (at - begin) / 2, at, at + 1);
  ++self->moves;
}

/// A function whose code or defaults are another's since its parameters were looked at: the call starts again.
struct ParametersChanged {};

/// What the function's own defaults and code are, where it is one of Python's.
std::pair<PyObject*, PyObject*> own_parameters(PyObject* function) {
  if (!PyFunction_Check(function)) return {nullptr, nullptr};
  return {PyFunction_GET_DEFAULTS(function), PyFunction_GET_CODE(function)};
}

/// The static arguments by name: what their attributes hold is part of a reading.
nb::dict static_arguments(const JitFunction* self, const Variant& variant) {
  nb::dict arguments;
  Py_ssize_t named = PyTuple_GET_SIZE(self->names);
  if (self->positional < 0) named -= PyTuple_GET_SIZE(self->keyword_only);  // *args stand before these
  size_t fixed = 0;
  Py_ssize_t position = 0;
  int depth = 0;
  for (const Role role : variant.roles) {
    const bool holds_value = role == Role::fixed || role == Role::dict || role == Role::named_tuple;
    if (role == Role::fixed && depth == 0 && position < named) {
      const nb::object& value = variant.fixed[fixed];
      if (!is_plainly_static(value.ptr())) arguments[nb::handle(PyTuple_GET_ITEM(self->names, position))] = value;
    }
    fixed += holds_value;
    if (role == Role::list || role == Role::tuple || role == Role::dict || role == Role::named_tuple) ++depth;
    if (role == Role::end) --depth;
    position += depth == 0;
  }
  return arguments;
}

VariantUse find_variant(JitFunction* self, Call& call) {
  // Comparing static values may run Python, and another call may add, drop or move a variant then: by index, of a size
  // read anew, and once more where something moved, which may have passed by. Not until nothing moves, as comparing may
  // itself call the function each time: a reading that is missed is only made twice.
  for (int walks = 0; walks < 2; ++walks) {
    const std::uint64_t moves = self->moves;
    for (size_t i = 0; i < self->variants->size(); ++i) {
      VariantUse use(*(*self->variants)[i]);
      if (!matches(*use, call)) continue;
      use->last_use = ++self->calls;
      if (i > 0) move_forward(self, *use);
      return use;
    }
    if (self->moves == moves) break;
  }
  if (own_parameters(self->function) != std::pair(self->described_defaults, self->described_code))
    throw ParametersChanged();
  if (self->variants->size() >= most_variants) drop_least_recent(self);
  auto variant = std::make_unique<Variant>();
  const auto roles = call.roles.span();
  variant->roles.assign(roles.begin(), roles.end());
  for (PyObject* value : call.fixed.span()) variant->fixed.push_back(nb::borrow(value));
  variant->guards = collect_guards(self->function, static_arguments(self, *variant));
  variant->forms.emplace_back(nb::none(), [](nb::handle) {});
  Variant* raw = variant.get();
  PyObject *function = self->function, *keywords = self->keyword_only;
  variant->function = std::make_unique<Function>(
      *self->name,
      [raw, function, keywords](const std::vector<Tensor>& inputs, const std::vector<Tensor>& scalars) {
        return trace_python(*raw, function, keywords, inputs, scalars);
      },
      self->precision);
  raw->last_use = ++self->calls;
  self->variants->push_back(std::move(variant));
  return VariantUse(*raw);
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
      throw InputError(Mistake::type,
                       fmt::format("{}: out is {}, expected an array", variant.function->name(), a_type(object)));
    }
    if (call->kind.library != ArrayKind::none && !call->kind.same_as(array.kind)) {
      throw InputError(Mistake::type, fmt::format("{}: out is a {}, the arguments are {}", variant.function->name(),
                                                  array.kind.name(), call->kind.name()));
    }
    views.push(array.view);
  };
  const EpochGuard guard;
  const auto is_container = [](PyObject* object) {
    return PyTuple_Check(object) || PyList_Check(object) || PyDict_Check(object);
  };
  if (!is_container(out)) {
    add(out);
    const Specialization& entry = specialize(variant, call, views.span());
    if (const ResultForm& form = variant.forms[entry.form]; !form.is_flat()) {
      throw InputError(Mistake::type, fmt::format("{}: out is an array, the function returns {}",
                                                  variant.function->name(), form.text()));
    }
    run(*variant.function, entry, views.span(), *call);
    return Py_NewRef(out);
  }
  const auto keep = [&](nb::handle leaf) {
    call->kept.push_back(nb::borrow(leaf));
    add(leaf.ptr());
  };
  std::optional<ResultForm> given;
  if (PyDict_Check(out) || std::any_of(PySequence_Fast_ITEMS(out),
                                       PySequence_Fast_ITEMS(out) + PySequence_Fast_GET_SIZE(out), is_container)) {
    given.emplace(out, keep);
  } else {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); ++i) keep(PySequence_Fast_GET_ITEM(out, i));
  }
  const Specialization& entry = specialize(variant, call, views.span());
  const ResultForm& form = variant.forms[entry.form];
  // No views at all would have the kernel's outputs chosen, not given.
  if (views.span().empty() || (given ? !form.takes(*given) : !form.is_flat())) {
    if (!given) given.emplace(out, [](nb::handle) {});
    throw InputError(Mistake::type, fmt::format("{}: out is {}, the function returns {}", variant.function->name(),
                                                given->text(), form.text()));
  }
  run(*variant.function, entry, views.span(), *call);
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
  if (entry.form == 0) {
    const nb::object memory = make(entry.outputs[0]);
    run(*variant.function, entry, views.span(), *call);
    return finish(call->kind, memory.ptr());
  }
  std::vector<nb::object> memory;
  memory.reserve(entry.outputs.size());
  for (const OutputSpec& spec : entry.outputs) memory.push_back(make(spec));
  run(*variant.function, entry, views.span(), *call);
  std::vector<nb::object> results;
  results.reserve(memory.size());
  for (const nb::object& object : memory) results.push_back(nb::steal(finish(call->kind, object.ptr())));
  return variant.forms[entry.form].build(results).release().ptr();
}

/// Puts a call's arguments in the order of the parameters, those that it leaves out with their defaults; nothing where
/// it has too many, too few or unknown ones, which Python has words for.
bool place_arguments(const JitFunction* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                     SmallList<PyObject*, 16>* placed) {
  const Py_ssize_t parameters = PyTuple_GET_SIZE(self->defaults);
  if (self->always_binds || self->positional < 0 || count > self->positional) return false;
  for (Py_ssize_t i = 0; i < count; ++i) placed->push(arguments[i]);
  for (Py_ssize_t i = count; i < parameters; ++i) placed->push(nullptr);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
    if (is_out(keyword)) continue;
    Py_ssize_t at = self->positional_only;
    while (at < parameters && PyUnicode_Compare(PyTuple_GET_ITEM(self->names, at), keyword) != 0) ++at;
    if (at == parameters || (*placed)[at]) return false;
    (*placed)[at] = arguments[count + i];
  }
  for (Py_ssize_t i = count; i < parameters; ++i) {
    if (!(*placed)[i]) (*placed)[i] = PyTuple_GET_ITEM(self->defaults, i);
    if ((*placed)[i] == self->no_default) return false;
  }
  return true;
}

void describe(JitFunction* self);

PyObject* vectorcall(PyObject* object, PyObject* const* arguments, size_t flags, PyObject* names) {
  auto* self = reinterpret_cast<JitFunction*>(object);
  try {
    const Py_ssize_t count = PyVectorcall_NARGS(flags), keywords = names ? PyTuple_GET_SIZE(names) : 0;
    if (TraceScope::active() && holds_tensor(arguments, count + keywords))
      return PyObject_Vectorcall(self->function, arguments, flags, names);
    PyObject* out = nullptr;
    bool plain = !self->always_binds && count >= self->required && (self->positional < 0 || count <= self->positional);
    for (Py_ssize_t i = 0; i < keywords; ++i) {
      if (is_out(PyTuple_GET_ITEM(names, i))) {
        out = arguments[count + i] == Py_None ? nullptr : arguments[count + i];
      } else {
        plain = false;
      }
    }
    Call call;
    if (plain) {
      sort_arguments(*self->name, arguments, 0, count, &call);
      // Behind *args stand only those that are given by keyword.
      const Py_ssize_t parameters = PyTuple_GET_SIZE(self->defaults),
                       missing = self->positional < 0 ? PyTuple_GET_SIZE(self->keyword_only) : parameters - count;
      if (missing > 0)
        sort_arguments(*self->name, PySequence_Fast_ITEMS(self->defaults) + parameters - missing, count, missing,
                       &call);
      const VariantUse variant = find_variant(self, call);
      return out ? call_into(*variant, &call, out) : call_new(*variant, &call);
    }
    SmallList<PyObject*, 16> placed;
    if (names && place_arguments(self, arguments, count, names, &placed)) {
      sort_arguments(*self->name, &placed[0], 0, static_cast<Py_ssize_t>(placed.size()), &call);
    } else {
      nb::list positional;
      nb::dict named;
      for (Py_ssize_t i = 0; i < count; ++i) positional.append(nb::handle(arguments[i]));
      for (Py_ssize_t i = 0; i < keywords; ++i) {
        const nb::handle name = PyTuple_GET_ITEM(names, i);
        if (!is_out(name.ptr())) named[name] = nb::handle(arguments[count + i]);
      }
      const nb::object bound = nb::handle(self->bind)(nb::tuple(positional), named);
      call.kept.push_back(bound);
      sort_arguments(*self->name, PySequence_Fast_ITEMS(bound.ptr()), 0, PySequence_Fast_GET_SIZE(bound.ptr()), &call);
    }
    const VariantUse variant = find_variant(self, call);
    return out ? call_into(*variant, &call, out) : call_new(*variant, &call);
  } catch (const ParametersChanged&) {
    try {
      describe(self);
    } catch (...) {
      set_python_error();
      return nullptr;
    }
    return vectorcall(object, arguments, flags, names);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// A traced call, to be looked at.
struct Lowered {
  Func func;
  std::string signature;
  Precision precision;
};

Lowered lower(nb::handle object, const nb::args& args, const nb::kwargs& kwargs) {
  auto* self = reinterpret_cast<JitFunction*>(object.ptr());
  if (own_parameters(self->function) != std::pair(self->described_defaults, self->described_code)) describe(self);
  const nb::object bound = nb::handle(self->bind)(args, kwargs);
  Call call;
  sort_arguments(*self->name, PySequence_Fast_ITEMS(bound.ptr()), 0, PySequence_Fast_GET_SIZE(bound.ptr()), &call);
  const VariantUse variant = find_variant(self, call);
  const EpochGuard guard;
  const Specialization& entry = specialize(*variant, &call, {});
  return {variant->function->trace({}, call.inputs.span(), call.scalars.span()), entry.signature.to_string(),
          self->precision};
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
  Py_CLEAR(self->describe);
  Py_CLEAR(self->described_defaults);
  Py_CLEAR(self->described_code);
  Py_CLEAR(self->bind);
  Py_CLEAR(self->names);
  Py_CLEAR(self->defaults);
  Py_CLEAR(self->no_default);
  Py_CLEAR(self->keyword_only);
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
  Py_VISIT(self->describe);
  Py_VISIT(self->described_defaults);
  Py_VISIT(self->described_code);
  Py_VISIT(self->bind);
  Py_VISIT(self->names);
  Py_VISIT(self->defaults);
  Py_VISIT(self->no_default);
  Py_VISIT(self->keyword_only);
  for (const auto& variant : *self->variants) {
    for (const Captured& captured : variant->captured) Py_VISIT(captured.array);
    for (const Guard& guard : variant->guards) {
      Py_VISIT(guard.container.ptr());
      Py_VISIT(guard.key.ptr());
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

/// Reads the function's parameters, at first and where they have changed.
void describe(JitFunction* self) {
  const auto [defaults, code] = own_parameters(self->function);
  const nb::object kept_defaults = nb::borrow(defaults), kept_code = nb::borrow(code);
  const auto parameters = nb::cast<nb::dict>(nb::handle(self->describe)());
  std::vector<nb::object> replaced;  // goes once the new ones are in place, as it may run Python
  const auto put = [&](PyObject** at, const nb::object& value) {
    if (*at) replaced.push_back(nb::steal(*at));
    *at = Py_XNewRef(value.ptr());
  };
  put(&self->described_defaults, kept_defaults);
  put(&self->described_code, kept_code);
  put(&self->bind, parameters["bind"]);
  put(&self->names, parameters["names"]);
  put(&self->defaults, parameters["defaults"]);
  put(&self->no_default, parameters["no_default"]);
  put(&self->keyword_only, parameters["keyword_only"]);
  const auto number = [&](const char* key) { return nb::cast<Py_ssize_t>(parameters[key]); };
  self->positional = number("positional");
  self->positional_only = number("positional_only");
  self->required = number("required");
  self->always_binds = nb::cast<bool>(parameters["always_binds"]);
}

Precision parse_precision(const std::string& name) {
  static const std::vector<std::string> known{"default", "strict"};
  if (name == known[0]) return Precision::standard;
  if (name == known[1]) return Precision::strict;
  throw InputError(Mistake::value, unknown_name("precision", name, known));
}

PyObject* make_jit_function(nb::handle function, nb::handle describe_parameters, const std::string& name,
                            Precision precision) {
  nb::object made = nb::steal(jit_type->tp_alloc(jit_type, 0));
  if (!made.is_valid()) throw nb::python_error();
  auto* self = reinterpret_cast<JitFunction*>(made.ptr());
  self->vectorcall = &vectorcall;
  self->name = new std::string(name);
  self->precision = precision;
  self->variants = new std::vector<std::unique_ptr<Variant>>();
  self->function = Py_NewRef(function.ptr());
  self->describe = Py_NewRef(describe_parameters.ptr());
  describe(self);
  return made.release().ptr();
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
  module.def("_make_jit_function", [](nb::handle function, nb::handle describe_parameters, const std::string& name,
                                      const std::string& precision) {
    return nb::steal(make_jit_function(function, describe_parameters, name, parse_precision(precision)));
  });
  nb::class_<Lowered>(module, "Lowered", "One call's program, at every stage of its compilation.")
      .def(
          "text",
          [](const Lowered& lowered, const std::string& stage) {
            return stage_text(lowered.func, compile_device(lowered.precision), stage);
          },
          nb::arg("stage") = "scheduled",
          "The program after `stage`: traced, scheduled, begin .. end, llvm, asm (lathe.stages lists them).")
      .def_ro("func", &Lowered::func, "The traced program.")
      .def_ro("signature", &Lowered::signature, "What the compiled kernel depends on, one field a line.")
      .def("__repr__", [](const Lowered& lowered) { return fmt::format("<lathe.Lowered {}>", lowered.func->name); });
  module.attr("stages") = nb::cast(text_stages());
}

}  // namespace lathe::python
