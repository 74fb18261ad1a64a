#pragma once

namespace lathe {

/// The LLVM that kernels are compiled with: "19.1.7".
const char* llvm_version();

}  // namespace lathe
