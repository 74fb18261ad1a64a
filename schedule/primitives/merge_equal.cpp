#include "schedule/primitives/merge_equal.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/complete.h"
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
  const Stmt renamed = rewrite_blocks(second.path.back(), [&](const Block& node) {
    return with_fields(node, [&](Block::Fields& f) { f.name = original.name; });
  });
  if (first.result->dtype != second.result->dtype || first.result->space != second.result->space ||
      first.result->rank() != second.result->rank() || !same_shape(*first.result, *second.result) ||
      !equal(first.path.back(), replace_buffers(renamed, map)))
    fail(2, equal_text, "computes something else");
  for (auto between = begin + 1; between != end; ++between) {
    const Block& other = *between->as<Block>();
    for (const Region& read : second_block.as<Block>()->f.reads) {
      if (read.buffer != second.result && writes(other, read.buffer))
        fail(3, between_text, fmt::format("reads {}, which {} has changed by then", read.buffer->name, other.f.name));
    }
  }
  const Stmt alone = remove_allocation(remove_last(second.path), second.result);
  const auto redirected = [&](const Block& node) {
    if (!has_blocks(node) && !reads(node, second.result)) return Stmt(&node);  // a tile without iters names no regions
    const Stmt other = replace_buffers(Stmt(&node), map);
    return has_blocks(node) ? with_tile_regions(other) : with_inferred_regions(*other.as<Block>());
  };
  schedule.commit(
      with_fields(*alone.as<Block>(), [&](Block::Fields& f) { f.body = rewrite_blocks(f.body, redirected); }),
      application);
}

}  // namespace lathe
