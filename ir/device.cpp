#include "ir/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "ir/error.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Instructions of a tile's step for each of its multiply-adds, with elements of rows loaded for all lanes, a counter,
/// two addresses and a branch: of 6 x 2 vectors in 16 registers (12 + 8 + 4 for 12), of 8 x 3 in more. From this part
/// of the slots on the loop takes time. Zen 3 fills 0.67 of six: several steps an iteration, without addresses of their
/// own, take 0.95 to 0.98 of the time of products of 128 to 1024, 0.8 to 0.88 of that of convolutions and attention,
/// and 0.7 to 0.9 where another thread takes slots of the core. Zen 5 with 256 bits, which nobody timed so, would fill
/// 0.5 of eight.
constexpr int few_registers = 16;
constexpr double few_sums_instructions = 2.0, many_sums_instructions = 1.625, most_filled = 0.6;

/// What every device has, described or not.
const std::vector<MemorySpace>& common_spaces() {
  static const std::vector<MemorySpace> spaces = {
      {.name = space::global},
      {.name = space::worker},
      {.name = space::registers, .addressing = Addressing::none, .reach = {}},
      {.name = space::constants}};
  return spaces;
}

template <class List, class Name>
bool contains(const List& list, const Name& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// A head address as text; check_device has let nothing else through.
std::string head_text(const Expr& e) {
  if (const auto* constant = as_int(e)) return fmt::format("{}", *constant);
  if (const Var* var = e.as<Var>()) return var->name;
  const auto* node = e.as<Binary>();
  LATHE_CHECK(node, "a head address of another kind of expression");
  return fmt::format("({} {} {})", to_string(node->op), head_text(node->a), head_text(node->b));
}

std::string head_text(const MemorySpace& space) {
  return space.head ? head_text(space.head) : "";
}

auto fields(const MemorySpace& s) {
  return std::tie(s.name, s.unit_bits, s.max_simd_bits, s.capacity_bits, s.addressing, s.reach, s.per);
}

auto fields(const Device& d) {
  return std::tie(d.name, d.family, d.triple, d.cpu, d.features, d.vector_bits, d.vector_registers, d.mask_registers,
                  d.fused_multiply_add, d.fma_per_cycle, d.fma_latency, d.loads_per_cycle, d.issue_width, d.cores,
                  d.stream_ahead_bytes, d.stream_piece_bytes, d.streams_at_once, d.read_streams, d.streaming_cores,
                  d.caches, d.spaces, d.copies);
}

class Checker {
 public:
  explicit Checker(const Device& device) : device_(device) {}

  void run() {
    if (device_.name.empty()) wrong("it has no name");
    for (const auto& [what, value] : {std::pair("vector_bits", device_.vector_bits),
                                      {"vector_registers", device_.vector_registers},
                                      {"streams_at_once", device_.streams_at_once},
                                      {"cores", device_.cores}}) {
      if (value < 1) wrong(fmt::format("{} is {}, expected at least 1", what, value));
    }
    for (const ThreadAxis& axis : device_.axes) {
      agents_.push_back(axis.name());
      if (axis.extent < 1)
        wrong(fmt::format("axis {} has {} positions, expected at least 1", axis.name(), axis.extent));
    }
    once("agent", agents_);
    std::vector<std::string> described;
    described.reserve(device_.spaces.size());
    for (const MemorySpace& space : device_.spaces) described.push_back(space.name);
    once("space", described);
    for (const MemorySpace& space : device_.spaces) check(space);
    for (const SpaceCopy& copy : device_.copies) {
      known("space", copy.from, device_.space_names());
      known("space", copy.to, device_.space_names());
    }
    std::vector<std::string> instructions;
    for (const Func& intrinsic : device_.intrinsics) {
      instructions.push_back(intrinsic->name);
      check_intrinsic(intrinsic);
    }
    once("intrinsic", instructions);
  }

 private:
  void check(const MemorySpace& space) {
    const auto wrong_space = [&](const std::string& what) { wrong(fmt::format("space {}: {}", space.name, what)); };
    for (const auto& [what, bits] : {std::pair("unit_bits", space.unit_bits), {"max_simd_bits", space.max_simd_bits}}) {
      if (bits < 8 || bits % 8 != 0) wrong_space(fmt::format("{} is {}, expected whole bytes", what, bits));
    }
    if (space.capacity_bits < 0 || space.capacity_bits % space.unit_bits != 0) {
      wrong_space(fmt::format("capacity_bits is {}, expected whole units of {}", space.capacity_bits, space.unit_bits));
    }
    const bool has_head = space.addressing == Addressing::head_address;
    if (has_head != static_cast<bool>(space.head)) {
      wrong_space(has_head ? "it needs its head address" : "only addressing by head_address has a head address");
    }
    if (!space.per.empty()) known("axis", space.per, std::vector(agents_.begin() + 1, agents_.end()));
    for (const std::string& agent : space.reach) known("agent", agent, agents_);
    if (space.head) check_head(space, space.head);
  }

  void check_head(const MemorySpace& space, const Expr& e) {
    if (e->dtype == i64 && as_int(e)) return;
    if (const Var* var = e.as<Var>()) {
      const auto axis = std::find_if(device_.axes.begin(), device_.axes.end(),
                                     [&](const ThreadAxis& a) { return a.variable.get() == var; });
      if (axis != device_.axes.end()) return;
      wrong(fmt::format("space {}: its head address uses {}, which is no axis", space.name, var->name));
    }
    const auto* node = e.as<Binary>();
    if (!node || (node->op != BinaryOp::add && node->op != BinaryOp::sub && node->op != BinaryOp::mul)) {
      wrong(fmt::format("space {}: a head address is made of integers and axes by +, - and *", space.name));
    }
    check_head(space, node->a);
    check_head(space, node->b);
  }

  void once(const char* what, const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
          names.begin() + static_cast<std::ptrdiff_t>(i)) {
        wrong(fmt::format("{} {} is described twice", what, names[i]));
      }
    }
  }

  void known(const char* what, const std::string& name, const std::vector<std::string>& names) {
    if (!contains(names, name)) wrong(unknown_name(what, name, names));
  }

  [[noreturn]] void wrong(const std::string& what) {
    throw InputError(Mistake::value, fmt::format("device {}: {}", device_.name, what));
  }

  const Device& device_;
  std::vector<std::string> agents_ = {host_agent};
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Device> devices;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

std::string_view to_string(Addressing addressing) {
  constexpr std::string_view names[] = {"host_pointer", "head_address", "opaque_index", "none"};
  return names[static_cast<size_t>(addressing)];
}

bool MemorySpace::reachable_from(const std::string& agent) const {
  return contains(reach, agent);
}

bool Device::has_feature(const std::string& feature) const {
  return contains(features, feature);
}

Func Device::find_intrinsic(const std::string& name) const {
  for (const Func& intrinsic : intrinsics) {
    if (intrinsic->name == name) return intrinsic;
  }
  return nullptr;
}

const ThreadAxis* Device::find_axis(const std::string& name) const {
  for (const ThreadAxis& axis : axes) {
    if (axis.name() == name) return &axis;
  }
  return nullptr;
}

const MemorySpace* Device::find_space(const std::string& name) const {
  for (const std::vector<MemorySpace>* list : {&spaces, &common_spaces()}) {
    for (const MemorySpace& space : *list) {
      if (space.name == name) return &space;
    }
  }
  return nullptr;
}

std::vector<std::string> Device::space_names() const {
  std::vector<std::string> names;
  for (const std::vector<MemorySpace>* list : {&spaces, &common_spaces()}) {
    for (const MemorySpace& space : *list) {
      if (!contains(names, space.name)) names.push_back(space.name);
    }
  }
  return names;
}

std::string Device::fingerprint() const {
  std::string text = fmt::format(
      "{}/{} {} {} {} vectors {}x{} masks {} fma {} {}x{} loads {} issue {} cores {} ahead {} piece {} at once {} "
      "streams {} streaming {} caches",
      name, family, triple, cpu, fmt::join(features, ","), vector_registers, vector_bits, mask_registers,
      fused_multiply_add, fma_per_cycle, fma_latency, loads_per_cycle, issue_width, cores, stream_ahead_bytes,
      stream_piece_bytes, streams_at_once, read_streams, streaming_cores);
  for (const CacheLevel& cache : caches)
    text += fmt::format(" {}/{}/{}{}", cache.bytes, cache.ways, cache.line_bytes, cache.shared ? "s" : "");
  text += " axes";
  for (const ThreadAxis& axis : axes) text += fmt::format(" {}:{}", axis.name(), axis.extent);
  text += " spaces";
  for (const MemorySpace& space : spaces)
    text +=
        fmt::format(" {}:{}:{}:{}:{}:{}:{}:{}", space.name, space.unit_bits, space.max_simd_bits, space.capacity_bits,
                    to_string(space.addressing), fmt::join(space.reach, ","), space.per, head_text(space));
  text += " copies";
  for (const SpaceCopy& copy : copies) text += fmt::format(" {}>{}:{}", copy.from, copy.to, copy.instruction);
  text += " intrinsics";
  for (const Func& intrinsic : intrinsics)
    text += fmt::format(" {}:{:016x}", intrinsic->name, structural_hash(intrinsic));
  return text;
}

bool fills_lines(const Device& device) {
  return !device.caches.empty() && device.vector_bits == 8 * device.caches.front().line_bytes;
}

bool multiplies_lines(const Device& device) {
  return device.fma_per_cycle > 1 && fills_lines(device);
}

bool lacks_issue_slots(const Device& device) {
  return multiplies_lines(device) || 2 * device.fma_per_cycle >= device.issue_width;
}

bool tiles_fill_slots(const Device& device) {
  if (lacks_issue_slots(device)) return true;
  if (!device.fused_multiply_add) return false;
  const double instructions = device.vector_registers <= few_registers ? few_sums_instructions : many_sums_instructions;
  return instructions * device.fma_per_cycle >= most_filled * device.issue_width;
}

bool operator==(const MemorySpace& a, const MemorySpace& b) {
  return fields(a) == fields(b) && head_text(a) == head_text(b);
}

bool operator==(const Device& a, const Device& b) {
  return fields(a) == fields(b) &&
         std::equal(
             a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
             [](const ThreadAxis& x, const ThreadAxis& y) { return x.name() == y.name() && x.extent == y.extent; }) &&
         std::equal(a.intrinsics.begin(), a.intrinsics.end(), b.intrinsics.begin(), b.intrinsics.end(),
                    [](const Func& x, const Func& y) { return equal(x, y); });
}

void check_device(const Device& device) {
  Checker(device).run();
}

void check_intrinsic(const Func& intrinsic) {
  const auto wrong = [&](const std::string& what) {
    throw InputError(Mistake::value, fmt::format("intrinsic {}: {}", intrinsic->name, what));
  };
  const std::vector<Buffer> params = buffer_params(intrinsic);
  if (params.empty()) wrong("it has no buffer for a parameter");
  for (const Buffer& param : params) {
    const bool constant =
        std::all_of(param->shape.begin(), param->shape.end(), [](const Expr& extent) { return as_int(extent); });
    if (!constant) wrong(fmt::format("the shape of {} is not constant", param->name));
    for (const Expr& stride : param->strides) {
      const bool any = contains(intrinsic->params, Param(stride.as<Var>() ? VarRef(stride.as<Var>()) : VarRef()));
      if (!as_int(stride) && !any)
        wrong(fmt::format("a stride of {} is neither constant nor a parameter", param->name));
    }
    if (param->offset || param->view_of) wrong(fmt::format("{} has an offset, or is a view", param->name));
  }
  const auto check = [&](const Buffer& buffer) {
    if (std::find(params.begin(), params.end(), buffer) == params.end()) {
      wrong(fmt::format("it uses {}, which is no parameter", buffer->name));
    }
  };
  for (const Buffer& buffer : allocations(intrinsic)) check(buffer);
  for_each_stmt(intrinsic->body, [&](const Stmt& s) {
    if (const Store* store = s.as<Store>()) check(store->buffer);
  });
  std::vector<VarRef> bound = scalar_params(intrinsic);
  for_each_stmt(intrinsic->body, [&](const Stmt& s) {
    if (const For* loop = s.as<For>()) bound.push_back(loop->variable);
    if (const Let* let = s.as<Let>()) bound.push_back(let->variable);
    if (const Block* block = s.as<Block>()) {
      for (const Iter& iter : block->f.iters) bound.push_back(iter.variable);
    }
  });
  for_each_expr(intrinsic->body, [&](const Expr& e) {
    const Var* variable = e.as<Var>();
    if (variable && !contains(bound, VarRef(variable))) wrong(fmt::format("{} is not bound in it", variable->name));
    if (const Load* load = e.as<Load>()) check(load->buffer);
    if (const AddressOf* address = e.as<AddressOf>()) check(address->buffer);
  });
}

void register_device(Device device) {
  check_device(device);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const std::string name = device.name;
  if (!all.devices.emplace(name, std::move(device)).second) {
    throw InputError(Mistake::value, fmt::format("a device named '{}' is registered already", name));
  }
}

Device find_device(const std::string& name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.devices.find(name);
  if (found != all.devices.end()) return found->second;
  std::vector<std::string> known;
  known.reserve(all.devices.size());
  for (const auto& [known_name, device] : all.devices) known.push_back(known_name);
  throw InputError(Mistake::value, unknown_name("device", name, known));
}

std::vector<std::string> device_names() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  names.reserve(all.devices.size());
  for (const auto& [name, device] : all.devices) names.push_back(name);
  return names;
}

}  // namespace lathe
