#include "schedule/auto/turn_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/cut_steps.h"
#include "schedule/auto/far_parts.h"
#include "schedule/auto/pack_rows.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/streamed_operand.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/turn_operands.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What is estimated to take longer than this part is left as it is.
constexpr double worth_turning = 0.95;
/// What a product takes, as a multiple of its arithmetic: of which an operand streams past more rows than one tile has,
/// where vectors are lines and it comes from memory, and elsewhere (measured on Zen 4, 12 to 64 rows: 1.25 to 1.4 and
/// 1.05 to 1.2); in parts of long sums around panels of what comes from memory, and of others (33 to 64 rows with AVX2:
/// 1.2 to 1.4 and 1.15); and in parts that all tiles of rows take (far_parts).
constexpr std::int64_t rows_of_one_tile = 8;
constexpr double streams_from_memory = 1.25, streams = 1.1, panels_from_memory = 1.3, panels = 1.15,
                 in_far_parts = 1.05;
/// Cycles that an element of the operand along the rows takes where dot products want several steps of it in a word, of
/// which there is a byte each, or two (measured on Zen 4: 1024x64x1024 of int8 0.28 of the time turned around, of bf16
/// 0.89; 2000x100x500 0.48 and 0.82).
constexpr double words_of_bytes = 3, words_of_pairs = 0.5;
/// Steps from which on that is estimated so (1000x33x16 of int8 1.3 with AVX2), and vectors of multiply-adds for which
/// any of this is: of 128 bits, without, 1000x64x200 takes 1.7 of the time turned around.
constexpr std::int64_t least_word_steps = 64;
constexpr int least_vector_bits = 256;
/// Cycles that an element of the operand along the rows takes to be packed an element of a row at a time, and along the
/// rows. And those of a line of it that each tile of rows takes for itself where no cache of a core holds those of all
/// steps for the next one.
constexpr double packing_rows = 1, packing_panels = 0.25, line_cycles = 8;

/// A product of two operands, one of which lies along the rows of the results, the other along their columns.
struct Product {
  ReductionShape shape;
  size_t rows, columns;
  std::int64_t row_count, column_count, depth = 1;
  std::int64_t pitch = 0;  ///< bytes from one step to the next in the operand of the rows
  double bytes = 0;        ///< of all of it
};

std::optional<Product> product_of(const Block& block) {
  std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape || !shape->vector_space || !shape->rows || shape->row_run > 0 || shape->column_run > 0 ||
      shape->reduce.empty() || shape->loads != 2 || !adds_products(block))
    return std::nullopt;
  std::vector<Access> operands;
  for (const Access& access : block_accesses(block)) {
    if (access.masked) return std::nullopt;
    if (!access.store && access.buffer != block.f.writes[0].buffer) operands.push_back(access);
  }
  if (operands.size() != 2) return std::nullopt;
  const size_t columns = *shape->vector_space;
  if (operands[0].strides[columns] != 0) std::swap(operands[0], operands[1]);
  const Access &of_rows = operands[0], &of_columns = operands[1];
  const auto rows = std::find_if(shape->space.begin(), shape->space.end(),
                                 [&](size_t i) { return of_rows.strides[i] == 1 && of_columns.strides[i] == 0; });
  if (rows == shape->space.end() || of_rows.strides[columns] != 0 || of_columns.strides[columns] != 1)
    return std::nullopt;
  shape->rows = *rows;
  Product product{*shape, *rows, columns, 0, 0};
  product.row_count = constant_extent(block, product.rows).value_or(0);
  product.column_count = constant_extent(block, product.columns).value_or(0);
  for (const size_t i : shape->reduce) product.depth *= constant_extent(block, i).value_or(0);
  for (const size_t i : shape->reduce)
    product.pitch = std::max(product.pitch, std::abs(of_rows.distances[i]) * of_rows.buffer->dtype.bytes());
  product.bytes = estimated_elements(of_rows.buffer) * of_rows.buffer->dtype.bytes();
  return product;
}

RegisterTile tile_of(const RuleContext& context, const Block& block, const Product& product, std::int64_t rows,
                     std::int64_t columns) {
  return choose_tile(context.device, vector_lanes(block, context.device), widest_bits(block),
                     {rows, columns, product.depth});
}

double elements_of_rows(const Product& product) {
  return static_cast<double>(product.row_count) * static_cast<double>(product.depth);
}

/// Estimated cycles of the product as it is.
double cycles_along_columns(const RuleContext& context, const BlockRef& ref, const Product& product,
                            const std::optional<int>& word_bits) {
  const Block& block = context.schedule.node(ref);
  const RegisterTile tile = tile_of(context, block, product, product.row_count, product.column_count);
  if (word_bits) return tile.cycles + (*word_bits == 8 ? words_of_bytes : words_of_pairs) * elements_of_rows(product);
  if (plan_far_parts(context, ref, product.shape)) return in_far_parts * tile.cycles;
  const std::int64_t width = tile.vectors * tile.lanes, tiles = (product.column_count + width - 1) / width;
  if (packs_rows(context, block, product.shape, tile.rows, tiles))
    return tile.cycles + packing_rows * elements_of_rows(product);
  const CacheLevel* own = own_cache(context.device);
  const bool held = !own || product.bytes <= static_cast<double>(own->bytes) ||
                    product.depth <= lines_held(*own, std::max<std::int64_t>(product.pitch, 1));
  return held ? tile.cycles : tile.cycles + line_cycles * elements_of_rows(product) / static_cast<double>(tile.rows);
}

/// The same with vectors along the rows, and what turning the results around takes.
double cycles_along_rows(const RuleContext& context, const Block& block, const Product& product) {
  const Device& device = context.device;
  double cycles = tile_of(context, block, product, product.column_count, product.row_count).cycles;
  const auto own = static_cast<double>(own_cache_bytes(device));
  if (product.column_count > rows_of_one_tile && own > 0 && product.bytes > own) {
    const bool far = comes_from_memory(device, product.bytes);
    if (streams_past(device, product.column_count, {product.bytes, product.pitch, product.depth})) {
      cycles *= fills_lines(device) && far ? streams_from_memory : streams;
    } else if (takes_parts_outside(device, product.column_count, product.depth)) {
      cycles *= far ? panels_from_memory : panels;
    } else {
      cycles += packing_panels * elements_of_rows(product);
    }
  }
  const double results = static_cast<double>(product.row_count) * static_cast<double>(product.column_count);
  const bool near = 2 * results * block.f.writes[0].buffer->dtype.bytes() <= own;
  return cycles + (near ? near_square_cycles : far_turn_cycles) * results;
}

}  // namespace

bool pays_to_turn_results(const RuleContext& context, const BlockRef& ref, const std::optional<int>& word_bits) {
  const Block& block = context.schedule.node(ref);
  if (!context.device.fused_multiply_add || context.device.vector_bits < least_vector_bits) return false;
  std::optional<Product> product = product_of(block);
  if (!product || product->column_count < 1 || product->column_count >= product->row_count ||
      product->row_count < vector_lanes(block, context.device) || product->depth < (word_bits ? least_word_steps : 1) ||
      !dimension_of(block.f.writes[0], block, product->rows))
    return false;
  // What is widened on the way comes as it lies.
  if (word_bits) product->bytes *= static_cast<double>(*word_bits) / widest_bits(block);
  return cycles_along_rows(context, block, *product) <
         worth_turning * cycles_along_columns(context, ref, *product, word_bits);
}

void turn_results(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::optional<Product> product = product_of(block);
  const auto dimension = product ? dimension_of(block.f.writes[0], block, product->rows) : std::nullopt;
  if (!dimension) throw Refusal("turn_results", 0, "no operand lies along the rows of the results");
  Buffer result = block.f.writes[0].buffer;
  if (!is_allocated(schedule.func(), result)) {
    cache_write(schedule, ref, space::global);
    result = schedule.node(ref).f.writes[0].buffer;
  }
  transform_layout(schedule, ref, result->name, moved_last(result->rank(), *dimension));
}

}  // namespace lathe
