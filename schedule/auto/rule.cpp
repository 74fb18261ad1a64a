#include "schedule/auto/rule.h"

#include <algorithm>
#include <numeric>

#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/auto/block_memo.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What exceeds the caches, as a multiple of a core's own (measured on Zen 4, with 1 MB beside a share of 32: operands
/// of 8 MB are read as those of 2 MB are, of 11 MB wait about twice as long).
constexpr std::int64_t far_times = 8;

}  // namespace

bool attempt(RuleContext& context, const std::string& decision, const std::function<void()>& f) {
  const Schedule::Checkpoint before = context.schedule.checkpoint();
  const size_t scheduled = context.scheduled.size(), place = context.schedule.record().size();
  try {
    f();
  } catch (const Refusal& refusal) {
    context.schedule.rollback(before);
    context.scheduled.shrink(scheduled);
    context.note("not " + decision + ": " + refusal.message().substr(0, refusal.message().find('\n')));
    return false;
  }
  context.note(decision, place);
  return true;
}

FusionWish fusion_wish(const Block& block) {
  const auto found = block.f.annotations.find("fuse");
  const std::int64_t* wish = found == block.f.annotations.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  if (!wish) return FusionWish::none;
  return *wish == 0 ? FusionWish::apart : FusionWish::together;
}

namespace {

bool find_sealed(const Block& block) {
  bool sealed = std::any_of(block.f.iters.begin(), block.f.iters.end(),
                            [](const Iter& iter) { return iter.kind == IterKind::opaque; });
  const auto look = [&](const Stmt& s) {
    for_each_expr(s, [&](const Expr& e) {
      const Call* call = e.as<Call>();
      sealed |= e.as<AddressOf>() != nullptr || (call && call->call_kind == CallKind::extern_scalar);
    });
  };
  if (block.f.init) look(block.f.init);
  look(block.f.body);
  return sealed;
}

}  // namespace

bool is_sealed(const Block& block) {
  return BlockMemo::ask(block, &BlockMemo::Known::sealed, [&] { return find_sealed(block); });
}

bool may_join(const RuleContext& context, const Block& block) {
  const bool scans = std::any_of(block.f.iters.begin(), block.f.iters.end(),
                                 [](const Iter& iter) { return iter.kind == IterKind::ordered; });
  return !context.scheduled.contains(block.f.name) && !has_blocks(block) && !scans && !is_sealed(block) &&
         fusion_wish(block) != FusionWish::apart;
}

BlockRef partial_results(Schedule& schedule, const BlockRef& reduction, const LoopRef& loop) {
  const BlockRef partial = rfactor(schedule, reduction, loop);
  for (const Region& written : std::vector<Region>(schedule.node(partial).f.writes)) {
    const size_t rank = written.buffer->rank();
    transform_layout(schedule, partial, written.buffer->name, moved_first(rank, rank - 1));
  }
  return partial;
}

const CacheLevel* own_cache(const Device& device) {
  const CacheLevel* own = nullptr;
  for (const CacheLevel& level : device.caches) {
    if (!level.shared && (!own || level.bytes > own->bytes)) own = &level;
  }
  return own;
}

std::int64_t own_cache_bytes(const Device& device) {
  const CacheLevel* own = own_cache(device);
  return own ? own->bytes : 0;
}

bool exceeds_caches(const Device& device, double bytes) {
  return bytes > static_cast<double>(far_times * own_cache_bytes(device));
}

bool comes_from_memory(const Device& device, double bytes) {
  return !device.caches.empty() && 2 * bytes >= static_cast<double>(device.caches.back().bytes);
}

std::int64_t lines_held(const CacheLevel& cache, std::int64_t stride) {
  const std::int64_t sets = std::max<std::int64_t>(cache.bytes / (std::int64_t{cache.ways} * cache.line_bytes), 1);
  if (stride % cache.line_bytes != 0) return sets * cache.ways;
  return sets / std::gcd(stride / cache.line_bytes, sets) * cache.ways;
}

double longest_share(const Device& device, std::int64_t tasks) {
  const std::int64_t cores = device.cores, most = (tasks + cores - 1) / cores;
  return static_cast<double>(most * cores) / static_cast<double>(tasks);
}

std::optional<std::int64_t> nearest_memory_bytes(const Device& device) {
  if (!device.caches.empty()) {
    const CacheLevel& last = device.caches.back();
    return last.shared ? last.bytes / device.cores : last.bytes;
  }
  std::optional<std::int64_t> bytes;
  for (const MemorySpace& space : device.spaces) {
    if (space.addressing == Addressing::none || space.capacity_bits == 0) continue;
    bytes = std::min(bytes.value_or(space.capacity_bytes()), space.capacity_bytes());
  }
  return bytes;
}

std::vector<LoopRef> own_loops(const Schedule& schedule, const BlockRef& block) {
  const Path path = path_to(schedule, block);
  std::vector<LoopRef> loops;
  for (size_t level = path.size() - 1; level-- > 0;) {
    const For* loop = path[level].as<For>();
    if (!loop) break;
    loops.push_back({loop->variable});
  }
  std::reverse(loops.begin(), loops.end());
  return loops;
}

std::optional<LoopRef> loop_of_iter(const Schedule& schedule, const BlockRef& block, size_t iter) {
  const Expr& binding = schedule.node(block).f.bindings[iter];
  for (const LoopRef& loop : schedule.loops(block)) {
    if (Expr(loop.variable) == binding) return loop;
  }
  return std::nullopt;
}

std::optional<OwnLoop> own_loop_of(const Schedule& schedule, const BlockRef& block, size_t iter) {
  const std::optional<LoopRef> loop = loop_of_iter(schedule, block, iter);
  std::vector<LoopRef> own = own_loops(schedule, block);
  if (!loop || std::find(own.begin(), own.end(), *loop) == own.end()) return std::nullopt;
  return OwnLoop{*loop, std::move(own)};
}

std::optional<LoopRef> driving_loop(const Schedule& schedule, const BlockRef& block, size_t iter) {
  for (const LoopRef& loop : own_loops(schedule, block)) {
    if (uses_var(schedule.node(block).f.bindings[iter], loop.variable.get())) return loop;
  }
  return std::nullopt;
}

std::optional<std::int64_t> greatest_divisor(std::int64_t extent, std::int64_t least, std::int64_t most) {
  for (std::int64_t d = std::min(most, extent); d >= least; --d) {
    if (extent % d == 0) return d;
  }
  return std::nullopt;
}

}  // namespace lathe
