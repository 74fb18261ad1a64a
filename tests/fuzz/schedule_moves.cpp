#include "tests/fuzz/schedule_moves.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/annotate_buffer_access.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/cache_cast.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_apart.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/compute_once.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/distribute.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/drop_result.h"
#include "schedule/primitives/end_masked.h"
#include "schedule/primitives/fold_choices.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/fuse_reduction_epilogue.h"
#include "schedule/primitives/fuse_reductions.h"
#include "schedule/primitives/group_bytes.h"
#include "schedule/primitives/hoist_factor.h"
#include "schedule/primitives/hoist_offset.h"
#include "schedule/primitives/join_blocks.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/join_rows.h"
#include "schedule/primitives/merge_equal.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/rolling_buffer.h"
#include "schedule/primitives/scan_lanes.h"
#include "schedule/primitives/separate_window.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/shift_operand.h"
#include "schedule/primitives/shift_squares.h"
#include "schedule/primitives/skip_masked.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/split_domain.h"
#include "schedule/primitives/split_iter.h"
#include "schedule/primitives/split_residues.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unfold_reduction.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"
#include "schedule/scan.h"

namespace lathe::testing {
namespace {

using Blocks = std::vector<BlockRef>;

/// Elements of a padded copy that is worth interpreting.
constexpr std::int64_t most_padded = 1 << 16;

std::optional<BlockRef> any_block(const Schedule& s, Random& random,
                                  const std::function<bool(const Block&)>& fits = nullptr) {
  Blocks found;
  for (const BlockRef& block : s.blocks()) {
    if (!fits || fits(s.node(block))) found.push_back(block);
  }
  if (found.empty()) return std::nullopt;
  return random.pick(found);
}

bool pads(const Block& block) {
  const Store* store = block.f.body.as<Store>();
  return store && store->value.as<Load>() && store->value.as<Load>()->mask;
}

/// Casts an element that it reads.
bool casts(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Cast* cast = e.as<Cast>();
    found |= cast && cast->value.as<Load>();
  });
  return found;
}

/// Reads an element or, beyond a border, a constant.
bool chooses_padding(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* select = e.as<Select>();
    found |= select && select->when_true.as<Load>() && select->when_true.as<Load>()->mask;
  });
  return found;
}

/// Reads one buffer in several places, as a stencil does.
bool is_stencil(const Block& block) {
  for (size_t i = 0; i < block.f.reads.size() && !block.f.reducer; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (block.f.reads[i].buffer == block.f.reads[j].buffer) return true;
    }
  }
  return false;
}

bool is_reduction(const Block& block) {
  return block.f.reducer.has_value() && block.f.init;
}

/// Does a product of the same factors stand in the block?
bool squares(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Binary* product = e.as<Binary>();
    found |= product && product->op == BinaryOp::mul && equal(product->a, product->b);
  });
  return found;
}

/// A sum, and a reduction that reads its result or what an element-wise block makes of it.
std::optional<std::pair<BlockRef, BlockRef>> any_squares(const Schedule& s, Random& random) {
  std::vector<std::pair<BlockRef, BlockRef>> pairs;
  for (const BlockRef& sum : s.blocks()) {
    if (!is_reduction(s.node(sum))) continue;
    std::vector<BlockRef> readers = s.consumers(sum);
    for (const BlockRef& reader : s.consumers(sum)) {
      for (const BlockRef& further : s.consumers(reader)) readers.push_back(further);
    }
    for (const BlockRef& reader : readers) {
      if (is_reduction(s.node(reader)) && (random.chance(10) || squares(s.node(reader))))
        pairs.emplace_back(sum, reader);
    }
  }
  return pairs.empty() ? std::nullopt : std::optional(random.pick(pairs));
}

bool masks(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) { found |= e.as<Select>() != nullptr; });
  return found;
}

/// The positions of the iters that something computed of elements hangs on.
std::vector<size_t> iters_of_a_part(const Block& block, Random& random) {
  std::vector<std::vector<size_t>> found;
  for_each_expr(block.f.body, [&](const Expr& e) {
    if ((!e.as<Unary>() && !e.as<Binary>()) || e->dtype == i64 || e->dtype.is_bool() || !has_load(e)) return;
    std::vector<size_t> iters;
    for (size_t i = 0; i < block.f.iters.size(); ++i)
      if (uses_var(e, block.f.iters[i].variable.get())) iters.push_back(i);
    found.push_back(std::move(iters));
  });
  return found.empty() ? std::vector<size_t>{} : random.pick(found);
}

bool multiplies_bytes(const Block& block) {
  return is_reduction(block) && std::any_of(block.f.reads.begin(), block.f.reads.end(),
                                            [](const Region& read) { return read.buffer->dtype.bytes() == 1; });
}

bool multiplies_narrow(const Block& block) {
  return multiplies_bytes(block) ||
         (is_reduction(block) && std::any_of(block.f.reads.begin(), block.f.reads.end(),
                                             [](const Region& read) { return read.buffer->dtype == bf16; }));
}

bool is_extreme(const Block& block) {
  const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
  return op == BinaryOp::max || op == BinaryOp::min;
}

/// A loop around a random block, or around `block`.
std::optional<LoopRef> any_loop(const Schedule& s, Random& random, std::optional<BlockRef> block = std::nullopt) {
  if (!block) block = any_block(s, random);
  if (!block) return std::nullopt;
  const std::vector<LoopRef> loops = s.loops(*block);
  if (loops.empty()) return std::nullopt;
  return random.pick(loops);
}

std::optional<LoopRef> reduce_loop(const Schedule& s, Random& random, const BlockRef& block) {
  const Block& node = s.node(block);
  std::vector<LoopRef> found;
  for (const LoopRef& loop : s.loops(block)) {
    for (size_t i = 0; i < node.f.iters.size(); ++i) {
      if (node.f.iters[i].kind == IterKind::reduce && uses_var(node.f.bindings[i], loop.variable.get()))
        found.push_back(loop);
    }
  }
  if (found.empty()) return std::nullopt;
  return random.pick(found);
}

std::optional<Region> any_region(const std::vector<Region>& regions, Random& random) {
  if (regions.empty()) return std::nullopt;
  return random.pick(regions);
}

/// A block that others read, and one of those.
std::optional<std::pair<BlockRef, BlockRef>> any_pair(const Schedule& s, Random& random) {
  const auto producer = any_block(s, random);
  if (!producer) return std::nullopt;
  const Blocks consumers = s.consumers(*producer);
  if (consumers.empty()) return std::nullopt;
  return std::pair{*producer, random.pick(consumers)};
}

/// An instruction that does what the tiles of a block do, as those at 0 do it; nothing where shapes are not constant.
std::optional<Func> instruction_of(const Schedule& s, const BlockRef& ref) {
  const Block& tile = s.node(ref);
  Substitution first;
  for (const Stmt& around : s.find(ref)) {
    if (!around.as<Block>()) continue;
    for (const Iter& iter : around.as<Block>()->f.iters) first[iter.variable.get()] = index(0);
  }
  const Stmt body = fresh_copy(substitute(tile.f.body, first));
  std::vector<Param> params;
  const auto take = [&](const Buffer& buffer) {
    if (std::find(params.begin(), params.end(), Param(buffer)) == params.end()) params.emplace_back(buffer);
  };
  for_each_stmt(body, [&](const Stmt& s) {
    if (const Store* store = s.as<Store>()) take(store->buffer);
  });
  for_each_expr(body, [&](const Expr& e) {
    if (const Load* load = e.as<Load>()) take(load->buffer);
  });
  // An instruction knows no extents of the program.
  bool symbolic = false;
  for (const VarRef& scalar : scalar_params(s.func())) {
    const auto look = [&](const Expr& e) { symbolic |= uses_var(e, scalar.get()); };
    for_each_stmt(body, [&](const Stmt& s) {
      if (!s.as<Block>()) return;
      for (const Iter& iter : s.as<Block>()->f.iters) {
        look(iter.domain.min);
        look(iter.domain.extent);
      }
    });
    for_each_expr(body, [&](const Expr& e) { symbolic |= e.get() == scalar.get(); });
  }
  if (symbolic) return std::nullopt;
  BufferMap map;
  std::vector<VarRef> any_strides;
  for (Param& param : params) {
    const Buffer buffer = std::get<Buffer>(param);
    for (const Expr& extent : buffer->shape) {
      if (!as_int(extent)) return std::nullopt;
    }
    std::vector<Expr> strides = buffer->strides;
    for (Expr& stride : strides) {
      if (as_int(stride)) continue;
      any_strides.push_back(Var::make("stride"));
      stride = any_strides.back();
    }
    map[buffer.get()] = BufferNode::make(buffer->name, buffer->dtype, buffer->shape, space::global, strides);
    param = map[buffer.get()];
  }
  params.insert(params.end(), any_strides.begin(), any_strides.end());
  return FuncNode::make("instruction", std::move(params), replace_buffers(body, map));
}

/// A loop around a block, and the next one below it.
std::optional<std::pair<LoopRef, LoopRef>> neighbouring_loops(const Schedule& s, Random& random) {
  const auto block = any_block(s, random);
  if (!block || s.loops(*block).size() < 2) return std::nullopt;
  const std::vector<LoopRef> loops = s.loops(*block);
  const auto at = static_cast<size_t>(random.between(0, static_cast<std::int64_t>(loops.size()) - 2));
  return std::pair(loops[at], loops[at + 1]);
}

/// Two loops of equal length at one depth below the same loops, around different blocks; null where there are none.
std::optional<std::pair<LoopRef, LoopRef>> sibling_loops(const Schedule& s, Random& random) {
  const auto first = any_block(s, random);
  if (!first) return std::nullopt;
  const std::vector<LoopRef> loops = s.loops(*first);
  std::vector<std::pair<LoopRef, LoopRef>> found;
  for (const BlockRef& other : s.blocks()) {
    const std::vector<LoopRef> others = s.loops(other);
    size_t depth = 0;
    while (depth < loops.size() && depth < others.size() && loops[depth] == others[depth]) ++depth;
    if (depth < loops.size() && depth < others.size() &&
        equal(s.node(loops[depth]).extent, s.node(others[depth]).extent))
      found.emplace_back(loops[depth], others[depth]);
  }
  if (found.empty()) return std::nullopt;
  return random.pick(found);
}

std::vector<Move> loop_moves() {
  return {
      {"split",
       [](Schedule& s, Random& random) {
         const auto loop = any_loop(s, random);
         if (loop) split(s, *loop, random.between(1, 9));
         return loop.has_value();
       }},
      {"fuse",
       [](Schedule& s, Random& random) {
         const auto loops = neighbouring_loops(s, random);
         if (loops) fuse(s, loops->first, loops->second);
         return loops.has_value();
       }},
      {"join_loops",
       [](Schedule& s, Random& random) {
         const auto loops = sibling_loops(s, random);
         if (loops) join_loops(s, loops->first, loops->second);
         return loops.has_value();
       }},
      {"distribute",
       [](Schedule& s, Random& random) {
         const auto loops = sibling_loops(s, random);
         if (!loops) return false;
         const BlockRef behind{outer_blocks(s.node(loops->second).body).front().as<Block>()->f.name};
         if (random.chance(70) && !(loops->first == loops->second)) join_loops(s, loops->first, loops->second);
         const std::vector<LoopRef> around = s.loops(behind);
         if (around.empty()) return false;
         distribute(s, random.pick(around), behind);
         return true;
       }},
      {"join_blocks",
       [](Schedule& s, Random& random) {
         const auto first = any_block(s, random), second = any_block(s, random);
         if (!first || *first == *second) return false;
         const std::vector<LoopRef> loops = s.loops(*first), others = s.loops(*second);
         if (loops.size() != others.size()) return false;
         for (size_t i = 0; i < loops.size(); ++i) {
           if (!(loops[i] == others[i])) join_loops(s, loops[i], others[i]);
         }
         join_blocks(s, *first, *second);
         return true;
       }},
      {"join_rows",
       [](Schedule& s, Random& random) {
         const auto loops = neighbouring_loops(s, random);
         const std::int64_t* row = loops ? as_int(s.node(loops->second).extent) : nullptr;
         if (!row) return false;
         join_rows(s, loops->first, loops->second, *row + (random.chance(30) ? random.between(1, 3) : 0));
         return true;
       }},
      {"reorder",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         if (!block || s.loops(*block).size() < 2) return false;
         std::vector<LoopRef> loops = s.loops(*block);
         for (size_t i = loops.size(); i-- > 1;) {
           std::swap(loops[i], loops[static_cast<size_t>(random.between(0, static_cast<std::int64_t>(i)))]);
         }
         loops.resize(static_cast<size_t>(random.between(2, static_cast<std::int64_t>(loops.size()))));
         reorder(s, loops);
         return true;
       }},
      {"vectorize",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         if (!block || s.loops(*block).empty()) return false;
         vectorize(s, s.loops(*block).back());
         return true;
       }},
      {"unroll",
       [](Schedule& s, Random& random) {
         const auto loop = any_loop(s, random);
         if (loop) unroll(s, *loop);
         return loop.has_value();
       }},
      {"parallel",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         if (!block || s.loops(*block).empty()) return false;
         parallel(s, s.loops(*block).front(), random.between(1, 3));
         return true;
       }},
      {"bind",
       [](Schedule& s, Random& random) {
         const auto loop = any_loop(s, random);
         if (loop) bind_loop(s, *loop, random.chance(50) ? "core" : "lane");
         return loop.has_value();
       }},
      {"annotate",
       [](Schedule& s, Random& random) {
         const auto loop = any_loop(s, random);
         if (!loop) return false;
         if (random.chance(50)) {
           annotate(s, *loop, "note", random.between(0, 9));
         } else {
           annotate(s, random.chance(70) ? split(s, *loop, random.between(2, 5)).first : *loop, shift_last_key, 1);
         }
         return true;
       }},
      {"partition",
       [](Schedule& s, Random& random) {
         const auto loop = any_loop(s, random);
         if (!loop) return false;
         if (random.chance(60)) {
           partition(s, *loop, random.between(1, 4));
         } else {
           partition(s, split(s, *loop, random.between(2, 7)).first);
         }
         return true;
       }},
      {"split_domain",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         const auto loop = block ? any_loop(s, random, block) : std::nullopt;
         if (loop) split_domain(s, *block, *loop, random.between(1, 4));
         return loop.has_value();
       }},
      {"join_iters",
       [](Schedule& s, Random& random) {
         const auto loops = neighbouring_loops(s, random);
         const auto block = loops ? any_block(s, random) : std::nullopt;
         if (block) join_iters(s, *block, loops->first, loops->second);
         return block.has_value();
       }},
      {"split_iter",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         const auto loop = block ? any_loop(s, random, block) : std::nullopt;
         if (loop) split_iter(s, *block, *loop, random.between(2, 4));
         return loop.has_value();
       }},
      {"blockize",
       [](Schedule& s, Random& random) {
         const auto loop = any_loop(s, random);
         if (loop) blockize(s, *loop);
         return loop.has_value();
       }},
      {"tensorize",
       [](Schedule& s, Random& random) {
         const auto loop = any_loop(s, random);
         if (!loop) return false;
         const BlockRef tile = blockize(s, *loop);
         const std::optional<Func> instruction = instruction_of(s, tile);
         if (!instruction) return false;
         tensorize(s, tile, *instruction);
         return true;
       }},
  };
}

std::vector<Move> place_moves() {
  return {
      {"compute_at",
       [](Schedule& s, Random& random) {
         const auto pair = any_pair(s, random);
         const auto loop = pair ? any_loop(s, random, pair->second) : std::nullopt;
         if (loop) compute_at(s, pair->first, *loop);
         return loop.has_value();
       }},
      {"compute_once",
       [](Schedule& s, Random& random) {
         const auto unread = [](const Block& b) {
           std::vector<size_t> iters;
           for (size_t i = 0; i < b.f.iters.size(); ++i) {
             bool read = b.f.iters[i].kind != IterKind::space;
             for_each_expr(b.f.body, [&](const Expr& e) {
               for (size_t d = 0; e.as<Load>() && d < e.as<Load>()->indices.size(); ++d)
                 read |= uses_var(e.as<Load>()->indices[d], b.f.iters[i].variable.get());
             });
             if (!read) iters.push_back(i);
           }
           return iters;
         };
         const auto block = any_block(s, random, [&](const Block& b) { return !unread(b).empty(); });
         if (!block) return false;
         const Block& node = s.node(*block);
         const Expr& binding = node.f.bindings[random.pick(unread(node))];
         const std::vector<LoopRef> loops = s.loops(*block);
         const auto loop = std::find_if(loops.begin(), loops.end(),
                                        [&](const LoopRef& l) { return l.variable.get() == binding.as<Var>(); });
         if (loop != loops.end()) compute_once(s, *block, *loop);
         return loop != loops.end();
       }},
      {"compute_inline",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, [](const Block& b) { return !b.f.reducer; });
         if (block) compute_inline(s, *block);
         return block.has_value();
       }},
      {"reverse_compute_at",
       [](Schedule& s, Random& random) {
         const auto pair = any_pair(s, random);
         const auto loop = pair ? any_loop(s, random, pair->first) : std::nullopt;
         if (loop) reverse_compute_at(s, pair->second, *loop);
         return loop.has_value();
       }},
      {"reverse_compute_inline",
       [](Schedule& s, Random& random) {
         const auto pair = any_pair(s, random);
         if (pair) reverse_compute_inline(s, pair->second);
         return pair.has_value();
       }},
      {"rolling_buffer",
       [](Schedule& s, Random& random) {
         const auto stencil = any_block(s, random, is_stencil);
         if (!stencil || s.producers(*stencil).empty() || s.loops(*stencil).empty()) return false;
         const BlockRef producer = random.pick(s.producers(*stencil));
         LoopRef loop = s.loops(*stencil).front();
         if (random.chance(30)) loop = split(s, loop, random.between(1, 3)).first;
         compute_at(s, producer, loop);
         rolling_buffer(s, producer, loop);
         return true;
       }},
      {"double_buffer",
       [](Schedule& s, Random& random) {
         const auto pair = any_pair(s, random);
         auto loop = pair ? any_loop(s, random, pair->second) : std::nullopt;
         if (!loop) return false;
         if (random.chance(60)) loop = split(s, *loop, random.between(2, 5)).first;
         if (is_reduction(s.node(pair->second))) decompose_reduction(s, pair->second, s.loops(pair->second).front());
         compute_at(s, pair->first, *loop);
         double_buffer(s, pair->first, *loop);
         return true;
       }},
  };
}

std::vector<Move> layout_moves() {
  return {
      {"cache_read",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         const auto region = block ? any_region(s.node(*block).f.reads, random) : std::nullopt;
         if (!region) return false;
         const auto& reads = s.node(*block).f.reads;
         const auto places = std::count_if(reads.begin(), reads.end(),
                                           [&](const Region& read) { return read.buffer == region->buffer; });
         const auto place = random.chance(30) ? std::optional<size_t>(random.between(0, places - 1)) : std::nullopt;
         cache_read(s, *block, region->buffer->name, "global", place);
         return true;
       }},
      {"cache_write",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         if (!block) return false;
         const std::vector<Region>& written = s.node(*block).f.writes;
         const bool named = !written.empty() && random.chance(30);
         cache_write(s, *block, "global", named ? std::optional(random.pick(written).buffer->name) : std::nullopt);
         return true;
       }},
      {"reindex",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         const auto region = block ? any_region(s.node(*block).f.reads, random) : std::nullopt;
         if (region) {
           const bool names = random.chance(30);
           reindex(s, *block, region->buffer->name,
                   names ? std::optional<size_t>(static_cast<size_t>(random.between(0, 1))) : std::nullopt);
         }
         return region.has_value();
       }},
      {"set_space",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         if (block) set_space(s, *block, "global");
         return block.has_value();
       }},
      {"storage_align",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         const auto region = block ? any_region(s.node(*block).f.writes, random) : std::nullopt;
         if (!region) return false;
         const std::int64_t factor = random.between(1, 9);
         storage_align(s, *block, region->buffer->name, 0, factor, random.between(0, factor - 1));
         return true;
       }},
      {"transform_layout",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         const auto region = block ? any_region(s.node(*block).f.writes, random) : std::nullopt;
         if (!region) return false;
         static const std::vector<const char*> matrices = {
             "i, j -> j, i",         "i, j -> j // 4, i, j % 4", "i, j -> i // 3, j // 4, i % 3, j % 4",
             "i, j -> i, j * 2 + 1", "i, j -> i * 50 + j",       "i, j -> i + j, j",
             "i, j -> i // 2, j"};
         static const std::vector<const char*> cubes = {"i, j, k -> k, i, j", "i, j, k -> i, j // 2, k, j % 2"};
         const auto& maps = region->buffer->rank() == 2 ? matrices : cubes;
         transform_layout(s, *block, region->buffer->name, parse_layout_map(random.pick(maps)));
         return true;
       }},
      {"annotate_buffer_access",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         const bool writes = random.chance(40);
         const auto region =
             block ? any_region(writes ? s.node(*block).f.writes : s.node(*block).f.reads, random) : std::nullopt;
         if (!region) return false;
         // What was inferred, and more of it, now and then less.
         std::vector<Range> ranges = region->ranges;
         for (Range& range : ranges) {
           const std::int64_t before = random.chance(50) ? random.between(0, 3) : 0,
                              after = random.chance(50) ? random.between(0, 3) : 0;
           range = {range.min - before, range.extent + (before + after)};
           if (random.chance(8)) range.extent = range.extent - 1;
         }
         annotate_buffer_access(s, *block, region->buffer->name, writes ? BufferAccess::write : BufferAccess::read,
                                [&](const std::vector<Expr>&) { return ranges; });
         return true;
       }},
      {"cache_cast",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, casts);
         const auto region = block ? any_region(s.node(*block).f.reads, random) : std::nullopt;
         if (region) cache_cast(s, *block, region->buffer->name, "global");
         return region.has_value();
       }},
      {"cache_padding",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, chooses_padding);
         const auto region = block ? any_region(s.node(*block).f.reads, random) : std::nullopt;
         if (!region) return false;
         const Schedule::Checkpoint before = s.checkpoint();
         const BlockRef copy = cache_padding(s, *block, region->buffer->name, "global", random.between(1, 3));
         // Indices that are one place split over several dimensions make a box of it, which interpreting takes long.
         std::int64_t elements = 1;
         for (const Expr& extent : s.node(copy).f.writes[0].buffer->shape)
           elements *= as_int(extent) ? std::min<std::int64_t>(*as_int(extent), most_padded) : 1;
         if (elements > most_padded) s.rollback(before);
         return elements <= most_padded;
       }},
      {"decompose_padding",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, pads);
         const auto loop = block ? any_loop(s, random, block) : std::nullopt;
         if (loop) decompose_padding(s, *block, *loop);
         return loop.has_value();
       }},
  };
}

std::vector<Move> reduction_moves() {
  return {
      {"pad_einsum",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         if (!block) return false;
         std::vector<std::int64_t> padding;
         padding.reserve(s.node(*block).f.iters.size());
         for (size_t i = 0; i < s.node(*block).f.iters.size(); ++i) padding.push_back(random.between(1, 5));
         pad_einsum(s, *block, padding);
         return true;
       }},
      {"decompose_reduction",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         const auto loop = block ? any_loop(s, random, block) : std::nullopt;
         if (loop) decompose_reduction(s, *block, *loop);
         return loop.has_value();
       }},
      {"rfactor",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         const auto loop = block ? reduce_loop(s, random, *block) : std::nullopt;
         if (!loop) return false;
         rfactor(s, *block, random.chance(50) ? *loop : split(s, *loop, random.between(2, 5)).second);
         return true;
       }},
      {"separate_window",
       [](Schedule& s, Random& random) {
         const auto reduced = [](const Iter& iter) { return iter.kind == IterKind::reduce; };
         const auto block = any_block(s, random, [&](const Block& b) {
           return is_reduction(b) && std::count_if(b.f.iters.begin(), b.f.iters.end(), reduced) > 1;
         });
         if (!block) return false;
         std::optional<LoopRef> across, along;
         for (const LoopRef& loop : s.loops(*block)) {
           if (drives(s.node(*block), IterKind::space, s.node(loop))) across = loop;
           if (drives(s.node(*block), IterKind::reduce, s.node(loop))) along = loop;
         }
         if (random.chance(20)) across = any_loop(s, random, block);
         if (across && along)
           separate_window(s, *block, *across, *along, random.chance(20) ? random.between(0, 15) : 0);
         return across && along;
       }},
      {"fuse_reduction_epilogue",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         if (!block || s.consumers(*block).empty()) return false;
         fuse_reduction_epilogue(s, *block, random.pick(s.consumers(*block)));
         return true;
       }},
      {"fuse_reductions",
       [](Schedule& s, Random& random) {
         const auto extreme = any_block(s, random, [](const Block& b) { return is_reduction(b) && is_extreme(b); });
         if (!extreme) return false;
         // Those that read it, and those that read what element-wise blocks make of it.
         Blocks sums;
         for (const BlockRef& reader : s.consumers(*extreme)) {
           if (is_reduction(s.node(reader))) sums.push_back(reader);
           if (s.node(reader).f.reducer) continue;
           for (const BlockRef& further : s.consumers(reader)) {
             if (is_reduction(s.node(further))) sums.push_back(further);
           }
         }
         const std::int64_t* extent = as_int(s.node(*extreme).f.iters.back().domain.extent);
         if (sums.empty() || (!extent && random.chance(90))) return false;
         std::int64_t step = random.between(1, extent ? *extent : 4);
         while (extent && random.chance(95) && *extent % step != 0) --step;
         fuse_reductions(s, *extreme, sums, step);
         return true;
       }},
      {"hoist_offset",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         const std::string buffer = block ? offset_factor(s.node(*block)) : "";
         if (!buffer.empty()) hoist_offset(s, *block, buffer);
         return !buffer.empty();
       }},
      {"hoist_factor",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         if (!block) return false;
         // Elements that stay the same along the sum.
         std::vector<Region> same;
         const Block& node = s.node(*block);
         for (const Region& read : node.f.reads) {
           bool varies = writes(node, read.buffer);
           for (const Iter& iter : node.f.iters) {
             for (const Range& range : read.ranges)
               varies |= iter.kind != IterKind::space && uses_var(range.min, iter.variable.get());
           }
           if (!varies) same.push_back(read);
         }
         const auto region = any_region(same, random);
         if (region) hoist_factor(s, *block, region->buffer->name);
         return region.has_value();
       }},
      {"shift_squares",
       [](Schedule& s, Random& random) {
         const auto pair = any_squares(s, random);
         if (pair) shift_squares(s, pair->first, pair->second, random.between(random.chance(5) ? 0 : 1, 8));
         return pair.has_value();
       }},
      {"drop_result",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, [](const Block& b) { return b.f.writes.size() > 1 && !b.f.reducer; });
         if (!block) return false;
         const std::vector<Region>& writes = s.node(*block).f.writes;
         drop_result(s, *block, random.pick(writes).buffer->name);
         return true;
       }},
      {"fold_choices",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, [](const Block& b) {
           bool chooses = false;
           for_each_expr(b.f.body, [&](const Expr& e) { chooses |= e.as<Select>() != nullptr; });
           return chooses && !is_reduction(b);
         });
         const auto loop = block ? any_loop(s, random, block) : std::nullopt;
         if (loop) fold_choices(s, *block, *loop);
         return loop.has_value();
       }},
      {"unfold_reduction",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         const auto loop = block ? reduce_loop(s, random, *block) : std::nullopt;
         if (loop) unfold_reduction(s, *block, *loop);
         return loop.has_value();
       }},
      {"skip_masked",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, [](const Block& b) { return is_reduction(b) && masks(b); });
         const auto loop = block ? reduce_loop(s, random, *block) : std::nullopt;
         if (!loop) return false;
         LoopRef outer = random.chance(30) ? *loop : split(s, *loop, random.between(1, 4)).first;
         std::vector<LoopRef> order;
         for (const LoopRef& other : s.loops(*block)) {
           const For& node = s.node(other);
           if (drives(s.node(*block), IterKind::reduce, node) && !(other == outer)) continue;
           if (!(other == outer)) order.push_back(other);
         }
         order.insert(order.begin() + random.between(0, static_cast<std::int64_t>(order.size())), outer);
         for (const LoopRef& other : s.loops(*block)) {
           if (std::find(order.begin(), order.end(), other) == order.end()) order.push_back(other);
         }
         if (order.size() > 1) reorder(s, order);
         decompose_reduction(s, *block, outer);
         skip_masked(s, *block, {outer});
         return true;
       }},
      {"compute_apart",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random);
         if (!block) return false;
         if (random.chance(40)) {
           const auto region = any_region(s.node(*block).f.reads, random);
           if (region) compute_apart(s, *block, region->buffer->name);
           return region.has_value();
         }
         std::vector<size_t> iters = iters_of_a_part(s.node(*block), random);
         if (iters.size() > 1 && random.chance(30)) std::swap(iters.front(), iters.back());
         if (!iters.empty()) compute_apart(s, *block, iters);
         return !iters.empty();
       }},
      {"end_masked",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, [](const Block& b) { return is_reduction(b) && masks(b); });
         const auto loop = block ? reduce_loop(s, random, *block) : std::nullopt;
         if (!loop) return false;
         const LoopRef ended = random.chance(50) ? *loop : split(s, *loop, random.between(1, 4)).first;
         decompose_reduction(s, *block, ended);
         end_masked(s, *block, ended);
         return true;
       }},
      {"merge_equal",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         if (!block) return false;
         Blocks alike;  // read the same
         for (const BlockRef& other : s.blocks()) {
           if (other == *block) break;
           const auto &a = s.node(other).f.reads, &b = s.node(*block).f.reads;
           if (is_reduction(s.node(other)) && a.size() == b.size() && a.size() > 1 && a[1].buffer == b[1].buffer)
             alike.push_back(other);
         }
         if (alike.empty()) return false;
         merge_equal(s, *block, random.pick(alike));
         return true;
       }},
      {"shift_operand",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, multiplies_bytes);
         if (!block) return false;
         std::vector<Region> bytes;
         for (const Region& read : s.node(*block).f.reads) {
           if (read.buffer->dtype.bytes() == 1) bytes.push_back(read);
         }
         shift_operand(s, *block, random.pick(bytes).buffer->name);
         return true;
       }},
      {"group_bytes",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, multiplies_narrow);
         if (!block) return false;
         std::vector<LoopRef> loops;
         for (const LoopRef& loop : s.loops(*block)) {
           if (drives(s.node(*block), IterKind::reduce, s.node(loop))) loops.push_back(loop);
         }
         if (loops.empty()) return false;
         group_bytes(s, *block, random.pick(loops));
         return true;
       }},
      {"split_residues",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, [](const Block& b) { return is_reduction(b) && masks(b); });
         if (block) split_residues(s, *block);
         return block.has_value();
       }},
      {"scan_lanes",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, [](const Block& b) { return match_scan(b).has_value(); });
         if (!block || s.loops(*block).empty()) return false;
         const std::int64_t lanes = std::int64_t{1} << random.between(1, 3);
         scan_lanes(s, *block, lanes);
         return true;
       }},
      {"fold_lanes",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         const auto loop = block ? reduce_loop(s, random, *block) : std::nullopt;
         if (!loop) return false;
         const std::int64_t lanes = std::int64_t{1} << random.between(1, 3);
         rfactor(s, *block, split(s, *loop, lanes).second);
         fold_lanes(s, *block, lanes);
         return true;
       }},
      {"fold_columns",
       [](Schedule& s, Random& random) {
         const auto block = any_block(s, random, is_reduction);
         const auto loop = block ? reduce_loop(s, random, *block) : std::nullopt;
         if (!loop) return false;
         const std::int64_t lanes = std::int64_t{1} << random.between(1, 3);
         const auto [chunks, lane] = split(s, *loop, lanes);
         // Below the reduce loops, so that the columns come to stand in the nest of the final block.
         std::vector<LoopRef> order{chunks, lane};
         for (const LoopRef& other : s.loops(*block)) {
           if (!(other == chunks) && !(other == lane)) order.push_back(other);
         }
         reorder(s, order);
         rfactor(s, *block, lane);
         const std::vector<LoopRef> loops = s.loops(*block);
         if (loops.size() < 2) return false;
         const LoopRef& columns = loops[loops.size() - 2];
         fold_columns(s, *block, split(s, columns, random.chance(60) ? 2 : lanes).second, lanes);
         return true;
       }},
  };
}

}  // namespace

const std::vector<Move>& moves() {
  static const std::vector<Move> all = [] {
    std::vector<Move> list;
    for (auto group : {loop_moves, place_moves, layout_moves, reduction_moves}) {
      for (Move& move : group()) list.push_back(std::move(move));
    }
    // What few programs have a place for comes more often.
    const std::vector<Move> once = list;
    for (const Move& move : once) {
      static const std::map<std::string, size_t> more = {{"rolling_buffer", 13},
                                                         {"cache_cast", 26},
                                                         {"cache_padding", 7},
                                                         {"annotate_buffer_access", 1},
                                                         {"reindex", 1},
                                                         {"decompose_padding", 3},
                                                         {"reverse_compute_inline", 3},
                                                         {"pad_einsum", 2},
                                                         {"double_buffer", 2},
                                                         {"fuse_reduction_epilogue", 3},
                                                         {"reverse_compute_at", 2},
                                                         {"fuse_reductions", 29},
                                                         {"hoist_factor", 7},
                                                         {"shift_squares", 20},
                                                         {"skip_masked", 7},
                                                         {"end_masked", 8},
                                                         {"compute_apart", 7},
                                                         {"scan_lanes", 12},
                                                         {"join_rows", 3},
                                                         {"join_loops", 2},
                                                         {"distribute", 10},
                                                         {"join_blocks", 30},
                                                         {"merge_equal", 20},
                                                         {"shift_operand", 18},
                                                         {"hoist_offset", 40},
                                                         {"compute_once", 12},
                                                         {"drop_result", 20},
                                                         {"group_bytes", 16},
                                                         {"unroll", 1},
                                                         {"split_domain", 2},
                                                         {"unfold_reduction", 1},
                                                         {"separate_window", 6},
                                                         {"fold_choices", 16},
                                                         {"split_iter", 6},
                                                         {"join_iters", 10},
                                                         {"split_residues", 14},
                                                         {"transform_layout", 1},
                                                         {"vectorize", 1},
                                                         {"partition", 1},
                                                         {"fold_columns", 3},
                                                         {"tensorize", 2},
                                                         {"compute_inline", 1}};
      const auto found = more.find(move.primitive);
      list.insert(list.end(), found == more.end() ? 0 : found->second, move);
    }
    return list;
  }();
  return all;
}

}  // namespace lathe::testing
