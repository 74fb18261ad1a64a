#include "schedule/primitives/merge_equal.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/storage.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/hints.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr const char* place_text =
    "each of the two runs over its whole domain, each iter by a serial loop of its own, in loops that stand in no "
    "other loop and hold nothing else, and writes one buffer, which no other block writes: an allocation, or original "
    "a parameter that no other may alias";
constexpr const char* equal_text =
    "original stands before block, and but for names and the buffers, of one type, shape and space, they are equal";
constexpr const char* between_text = "from original on until block, no block writes what they read";

bool same_shape(const BufferNode& a, const BufferNode& b) {
  return std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

/// A block with the loops that are its own, and the buffer that it writes.
struct Computed {
  Path path;  ///< down to the outermost of the loops, or the block
  Buffer result;
};

Computed computed(const Schedule& schedule, const std::string& application, const BlockRef& ref, bool may_be_output) {
  Path path = path_to(schedule, ref);
  const Stmt at = path.back();
  const Block& block = *at.as<Block>();
  const auto fail = [&](const std::string& note) { refuse(schedule, application, 1, place_text, at, note); };
  size_t own = 0;
  if (const std::string reason = why_not_alone(path, own); !reason.empty()) fail(reason);
  if (const std::string reason = why_not_pointwise(block); !reason.empty()) fail(reason);
  const auto outside = path.begin() + static_cast<std::ptrdiff_t>(own);
  if (std::any_of(path.begin(), outside, [](const Stmt& s) { return s.as<For>() || s.as<If>(); }))
    fail("stands in a loop of others");
  if (block.f.writes.size() != 1) fail("writes several buffers");
  const Buffer& result = block.f.writes[0].buffer;
  may_be_output &= !schedule.func()->attrs.contains("may_alias");
  if (!(may_be_output || is_allocated(schedule.func(), result)) || result->view_of)
    fail(fmt::format("writes {}", result->name));
  int writers = 0;
  for (const Stmt& s :
       outer_blocks(root_block(schedule.func()) ? root_block(schedule.func())->f.body : schedule.func()->body))
    writers += writes(*s.as<Block>(), result) ? 1 : 0;
  if (writers != 1) fail(fmt::format("writes {}, as others do", result->name));
  path.resize(own + 1);
  return {std::move(path), result};
}

/// The block named anew, with the loops that are its own.
Stmt renamed(const Stmt& nest, const std::string& name) {
  return rewrite_blocks(nest,
                        [&](const Block& node) { return with_fields(node, [&](Block::Fields& f) { f.name = name; }); });
}

bool same_kind(const BufferNode& a, const BufferNode& b) {
  return a.dtype == b.dtype && a.space == b.space && a.rank() == b.rank() && same_shape(a, b);
}

/// With what readers read replaced, and regions to follow.
Stmt redirected(const Stmt& s, const BufferMap& map) {
  if (map.empty()) return s;
  return rewrite_blocks(s, [&](const Block& node) {
    const bool reads_one = has_blocks(node) ||  // a tile without iters names no regions
                           std::any_of(node.f.reads.begin(), node.f.reads.end(),
                                       [&](const Region& region) { return map.contains(region.buffer.get()); });
    if (!reads_one) return Stmt(&node);
    const Stmt other = replace_buffers(Stmt(&node), map);
    return has_blocks(node) ? with_tile_regions(other) : with_inferred_regions(*other.as<Block>());
  });
}

}  // namespace

void merge_equal(Schedule& schedule, const BlockRef& block, const BlockRef& original) {
  const std::string application = fmt::format("merge_equal({}, {})", block.name, original.name);
  const Stmt second_block = path_to(schedule, block).back();
  const Computed first = computed(schedule, application, original, true),
                 second = computed(schedule, application, block, false);
  const auto fail = [&](int condition, const char* text, const std::string& note) {
    refuse(schedule, application, condition, text, second_block, note);
  };
  const std::vector<Stmt> blocks = outer_blocks(root_block(schedule.func())->f.body);
  const Stmt first_block = path_to(schedule, original).back();
  const auto begin = std::find(blocks.begin(), blocks.end(), first_block);
  const auto end = std::find(blocks.begin(), blocks.end(), second_block);
  if (begin >= end) fail(2, equal_text, fmt::format("stands before {}", original.name));
  const BufferMap map{{second.result.get(), first.result}};
  if (!same_kind(*first.result, *second.result) ||
      !equal(first.path.back(), replace_buffers(renamed(second.path.back(), original.name), map)))
    fail(2, equal_text, "computes something else");
  for (auto between = begin + 1; between != end; ++between) {
    const Block& other = *between->as<Block>();
    for (const Region& read : second_block.as<Block>()->f.reads) {
      if (read.buffer != second.result && writes(other, read.buffer))
        fail(3, between_text, fmt::format("reads {}, which {} has changed by then", read.buffer->name, other.f.name));
    }
  }
  const Stmt alone = remove_allocation(remove_last(second.path), second.result);
  schedule.commit(with_fields(*alone.as<Block>(), [&](Block::Fields& f) { f.body = redirected(f.body, map); }),
                  application);
}

MergeBatch::MergeBatch(Schedule& schedule) : schedule_(schedule) {
  const Block* root = root_block(schedule.func());
  bool hinted = false;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) { hinted |= s.as<Block>() && has_hints(*s.as<Block>()); });
  if (!root || hinted || !root->f.body.as<Seq>()) return;
  root_ = schedule.func()->body;
  const std::vector<Stmt>& nests = root->f.body.as<Seq>()->stmts;
  for (size_t position = 0; position < nests.size(); ++position) {
    Stmt only = nests[position];
    while (only.as<For>()) only = only.as<For>()->body;
    for_each_stmt(nests[position], [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      if (!block) return;
      for (const Region& region : block->f.writes) writers_[storage_of(region.buffer)].push_back(position);
      if (s == only) sites_[block->f.name] = {nests[position], position};
    });
  }
  for (const Buffer& buffer : root->f.allocs) allocated_.insert(buffer.get());
}

Path MergeBatch::path_of(const Site& site) const {
  Path path{root_, site.nest};
  while (const For* loop = path.back().as<For>()) path.push_back(loop->body);
  return path;
}

Stmt MergeBatch::block(const BlockRef& block) {
  const auto site = sites_.find(block.name);
  if (site == sites_.end()) return nullptr;
  site->second.nest = redirected(site->second.nest, merged_);
  return path_of(site->second).back();
}

bool MergeBatch::add(const BlockRef& block, const BlockRef& original) {
  const auto second = sites_.find(block.name), first = sites_.find(original.name);
  if (second == sites_.end() || first == sites_.end() || first->second.position >= second->second.position)
    return false;
  Buffer results[2];
  for (const auto& site : {first, second}) {
    const Path path = path_of(site->second);
    const Block& node = *path.back().as<Block>();
    size_t own = 0;
    if (has_blocks(node) || node.f.writes.size() != 1 || !why_not_alone(path, own).empty() ||
        !why_not_pointwise(node).empty())
      return false;
    const Buffer& result = node.f.writes[0].buffer;
    const bool may_be_output = site == first && !schedule_.func()->attrs.contains("may_alias");
    if (result->view_of || !(may_be_output || allocated_.contains(result.get())) ||
        writers_.at(result.get()).size() != 1)
      return false;
    for (const Region& read : node.f.reads) {
      const auto writers = writers_.find(storage_of(read.buffer));
      if (read.buffer != result && writers != writers_.end() && writers->second.back() >= first->second.position)
        return false;
    }
    results[site == first ? 0 : 1] = result;
  }
  const BufferMap map{{results[1].get(), results[0]}};
  if (!same_kind(*results[0], *results[1]) ||
      !equal(first->second.nest, replace_buffers(renamed(second->second.nest, original.name), map)))
    return false;
  merged_.emplace(results[1].get(), results[0]);
  gone_.insert(block.name);
  lines_.push_back(fmt::format("merge_equal({}, {})", block.name, original.name));
  return true;
}

void MergeBatch::apply() {
  if (lines_.empty()) return;
  std::unordered_set<size_t> gone;
  for (const std::string& name : gone_) gone.insert(sites_.at(name).position);
  const Stmt body = with_fields(*root_.as<Block>(), [&](Block::Fields& f) {
    const std::vector<Stmt>& nests = root_.as<Block>()->f.body.as<Seq>()->stmts;
    std::vector<Stmt> kept;
    for (size_t position = 0; position < nests.size(); ++position) {
      if (!gone.contains(position)) kept.push_back(redirected(nests[position], merged_));
    }
    f.body = Seq::make(std::move(kept));
    std::erase_if(f.allocs, [&](const Buffer& buffer) { return merged_.contains(buffer.get()); });
  });
  schedule_.commit(body, std::move(lines_));
  lines_.clear();
}

}  // namespace lathe
