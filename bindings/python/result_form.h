#pragma once
#include <nanobind/nanobind.h>

#include <functional>
#include <string>
#include <vector>

namespace lathe::python {

/// How results stand together: one alone, or in lists, tuples and dicts of any depth. Those of a dict are computed in
/// the order of its keys, where these have one, so that two dicts of the same keys are alike.
class ResultForm {
 public:
  /// Takes what a function returned, or the memory for it, apart; `leaf` gets each result.
  ResultForm(nanobind::handle object, const std::function<void(nanobind::handle)>& leaf);

  /// Puts results together again, in the order in which the leaves came.
  nanobind::object build(const std::vector<nanobind::object>& leaves) const;

  /// Nothing but a result, or one list or tuple of them.
  bool is_flat() const;
  friend bool operator==(const ResultForm& a, const ResultForm& b);
  /// Can memory of form `out` take these results? A list will do for a tuple.
  bool takes(const ResultForm& out) const;
  /// "(array, {'a': array})"
  std::string text() const;

 private:
  enum class Kind : std::uint8_t { leaf, list, tuple, named_tuple, dict };
  struct Node {
    Kind kind;
    size_t children = 0;      ///< the nodes that follow, each with its own
    nanobind::object type;    ///< of a named tuple
    nanobind::object keys;    ///< of a dict, as it has them
    nanobind::object sorted;  ///< of a dict, in the order of its children
  };

  void add(nanobind::handle object, const std::function<void(nanobind::handle)>& leaf);
  nanobind::object build(const std::vector<nanobind::object>& leaves, size_t* node, size_t* leaf) const;
  std::string text(size_t* node) const;

  std::vector<Node> nodes_;
};

}  // namespace lathe::python
