#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/bind.h"
#include "bindings/python/convert.h"
#include "bindings/python/fold.h"
#include "ir/error.h"
#include "ir/reduction.h"
#include "jit/trace/broadcast.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/promotion.h"
#include "jit/trace/tensor.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {
namespace {

nb::tuple index_arguments(const Indices& indices) {
  nb::list list;
  for (const Expr& i : indices) list.append(nb::cast(i));
  return nb::tuple(list);
}

/// A reducer by name ("sum"), made once the terms' dtype is known, or one that the user wrote.
BinaryOp reducer_op(const std::string& name) {
  constexpr std::pair<const char*, BinaryOp> known[] = {{"sum", BinaryOp::add},        {"prod", BinaryOp::mul},
                                                        {"max", BinaryOp::max},        {"min", BinaryOp::min},
                                                        {"any", BinaryOp::logical_or}, {"all", BinaryOp::logical_and}};
  std::vector<std::string> names;
  for (const auto& [candidate, op] : known) {
    if (name == candidate) return op;
    names.emplace_back(candidate);
  }
  throw InputError(Mistake::value, unknown_name("reducer", name, names));
}

/// lathe.Reducer(lambda l, r: .., identity): identities say the dtypes; one value, or a tuple of them.
Reducer make_reducer(const nb::callable& combine, nb::handle identity, nb::handle dtypes) {
  Reducer reducer;
  std::vector<nb::object> identities, types;
  const auto collect = [](nb::handle given, std::vector<nb::object>* into) {
    if (nb::isinstance<nb::tuple>(given)) {
      for (const nb::handle item : nb::borrow<nb::tuple>(given)) into->push_back(nb::borrow(item));
    } else {
      into->push_back(nb::borrow(given));
    }
  };
  collect(identity, &identities);
  collect(dtypes, &types);
  if (identities.size() != types.size()) {
    throw InputError(Mistake::value,
                     fmt::format("Reducer: {} identities but {} dtypes", identities.size(), types.size()));
  }
  nb::list left, right;
  for (size_t k = 0; k < types.size(); ++k) {
    const DType dtype = to_dtype(types[k]);
    reducer.identities.push_back(to_expr(identities[k], dtype));
    reducer.lhs.push_back(Var::make(fmt::format("lhs{}", k), dtype));
    reducer.rhs.push_back(Var::make(fmt::format("rhs{}", k), dtype));
    left.append(nb::cast(Expr(reducer.lhs[k])));
    right.append(nb::cast(Expr(reducer.rhs[k])));
  }
  const bool tuple = nb::isinstance<nb::tuple>(identity);
  const nb::object result = tuple ? combine(nb::tuple(left), nb::tuple(right)) : combine(left[0], right[0]);
  std::vector<nb::object> results;
  collect(result, &results);
  if (results.size() != types.size()) {
    throw InputError(Mistake::value,
                     fmt::format("Reducer: {} dtypes but {} combined values", types.size(), results.size()));
  }
  for (size_t k = 0; k < results.size(); ++k) reducer.results.push_back(to_expr(results[k], to_dtype(types[k])));
  return reducer;
}

/// What a reduce's or a scan's function gives: an expression, or a tuple of them. A Python number has the type that a
/// reducer of types of its own folds there.
std::vector<Expr> to_terms(const nb::object& result, const Reducer* reducer = nullptr) {
  std::vector<Expr> values;
  const auto add = [&](nb::handle item) {
    const size_t k = values.size();
    values.push_back(to_expr(item, reducer && k < reducer->results.size() ? reducer->results[k]->dtype : f32));
  };
  if (nb::isinstance<nb::tuple>(result)) {
    for (const nb::handle item : nb::borrow<nb::tuple>(result)) add(item);
  } else {
    add(result);
  }
  return values;
}

/// The type in which a named reducer folds terms: sums count bools.
DType folded_type(BinaryOp op, DType terms) {
  return op == BinaryOp::add && terms.is_bool() ? i64 : arithmetic_type(terms);
}

/// The terms in the type in which they are folded.
std::vector<Expr> converted(std::vector<Expr> terms, DType folded) {
  for (Expr& term : terms) term = convert(folded, term);
  return terms;
}

std::optional<DType> rounded(DType dtype) {
  return arithmetic_type(dtype) == dtype ? std::nullopt : std::optional(dtype);
}

Fold reduce_python(nb::handle reducer, nb::handle extents, const nb::callable& f) {
  const Shape shape = to_shape(extents);
  const Reducer* given = as_instance<Reducer>(reducer);
  const auto terms = [&](const Indices& indices) { return to_terms(f(*index_arguments(indices)), given); };
  if (given) return {reduce_tuple(*given, shape, terms), std::nullopt};
  // The dtype of a named reducer is that of its terms.
  const BinaryOp op = reducer_op(nb::cast<std::string>(reducer));
  Reduction reduction = reduce_tuple({}, shape, terms);
  const DType dtype = reduction.terms.at(0)->dtype, folded = folded_type(op, dtype);
  reduction.reducer = simple_reducer(op, folded);
  reduction.terms = converted(std::move(reduction.terms), folded);
  return {std::move(reduction), rounded(dtype)};
}

nb::object scan_python(nb::handle shape, std::int64_t axis, nb::handle reducer, const nb::callable& f,
                       const std::string& name) {
  const Shape extents = to_shape(shape);
  const Reducer* given = as_instance<Reducer>(reducer);
  const auto terms = [&](const Indices& indices) { return to_terms(f(*index_arguments(indices)), given); };
  const size_t along = normalize_axis(name, axis, extents.size());
  if (given) {
    const std::vector<Tensor> results = scan_tuple(extents, along, *given, terms, name);
    if (results.size() == 1) return nb::cast(results[0]);
    return nb::tuple(nb::cast(results));
  }
  // As for reduce: the dtype of a named reducer is that of its terms.
  Indices probe;
  for (size_t d = 0; d < extents.size(); ++d) probe.emplace_back(Var::make(fmt::format("i{}", d)));
  const DType dtype = terms(probe).at(0)->dtype;
  const BinaryOp op = reducer_op(nb::cast<std::string>(reducer));
  const DType folded = folded_type(op, dtype);
  const auto wide_terms = [&](const Indices& indices) { return converted(terms(indices), folded); };
  const Tensor scanned = scan_tuple(extents, along, simple_reducer(op, folded), wide_terms, name).at(0);
  return nb::cast(dtype.is_bool() ? scanned : ops::round_result(scanned, dtype));
}

nb::object compute_python(nb::handle shape, const nb::callable& f, const std::string& name) {
  const Shape extents = to_shape(shape);
  // Whether the body is a reduction is known when it has run once, on variables of its own.
  Indices probe;
  for (size_t d = 0; d < extents.size(); ++d) probe.emplace_back(Var::make(fmt::format("i{}", d)));
  const nb::object body = f(*index_arguments(probe));
  const Fold* fold = as_instance<Fold>(nb::handle(body));
  if (fold) {
    const std::vector<Tensor> results = compute_tuple(
        extents, [&](const Indices& indices) { return nb::cast<Fold>(f(*index_arguments(indices))).reduction; }, name);
    if (fold->rounded) return nb::cast(ops::round_result(results[0], *fold->rounded));
    if (results.size() == 1) return nb::cast(results[0]);
    return nb::tuple(nb::cast(results));
  }
  return nb::cast(compute(
      extents, [&](const Indices& indices) -> Expr { return to_expr(f(*index_arguments(indices)), f32); }, name));
}

/// A reduce takes part in expressions by its value.
void bind_fold(nb::module_& module) {
  nb::class_<Fold> fold(module, "Reduction",
                        "What reduce gives: the whole body of a compute, or a value within an expression.");
  for (const char* name : {"__add__",     "__radd__",     "__sub__",      "__rsub__",      "__mul__",    "__rmul__",
                           "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__",    "__rmod__",
                           "__pow__",     "__rpow__",     "__and__",      "__rand__",      "__or__",     "__ror__",
                           "__xor__",     "__rxor__",     "__lshift__",   "__rlshift__",   "__rshift__", "__rrshift__",
                           "__lt__",      "__le__",       "__gt__",       "__ge__",        "__eq__",     "__ne__"}) {
    fold.def(
        name, [name](const Fold& f, nb::handle other) { return nb::cast(f.value()).attr(name)(other); },
        nb::is_operator());
  }
  for (const char* name : {"__neg__", "__abs__", "__invert__", "__bool__"})
    fold.def(name, [name](const Fold& f) { return nb::cast(f.value()).attr(name)(); });
  fold.def("__hash__", [](const Fold& f) { return reinterpret_cast<std::intptr_t>(&f) >> 4; });
  fold.def("astype", [](const Fold& f, nb::handle dtype) { return cast(to_dtype(dtype), f.value()); }, "dtype"_a);
  fold.def_prop_ro("dtype", [](const Fold& f) { return f.value()->dtype; });
  fold.def(
      "__getitem__",
      [](const Fold& f, size_t k) {
        const std::vector<Expr> values = folded(f.reduction, f.rounded);
        if (k >= values.size()) throw nb::index_error();
        return values[k];
      },
      "k"_a, "The k-th value of a reducer of tuples.");
}

}  // namespace

Expr Fold::value() const {
  const std::vector<Expr> values = folded(reduction, rounded);
  if (values.size() == 1) return values[0];
  throw InputError(Mistake::type, fmt::format("a reduction of {} values is no one value: take one of them by a "
                                              "subscript, as in lathe.reduce(..)[0]",
                                              values.size()));
}

void bind_compute(nb::module_& module) {
  bind_fold(module);
  nb::class_<Reducer>(module, "Reducer", "An associative combination of values or of tuples of values.")
      .def(
          "__init__",
          [](Reducer* self, const nb::callable& combine, nb::handle identity, nb::handle dtype) {
            new (self) Reducer(make_reducer(combine, identity, dtype));
          },
          "combine"_a, "identity"_a, "dtype"_a,
          "combine(l, r) of two values (or two tuples of values) of these dtypes; identity combines to the other "
          "operand.");
  module.def(
      "reduce", &reduce_python, "reducer"_a, "axes"_a, "f"_a,
      "Folds f(r, ..) over the box of extents `axes` by a Reducer, or by 'sum', 'prod', 'max', 'min', 'any', 'all'.");
  module.def("compute", &compute_python, "shape"_a, "f"_a, "name"_a = "compute",
             "A tensor whose element at (i, ..) is f(i, ..): an expression, or a reduce. Any operator in a line.");
  module.def("scan", &scan_python, "shape"_a, "axis"_a, "reducer"_a, "f"_a, "name"_a = "scan",
             "A tensor of running results along an axis: its element is the Reducer, or 'sum', 'prod', 'max', 'min', "
             "'any', 'all', folded over f(i, ..) up to it. A Reducer of tuples gives a tuple of tensors.");
  module.def(
      "select",
      [](const Expr& condition, nb::handle a, nb::handle b) {
        const Expr *left = as_instance<Expr>(a), *right = as_instance<Expr>(b);
        const DType like = left ? (*left)->dtype : right ? (*right)->dtype : f32;
        return select(condition, to_expr(a, like), to_expr(b, like));
      },
      "condition"_a, "x1"_a, "x2"_a, "In a compute: x1 where the condition holds, else x2; both are evaluated.");
}

}  // namespace lathe::python
