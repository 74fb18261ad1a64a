#pragma once
#include <cstdint>
#include <string>

namespace lathe {

/// Throws what a kernel's non-zero status means: an index out of range is the caller's InputError(index), "operator:
/// index I on axis N what", read from the Assert's message "operator|axis|what".
[[noreturn]] void throw_kernel_error(std::int32_t status, const std::string& message, std::int64_t index,
                                     const std::string& kernel);

}  // namespace lathe
