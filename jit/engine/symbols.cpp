#include "jit/engine/symbols.h"

#include <dlfcn.h>

#include <mutex>
#include <unordered_map>

#include "ir/passes/math/vector_library.h"

namespace lathe {
namespace {

std::mutex mutex;

std::unordered_map<std::string, void*>& table() {
  static auto* symbols = new std::unordered_map<std::string, void*>{
      {"lathe_exact_remainder", reinterpret_cast<void*>(&lathe_exact_remainder)}};
  return *symbols;
}

/// The folder of the library or program that this code is part of, with a slash.
std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&find_symbol), &info) || !info.dli_fname) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

void* sleef() {
  static void* const library = [] {
    const std::string folder = own_folder();
    for (const std::string& path :
         {folder + "libsleef.so.3", folder + "../lathe.libs/libsleef.so.3", std::string("libsleef.so.3")})
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    return static_cast<void*>(nullptr);
  }();
  return library;
}

}  // namespace

void register_symbol(const std::string& name, void* address) {
  std::lock_guard lock(mutex);
  table()[name] = address;
}

void* find_symbol(const std::string& name) {
  {
    std::lock_guard lock(mutex);
    auto found = table().find(name);
    if (found != table().end()) return found->second;
  }
  if (name.starts_with("Sleef_")) return sleef() ? dlsym(sleef(), name.c_str()) : nullptr;
  if (name.starts_with("__asan_")) return dlsym(RTLD_DEFAULT, name.c_str());
  return nullptr;
}

}  // namespace lathe
