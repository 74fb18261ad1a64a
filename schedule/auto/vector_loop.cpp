#include "schedule/auto/vector_loop.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "ir/analysis/affine.h"
#include "ir/buffer.h"
#include "ir/passes/permute_windows.h"
#include "ir/visitor.h"
#include "schedule/auto/one_walk.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The widest step between elements that shuffles of whole vectors bring together. AVX-512 takes two registers' narrow
/// elements to any place at once, which is quicker than lane by lane for twice the step (measured on Zen 4, hashes of
/// rows of 8: bytes 0.2 to 0.5 of the time, 16 bits 0.3, 32 bits 0.8 to 1.7).
std::int64_t widest_pick(const Device& device, int bits) {
  const bool any = bits < 32 && device.vector_bits >= 512 && device.has_feature(bits == 16 ? "avx512bw" : "avx512vbmi");
  return any ? 2 * most_shuffled_stride : most_shuffled_stride;
}

/// Are vectors of the access along the iter picked out of few whole ones?
bool is_picked(const RuleContext& context, const Access& access, size_t iter) {
  const auto stride = access.strides[iter];
  return (!access.store && stride && *stride != 0 && *stride != 1 &&
          std::abs(*stride) <= widest_pick(context.device, access.buffer->dtype.bits)) ||
         is_window(access, iter, context.device) || is_table(context, access, iter);
}

/// How good a vector loop over the iter is: contiguous accesses and broadcasts count for it, gathers against it.
int vector_score(const RuleContext& context, const std::vector<Access>& accesses, size_t iter) {
  int score = 0;
  for (const Access& access : accesses) {
    const int weight = access.store ? 3 : 2;
    const auto stride = access.strides[iter];
    if (is_picked(context, access, iter)) continue;
    if (stride == 1) {
      score += weight;
    } else if (!stride || *stride != 0) {
      score -= weight;
    } else if (access.store) {
      score -= weight;
    }
  }
  return score;
}

/// Bits of a function's results that are computed as one vector. Each waits through some sixty cycles of steps, and a
/// core's window holds three or so at a time, of 256 bits: less than its pipes have room for, unless the steps of two
/// take turns. More no longer fit the registers and take as much longer to compile as they gain (measured on Zen 3: two
/// take 0.81 to 0.91 of the time and 1.1 to 1.2 of the compile time, four 0.71 to 0.9 and 1.7 to 2).
constexpr std::int64_t function_bits = 512, most_function_vectors = 2;
/// One part in so many of a loop may be computed beyond its end for that.
constexpr std::int64_t one_spare_of = 16;
/// What an element costs that a vector takes from, or puts to, a place of its own, in units of body_cost: two
/// instructions, which wait for each other's ports.
constexpr double scattered_cost = 4;
/// The narrowest elements of such columns, as bytes are permuted out of windows of rows that registers hold
/// (permute_windows, 20 to 36 columns of bytes in squares 2 times as long); and the most columns, of which each is an
/// instruction or more to compile.
constexpr std::int64_t least_turned_bits = 16, most_turned = 128;
/// What is computed for each of them, at the most: more gains by wider vectors (measured on Zen 4, 36 columns of maxima
/// 0.4 of the time of what is gathered, in scalars 0.5; with 17 steps of 32-bit integers a column 1.33).
constexpr double most_of_column = 8;
/// The same of one that a square of neighbouring columns is turned around for.
constexpr double turned_cost = 1;

/// Distinct loads along the iter that lie in whole squares of neighbouring columns, and those beside.
struct Columns {
  std::int64_t turned = 0, left = 0;
};
Columns columns_along(const Block& block, const std::vector<Access>& accesses, size_t iter, std::int64_t side) {
  struct Rows {
    Buffer buffer;
    Affine base;
    std::set<std::int64_t> columns;
  };
  std::vector<Rows> rows;
  Columns found;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || load->mask) return;
    const bool apart = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return !access.store && access.buffer == load->buffer && access.strides[iter].value_or(0) > most_shuffled_stride;
    });
    Affine place = to_affine(flat_index(load->buffer, load->indices));
    if (!apart || place.coefficient(Expr(block.f.iters[iter].variable)) <= most_shuffled_stride) return;
    const std::int64_t column = std::exchange(place.constant, 0);
    for (Rows& known : rows) {
      Affine distance = place;
      if (known.buffer != load->buffer || !add_scaled(distance, known.base, -1) || !distance.is_constant() ||
          distance.constant != 0)
        continue;
      known.columns.insert(column);
      return;
    }
    rows.push_back({load->buffer, place, {column}});
  });
  for (const Rows& known : rows) {
    for (auto from = known.columns.begin(); from != known.columns.end();) {
      std::int64_t run = 0;
      const std::int64_t first = *from;
      while (from != known.columns.end() && *from == first + run) ++from, ++run;
      found.turned += run / side * side;
      found.left += run % side;
    }
  }
  return found;
}

/// The squares that such columns are read in, whose side is the lanes of a vector.
struct Squares {
  std::int64_t side, columns;
};
std::optional<Squares> squares_along(const RuleContext& context, const Block& block,
                                     const std::vector<Access>& accesses, size_t iter) {
  const std::int64_t side = widest_square(block, context.device), bits = widest_bits(block);
  if (side < 2 || bits < least_turned_bits || body_cost(block) <= costly_body) return std::nullopt;
  // What else is gathered, or is narrower, has more of wider vectors.
  const bool alike = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.strides[iter] && (access.store || access.buffer->dtype.bits == bits);
  });
  if (!alike) return std::nullopt;
  const Columns columns = columns_along(block, accesses, iter, side);
  const bool pays = columns.turned > columns.left && columns.turned <= most_turned &&
                    body_cost(block) <= most_of_column * static_cast<double>(columns.turned);
  return pays ? std::optional(Squares{side, columns.turned}) : std::nullopt;
}

/// The cost of the body for an element, in vectors along the iter.
double vector_cost(const RuleContext& context, const Block& block, const std::vector<Access>& accesses, size_t iter,
                   std::int64_t extent, std::int64_t lanes, double body) {
  const std::optional<Squares> squares = squares_along(context, block, accesses, iter);
  if (squares) lanes = squares->side;
  // A vector costs the same whether its last lanes are on or not.
  const std::int64_t vectors = (extent + lanes - 1) / lanes;
  const double filled = static_cast<double>(extent) / static_cast<double>(std::max<std::int64_t>(vectors, 1));
  double scattered = 0, whole = body;
  for (const Access& access : accesses) {
    const auto stride = access.strides[iter];
    if (stride == 1 || (!access.store && stride == 0) || is_picked(context, access, iter)) continue;
    scattered += scattered_cost;
    whole -= 1;
  }
  if (squares) scattered -= (scattered_cost - turned_cost) * static_cast<double>(squares->columns);
  return std::max(scattered, 0.0) + whole / std::max(filled, 1.0);
}

/// What an array takes of a core's own caches from which on it is streamed through them, with what else there is.
constexpr double streamed_share = 2;

}  // namespace

std::optional<std::int64_t> lanes_of_squares(const RuleContext& context, const Block& block,
                                             const std::vector<Access>& accesses, size_t iter) {
  const std::optional<Squares> squares = squares_along(context, block, accesses, iter);
  return squares ? std::optional(squares->side) : std::nullopt;
}

bool is_window(const Access& access, size_t iter, const Device& device) {
  const int bits = access.buffer->dtype.bits;
  const std::optional<std::int64_t>& gain = access.gains[iter];
  if (!gain || access.store || device.mask_registers == 0) return false;
  if (bits == 32 || bits == 64) return *gain < std::int64_t{2} * device.lanes(bits);
  // A vector takes more steps than gains are known for.
  const std::int64_t steps = (device.lanes(bits) + Access::gain_steps - 1) / Access::gain_steps;
  return *gain * steps < longest_table(device, bits);
}

bool stores_in_a_row(const std::vector<Access>& accesses, size_t iter) {
  return std::all_of(accesses.begin(), accesses.end(),
                     [&](const Access& access) { return !access.store || access.strides[iter] == 1; });
}

bool scatters(const std::vector<Access>& accesses, size_t iter) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const auto stride = access.strides[iter];
    return access.store && (!stride || std::abs(*stride) > most_shuffled_stride);
  });
}

bool is_table(const RuleContext& context, const Access& access, size_t iter) {
  if (access.store || access.strides[iter]) return false;
  const auto span = constant_span(access.buffer);
  return span && span->length() > 1 && span->length() <= longest_table(context.device, access.buffer->dtype.bits) &&
         !is_allocated(context.schedule.func(), access.buffer);
}

bool looks_up(const RuleContext& context, const Block& block) {
  const Accesses accesses = block_accesses(block);
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (is_table(context, access, i)) return true;
    }
    return false;
  });
}

std::int64_t instances_within(const Schedule& schedule, const BlockRef& ref) {
  std::int64_t instances = 1;
  for (const LoopRef& loop : own_loops(schedule, ref)) instances *= extent_estimate(schedule.node(loop).extent);
  return instances;
}

bool gathers(const RuleContext& context, const std::vector<Access>& accesses, size_t iter) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const auto stride = access.strides[iter];
    return !access.store && !is_window(access, iter, context.device) && !is_table(context, access, iter) &&
           (!stride || std::abs(*stride) > most_shuffled_stride);
  });
}

namespace {

/// A block beside the loops that vectors may lie along.
struct Candidates {
  const RuleContext& context;
  const Block& block;
  const std::vector<Access>& accesses;
  const std::vector<LoopRef>& loops;
  const std::vector<size_t>& iters;
  std::int64_t lanes;
  double scalar;  ///< cost

  std::int64_t extent(size_t i) const {
    return extent_estimate(context.schedule.node(loops[i]).extent, context.schedule.func()->facts);
  }
  int score(size_t i) const { return vector_score(context, accesses, iters[i]); }
  double cost(size_t i) const { return vector_cost(context, block, accesses, iters[i], extent(i), lanes, scalar); }
};

/// Along the loop that costs least, wherever operands lie; in scalars where these cost less.
VectorLoop cheapest(const Candidates& candidates, size_t best) {
  for (size_t i = 0; i < candidates.loops.size(); ++i) {
    if (candidates.cost(i) < candidates.cost(best)) best = i;
  }
  const double cost = candidates.cost(best);
  return {best, std::min(cost, candidates.scalar), cost < candidates.scalar};
}

}  // namespace

VectorLoop choose_vector_loop(const RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                              const std::vector<LoopRef>& loops, const std::vector<size_t>& iters,
                              ShortRows short_rows) {
  const Block& block = context.schedule.node(ref);
  const Candidates candidates{context,         block, accesses, loops, iters, vector_lanes(block, context.device),
                              body_cost(block)};
  size_t best = loops.size() - 1;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (candidates.extent(i) > 1 && candidates.score(i) > candidates.score(best)) best = i;
  }
  const auto row = [&] {
    return best + 1 < loops.size()
               ? candidates.extent(best)
               : std::max(candidates.extent(best), find_one_walk(context, block, accesses, loops, iters).extent);
  };
  const bool idle = candidates.scalar > function_body && 2 * candidates.extent(best) <= candidates.lanes &&
                    2 * row() <= candidates.lanes;
  // What is computed may still be worth it, wherever operands lie.
  if (candidates.score(best) < 0 || (idle && short_rows == ShortRows::filled)) return cheapest(candidates, best);
  return {best, candidates.cost(best), true};
}

bool loads_lines(const Device& device) {
  return device.loads_per_cycle == 1 && !device.caches.empty() && device.vector_bits == 8 * device.caches[0].line_bytes;
}

std::int64_t streaming_lanes(const RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                             size_t iter) {
  const Block& block = context.schedule.node(ref);
  const Device& device = context.device;
  const std::int64_t lanes = vector_lanes(block, device, accesses, iter);
  if (!loads_lines(device) || body_cost(block) > costly_body) return lanes;
  double bytes = 0;
  int read = 0, written = 0;
  std::vector<Buffer> seen;
  for (const Access& access : accesses) {
    if (access.masked || (access.strides[iter] != 1 && access.strides[iter] != 0)) return lanes;
    if (access.strides[iter] == 0 || std::find(seen.begin(), seen.end(), access.buffer) != seen.end()) continue;
    seen.push_back(access.buffer);
    ++(access.store ? written : read);
    bytes += estimated_elements(access.buffer, context.schedule.func()->facts) * access.buffer->dtype.bytes();
  }
  const auto near = static_cast<double>(own_cache_bytes(device));
  return read > 1 && written > 0 && bytes > streamed_share * near ? lanes / 2 : lanes;
}

std::int64_t function_lanes(const Device& device, double cost, std::int64_t lanes, std::optional<std::int64_t> most) {
  const std::int64_t vectors = std::clamp<std::int64_t>(function_bits / device.vector_bits, 1, most_function_vectors),
                     all = lanes * vectors;
  if (cost <= function_body) return lanes;
  if (!most) return all;
  const auto computed = [&](std::int64_t together) { return (*most + together - 1) / together * together; };
  const bool fits = all * least_iterations <= *most && (computed(all) - computed(lanes)) * one_spare_of <= *most;
  return fits ? all : lanes;
}

}  // namespace lathe
