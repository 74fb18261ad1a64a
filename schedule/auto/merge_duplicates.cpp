#include "schedule/auto/merge_duplicates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/structural.h"
#include "schedule/primitives/merge_equal.h"
#include "schedule/rewrite.h"

namespace lathe {

namespace {

/// Do they compute the same, wherever their loops stand?
bool alike(const Block& a, const Block& b) {
  const Buffer &first = a.f.writes[0].buffer, &second = b.f.writes[0].buffer;
  if (a.f.iters.size() != b.f.iters.size() || a.f.reducer.has_value() != b.f.reducer.has_value() ||
      first->dtype != second->dtype || first->rank() != second->rank())
    return false;
  const auto loose = [](const Block& block) {
    return with_fields(block, [](Block::Fields& f) {
      f.name.clear();
      std::fill(f.bindings.begin(), f.bindings.end(), index(0));
    });
  };
  return equal(loose(a), replace_buffers(loose(b), {{second.get(), first}}));
}

/// Of blocks that compute the same the same, whatever they and what they write are called.
std::uint64_t hash_of(const Block& block) {
  const Buffer& written = block.f.writes[0].buffer;
  const Buffer nameless = BufferNode::make("same", written->dtype, written->shape);
  const Stmt loose = with_fields(block, [](Block::Fields& f) {
    f.name.clear();
    std::fill(f.bindings.begin(), f.bindings.end(), index(0));
  });
  return structural_hash(replace_buffers(loose, {{written.get(), nameless}}));
}

struct Candidate {
  BlockRef ref;
  Stmt block;
  std::optional<std::uint64_t> hash = {};

  std::uint64_t known_hash() {
    if (!hash) hash = hash_of(*block.as<Block>());
    return *hash;
  }
};

}  // namespace

// Only blocks that read the same buffers can be equal, and of these each is compared with what has its hash.
void merge_duplicates(RuleContext& context) {
  Schedule& schedule = context.schedule;
  std::map<std::vector<const BufferNode*>, std::vector<Candidate>> known;
  std::optional<MergeBatch> batch(std::in_place, schedule);
  for (const BlockRef& ref : schedule.blocks()) {
    const Stmt in_batch = batch->block(ref);
    const Stmt node = in_batch ? in_batch : Stmt(&schedule.node(ref));
    const Block& block = *node.as<Block>();
    if (has_blocks(block) || block.f.writes.size() != 1 || is_sealed(block) || fusion_wish(block) == FusionWish::apart)
      continue;
    std::vector<const BufferNode*> inputs;
    for (const Region& read : block.f.reads)
      if (read.buffer != block.f.writes[0].buffer) inputs.push_back(read.buffer.get());
    std::vector<Candidate>& others = known[inputs];
    Candidate candidate{ref, node};
    bool merged = false;
    // What callers see stays: others may read it.
    const bool kept = !is_allocated(schedule.func(), block.f.writes[0].buffer);
    for (size_t i = 0; i < others.size() && !merged && !kept; ++i) {
      if (others[i].known_hash() != candidate.known_hash() || !alike(*others[i].block.as<Block>(), block)) continue;
      const std::string decision =
          fmt::format("merge {} with {}, which computes the same", ref.name, others[i].ref.name);
      merged = batch->add(ref, others[i].ref);
      if (merged) {
        context.note(decision, schedule.record().size() + batch->size() - 1);
        continue;
      }
      batch->apply();
      merged = attempt(context, decision, [&] { merge_equal(schedule, ref, others[i].ref); });
      batch.emplace(schedule);
    }
    if (!merged) others.push_back(std::move(candidate));
  }
  batch->apply();
}

}  // namespace lathe
