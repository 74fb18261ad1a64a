#include "backends/llvm/version.h"

#include <llvm/Config/llvm-config.h>

namespace lathe {

const char* llvm_version() {
  return LLVM_VERSION_STRING;
}

}  // namespace lathe
