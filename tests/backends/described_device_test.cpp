// Devices that a text describes, beside the CPU: registered through the same doors, and the same operators lowered for
// each, the interpreter seeing before and after.
#include <random>
#include <set>

#include "backends/stages.h"
#include "ir/error.h"
#include "ir/structural.h"
#include "ir/text/device.h"
#include "ir/visitor.h"
#include "jit/trace/ops/ops.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/backends/harness.h"

namespace lathe {
namespace {

using namespace testing;
using namespace ops;

/// Four cores with a scratch memory each, at addresses of their own; `tile` can be had in units of a vector only.
constexpr const char* four_cores = R"(
device four_cores {
  family four_cores
  vector_bits 256
  vector_registers 32
  fused_multiply_add true
  axis core 4
  space global { reach {host, core} }
  space vmem { unit_bits 32 max_simd_bits 256 capacity_bits 131072 head_address 0x10000 + core * 0x4000 reach {core} per core }
  space tile { unit_bits 256 max_simd_bits 256 capacity_bits 131072 opaque_index reach {core} per core }
  copy global -> vmem "load"
}
)";

/// The outermost loops run along the cores; what is allocated lies in `space` where it has rows, else in vmem.
class OnCores : public Mutator {
 public:
  OnCores(const Device& device, std::string space) : device_(device), space_(std::move(space)) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    if (inside_ || !is_int(node->extent, device_.axes[0].extent)) return Mutator::mutate_For(s, node);
    inside_ = true;
    Stmt body = mutate(node->body);
    inside_ = false;
    return For::make(node->variable, node->min, node->extent, ForKind::bound, std::move(body), node->annotations,
                     device_.axes[0].name());
  }
  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    for (const Buffer& alloc : node->f.allocs) {
      if (alloc->space != space::global) continue;
      const bool rows = alloc->rank() == 2 && !is_int(alloc->shape[1], 1);
      moved_[alloc.get()] = BufferNode::make(alloc->name, alloc->dtype, alloc->shape, rows ? space_ : "vmem",
                                             alloc->strides, alloc->offset, alloc->alignment);
    }
    return Mutator::mutate_Block(s, node);
  }
  Buffer mutate_buffer(const Buffer& buffer) override {
    const auto found = moved_.find(buffer.get());
    return found == moved_.end() ? buffer : found->second;
  }

 private:
  const Device& device_;
  std::string space_;
  BufferMap moved_;
  bool inside_ = false;
};

/// The CPU's list with one pass of its own.
Pipeline cores_pipeline(const std::string& space) {
  register_cpu();
  Pipeline p = find_pipeline("cpu");
  p.insert_before("place_allocations", {"on_cores", [space](const Func& func, const Device& device) {
                                          return with_body(func, OnCores(device, space).mutate(func->body));
                                        }});
  return p;
}

const Device& registered_device() {
  static const Device device = [] {
    register_device(parse_device(four_cores));
    register_pipeline("four_cores", cores_pipeline("vmem"));
    return find_device("four_cores");
  }();
  return device;
}

struct Operator {
  std::string name;
  Func func;
};

std::vector<Operator> operators() {
  const Tensor x = input("x", f32, {index(4), index(64)}), w = input("w", f32, {index(64)}),
               b = input("b", f32, {index(64)});
  return {{"softmax", make_func("softmax", {x}, {softmax(x)})},
          {"layer_norm", make_func("layer_norm", {x, w, b}, {layer_norm(x, w, b)})},
          {"softmax_of_scaled", make_func("scaled", {x, w}, {softmax(multiply(x, w))})}};
}

std::vector<Bytes> arrays_for(const Func& func) {
  std::mt19937 random(7);
  std::vector<Bytes> arrays;
  for (const Buffer& buffer : buffer_params(func)) {
    std::int64_t count = 1;
    for (const Expr& extent : buffer->shape) count *= *as_int(extent);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = std::normal_distribution<float>()(random);
    arrays.push_back(bytes_of(values));
  }
  return arrays;
}

void expect_near(const Outcome& expected, const Outcome& actual, const std::string& what) {
  ASSERT_EQ(actual.status, expected.status) << what << actual.message;
  for (size_t k = 0; k < expected.buffers.size(); ++k) {
    const std::vector<float> a = values_of<float>(expected.buffers[k]), b = values_of<float>(actual.buffers[k]);
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_LE(std::abs(a[i] - b[i]), 2e-5f * (1 + std::abs(a[i]))) << what << " array " << k << " at " << i;
    }
  }
}

std::set<std::string> spaces_of(const Func& func) {
  std::set<std::string> spaces;
  for_each_stmt(func->body, [&](const Stmt& s) {
    if (const Store* store = s.as<Store>()) spaces.insert(store->buffer->space);
  });
  return spaces;
}

/// Lowers with every pass verified; after each that changes something the interpreter finds the same.
Func lower_checked(const Operator& op, const Device& device, const Pipeline& pipeline) {
  const std::vector<Bytes> arrays = arrays_for(op.func);
  const Outcome expected = run_interpreted(op.func, arrays);
  LowerOptions options;
  options.verify_each = true;
  options.after_pass = [&](Stage stage, const std::string& pass, const Func& after, bool changed) {
    if (!changed) return;
    const bool flat = stage > Stage::flatten || (stage == Stage::flatten && pass == "flatten_buffers");
    const Func func = flat ? with_stage(after, std::max(after->stage, Stage::flatten)) : after;
    expect_near(expected, run_interpreted(func, arrays), op.name + " on " + device.name + " after " + pass);
    EXPECT_TRUE(lathe::equal(parse_func(print(after)), after)) << print(after);
  };
  return lower(auto_schedule(op.func, device), device, pipeline, options);
}

TEST(DescribedDevice, LowersTheSameOperatorsAsTheCpuDoes) {
  const Device device = registered_device();
  for (const Operator& op : operators()) {
    SCOPED_TRACE(op.name);
    const Func here = lower_checked(op, host_device(), find_pipeline("cpu"));
    EXPECT_FALSE(spaces_of(here).contains("vmem"));
    const Func there = lower_checked(op, device, find_pipeline(device.family));
    EXPECT_TRUE(spaces_of(there).contains("vmem")) << print(there);
    EXPECT_GT(std::get<std::int64_t>(there->attrs.at("space_vmem_bytes")), 0);
    // What was planned is gone: one buffer of the space is left, and its places are bound.
    std::set<std::string> names;
    for_each_stmt(there->body, [&](const Stmt& s) {
      if (const Store* store = s.as<Store>()) names.insert(store->buffer->name);
    });
    EXPECT_TRUE(names.contains("vmem_f32")) << print(there);
    EXPECT_TRUE(allocations(there).empty() || spaces_of(there).contains(space::registers));
    EXPECT_NE(print(there).find("_at = (i0 * 16384 + "), std::string::npos) << print(there);
  }
}

TEST(DescribedDevice, AnOpaqueSpaceIsReachedInItsUnits) {
  const Device device = registered_device();
  const Func there = lower_checked(operators()[0], device, cores_pipeline("tile"));
  EXPECT_TRUE(spaces_of(there).contains("tile")) << print(there);
  EXPECT_NE(print(there).find("tile_f32: f32["), std::string::npos) << print(there);
}

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(DescribedDevice, DuplicatesAndUnknownNamesAreRefused) {
  registered_device();
  EXPECT_EQ(message_of<InputError>([] { register_device(parse_device(four_cores)); }),
            "a device named 'four_cores' is registered already");
  EXPECT_EQ(message_of<InputError>([] { register_pipeline("four_cores", Pipeline()); }),
            "a pipeline for device family 'four_cores' is registered already");
  EXPECT_EQ(message_of<InputError>([] {
              find_device("four_core");
            }).find("unknown device 'four_core'; did you mean 'four_cores'? known: "),
            0u);
  EXPECT_TRUE(find_device("cpu") == host_device());
}

TEST(DescribedDevice, ItsListIsItsOwn) {
  registered_device();
  Pipeline mine = find_pipeline("four_cores");
  mine.remove("on_cores");
  mine.replace("contract_fma", {"keep_products", [](const Func& func, const Device&) { return func; }});
  const std::vector<std::string> names = mine.pass_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "on_cores"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "keep_products"), 1);
  const std::vector<std::string> registered = find_pipeline("four_cores").pass_names(),
                                 cpu = find_pipeline("cpu").pass_names();
  EXPECT_EQ(std::count(registered.begin(), registered.end(), "on_cores"), 1);
  EXPECT_EQ(std::count(cpu.begin(), cpu.end(), "on_cores"), 0);
  EXPECT_EQ(std::count(cpu.begin(), cpu.end(), "contract_fma"), 1);
}

TEST(DescribedDevice, AHostAccessOutOfReachIsRefusedBeforeLowering) {
  const Func func = parse_func(
      "func f(a: f32[4], c: f32[4]) { block root() { alloc t: f32[4] @vmem "
      "for i in [0, 4) { block s(space v in [0, 4) = i) reads a[v] writes t[v] { t[v] = a[v] + 1.0f32 } } "
      "for i in [0, 4) { block u(space v in [0, 4) = i) reads t[v] writes c[v] { c[v] = t[v] } } } }");
  EXPECT_EQ(message_of<Refusal>([&] { lower(func, registered_device(), find_pipeline("four_cores")); }),
            "lower refused: condition 1, loops and accesses of f are to axes and memory that four_cores has and lets "
            "reach: the host "
            "has a store to t in space vmem, which only core can reach");
  EXPECT_EQ(message_of<Refusal>([&] { lower(func, host_device(), find_pipeline("cpu")); })
                .find("lower refused: condition 1, loops and accesses of f are to axes and memory that cpu has and "
                      "lets reach: buffer t: "
                      "unknown space 'vmem'; known: global, worker, register, constant"),
            0u);
}

}  // namespace
}  // namespace lathe
