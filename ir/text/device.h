#pragma once
#include <string>
#include <string_view>

#include "ir/device.h"

namespace lathe {

/// Reads the description of a device; grammar: ir/README.md. What is left out keeps its default. A mistake is an
/// InputError(syntax) "FILE:LINE:COLUMN: expected X, found Y" with the line and a caret; so is a description that
/// contradicts itself (check_device).
Device parse_device(std::string_view text, std::string_view file = "<text>");
/// The text of a device: parse_device(print_device(d)) == d.
std::string print_device(const Device& device);

}  // namespace lathe
