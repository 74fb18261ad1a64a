#include "schedule/auto/tile_operands.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/buffer.h"
#include "ir/reduction.h"
#include "schedule/auto/ragged.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// About what a tile has of rows and columns; steps of a loop that is worth going on in lines; and how many of the
/// lines that else are taken are clearly fewer (measured on Zen 4, 16 x 4 sums over 32 x 32 x 31 steps of operands of 2
/// and 0.5 MB: 1.25 lines a step for 5 take 0.43 of the time).
constexpr std::int64_t rows_of_tile = 8, columns_of_tile = 64, least_innermost = 8;
constexpr double clearly_fewer_lines = 0.6;

/// A panel's footprint from which on it lies scattered.
constexpr std::int64_t scattered_footprint = std::int64_t{512} << 10;
/// The same of the least footprint that a panel can have whose steps are known at run time alone.
constexpr std::int64_t unknown_footprint = std::int64_t{32} << 10;
/// A panel is copied to compact memory when so many tiles read it, and it lies scattered.
constexpr std::int64_t packing_reuse = 12;
/// The same where multiply-adds leave loads no time (lacks_issue_slots) of panels that lie scattered, and, where tiles
/// fill the slots too, of others: of those larger
/// than the first cache whose vectors cross lines, and of others of the latter size that many sets of it do not hold.
/// Measured on Cascade Lake: 32x1024x1024 takes half the time, 300x300x300 0.7 of it, 127x129x131 0.85, 256x256x256
/// 0.97; 3x3 convolutions of 64 channels that lie last, at 56x56, whose panels of 147 KB 224 tiles read, 0.8.
constexpr std::int64_t packing_reuse_scattered = 3, packing_reuse_crossing = 6, packing_reuse_other = 32,
                       packing_reuse_many = 128;
constexpr std::int64_t spread_footprint = std::int64_t{256} << 10;
/// Cycles that a step of a tile of a scattered operand waits at the least, those of each of its lines, and what copying
/// a line takes, all where multiply-adds leave loads time; and the same of operands that exceed the caches, from steps
/// of so many bytes on. Measured on Zen 4, 32 x 1024 x 1024 and 32 x 4096 x 1024: tiles of 4 x 3 vectors of 256 bits
/// take 11.7 and 19 cycles a step, whose multiply-adds take 6, and those of 8 x 3 of 512 bits 27 and 49 for 24. With
/// 256 bits copies pay for the shortest steps, too: 32 x 64 x 4096 takes 0.72 of the time, 32 x 32 x 8192 0.93;
/// with 512 bits 32 x 128 x 16384 takes 1.24 of it, 32 x 256 x 16384 0.84.
constexpr double page_wait = 11, line_wait = 4, line_copy = 8, far_line_wait = 14, far_line_copy = 16;
constexpr std::int64_t least_far_step = 1024;
/// Bytes of short pieces of a scattered operand, which are not copied alone, and of what they are put together to
/// (measured on Zen 4, 32 x 1024 x 1024: copies of 64, 128, 192 and 256 bytes at a time take 175, 117, 102 and 114 us;
/// with pieces of 96 bytes the product runs at 0.91 of OpenBLAS's speed, of 192 and 288 at 1.01 and 1.03).
constexpr std::int64_t most_of_short_piece = 128, least_of_piece = 192, wanted_piece = 256, most_of_piece = 512;
/// Tiles of rows from which on what a copy takes does not matter.
constexpr std::int64_t many_tiles = 32;
/// Where loads have time: bytes of rows from which on they meet several panels, and what these take, as a multiple of a
/// core's own caches, for panels come in one stream from a shared one behind them too; and how many panels (measured on
/// Zen 4 with AVX2 alone, panels of 16 columns, one and eight at a time, beside OpenBLAS: 2048 x 2048 x 2048 0.85 and
/// 0.98, in f64 0.70 and 0.96; 3072 x 768 x 3072 0.87 and 0.98; 1024 x 1024 x 4096 0.87 and 1.01; 16 are alike. With
/// 512 bits 2048 x 768 x 768 takes 0.96 of the time, 3072 x 768 x 3072 0.98, 1024 x 1024 x 1024 the same).
constexpr std::int64_t spare_room = 2, most_spare_panels = 8;
/// Where tiles fill the slots panels fill this share of a core's own caches; those whose loads have time do so if as
/// many as that go in a group, or all (measured on Zen 3, whose second cache is half of Zen 4's, beside eight: four of
/// 64 KB, 1024 x 1024 x 1024, 0.89 of the time, ten of 48 KB 0.97, five of 48 KB and 128 rows 0.95, but two of 96 and
/// 128 KB, as of 2048 x 2048 x 2048 and 1024 x 1024 x 1024 in f64, 1.06 to 1.09).
constexpr std::int64_t near_share = 2, least_near_panels = 4;
/// Groups of panels for each core from which on an uneven share does not matter.
constexpr std::int64_t enough_groups = 4;
/// What the cost model gives two loads and a multiplication.
constexpr double plain_term_cost = 3;
/// Elements that lie further apart are loaded one by one.
constexpr std::int64_t widest_step = 5;
/// Pages of the hosts there are, and what comes with a line by itself: the other of a pair.
constexpr std::int64_t page_bytes = 4096, neighbour_bytes = 128;

/// From the first to the last step of a panel, in bytes.
std::optional<std::int64_t> footprint(const Block& reduction, const ReductionShape& shape, const Access& operand) {
  std::int64_t distance = 0;
  for (const size_t i : shape.reduce) {
    if (!operand.strides[i] && !operand.is_steady(i)) return std::nullopt;
    distance += operand.distances[i] * extent_estimate(reduction.f.iters[i].domain.extent);
  }
  return distance * operand.buffer->dtype.bytes();
}

/// Does the operand lie as its one panel would, step behind step?
bool is_panel(const Block& reduction, const ReductionShape& shape, const Access& operand, std::int64_t width) {
  const std::optional<std::int64_t> columns =
      shape.vector_space ? constant_extent(reduction, *shape.vector_space) : std::nullopt;
  return columns == width && shape.reduce.size() == 1 && operand.strides[shape.reduce.front()] == width;
}

/// Do so many tiles wait longer for the steps of an operand that lies scattered than a copy takes?
bool waits_for_steps(const Device& device, const Block& reduction, const ReductionShape& shape, const Access& operand,
                     const RegisterTile& tile, std::int64_t tiles) {
  const std::int64_t bytes = operand.buffer->dtype.bytes();
  if (device.caches.empty() || shape.reduce.empty()) return false;
  const double lines = static_cast<double>(tile.vectors * tile.lanes * bytes) / device.caches.front().line_bytes;
  const bool far = operand.distances[shape.reduce.back()] * bytes >= least_far_step &&
                   exceeds_caches(device, estimated_elements(operand.buffer) * static_cast<double>(bytes));
  const double waits = std::max(page_wait, lines * (far ? far_line_wait : line_wait)) -
                       step_arithmetic(device, tile, widest_bits(reduction)),
               copy = std::max(page_wait, lines * (far ? far_line_copy : line_copy));
  return static_cast<double>(tiles) * waits >= copy;
}

/// Lines that a step of a tile takes where it goes on along the iter, of operands that leave the first cache: those
/// that it goes on in are there already.
double lines_of_steps(const Device& device, const Block& reduction, const std::vector<Access>& accesses,
                      const ReductionShape& shape, size_t iter) {
  if (device.caches.empty()) return 0;
  const CacheLevel& near = device.caches.front();
  double lines = 0;
  for (const Access& access : accesses) {
    const std::int64_t bytes = access.buffer->dtype.bytes();
    if (access.store || access.buffer == reduction.f.writes[0].buffer ||
        estimated_elements(access.buffer) * static_cast<double>(bytes) <= static_cast<double>(near.bytes))
      continue;
    const auto reached = [&](const std::optional<size_t>& i, std::int64_t most) {
      if (!i) return 1.0;
      const std::int64_t extent = std::min(extent_estimate(reduction.f.iters[*i].domain.extent), most);
      const auto step = static_cast<double>(std::min<std::int64_t>(access.distances[*i] * bytes, near.line_bytes));
      return 1 + static_cast<double>(extent - 1) * step / near.line_bytes;
    };
    const auto step = static_cast<double>(std::min<std::int64_t>(access.distances[iter] * bytes, near.line_bytes));
    lines += reached(shape.rows, rows_of_tile) * reached(shape.vector_space, columns_of_tile) * step / near.line_bytes;
  }
  return lines;
}

/// The most panels, no more than `most` and than fit in `room`, of which groups make up all of them and give the cores
/// even shares; 1 where no more do.
std::int64_t even_group(const Device& device, std::int64_t panel_bytes, std::int64_t panels, std::int64_t room,
                        std::int64_t most) {
  std::int64_t together = 1;
  for (std::int64_t count = 2; count <= std::min(most, panels) && count * panel_bytes <= room; ++count) {
    if (panels % count == 0 && shares_evenly(device, panels / count)) together = count;
  }
  return together;
}

}  // namespace

std::optional<std::int64_t> constant_extent(const Block& block, size_t iter) {
  const std::int64_t* value = as_int(block.f.iters[iter].domain.extent);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<Access> vector_operand(const Block& reduction, size_t rows, size_t vectors) {
  for (const Access& access : block_accesses(reduction)) {
    if (!access.store && !access.masked && access.strides[vectors] == 1 && access.strides[rows] == 0) return access;
  }
  return std::nullopt;
}

std::optional<size_t> paired_rows(const Block& reduction, const ReductionShape& shape, size_t vectors) {
  if (!shape.rows || shape.row_run > 0 || shape.column_run > 0) return std::nullopt;
  std::vector<Access> loads;
  for (const Access& access : block_accesses(reduction)) {
    if (access.masked) return std::nullopt;
    if (access.store || access.buffer == reduction.f.writes[0].buffer) continue;
    if (access.strides[vectors] != 1) return std::nullopt;
    loads.push_back(access);
  }
  if (loads.size() != 2 || !constant_extent(reduction, *shape.rows) || !constant_extent(reduction, vectors))
    return std::nullopt;
  if (loads[0].strides[*shape.rows] != 0) std::swap(loads[0], loads[1]);
  const Access &shared = loads[0], &other = loads[1];
  if (shared.strides[*shape.rows] != 0 || other.strides[*shape.rows] == 0) return std::nullopt;
  std::optional<size_t> best;
  std::int64_t most = 1;
  for (const size_t i : shape.space) {
    const std::int64_t extent = constant_extent(reduction, i).value_or(0);
    if (i == vectors || i == shape.rows || extent <= most) continue;
    if (other.strides[i] != 0 || shared.strides[i].value_or(0) == 0) continue;
    best = i;
    most = extent;
  }
  return best;
}

void walk_far_steps_outside(const RuleContext& context, const Block& reduction, ReductionShape& shape) {
  const Accesses accesses = block_accesses(reduction);
  const Access* largest = nullptr;
  double most = static_cast<double>(own_cache_bytes(context.device));
  for (const Access& access : accesses) {
    const double bytes = estimated_elements(access.buffer) * access.buffer->dtype.bytes();
    if (access.store || access.buffer == reduction.f.writes[0].buffer || bytes <= most) continue;
    most = bytes;
    largest = &access;
  }
  const auto distance = [&](size_t i) { return largest->distances[i]; };
  if (!largest || shape.reduce.empty()) return;
  std::stable_sort(shape.reduce.begin(), shape.reduce.end(),
                   [&](size_t a, size_t b) { return distance(a) > distance(b); });
  const auto lines = [&](size_t i) { return lines_of_steps(context.device, reduction, accesses, shape, i); };
  const auto fewest = std::min_element(shape.reduce.begin(), shape.reduce.end(),
                                       [&](size_t a, size_t b) { return lines(a) < lines(b); });
  if (constant_extent(reduction, *fewest).value_or(0) >= least_innermost &&
      lines(*fewest) < clearly_fewer_lines * lines(shape.reduce.back()))
    std::rotate(fewest, fewest + 1, shape.reduce.end());
}

std::optional<size_t> independent_rows(const Block& reduction, const ReductionShape& shape, size_t vectors) {
  const Accesses accesses = block_accesses(reduction);
  const std::vector<RaggedIter> ragged = ragged_iters(reduction);
  std::optional<size_t> best;
  std::int64_t least = 0;
  for (const size_t i : shape.space) {
    const std::optional<std::int64_t> extent = constant_extent(reduction, i);
    // Rows of several lengths are no tile's, which would take all of them to the end of the longest.
    if (i == vectors || !extent || *extent < 2 || ends_by_data_along(ragged, i)) continue;
    bool shares = false;
    std::int64_t distance = 0;
    for (const Access& access : accesses) {
      const std::optional<std::int64_t>& stride = access.strides[i];
      if (!stride || access.masked) return std::nullopt;
      shares |= !access.store && *stride == 0 && access.strides[vectors] == 0;
      distance = std::max(distance, std::abs(*stride));
    }
    if (!shares) distance += std::int64_t{1} << 48;
    if (best && distance >= least) continue;
    best = i;
    least = distance;
  }
  return best;
}

namespace {

/// What it costs to find out by which terms choose that is the same for all rows, of which a tile does so once.
double shared_conditions_cost(const ReductionParts& parts, const VarRef& row) {
  ConditionCosts conditions;
  const auto take = [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    if (choice && !uses_var(choice->condition, row.get())) conditions.take(*choice);
  };
  for (const Expr& term : parts.terms) for_each_expr(term, take);
  for (const Stmt& let : parts.lets) for_each_expr(let.as<Let>()->value, take);
  return conditions.total();
}

}  // namespace

double term_cycles(const Block& reduction, size_t vectors, std::optional<size_t> rows) {
  const std::optional<ReductionParts> parts = match_update(reduction);
  if (!parts) return 0;
  double cycles = -plain_term_cost;
  if (rows) cycles -= shared_conditions_cost(*parts, reduction.f.iters[*rows].variable);
  for (const Expr& term : parts->terms) cycles += expression_cost(term);
  for (const Stmt& let : parts->lets) cycles += expression_cost(let.as<Let>()->value);
  cycles = std::max(cycles, 0.0);
  for (const Access& access : block_accesses(reduction)) {
    const std::int64_t step = std::abs(access.strides[vectors].value_or(1));
    // As many loads as steps, and a shuffle for each but the first.
    if (!access.store && step > 1) cycles += 2 * static_cast<double>(std::min(step, widest_step) - 1);
  }
  return cycles;
}

namespace {

/// A product of two elements, as they are or widened, chosen beside a padding or not.
bool is_product_of_elements(const Expr& term) {
  const auto widened = [](Expr e) {
    while (const Cast* cast = e.as<Cast>()) e = cast->value;
    return e;
  };
  const auto is_load = [&](const Expr& e) {
    const Expr value = widened(e);
    const Select* select = value.as<Select>();
    return widened(select ? select->when_true : value).as<Load>() != nullptr;
  };
  const Expr value = widened(term);
  const Binary* product = value.as<Binary>();
  return product && product->op == BinaryOp::mul && is_load(product->a) && is_load(product->b);
}

}  // namespace

bool adds_products(const Block& reduction) {
  const std::optional<ReductionParts> parts = match_update(reduction);
  return parts && parts->lets.empty() && std::all_of(parts->terms.begin(), parts->terms.end(), is_product_of_elements);
}

bool adds_under_masks(const Device& device, const Block& reduction, size_t rows) {
  const std::optional<ReductionParts> parts = match_update(reduction);
  const Var* row = reduction.f.iters[rows].variable.get();
  return device.mask_registers > 0 && device.fused_multiply_add && parts && parts->lets.empty() &&
         std::all_of(parts->terms.begin(), parts->terms.end(), [&](const Expr& term) {
           const Select* choice = term.as<Select>();
           const FloatImm* skipped = choice ? choice->when_false.as<FloatImm>() : nullptr;
           return skipped && skipped->value == 0 && choice->dtype.bits >= 32 && !uses_var(choice->condition, row) &&
                  is_product_of_elements(choice->when_true);
         });
}

std::vector<size_t> sharing_iters(const ReductionShape& shape, const Access& operand) {
  std::vector<size_t> found;
  for (const size_t i : shape.space) {
    if (i != shape.rows && i != shape.vector_space && operand.strides[i] == 0) found.push_back(i);
  }
  return found;
}

std::int64_t lines_of_step(const Block& reduction, const ReductionShape& shape, size_t iter, std::int64_t rows,
                           std::int64_t lanes) {
  std::vector<size_t> walked = shape.reduce;
  walked.push_back(iter);
  for (const Access& access : block_accesses(reduction)) {
    if (access.buffer == reduction.f.writes[0].buffer || access.strides[iter] == 0) continue;
    const bool whole = std::all_of(walked.begin(), walked.end(),
                                   [&](size_t i) { return access.strides[i] && *access.strides[i] % lanes == 0; });
    return whole ? rows : 2 * rows;
  }
  return 0;
}

std::vector<size_t> sliding_iters(const Block& reduction, const ReductionShape& shape, const Access& operand) {
  std::vector<size_t> found;
  const Load* load = load_of(reduction, operand.buffer);
  if (!load) return found;
  const auto walks = [&](const Expr& index, size_t iter) {
    return uses_var(index, reduction.f.iters[iter].variable.get());
  };
  for (const size_t i : shape.space) {
    if (i == shape.rows || i == shape.vector_space) continue;
    const bool slides = std::any_of(load->indices.begin(), load->indices.end(), [&](const Expr& index) {
      return walks(index, i) &&
             std::any_of(shape.reduce.begin(), shape.reduce.end(), [&](size_t reduce) { return walks(index, reduce); });
    });
    if (slides) found.push_back(i);
  }
  return found;
}

bool shares_evenly(const Device& device, std::int64_t groups) {
  return groups % device.cores == 0 || groups >= enough_groups * device.cores;
}

bool is_scattered(std::int64_t bytes) {
  return bytes >= scattered_footprint;
}

bool lies_scattered(const Block& reduction, const ReductionShape& shape, const Access& operand) {
  const std::int64_t bytes = footprint(reduction, shape, operand).value_or(0);
  // Steps that are known at run time alone are longer than in a dense array, by how much is not known.
  const bool unknown =
      std::any_of(shape.reduce.begin(), shape.reduce.end(), [&](size_t i) { return operand.is_steady(i); });
  return unknown ? bytes >= unknown_footprint : is_scattered(bytes);
}

bool worth_packing(const RuleContext& context, const Block& reduction, const ReductionShape& shape,
                   const Access& operand, const RegisterTile& tile, std::int64_t tiles) {
  const std::int64_t width = tile.vectors * tile.lanes;
  if (is_panel(reduction, shape, operand, width)) return false;
  const std::int64_t bytes = footprint(reduction, shape, operand).value_or(0);
  const bool scattered = lies_scattered(reduction, shape, operand);
  const bool has_caches = !context.device.caches.empty();
  if (scattered && has_caches && lacks_issue_slots(context.device)) return tiles >= packing_reuse_scattered;
  if (scattered)
    return tiles >= packing_reuse || waits_for_steps(context.device, reduction, shape, operand, tile, tiles);
  if (!has_caches || !tiles_fill_slots(context.device)) return false;
  const CacheLevel& near = context.device.caches.front();
  const auto columns = shape.vector_space ? constant_extent(reduction, *shape.vector_space) : std::nullopt;
  if (bytes <= near.bytes || (columns && *columns <= width)) return false;
  bool crosses = false;
  for (size_t i = 0; i < operand.strides.size(); ++i) {
    const std::int64_t step = operand.strides[i].value_or(0);
    crosses |= operand.is_steady(i) || (step > 1 && step * operand.buffer->dtype.bytes() % near.line_bytes != 0);
  }
  if (crosses && multiplies_lines(context.device)) return tiles >= packing_reuse_crossing;
  return tiles >= (bytes >= spread_footprint ? packing_reuse_other : packing_reuse_many);
}

std::int64_t panels_together(const Device& device, std::int64_t row_bytes, std::int64_t panel_bytes,
                             std::int64_t panels) {
  const std::int64_t own = own_cache_bytes(device), near = own / near_share, room = spare_room * own;
  const bool lacks = lacks_issue_slots(device);
  if (tiles_fill_slots(device) && row_bytes > near) {
    const std::int64_t together =
        even_group(device, panel_bytes, panels, near, std::numeric_limits<std::int64_t>::max());
    if (lacks || together >= std::min(least_near_panels, panels)) return together;
  }
  // Rows and panels alike come from memory.
  if (lacks || row_bytes <= room || device.caches.empty() || !device.caches.back().shared) return 1;
  return even_group(device, panel_bytes, panels, room, most_spare_panels);
}

std::int64_t panels_of_piece(const Device& device, std::int64_t step_bytes, std::int64_t panel_bytes,
                             std::int64_t panels, std::int64_t tiles) {
  if (lacks_issue_slots(device) || step_bytes <= 0 || step_bytes > most_of_short_piece || tiles >= many_tiles ||
      panels < 2)
    return 1;
  const auto pieces = [&](std::int64_t bytes) { return (bytes + step_bytes - 1) / step_bytes; };
  const auto fits = [&](std::int64_t together) {
    return together * panel_bytes <= own_cache_bytes(device) / 2 &&
           shares_evenly(device, (panels + together - 1) / together);
  };
  // A shorter last group has bodies of its own.
  for (std::int64_t together = pieces(least_of_piece); together <= std::min(pieces(most_of_piece), panels);
       ++together) {
    if (panels % together == 0 && fits(together)) return together;
  }
  std::int64_t together = std::min(pieces(wanted_piece), panels);
  while (together > 1 && !fits(together)) --together;
  return together;
}

bool lies_by_pages(const RuleContext& context, const ReductionShape& shape, const Access& operand) {
  const std::int64_t bytes = operand.buffer->dtype.bytes();
  const auto elements = constant_elements(operand.buffer);
  return elements && *elements * bytes > own_cache_bytes(context.device) && !shape.reduce.empty() &&
         operand.distances[shape.reduce.back()] * bytes >= page_bytes;
}

std::optional<std::int64_t> next_place(const Schedule& schedule, const Block& reduction,
                                       const std::vector<LoopRef>& around, const Access& operand) {
  const auto walked = std::find_if(around.rbegin(), around.rend(),
                                   [&](const LoopRef& loop) { return !is_int(schedule.node(loop).extent, 1); });
  if (walked == around.rend()) return std::nullopt;
  for (size_t i = 0; i < reduction.f.iters.size(); ++i) {
    if (reduction.f.bindings[i] != Expr(walked->variable)) continue;
    const std::int64_t ahead = operand.strides[i].value_or(0);
    return ahead * operand.buffer->dtype.bytes() >= neighbour_bytes ? std::optional(ahead) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace lathe
