#include "schedule/auto/stream_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ir/buffer.h"
#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/streamed_operand.h"
#include "schedule/auto/tile_reader.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Where two multiply-adds of lines start each cycle, loads are what a tile has no time for. So vectors share the rows'
/// elements two at a time; sums are loaded and stored for more rows of the operand at once, as far as these fill a part
/// of the second cache; more rows are taken, in tiles that share the operand's vectors in the first cache; and
/// from some rows on steps ask for lines of the rows that stream next, as arithmetic leaves memory waiting. Measured on
/// Cascade Lake: 4x1024x1024 0.87 of the time, 7x512x2048 0.82, 12x768x768 0.72, 16x1024x1024 0.6, 24x3072x768 0.9.
constexpr std::int64_t shared_vectors = 2, most_at_once = 32, at_once_share = 8, least_asking = 6;
/// Rows of a tile of which there are several, at the least, and its vectors at the most.
constexpr std::int64_t least_tile_rows = 5, most_tile_vectors = 4;
/// Rows from which on steps ask for lines of the rows that stream next where pieces are long already, of an operand
/// that comes from memory (measured on Zen 5: 4x4096x4096 0.75 of the time, 8x4096x4096 0.5, 8x2048x4000 0.4;
/// 2x768x3072 to 8x768x3072, from the third cache, 1.1 to 1.4). Where pieces are short two rows do (on Zen 4
/// 2x1000x5000 0.5 of the time, 4x5000x1000 0.67, 8x4096x4096 0.9; with AVX2 0.5, 0.82 and 0.84; from the third cache
/// 0.8 to 1.2).
constexpr std::int64_t least_asking_pieces = 3, least_asking_far = 2;
/// Rows of tiles whose sums fill this share of the first cache, in vectors that fill lines and others: of so many, or
/// one or two fewer where these make up all rows better.
constexpr std::int64_t most_piece_tile = 8, most_narrow_tile = 6;
constexpr double sums_share = 0.75;
/// Where lines are asked for from two rows on, an operand is to take more than this part of the last cache (measured on
/// Zen 4, AVX2: 4x4096x1024, of half of it, 1.57 of the time).
constexpr double far_share = 0.6;
/// Cores from which on blocks are as short as where lines are asked for, or they would have nothing to do: a few alone
/// do not read as fast as memory gives.
constexpr std::int64_t few_cores = 4;

/// Rows of sums a multiple of so many bytes apart lie in four sets of a first cache at the most: with those of the
/// operand they may be more than it has ways, wherever the kernel's memory happens to begin (measured on Zen 3,
/// 8x4096x1024: set apart they take 0.81 to 0.9 of the time).
constexpr std::int64_t crowded_bytes = 1024;

class Streamer {
 public:
  Streamer(RuleContext& context, const BlockRef& block, const ReductionShape& shape, const StreamedSum& streams)
      : context_(context), schedule_(context.schedule), block_(block), shape_(shape), streams_(streams) {
    lanes_ = vector_lanes(schedule_.node(block_), context_.device);
    const std::int64_t all = (streams_.columns + lanes_ - 1) / lanes_, rows = streams_.row_count;
    vectors_ = std::min((chains_of_step(schedule_.node(block_)) + rows - 1) / rows, all);
    tile_rows_ = rows;
    at_once_ = streams_at_once(context_.device);
    lengthen_pieces(all);
    by_lines_ = streams_.rows && multiplies_lines(context_.device) &&
                chains_of_step(schedule_.node(block_)) == streaming_chains;
    if (are_many(context_.device, rows) && streams_.rows && takes_pieces(context_.device) &&
        chains_of_step(schedule_.node(block_)) == streaming_chains)
      tile_in_first_cache();
    if (!by_lines_ || by_pieces_) return;
    std::int64_t most = shared_vectors;
    if (rows > most_streaming_tile) {
      tile_rows_ = greatest_divisor(rows, least_tile_rows, most_streaming_tile).value_or(rows);
      most = most_tile_vectors;
    }
    most = std::min({most, all, (context_.device.vector_registers - 1) / (tile_rows_ + 1)});
    vectors_ = std::max(vectors_, most);
    const std::int64_t bytes = std::min(streams_.columns, fitting_columns()) * streams_.operand->dtype.bytes();
    while (2 * at_once_ <= most_at_once && 2 * at_once_ * bytes * at_once_share <= own_cache_bytes(context_.device))
      at_once_ *= 2;
  }

  bool fits() const {
    const std::int64_t most = by_pieces_ || by_lines_
                                  ? most_streaming_rows(context_.device, streams_.row_count, streamed_operand(streams_))
                                  : most_streamed_rows;
    return streams_.columns >= lanes_ && streams_.row_count <= most && tile_rows_ <= most_streaming_tile &&
           streams_.depth > at_once_ && streams_.depth >= least_steps(streams_.row_count);
  }

  void run() {
    const auto reader = element_wise_reader(context_, block_, shape_, streams_.vectors);
    reader_ = reader ? *reader : cache_write(schedule_, block_, space::global);
    set_rows_apart();
    const BlockRef partial = make_partial();
    const LoopRef columns = place_under_blocks();
    add_up(partial);
    // A copy into memory of the kernel's own is of no use: who reads it may read the sums.
    const bool copied = !reader && is_allocated(schedule_.func(), schedule_.node(reader_).f.writes[0].buffer);
    if (copied)
      compute_inline(schedule_, reader_);
    else
      vectorize_reader(columns);
    context_.scheduled.insert(block_.name);
    if (!copied) context_.scheduled.insert(reader_.name);
    context_.scheduled.insert(partial.name);
    context_.note(fmt::format("stream {}: {} rows x {} vectors of {} lanes in blocks of {} columns", block_.name,
                              tile_rows_, vectors_, lanes_, block_columns()));
  }

 private:
  /// Gives rows of sums that would lie in few sets of the first cache, as those of the operand do, one line more each.
  void set_rows_apart() {
    const Buffer sums = schedule_.node(block_).f.writes[0].buffer;
    const std::int64_t *columns = as_int(sums->shape.back()), bytes = sums->dtype.bytes(),
                       line = context_.device.caches.front().line_bytes / bytes;
    if (!is_allocated(schedule_.func(), sums) || sums->rank() < 2 || streams_.row_count < 2 || !columns ||
        *columns * bytes % crowded_bytes != 0)
      return;
    const auto rows = static_cast<std::int64_t>(sums->rank()) - 2;
    storage_align(schedule_, block_, sums->name, rows, 2 * line, line);
  }

  bool asks() const {
    const std::int64_t rows = streams_.row_count;
    const double bytes = streamed_operand(streams_).bytes;
    if (wants_pieces(context_.device)) return rows >= least_asking_pieces && comes_from_memory(context_.device, bytes);
    if (by_lines_) return rows >= least_asking;
    return by_pieces_ || (takes_pieces(context_.device) && rows >= least_asking_far &&
                          bytes > far_share * static_cast<double>(context_.device.caches.back().bytes));
  }

  /// Plans tiles of many rows, whose sums stay in the first cache.
  void tile_in_first_cache() {
    by_pieces_ = true;
    const bool wide = fills_lines(context_.device);
    at_once_ = !wants_pieces(context_.device) ? many_streams : wide ? most_at_once : streams_at_once(context_.device);
    const std::int64_t registers = context_.device.vector_registers - 1, rows = streams_.row_count;
    const std::int64_t most = wide ? most_piece_tile : most_narrow_tile;
    const auto all_rows = [&](std::int64_t tile) { return (rows + tile - 1) / tile * tile; };
    tile_rows_ = most;
    for (const std::int64_t tile : {most - 1, most - 2})
      if (all_rows(tile) < all_rows(tile_rows_)) tile_rows_ = tile;
    vectors_ = std::min(registers / (tile_rows_ + 1), (streams_.columns + lanes_ - 1) / lanes_);
  }

  /// Has a tile of sums read pieces of rows as long as the device wants them, as far as registers hold these; extremes,
  /// of several instructions each, would take long to compile.
  void lengthen_pieces(std::int64_t all) {
    const Device& device = context_.device;
    if (!wants_pieces(device) || streams_.row_count > most_streamed_rows ||
        chains_of_step(schedule_.node(block_)) != streaming_chains)
      return;
    const std::int64_t wanted = device.stream_piece_bytes / (lanes_ * streams_.operand->dtype.bytes()),
                       room = (device.vector_registers - 1) / (streams_.row_count + (streams_.row_count > 1 ? 1 : 0));
    vectors_ = std::max(vectors_, std::min({wanted, room, all}));
  }

  /// Columns whose sums stay in the caches while rows stream by: half of the first cache for one row, for more up to a
  /// quarter of a core's own.
  std::int64_t fitting_columns() const {
    const std::int64_t near = context_.device.caches.front().bytes / 2, own = own_cache_bytes(context_.device) / 4;
    const auto whole = static_cast<std::int64_t>(sums_share * static_cast<double>(2 * near));
    const std::int64_t room = by_pieces_ ? whole : std::max(near, std::min(own, near * streams_.row_count));
    return std::max(lanes_, room / streams_.bytes / streams_.row_count);
  }

  /// Of a block, of which there are as many as cores at the least.
  std::int64_t block_columns() const {
    const std::int64_t fitting = fitting_columns(), cores = context_.device.cores,
                       least = asks() || cores > few_cores || has_short_blocks(streams_, context_.device)
                                   ? least_asking_columns
                                   : least_streamed_columns,
                       wanted = std::min(cores, streams_.columns / least);
    const std::int64_t blocks = std::max({(streams_.columns + fitting - 1) / fitting, wanted, std::int64_t{1}});
    // Sums of a maximum's exponentials are shared out as the maxima are, or cores would read those of others.
    const bool shared = blocks > 1 && !streams_.rows;
    const std::int64_t tile = (shared ? std::max(vectors_, ordered_chains) : vectors_) * lanes_;
    return ((streams_.columns + blocks - 1) / blocks + tile - 1) / tile * tile;
  }

  /// Splits the reader's columns into blocks, and moves the reduction under these. Returns the reader's loop within.
  LoopRef place_under_blocks() {
    std::optional<LoopRef> row, column;
    for (const auto& [iter, loop] : matched_loops(schedule_.node(block_), schedule_.node(reader_))) {
      if (streams_.rows && iter == *streams_.rows) row = loop;
      if (iter == streams_.vectors) column = loop;
    }
    LATHE_CHECK(column, "the vectors walk along a loop of the reader");
    std::vector<LoopRef> order;
    for (const LoopRef& loop : schedule_.loops(reader_)) {
      if (!(row && loop == *row) && !(loop == *column)) order.push_back(loop);
    }
    const auto [blocks, inner] = split(schedule_, *column, block_columns());
    order.push_back(blocks);
    if (row) order.push_back(*row);
    order.push_back(inner);
    reorder(schedule_, order);
    compute_at(schedule_, block_, blocks);
    return inner;
  }

  LoopRef loop_of(const BlockRef& block, size_t iter) const {
    const auto loop = driving_loop(schedule_, block, iter);
    LATHE_CHECK(loop, "an iter that walks memory has a loop");
    return *loop;
  }

  /// Partial results of several steps of the reduction at a time, made outside of rows and columns.
  BlockRef make_partial() {
    const std::vector<LoopRef> around = own_loops(schedule_, block_);
    const LoopRef depth = loop_of(block_, streams_.reduce);
    const auto [outer, inner] = split(schedule_, depth, at_once_);
    std::vector<LoopRef> order = {outer, inner};
    for (const LoopRef& loop : around) {
      if (!(loop == depth)) order.push_back(loop);
    }
    reorder(schedule_, order);
    // Of the reduction's iters the spatial ones are left then, and one for the steps.
    const auto place = [&](size_t iter) {
      return static_cast<size_t>(std::find(shape_.space.begin(), shape_.space.end(), iter) - shape_.space.begin());
    };
    const BlockRef partial = rfactor(schedule_, block_, outer);
    if (streams_.rows) streams_.rows = place(*streams_.rows);
    streams_.vectors = place(streams_.vectors);
    streams_.reduce = shape_.space.size();
    return partial;
  }

  /// The loops of a tile, unrolled and vectorized.
  void unroll_tile(const std::vector<LoopRef>& loops) {
    for (size_t i = 0; i + 1 < loops.size(); ++i) unroll(schedule_, loops[i]);
    if (vectors_ > 1) {
      const auto [vectors, lane] = split(schedule_, loops.back(), lanes_);
      unroll(schedule_, vectors);
      vectorize(schedule_, lane);
    } else {
      vectorize(schedule_, loops.back());
    }
  }

  /// Has the sums take up the partial results of each step while these are in registers.
  void add_up(const BlockRef& partial) {
    const LoopRef depth = loop_of(block_, streams_.reduce);
    const LoopRef column = loop_of(block_, streams_.vectors);
    const auto [tiles, within] = split(schedule_, column, vectors_ * lanes_);
    std::vector<LoopRef> order = {depth, tiles}, tile;
    LoopRef around = tiles;
    if (streams_.rows) {
      LoopRef row = loop_of(block_, *streams_.rows);
      if (tile_rows_ < streams_.row_count) {
        std::tie(around, row) = split(schedule_, row, tile_rows_);
        order.push_back(around);
      }
      tile.push_back(row);
    }
    tile.push_back(within);
    order.insert(order.end(), tile.begin(), tile.end());
    reorder(schedule_, order);
    compute_at(schedule_, partial, around);
    set_space(schedule_, partial, space::registers);
    unroll_tile(tile);
    unroll_partial(partial);
    decompose_reduction(schedule_, block_, depth);
  }

  void unroll_partial(const BlockRef& partial) {
    const Block& node = schedule_.node(partial);
    const std::vector<LoopRef> own = own_loops(schedule_, partial);
    std::optional<LoopRef> steps;
    std::vector<LoopRef> tile;
    for (const LoopRef& loop : own) {
      bool reduces = false, used = false;
      for (size_t i = 0; i < node.f.iters.size(); ++i) {
        if (!uses_var(node.f.bindings[i], loop.variable.get())) continue;
        used = true;
        reduces |= node.f.iters[i].kind == IterKind::reduce;
      }
      if (reduces)
        steps = loop;
      else if (used && !is_int(schedule_.node(loop).extent, 1))
        tile.push_back(loop);
    }
    std::stable_partition(tile.begin(), tile.end(), [&](const LoopRef& loop) {
      return !uses_var(node.f.bindings[streams_.vectors], loop.variable.get());
    });
    std::vector<LoopRef> order;
    if (steps) order.push_back(*steps);
    order.insert(order.end(), tile.begin(), tile.end());
    reorder(schedule_, order);
    unroll_tile(tile);
    if (!steps) return;
    if (asks()) ask_next_rows(*steps);
    decompose_reduction(schedule_, partial, *steps);
  }

  /// Has steps ask for the same columns of the rows that stream next, of an array that the kernel does not make itself.
  void ask_next_rows(const LoopRef& steps) {
    const std::vector<Buffer> params = buffer_params(schedule_.func());
    const auto place = std::find(params.begin(), params.end(), streams_.operand);
    if (place == params.end()) return;
    annotate(schedule_, steps, fmt::format("prefetch_param_{}", place - params.begin()),
             streams_.row_elements * at_once_);
    annotate(schedule_, steps, "prefetch_cache", 2);
  }

  void vectorize_reader(const LoopRef& columns) {
    const std::int64_t lanes = std::min<std::int64_t>(lanes_, vector_lanes(schedule_.node(reader_), context_.device));
    vectorize(schedule_, split(schedule_, columns, lanes).second);
  }

  RuleContext& context_;
  Schedule& schedule_;
  BlockRef block_, reader_;
  ReductionShape shape_;
  StreamedSum streams_;
  std::int64_t lanes_ = 1, vectors_ = 1, tile_rows_ = 1;  ///< of a tile
  std::int64_t at_once_ = 1;                              ///< rows of the operand
  bool by_pieces_ = false;                                ///< many rows, whose sums stay in the first cache
  bool by_lines_ = false;                                 ///< several rows, whose multiply-adds leave loads no time
};

}  // namespace

bool stream_rows(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape) {
  const auto streams = streaming_operand(context.schedule.node(reduction), shape, context.device);
  if (!streams) return false;
  Streamer streamer(context, reduction, shape, *streams);
  if (!streamer.fits()) return false;
  return attempt(context, fmt::format("stream rows through {}", reduction.name), [&] { streamer.run(); });
}

}  // namespace lathe
