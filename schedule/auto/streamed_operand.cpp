#include "schedule/auto/streamed_operand.h"

#include <algorithm>

#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Rows of the operand that stream at a time: each more halves no further what the sums cost, and beyond eight the
/// prefetchers lose count (measured on Zen 4: 8 rows 2.6 ms, 16 rows 2.9, 32 rows 4.8 for 2x4096x4096).
constexpr std::int64_t most_streams = 8;
/// Of terms that take long enough to overlap without, as an exponential does.
constexpr std::int64_t costly_chains = 1;
/// Rows past which an operand streams where two multiply-adds of lines start each cycle, in tiles that share its
/// vectors in the first cache.
constexpr std::int64_t most_tiled_rows = 31;
/// Steps of a sum from which on parts pay beside whole sums in registers, for more rows than memory has time for
/// (24x3136 by 144 steps takes 1.08 of the time, 18x1444 by 256 0.85).
constexpr std::int64_t least_depth = 256;
/// Rows up to which tiles meet an operand in long pieces, with sums that stay in the first cache, where vectors fill
/// lines, and where not: then fewer where the last cache holds it. Measured on Zen 5, beside packed panels, in
/// 512 bits 24x4096x4096 0.4 of the time, 32x1024x1024 0.83, 96x4096x4096 0.86, 96x1024x1024 1.0; in 256 bits 0.66,
/// 0.98, 1.06 and 1.2, 9x4096x4096 0.25, 48x1024x1024 1.3; with sums that leave the first cache 1.2 to 1.6 of that.
/// Where the device wants no long pieces, sums are loaded and stored for more rows of the operand at once, and lines
/// asked for (on Zen 4, in 512 bits 9x1000x5000 0.27 of the time, 12x768x3072 0.52, 24x4096x4096 0.56, 32x5000x2048
/// 0.84, 64x1000x5000 0.84, 96x4096x4096 0.86, 12x1024x1024 to 64x1024x1024 1.0; in 256 bits 12x1000x5000 0.44,
/// 24x4096x4096 0.89, 48x4096x4096 1.14 and 64x4096x4096 1.4, whose rows lie in few sets of the first cache; without
/// asking 1.1 to 2 of that).
constexpr std::int64_t most_piece_rows = 96, most_narrow_rows = 64, most_near_rows = 32;
/// The same of an operand that the caches hold: steps from which on lines of it stream past many rows (measured on Zen
/// 4, 24x700x2000 0.72 of the time, 32x1000x512 1.18, 9x4096x512 1.2), and past how many of half lines, whose steps are
/// these (12x1000x1000 0.74, 12x600x600 0.76, but 32x1024x1024, which lie in few sets of the first cache, 1.6, and
/// 32x1024x3072 1.2).
constexpr std::int64_t many_steps = 1500, some_steps = 512, most_nearby_rows = 16;
/// Vectors for which tiles in pieces were timed.
constexpr int least_vector_bits = 256;
/// A block for each core is as good as more tasks where the last has this share of the others' columns.
constexpr double least_last_block = 0.75;

/// The most rows that meet an operand in pieces. Where the device wants no long pieces, an operand that its caches hold
/// pays for long sums alone, or few rows of it, as far as the first cache has room for the pieces' lines.
std::int64_t piece_rows(const Device& device, const StreamedOperand& operand) {
  if (wants_pieces(device)) {
    if (fills_lines(device)) return most_piece_rows;
    return comes_from_memory(device, operand.bytes) ? most_narrow_rows : most_near_rows;
  }
  const bool far = exceeds_caches(device, operand.bytes);
  if (fills_lines(device)) return far || operand.steps >= many_steps ? most_piece_rows : 0;
  const bool has_room = lines_held(device.caches.front(), operand.pitch) >= many_streams;
  if (far) return has_room || comes_from_memory(device, operand.bytes) ? most_near_rows : most_nearby_rows;
  return has_room && operand.steps >= some_steps ? most_nearby_rows : 0;
}

}  // namespace

std::optional<StreamedSum> streaming_operand(const Block& block, const ReductionShape& shape, const Device& device) {
  if (!shape.vector_space || shape.column_run > 0) return std::nullopt;
  StreamedSum found{shape.rows, *shape.vector_space, 0, 1, 0, 0, block.f.writes[0].buffer->dtype.bytes()};
  const auto constant = [&](size_t i) -> std::int64_t {
    const std::int64_t* value = as_int(block.f.iters[i].domain.extent);
    return value ? *value : 0;
  };
  std::optional<size_t> reduce;
  for (const size_t i : shape.reduce) {
    if (constant(i) == 1) continue;
    if (reduce || constant(i) == 0) return std::nullopt;
    reduce = i;
  }
  if (!reduce) return std::nullopt;
  found.reduce = *reduce;
  found.depth = constant(*reduce);
  found.columns = constant(found.vectors);
  if (shape.rows) found.row_count = constant(*shape.rows);
  if (found.columns == 0 || found.row_count == 0) return std::nullopt;
  const std::int64_t cached = own_cache_bytes(device);
  if (cached == 0) return std::nullopt;
  for (const Access& access : block_accesses(block)) {
    // Vectors are picked out of whole ones where columns lie a few elements apart.
    const std::int64_t step = access.strides[found.vectors].value_or(0);
    if (access.store || access.masked || step < 1 || step > most_shuffled_stride) continue;
    const auto stride = access.strides[*reduce];
    if (!stride || *stride < found.columns * step) continue;
    bool once = !shape.rows || access.strides[*shape.rows] == 0;
    double bytes = static_cast<double>(access.buffer->dtype.bytes());
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (shape.rows == i) continue;
      once &= access.strides[i] != 0 || constant(i) == 1;
      bytes *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
    }
    // What the first cache holds is read in order by tiles as well, which keep its sums in registers.
    const bool wide = found.columns * found.depth * access.buffer->dtype.bytes() > device.caches.front().bytes;
    if (!once || !wide || bytes <= static_cast<double>(cached)) continue;
    found.operand = access.buffer;
    found.row_elements = *stride;
    return found;
  }
  return std::nullopt;
}

StreamedOperand streamed_operand(const StreamedSum& streams) {
  const std::int64_t pitch = streams.row_elements * streams.operand->dtype.bytes();
  return {static_cast<double>(pitch * streams.depth), pitch, streams.depth};
}

bool has_short_blocks(const StreamedSum& streams, const Device& device) {
  return !streams.rows && !comes_from_memory(device, streamed_operand(streams).bytes);
}

std::int64_t chains_of_step(const Block& block) {
  if (body_cost(block) >= costly_update) return costly_chains;
  const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
  return op == BinaryOp::min || op == BinaryOp::max ? ordered_chains : streaming_chains;
}

bool wants_pieces(const Device& device) {
  return device.stream_piece_bytes > 0;
}

std::int64_t streams_at_once(const Device& device) {
  return std::min<std::int64_t>(most_streams, device.streams_at_once);
}

bool takes_pieces(const Device& device) {
  return streams_at_once(device) == most_streams && device.vector_bits >= least_vector_bits &&
         (wants_pieces(device) || !lacks_issue_slots(device));
}

bool are_many(const Device& device, std::int64_t rows) {
  return rows > (multiplies_lines(device) ? most_streaming_tile : most_streamed_rows);
}

std::int64_t most_streaming_rows(const Device& device, std::int64_t rows, const StreamedOperand& operand) {
  if (are_many(device, rows) && takes_pieces(device)) return piece_rows(device, operand);
  return multiplies_lines(device) ? most_tiled_rows : most_streamed_rows;
}

std::int64_t least_steps(std::int64_t rows) {
  return rows <= most_streamed_rows ? 1 : least_depth;
}

bool shares_columns(const Block& block, const ReductionShape& shape, const Device& device) {
  const auto streams = streaming_operand(block, shape, device);
  if (!streams || !has_short_blocks(*streams, device) || streams->columns / least_asking_columns < device.cores)
    return false;
  // The last block has what whole tiles leave to it.
  const std::int64_t tile = std::max(vector_lanes(block, device) * streaming_chains,
                                     device.stream_piece_bytes / streams->bytes),
                     each = ((streams->columns + device.cores - 1) / device.cores + tile - 1) / tile * tile;
  return static_cast<double>(streams->columns - (device.cores - 1) * each) >=
         least_last_block * static_cast<double>(each);
}

bool streams_past(const Device& device, std::int64_t rows, const StreamedOperand& operand) {
  const std::int64_t own = own_cache_bytes(device);
  return own > 0 && operand.bytes > static_cast<double>(own) && operand.steps >= least_steps(rows) &&
         rows <= most_streaming_rows(device, rows, operand);
}

std::int64_t streamed_columns(const Block& block, const ReductionShape& shape, const Device& device) {
  if (shape.rows || !streaming_operand(block, shape, device)) return 0;
  return shares_columns(block, shape, device) ? least_asking_columns : least_streamed_columns;
}

}  // namespace lathe
