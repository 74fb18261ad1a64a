#include "jit/kernel_error.h"

#include <fmt/format.h>

#include "ir/abi.h"
#include "ir/error.h"

namespace lathe {

void throw_kernel_error(std::int32_t status, const std::string& message, std::int64_t index,
                        const std::string& kernel) {
  const size_t first = message.find('|'), second = message.find('|', first + 1);
  if (status == LATHE_INDEX_OUT_OF_RANGE && second != std::string::npos) {
    throw InputError(Mistake::index,
                     fmt::format("{}: {} {} is out of range on {}", message.substr(0, first),
                                 message.substr(second + 1), index, message.substr(first + 1, second - first - 1)));
  }
  if (status == LATHE_INDEX_OUT_OF_RANGE || status == LATHE_ASSERTION_FAILED) {
    throw InputError(Mistake::value, fmt::format("{}: {} (value {})", kernel, message, index));
  }
  throw Error(fmt::format("{}: the kernel stopped with status {}{}", kernel, status,
                          status == LATHE_OUT_OF_MEMORY ? " (out of memory)" : ""));
}

}  // namespace lathe
