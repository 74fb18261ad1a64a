#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// One thing that is wrong with a Func, or that could not be proved right.
struct Finding {
  std::string rule;   ///< stable name, e.g. "block.bindings_in_domain"; verify_rules() lists all
  bool proved_wrong;  ///< false: it could only not be proved
  std::string message;
};

/// What `verify` checks, and the stages that it holds for (both ends inclusive).
struct Rule {
  std::string_view name;
  Stage first, last;
  std::string_view text;
};
std::span<const Rule> verify_rules();

/// Checks every rule that holds at the Func's stage, but those of space.*: scoping, types, shapes, and until flatten
/// each promise of each Block (ir/stmt.h). Empty when all is proved. The promises are looked at only when nothing else
/// is found.
std::vector<Finding> verify(const Func& func);

/// Checks the rules that are about a device's memory, space.*: bound loops run along its axes, a buffer lies in one of
/// its spaces, and who loads or stores can reach it. What stands in no loop along an axis runs on the host; inside such
/// loops each of their axes may be who reaches it, and a store of nothing but a load may be a copy that the device has
/// between the two spaces.
std::vector<Finding> verify_spaces(const Func& func, const Device& device);

/// verify and, of a device, verify_spaces, thrown: a Bug naming `after` (the pass that made this Func) when there is a
/// finding that is proved wrong.
void check_verified(const Func& func, const std::string& after, const Device* device = nullptr);

}  // namespace lathe
