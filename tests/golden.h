#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lathe::testing {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Compares `actual` with the file golden/`name` beside the test. With LATHE_UPDATE_GOLDEN=1 in the environment the
/// file is written instead; review the difference before committing it.
inline void expect_golden(const std::string& actual, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(LATHE_TEST_DIR) / "golden" / name;
  const char* update = std::getenv("LATHE_UPDATE_GOLDEN");
  if (update && std::string(update) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << actual;
    return;
  }
  ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing; LATHE_UPDATE_GOLDEN=1 writes it. It would read:\n"
                                             << actual;
  EXPECT_EQ(read_file(path), actual) << "differs from " << path << "; LATHE_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace lathe::testing
