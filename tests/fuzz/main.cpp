#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tests/fuzz/seeds.h"

namespace lathe::testing {
namespace {

std::optional<Seeds> chosen_seeds;
bool is_verbose = false;

std::optional<Seeds> parse(const char* text) {
  char* end = nullptr;
  Seeds seeds{std::strtoull(text, &end, 10), 0, true};
  if (std::strncmp(end, "..", 2) == 0) {
    seeds.last = std::strtoull(end + 2, &end, 10);
  } else {
    seeds.last = seeds.first + 1;
  }
  if (end == text || *end != '\0' || seeds.last <= seeds.first) return std::nullopt;
  return seeds;
}

}  // namespace

Seeds seeds(std::uint64_t count) {
  return chosen_seeds ? *chosen_seeds : Seeds{0, count};
}

bool verbose() {
  return is_verbose;
}

}  // namespace lathe::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char* text = std::getenv("LATHE_FUZZ_SEEDS");
  lathe::testing::is_verbose = std::getenv("LATHE_FUZZ_VERBOSE") != nullptr;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--verbose") == 0) lathe::testing::is_verbose = true;
    if (std::strcmp(argv[k], "--seeds") == 0 && k + 1 < argc) text = argv[++k];
  }
  if (text) {
    lathe::testing::chosen_seeds = lathe::testing::parse(text);
    if (!lathe::testing::chosen_seeds) {
      std::fprintf(stderr, "seeds '%s': expected A..B with A < B, or one number\n", text);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
