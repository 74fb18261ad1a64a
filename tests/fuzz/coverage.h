#pragma once
#include <map>
#include <string>

#include "tests/fuzz/generator.h"

namespace lathe::testing {

/// Counts of what generated programs contain, by row. A row that stays at zero is something that no program tested.
class Coverage {
 public:
  /// Every row there is, at zero: node kinds, dtypes, unary and binary operations, the library's operators, shapes,
  /// layouts, loops, masks.
  Coverage();

  /// The program as the library made it: operators, dtypes, shapes, layouts, nodes.
  void add(const GeneratedProgram& program);
  /// The nodes and operations of some form of a program.
  void add(const Func& func);

  std::string table() const;
  /// Rows at zero whose name starts with one of the prefixes, all when there are none.
  std::vector<std::string> missing(const std::vector<std::string>& prefixes = {}) const;

 private:
  void add_run(const GeneratedProgram& program);

  std::map<std::string, std::int64_t> rows_;
};

}  // namespace lathe::testing
