#pragma once
/// Which loop of an element-wise block becomes vectors, and how long these are.
#include <optional>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Shuffles take the elements out of as many whole vectors.
inline constexpr std::int64_t most_shuffled_stride = 4;

/// Can vectors of the access along the iter be permuted out of two registers (permute_windows)?
bool is_window(const Access& access, size_t iter, const Device& device);
/// Does the access look its elements up in a table that registers hold, an input's (permute_windows)?
bool is_table(const RuleContext& context, const Access& access, size_t iter);
/// Does the block look anything up so, whichever of its loops the vectors lie along?
bool looks_up(const RuleContext& context, const Block& block);
/// How often the loops around a block alone run it.
std::int64_t instances_within(const Schedule& schedule, const BlockRef& ref);
/// Does the access pick its elements one by one? A vector of them takes longer than as many loads (Agner Fog's
/// instruction tables, VGATHERQPS on Zen 4: 26 cycles for 8 lanes), unless there is something to compute.
bool gathers(const RuleContext& context, const std::vector<Access>& accesses, size_t iter);
/// Are all stores contiguous along the iter?
bool stores_in_a_row(const std::vector<Access>& accesses, size_t iter);
/// Does the access put its elements one by one?
bool scatters(const std::vector<Access>& accesses, size_t iter);

/// The loop for vectors, as a position, and what an element costs then, in units of body_cost; or that there are to be
/// none.
struct VectorLoop {
  size_t loop;
  double cost;
  bool vectors;
};

/// What becomes of vectors of a function that would lie along a row shorter than half of one: they do, or they lie
/// along whatever loop costs least.
enum class ShortRows { kept, filled };

/// The best of `loops`, each of which moves the iter of `iters` at its place.
VectorLoop choose_vector_loop(const RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                              const std::vector<LoopRef>& loops, const std::vector<size_t>& iters,
                              ShortRows short_rows = ShortRows::kept);

/// The lanes of vectors along the iter whose loads lie apart, a row of many columns from one to the next, where most
/// are neighbouring columns, of which squares are turned around in registers (transpose_loads); nothing for others.
std::optional<std::int64_t> lanes_of_squares(const RuleContext& context, const Block& block,
                                             const std::vector<Access>& accesses, size_t iter);

/// Is a register a cache line that loads once a cycle? Halves load as many bits, two a cycle.
bool loads_lines(const Device& device);

/// Lanes of the block's vectors along the iter. Half a register's where several arrays that a core's own caches do not
/// hold are read for one that is written, and loads_lines holds: what follows the streams ahead sees each line twice
/// (measured on Zen 4, x + y from the third cache: 0.92
/// of the time; a single stream, or none that is written, takes the same).
std::int64_t streaming_lanes(const RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                             size_t iter);

/// The lanes of vectors of `lanes` that are computed as one, along a loop of `most` iterations at the most, where an
/// element costs so much: more than one where that is a function's cost, vectors are narrow and few are computed beyond
/// the end for it.
std::int64_t function_lanes(const Device& device, double cost, std::int64_t lanes, std::optional<std::int64_t> most);

}  // namespace lathe
