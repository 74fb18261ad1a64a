#include "bindings/python/result_form.h"

#include <algorithm>

#include "bindings/python/recursion.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// Sorted; as they come where they do not compare.
nb::object sorted_keys(const nb::object& keys) {
  nb::object list = nb::steal(PySequence_List(keys.ptr()));
  if (!list.is_valid()) throw nb::python_error();
  if (PyList_Sort(list.ptr()) == 0) return nb::tuple(list);
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
  PyErr_Clear();
  return keys;
}

bool equal(const nb::object& a, const nb::object& b) {
  if (a.ptr() == b.ptr()) return true;
  if (!a.is_valid() || !b.is_valid()) return false;
  const int same = PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ);
  if (same < 0) throw nb::python_error();
  return same == 1;
}

}  // namespace

ResultForm::ResultForm(nb::handle object, const std::function<void(nb::handle)>& leaf) {
  add(object, leaf);
}

void ResultForm::add(nb::handle object, const std::function<void(nb::handle)>& leaf) {
  const bool tuple = PyTuple_Check(object.ptr());
  if (!tuple && !PyList_Check(object.ptr()) && !PyDict_Check(object.ptr())) {
    leaf(object);
    nodes_.push_back({Kind::leaf, 0, {}, {}, {}});
    return;
  }
  const Recursion recursion(" in a result");
  if (PyDict_Check(object.ptr())) {
    const nb::object keys = nb::steal(PySequence_Tuple(object.ptr())), sorted = sorted_keys(keys);
    nodes_.push_back({Kind::dict, nb::len(keys), {}, keys, sorted});
    for (const nb::handle key : nb::borrow<nb::tuple>(sorted)) add(nb::borrow<nb::dict>(object)[key], leaf);
  } else {
    const nb::object items = nb::steal(PySequence_Tuple(object.ptr()));
    const bool named = tuple && PyObject_HasAttrString(object.ptr(), "_make");
    nodes_.push_back({named   ? Kind::named_tuple
                      : tuple ? Kind::tuple
                              : Kind::list,
                      nb::len(items),
                      named ? nb::borrow(object.type()) : nb::object(),
                      {},
                      {}});
    for (const nb::handle item : nb::borrow<nb::tuple>(items)) add(item, leaf);
  }
}

nb::object ResultForm::build(const std::vector<nb::object>& leaves) const {
  size_t node = 0, leaf = 0;
  return build(leaves, &node, &leaf);
}

nb::object ResultForm::build(const std::vector<nb::object>& leaves, size_t* node, size_t* leaf) const {
  const Node& n = nodes_[(*node)++];
  if (n.kind == Kind::leaf) return leaves[(*leaf)++];
  if (n.kind == Kind::dict) {
    nb::dict dict;
    for (const nb::handle key : nb::borrow<nb::tuple>(n.keys)) dict[key] = nb::none();  // in this order
    for (const nb::handle key : nb::borrow<nb::tuple>(n.sorted)) dict[key] = build(leaves, node, leaf);
    return dict;
  }
  nb::list items;
  for (size_t i = 0; i < n.children; ++i) items.append(build(leaves, node, leaf));
  if (n.kind == Kind::list) return items;
  if (n.kind == Kind::named_tuple) return n.type.attr("_make")(items);
  return nb::tuple(items);
}

bool ResultForm::is_flat() const {
  return nodes_[0].kind != Kind::dict &&
         std::all_of(nodes_.begin() + 1, nodes_.end(), [](const Node& n) { return n.kind == Kind::leaf; });
}

bool operator==(const ResultForm& a, const ResultForm& b) {
  return std::equal(a.nodes_.begin(), a.nodes_.end(), b.nodes_.begin(), b.nodes_.end(),
                    [](const ResultForm::Node& x, const ResultForm::Node& y) {
                      return x.kind == y.kind && x.children == y.children && x.type.ptr() == y.type.ptr() &&
                             equal(x.keys, y.keys) && equal(x.sorted, y.sorted);
                    });
}

bool ResultForm::takes(const ResultForm& out) const {
  const auto form = [](Kind kind) { return kind == Kind::list || kind == Kind::named_tuple ? Kind::tuple : kind; };
  if (is_flat() && out.is_flat()) return true;  // one result may come in a tuple; their numbers are compared elsewhere
  return std::equal(nodes_.begin(), nodes_.end(), out.nodes_.begin(), out.nodes_.end(),
                    [&](const Node& x, const Node& y) {
                      return form(x.kind) == form(y.kind) && x.children == y.children && equal(x.sorted, y.sorted);
                    });
}

std::string ResultForm::text() const {
  size_t node = 0;
  return text(&node);
}

std::string ResultForm::text(size_t* node) const {
  const Node& n = nodes_[(*node)++];
  if (n.kind == Kind::leaf) return "array";
  std::string parts;
  for (size_t i = 0; i < n.children; ++i) {
    if (i > 0) parts += ", ";
    if (n.kind == Kind::dict) parts += std::string(nb::repr(nb::borrow<nb::tuple>(n.sorted)[i]).c_str()) + ": ";
    parts += text(node);
  }
  if (n.kind == Kind::dict) return "{" + parts + "}";
  if (n.kind == Kind::list) return "[" + parts + "]";
  return "(" + parts + (n.children == 1 ? ",)" : ")");
}

}  // namespace lathe::python
