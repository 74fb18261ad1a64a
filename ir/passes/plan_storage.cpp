#include "ir/passes/plan_storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/error.h"
#include "ir/passes/lifetimes.h"
#include "ir/passes/share_storage.h"
#include "ir/passes/storage_layout.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

constexpr std::int64_t workspace_alignment = 64;  // a cache line, and the widest vector

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::int64_t natural_alignment(const MemorySpace& space) {
  return is_workspace(space.name) ? workspace_alignment
                                  : std::lcm<std::int64_t>(space.max_simd_bits / 8, space.unit_bits / 8);
}

/// One space's allocations and their places.
struct Plan {
  const MemorySpace* space = nullptr;
  std::vector<size_t> members;  ///< allocations
  StorageLayout layout;
  std::vector<size_t> owner;  ///< of each member, the member whose place it has
  std::int64_t alignment = 1;
  std::int64_t bytes = 0;
};

class Layouter {
 public:
  Layouter(const std::vector<Allocation>& allocations, const std::vector<size_t>& shared, const Device& device)
      : all_(allocations), shared_(shared), device_(device) {}

  Plan lay_out_space(const std::string& name, std::vector<size_t> members) {
    Plan plan;
    plan.space = device_.find_space(name);
    plan.members = std::move(members);
    plan.owner.resize(plan.members.size());
    std::iota(plan.owner.begin(), plan.owner.end(), size_t{0});
    plan.layout = lay_out(lifetimes(plan));
    // Taking memory over joins lifetimes, which now and then leaves fewer gaps: the lower peak wins.
    Plan joined = plan;
    bool any = false;
    for (size_t k = 0; k < plan.members.size(); ++k) {
      const size_t owner = shared_[plan.members[k]];
      if (owner == plan.members[k]) continue;
      joined.owner[k] =
          static_cast<size_t>(std::find(plan.members.begin(), plan.members.end(), owner) - plan.members.begin());
      any = true;
    }
    if (any) {
      joined.layout = lay_out(lifetimes(joined));
      if (joined.layout.peak <= plan.layout.peak) plan = std::move(joined);
    }
    for (const size_t member : plan.members) plan.alignment = std::lcm(plan.alignment, alignment_of(plan, member));
    const std::int64_t granule = is_workspace(name) ? workspace_alignment : plan.space->unit_bits / 8;
    plan.bytes = round_up(plan.layout.peak, granule);
    return plan;
  }

  SpacePlan report(const Plan& plan) const {
    const std::vector<Lifetime> lives = lifetimes(plan);
    const LiveBound bound = live_bound(lives);
    SpacePlan result{plan.space->name, plan.bytes, bound.bytes, {}, {}};
    for (size_t k = 0; k < plan.members.size(); ++k) {
      const std::string& name = all_[plan.members[k]].buffer->name;
      if (plan.owner[k] != k) {
        result.in_place.push_back(fmt::format("{} over {}", name, all_[plan.members[plan.owner[k]]].buffer->name));
      } else if (lives[k].first <= bound.time && bound.time <= lives[k].last) {
        result.at_peak.push_back(fmt::format("{} ({} bytes)", name, lives[k].bytes));
      }
    }
    return result;
  }

 private:
  std::int64_t alignment_of(const Plan& plan, size_t member) const {
    const Buffer& buffer = all_[member].buffer;
    return std::lcm(std::lcm(natural_alignment(*plan.space), static_cast<std::int64_t>(buffer->dtype.bytes())),
                    static_cast<std::int64_t>(std::max(buffer->alignment, 1)));
  }

  /// A member that has another's place needs none of its own: its lifetime is that one's too.
  std::vector<Lifetime> lifetimes(const Plan& plan) const {
    const std::int64_t granule = is_workspace(plan.space->name) ? workspace_alignment : plan.space->unit_bits / 8;
    std::vector<Lifetime> result(plan.members.size());
    for (size_t k = 0; k < plan.members.size(); ++k) {
      const Allocation& a = all_[plan.members[k]];
      result[k] = {a.first, a.last, round_up(a.bytes, granule), alignment_of(plan, plan.members[k])};
    }
    for (size_t k = 0; k < plan.members.size(); ++k) {
      Lifetime& owner = result[plan.owner[k]];
      if (plan.owner[k] == k) continue;
      owner.first = std::min(owner.first, result[k].first);
      owner.last = std::max(owner.last, result[k].last);
      owner.alignment = std::lcm(owner.alignment, result[k].alignment);
      result[k].bytes = 0;
    }
    return result;
  }

  const std::vector<Allocation>& all_;
  const std::vector<size_t>& shared_;
  const Device& device_;
};

class Replacer : public Mutator {
 public:
  explicit Replacer(const BufferMap& planned) : planned_(planned) {}

 protected:
  Buffer mutate_buffer(const Buffer& buffer) override {
    if (auto found = planned_.find(buffer.get()); found != planned_.end()) return found->second;
    const auto& view = buffer->view_of;
    if (!view) return buffer;
    auto [place, is_new] = views_.try_emplace(buffer.get(), buffer);
    if (is_new) {
      Region region = *view;
      Buffer viewed = mutate_buffer(region.buffer);
      if (viewed != region.buffer) {
        region.buffer = viewed;
        place->second = BufferNode::make(buffer->name, buffer->dtype, buffer->shape, viewed->space, buffer->strides,
                                         buffer->offset, buffer->alignment, region);
      }
    }
    return place->second;
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    Block::Fields f = node->f;
    std::erase_if(f.allocs, [&](const Buffer& alloc) { return planned_.count(alloc.get()) != 0; });
    f.body = mutate(f.body);
    bool bare = f.allocs.empty() && f.iters.empty() && !f.predicate && !f.init;
    return bare ? f.body : Block::make(std::move(f));
  }

 private:
  const BufferMap& planned_;
  BufferMap views_;
};

/// A workspace of a call, as the kernel publishes it.
void set_workspace(Annotations& attrs, const std::string& name, const Plan* plan) {
  const std::int64_t alignment = plan ? std::max(plan->alignment, workspace_alignment) : workspace_alignment;
  // The caller aligns to 64 bytes; the kernel rounds its base up to more.
  attrs[name + "_bytes"] = plan ? plan->bytes + alignment - workspace_alignment : std::int64_t{0};
  attrs.erase(name + "_align");
  if (alignment > workspace_alignment) attrs[name + "_align"] = alignment;
}

void check_capacity(const SpacePlan& plan, const MemorySpace& space) {
  if (space.capacity_bits == 0 || plan.bytes <= space.capacity_bytes()) return;
  const bool too_much = plan.live_bound > space.capacity_bytes();
  throw Refusal("plan_storage", 4,
                fmt::format("plan_storage refused: condition 4, what a space is planned to hold fits it: space {} has "
                            "{} bytes, {} are needed{}; alive at the peak: {}",
                            space.name, space.capacity_bytes(), too_much ? plan.live_bound : plan.bytes,
                            too_much ? "" : fmt::format(" as laid out for {} that are alive at once", plan.live_bound),
                            fmt::join(plan.at_peak, ", ")));
}

}  // namespace

Func plan_storage(const Func& func, const Device& device, StorageReport* report) {
  const std::vector<Allocation> allocations = find_lifetimes(func, device);
  std::map<std::string, std::vector<size_t>> by_space;
  BufferMap planned;
  for (size_t i = 0; i < allocations.size(); ++i) {
    const Allocation& a = allocations[i];
    if (a.first >= 0) by_space[a.space].push_back(i);
    planned[a.buffer.get()] = a.buffer;  // dropped where nobody uses it
  }
  const std::vector<size_t> shared = find_shared(func, allocations);
  Layouter layouter(allocations, shared, device);
  std::map<std::string, Plan> plans;
  for (auto& [space, members] : by_space) {
    const Plan& plan = plans[space] = layouter.lay_out_space(space, std::move(members));
    const SpacePlan summary = layouter.report(plan);
    check_capacity(summary, *plan.space);
    if (report) report->push_back(summary);
    for (size_t k = 0; k < plan.members.size(); ++k) {
      const Buffer& b = allocations[plan.members[k]].buffer;
      if (plan.owner[k] != k) continue;
      planned[b.get()] = BufferNode::make(
          b->name, b->dtype, b->shape, space, b->strides, index(plan.layout.offsets[k] / b->dtype.bytes()),
          static_cast<int>(std::max(natural_alignment(*plan.space), static_cast<std::int64_t>(b->alignment))));
    }
    for (size_t k = 0; k < plan.members.size(); ++k) {
      const Buffer& owner = allocations[plan.members[plan.owner[k]]].buffer;
      planned[allocations[plan.members[k]].buffer.get()] = planned.at(owner.get());
    }
  }
  Annotations attrs = func->attrs;
  const auto plan_of = [&](const char* space) {
    const auto found = plans.find(space);
    return found == plans.end() ? nullptr : &found->second;
  };
  set_workspace(attrs, "shared", plan_of(space::global));
  set_workspace(attrs, "worker", plan_of(space::worker));
  for (const auto& [space, plan] : plans) {
    if (!is_workspace(space)) attrs["space_" + space + "_bytes"] = plan.bytes;
  }
  Stmt body = Replacer(planned).mutate(func->body);
  return FuncNode::make(func->name, func->params, std::move(body), func->facts, std::move(attrs), func->stage);
}

}  // namespace lathe
