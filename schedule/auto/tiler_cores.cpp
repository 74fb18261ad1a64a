#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/tiler.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What each core makes for itself takes so much of its share of a product's time at the most, and a product so many
/// nanoseconds at the least (measured on Zen 4, two threads, f16 widened to f32: 256x256x256 0.85 of the time, 256x128
/// by 256 steps 0.74, 46x128x77 0.76; 1.02 where one thread runs all). Of shares that are uneven the first takes longer
/// than the lines come late (128x512x256 in eleven panels 1.1).
constexpr double most_making = 0.05, least_shared_nanoseconds = 12'000;

/// Does the block nothing but cast to what is wider, row by row, each as it lies?
bool only_widens(const Block& block) {
  const Store* store = block.f.body.as<Store>();
  const Cast* cast = store && !store->mask ? store->value.as<Cast>() : nullptr;
  const Load* load = cast ? cast->value.as<Load>() : nullptr;
  if (!load || load->mask || block.f.iters.empty() || block.f.reducer || is_sealed(block) ||
      load->dtype.bits >= cast->dtype.bits)
    return false;
  const Accesses accesses = block_accesses(block);
  const size_t last = block.f.iters.size() - 1;
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) { return access.strides[last] == 1; });
}

}  // namespace

size_t Tiler::shared_loop(const TileShape& tile, const ReaderLoops& loops, const std::vector<LoopRef>& order) const {
  const auto is_one = [&](const LoopRef& loop) {
    const std::int64_t together = loops.row == loop      ? tile.rows
                                  : loops.column == loop ? tile.columns
                                                         : 1,
                       *extent = as_int(schedule_.node(loop).extent);
    return extent && *extent <= together;
  };
  if (rows_of_core_ > 0 && order.size() == 2 && loops.row == order.back()) return 1;
  return static_cast<size_t>(std::find_if_not(order.begin(), order.end(), is_one) - order.begin());
}

std::vector<BlockRef> Tiler::makers_for_cores(const std::vector<LoopRef>& order, size_t shared) const {
  const Device& device = context_.device;
  const Block& reduction = schedule_.node(block_);
  if (device.cores == 1 || shared == order.size() || across_ || dot_ || windows_ || adds_up_parts()) return {};
  const auto found =
      std::find_if(loops_.begin(), loops_.end(), [&](const auto& own) { return own.second == order[shared]; });
  const double work = instance_count(reduction) * instance_nanoseconds(reduction, true);
  if (found == loops_.end() || work < least_shared_nanoseconds) return {};
  const Var* iter = reduction.f.iters[found->first].variable.get();
  std::vector<BlockRef> makers;
  for (const BlockRef& maker : schedule_.producers(block_)) {
    if (context_.scheduled.contains(maker.name)) continue;
    const Block& block = schedule_.node(maker);
    // What else is made under the loop over cores, `parallel` may not see that each writes it first.
    if (!only_widens(block) || !is_allocated(schedule_.func(), block.f.writes[0].buffer) ||
        schedule_.consumers(maker).size() != 1 || fusion_wish(block) == FusionWish::apart)
      return {};
    const Buffer& made = block.f.writes[0].buffer;
    const Load* read = load_of(reduction, made);
    const auto moves = [&](const Expr& index) { return uses_var(index, iter); };
    const bool whole = read && std::none_of(read->indices.begin(), read->indices.end(), moves);
    // A part that is no box, as of joined rows, is made before by one core.
    if (!whole && !(read && std::all_of(read->indices.begin(), read->indices.end(),
                                        [&](const Expr& index) { return !moves(index) || index.as<Var>(); })))
      return {};
    const double bytes = estimated_elements(made) * made->dtype.bytes(),
                 making = instance_count(block) * instance_nanoseconds(block, true);
    if (whole && bytes <= static_cast<double>(own_cache_bytes(device)) &&
        making * static_cast<double>(device.cores) <= most_making * work)
      makers.push_back(maker);
  }
  return makers;
}

void Tiler::make_for_cores(const LoopRef& core) {
  for (const BlockRef& maker : makers_) {
    attempt(context_, fmt::format("make {} on each core", schedule_.node(maker).f.writes[0].buffer->name),
            [&] { compute_at(schedule_, maker, core); });
  }
}

std::optional<LoopRef> Tiler::share_out(std::vector<LoopRef>& order, size_t shared) {
  const std::int64_t cores = context_.device.cores, *extent = as_int(schedule_.node(order[shared]).extent);
  if (!extent || *extent % cores != 0) return std::nullopt;
  if (*extent == cores) return order[shared];
  const bool columns = column_loop_ == order[shared];
  const auto [core, within] = split(schedule_, order[shared], *extent / cores);
  order[shared] = within;
  if (columns) column_loop_ = within;
  order.insert(order.begin(), core);
  return core;
}

}  // namespace lathe
