#pragma once
#include <string>

namespace lathe {

/// Makes `address` what the extern callee `name` is bound to in kernels linked from now on. A second registration of a
/// name replaces the first.
void register_symbol(const std::string& name, void* address);

/// The address that `name` is bound to: a registered one, or, for SLEEF's functions (Sleef_*), the one in libsleef,
/// which is looked for beside this library and then where the system keeps libraries; for the address sanitizer's
/// (__asan_*) the one in this process. Null when there is none.
void* find_symbol(const std::string& name);

}  // namespace lathe
