#include <cstdlib>
#include <memory>

#include "tests/backends/harness.h"

namespace lathe {
namespace {

using namespace testing;

/// out = x + its first row by vectors as wide as the device's, rows of `row` elements apart.
Func rows(const Device& device, int row, const std::string& layout, const std::string& body = "") {
  const int lanes = device.lanes(32);
  return parse_func(fmt::format(R"(
func rows(x: f32[4096], out: f32[4096]{2}) stage end {{
  parallel for i in [0, 8) @{{streaming_stores: 1}} {{
    for j in [0, {3}) {{
      out[ramp(i * {1} + j * {0}, 1, {0})] = x[ramp(i * {1} + j * {0}, 1, {0})] + x[ramp(j * {0}, 1, {0})]
    }}
    {4}
  }}
}}
)",
                                lanes, row, layout, 64 / lanes, body));
}

TEST(StreamingStores, AreWholeVectorsWhoseAlignmentIsKnown) {
  for (const auto& [name, device] : devices()) {
    const auto streamed = [&device = device](const Func& func) {
      return count(llvm_ir_text(func, device), "!nontemporal");
    };
    EXPECT_EQ(streamed(rows(device, 64, " align 64")), 1u) << name;
    EXPECT_EQ(streamed(rows(device, 64, "")), 0u) << name << ": it may begin anywhere";
    EXPECT_EQ(streamed(rows(device, 66, " align 64")), 0u) << name << ": rows begin anywhere";
    EXPECT_EQ(streamed(rows(device, 64, " align 64", "out[i * 64] = out[i * 64] + 1.0f32")), 0u)
        << name << ": it is read again";
    EXPECT_EQ(streamed(rows(device, 64, " align 64", "out[i * 64] = 3.0f32")), 1u) << name << ": a scalar";
  }
}

#if defined(__x86_64__)
TEST(StreamingStores, AreTheMachinesAndAreFencedInThePieceThatMakesThem) {
  for (const auto& [name, device] : devices()) {
    const std::string text = assembly_text(rows(device, 64, " align 64"), device);
    EXPECT_GE(count(text, "movntps"), 1u) << name << "\n" << text;
    EXPECT_EQ(count(text, "sfence"), 1u) << name << "\n" << text;
    const std::string ordinary = assembly_text(rows(device, 64, ""), device);
    EXPECT_EQ(count(ordinary, "movnt") + count(ordinary, "sfence"), 0u) << name << "\n" << ordinary;
  }
}

TEST(StreamingStores, AreFencedAlsoWhereAnErrorEndsThePiece) {
  for (const auto& [name, device] : devices()) {
    const Func func = rows(device, 64, " align 64", "assert x[i] < 90.0f32, \"value|x|element\"");
    const std::string text = llvm_ir_text(func, device);
    EXPECT_EQ(count(text, "call void @llvm.x86.sse.sfence"), 2u) << name << "\n" << text;
  }
}
#endif

TEST(StreamingStores, TheSameValuesAsTheInterpreter) {
  constexpr size_t elements = 4096;
  for (const auto& [name, device] : devices()) {
    const Func func = rows(device, 64, " align 64");
    const std::vector<Bytes> arguments = {bytes_of(floats(elements)), bytes_of(std::vector<float>(elements, -1.0f))};
    const Outcome expected = run_interpreted(func, arguments);
    const auto kernel = Engine::instance().link(compile_to_object(func, device));
    const std::unique_ptr<void, decltype(&std::free)> out(std::aligned_alloc(64, elements * sizeof(float)), &std::free);
    for (const int threads : {1, 2}) {
      Bytes x = arguments[0];
      std::memcpy(out.get(), arguments[1].data(), arguments[1].size());
      void* pointers[] = {x.data(), out.get()};
      LatheContext context{};
      context.abi_version = LATHE_ABI_VERSION;
      context.thread_count = threads;
      context.parallel_for = run_pieces;
      EXPECT_EQ(kernel->entry()(&context, pointers, nullptr), LATHE_OK);
      EXPECT_EQ(std::memcmp(out.get(), expected.buffers[1].data(), expected.buffers[1].size()), 0) << name;
    }
  }
}

}  // namespace
}  // namespace lathe
