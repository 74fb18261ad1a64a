#include <algorithm>
#include <numeric>

#include "ir/error.h"
#include "ir/visitor.h"
#include "jit/memory_order.h"
#include "schedule/copy_block.h"
#include "schedule/rewrite.h"

/// Folds whose results are to lie otherwise than what they fold.
namespace lathe {
namespace {

bool is_scan(const Block& block) {
  return std::any_of(block.f.iters.begin(), block.f.iters.end(),
                     [](const Iter& iter) { return iter.kind == IterKind::ordered; });
}

/// Dimensions of several elements, from the one in which these lie farthest apart.
std::vector<size_t> wide_dimensions(StrideClasses classes, const std::vector<Expr>& shape) {
  std::vector<size_t> dimensions(shape.size());
  std::iota(dimensions.begin(), dimensions.end(), size_t{0});
  if (is_permuted(classes)) dimensions = permuted_dimensions(classes, shape.size());
  std::erase_if(dimensions, [&](size_t d) { return is_int(shape[d], 1); });
  return dimensions;
}

/// Elements of the operand's innermost dimension from which on a scan has vectors across.
constexpr std::int64_t least_across = 16;

/// Is what a scan keeps better turned around behind it: do its results' neighbours lie along what is scanned, and the
/// operand's across? All of them are; else vectors lie across where results do, and take the operand as it lies
/// (measured on Zen 4, (1,0,2) of 256x256x64 1.6 to 2.2 of the time through a temporary).
bool scans_across(const Block& block, const Buffer& results, StrideClasses order, StrideClasses operand) {
  const std::vector<size_t> lie = wide_dimensions(order, results->shape),
                            read = wide_dimensions(operand, results->shape);
  if (lie.empty() || lie.back() == read.back()) return false;
  const size_t inner = lie.back();
  const std::int64_t* extent = as_int(results->shape[read.back()]);
  bool scanned = false;
  for_each_stmt(block.f.body, [&](const Stmt& s) {
    const Store* store = s.as<Store>();
    if (!store || store->buffer != results) return;
    for (const Iter& iter : block.f.iters)
      scanned |= iter.kind == IterKind::ordered && store->indices[inner].as<Var>() == iter.variable.get();
  });
  return scanned && (!extent || *extent >= least_across);
}

}  // namespace

bool same_order(StrideClasses a, StrideClasses b, const std::vector<Expr>& shape) {
  return a == b || wide_dimensions(a, shape) == wide_dimensions(b, shape);
}

bool folds_elements(const Block& block) {
  if (!block.f.reducer && !is_scan(block)) return false;
  const auto walks_all = [&](const Load* load) {
    return std::all_of(block.f.iters.begin(), block.f.iters.end(), [&](const Iter& iter) {
      const auto moves = [&](const Expr& e) { return e.as<Var>() == iter.variable.get(); };
      return is_int(iter.domain.extent, 1) || std::any_of(load->indices.begin(), load->indices.end(), moves);
    });
  };
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    found |= load && !writes(block, load->buffer) && walks_all(load);
  });
  return found;
}

Func fold_in_order(const Func& traced, const MemoryOrders& folded, MemoryOrders* orders) {
  if (folded.empty()) return traced;
  const std::vector<Buffer> results = buffer_params(traced);
  BufferMap made;
  for_each_stmt(traced->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block || has_blocks(*block) || !folds_elements(*block)) return;
    for (const Region& region : block->f.writes) {
      const Buffer& buffer = region.buffer;
      const auto found = folded.find(buffer.get());
      if (found == folded.end()) continue;
      const auto order = orders->find(buffer.get());
      const StrideClasses lies = order == orders->end() ? 0 : order->second, reads = found->second;
      if (same_order(lies, reads, buffer->shape) || (is_scan(*block) && !scans_across(*block, buffer, lies, reads)))
        continue;
      const Buffer apart =
          BufferNode::make(buffer->name + "_in_order", buffer->dtype, buffer->shape, space::global, {}, nullptr);
      made[buffer.get()] = apart;
      (*orders)[apart.get()] = reads;
    }
  });
  if (made.empty()) return traced;
  const Block* root = traced->body.as<Block>();
  LATHE_CHECK(root, traced->name);
  Block::Fields f = root->f;
  std::vector<Stmt> nests{replace_buffers(f.body, made)};
  for (const Buffer& buffer : results) {
    const auto apart = made.find(buffer.get());
    if (apart == made.end()) continue;
    f.allocs.push_back(apart->second);
    std::erase_if(f.reads, [&](const Region& region) { return region.buffer == buffer; });
    nests.push_back(copy_nest(buffer->name + "_copy", apart->second, buffer));
  }
  f.body = Seq::make(std::move(nests));
  return FuncNode::make(traced->name, traced->params, Block::make(std::move(f)), traced->facts, traced->attrs,
                        traced->stage);
}

}  // namespace lathe
