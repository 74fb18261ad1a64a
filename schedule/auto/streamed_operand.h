#pragma once
/// Which operands stream past the rows of a sum, and past how many (stream_rows.h).
#include <cstdint>
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Chains of additions that a step has at the least; what memory delivers leaves time for no more.
inline constexpr std::int64_t streaming_chains = 4;
/// Beyond so many rows arithmetic weighs as much as memory, and each operand is worth a packed copy.
inline constexpr std::int64_t most_streamed_rows = 8;
/// Rows of a tile of some more of them, of which there are several, at the most.
inline constexpr std::int64_t most_streaming_tile = 14;
/// Rows of an operand at once that sums of many rows are loaded and stored for, where the device wants no long pieces.
inline constexpr std::int64_t many_streams = 64;
/// Columns of a block: shorter pieces of a row break streams off.
inline constexpr std::int64_t least_streamed_columns = 1024;
/// The same where lines are asked for, or of sums down columns that the last cache holds.
inline constexpr std::int64_t least_asking_columns = 256;

/// An operand that streams: its bytes, those from one of its rows to the next, and the steps of a sum over it.
struct StreamedOperand {
  double bytes;
  std::int64_t pitch, steps;
};

/// A sum that an operand streams through.
struct StreamedSum {
  std::optional<size_t> rows;
  size_t vectors, reduce;
  std::int64_t row_count, columns, depth;
  std::int64_t bytes;  ///< of one element of the sums
  Buffer operand = {};
  std::int64_t row_elements = 0;  ///< from a row of the operand to the next
};

/// Whether, and along what, an operand streams: each element is read once, and all of it is more than a core's own
/// caches hold.
std::optional<StreamedSum> streaming_operand(const Block& block, const ReductionShape& shape, const Device& device);
StreamedOperand streamed_operand(const StreamedSum& streams);

/// Of a sum whose operand stays near, blocks of columns may be short.
bool has_short_blocks(const StreamedSum& streams, const Device& device);
/// Of an extreme, which waits for memory with two chains as well, whose instructions are three for the sake of NaN
/// (measured on Cascade Lake: the same time as of more, and a fifth less of it to compile).
inline constexpr std::int64_t ordered_chains = 2;
/// Chains of additions that a step of the block has at the least.
std::int64_t chains_of_step(const Block& block);

/// Does the device read rows fastest in long pieces?
bool wants_pieces(const Device& device);
/// Rows of the operand that it reads by turns.
std::int64_t streams_at_once(const Device& device);
/// Do tiles of many rows meet an operand in pieces: on a device that follows eight rows by turns, and has time for
/// loads or wants these to be long?
bool takes_pieces(const Device& device);
/// Are there more rows than one tile takes of those whose operand streams past them whole?
bool are_many(const Device& device, std::int64_t rows);
/// The most rows of sums of products, of which there are `rows`, that the operand streams past.
std::int64_t most_streaming_rows(const Device& device, std::int64_t rows, const StreamedOperand& operand);
/// The least steps of a sum of so many rows.
std::int64_t least_steps(std::int64_t rows);

/// Would it stream past so many rows?
bool streams_past(const Device& device, std::int64_t rows, const StreamedOperand& operand);

/// The fewest columns of a sum of rows that stream that a task may have, as shorter pieces of them break streams off; 0
/// of any other reduction.
std::int64_t streamed_columns(const Block& block, const ReductionShape& shape, const Device& device);

/// Do the columns of such a sum, whose operand the last cache holds, make a block for each core, of about as many?
bool shares_columns(const Block& block, const ReductionShape& shape, const Device& device);

}  // namespace lathe
