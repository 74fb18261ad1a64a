#include "schedule/staged_producer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "schedule/carried.h"
#include "schedule/rewrite_accesses.h"

namespace lathe {
namespace {

void check_place(const Schedule& schedule, const std::string& application, const Stmt& loop, StagedProducer& staged) {
  const std::string text =
      "loop is serial and around block, whose own loops stand directly in loop's body, with nothing else in them";
  const auto found = std::find(staged.path.begin(), staged.path.end(), loop);
  if (found == staged.path.end()) refuse(schedule, application, 1, text, staged.path.back(), "is not below it");
  staged.loop_level = static_cast<size_t>(found - staged.path.begin());
  if (staged.loop().for_kind != ForKind::serial) {
    refuse(schedule, application, 1, text, loop, "is " + std::string(to_string(staged.loop().for_kind)));
  }
  staged.nest_level = staged.loop_level + 1;
  if (staged.path[staged.nest_level].as<Seq>()) ++staged.nest_level;
  for (size_t level = staged.nest_level; level + 1 < staged.path.size(); ++level) {
    const Stmt& s = staged.path[level];
    if (s.as<For>()) continue;
    refuse(schedule, application, 1, text, s.as<Seq>() ? staged.path[level - 1] : s, "holds other statements too");
  }
}

void check_block(const Schedule& schedule, const std::string& application, StagedProducer& staged) {
  const std::string text = "block has only space iters, and writes one buffer, an allocation, which it does not read";
  const Block& block = staged.block();
  for (const Iter& iter : block.f.iters) {
    if (iter.kind == IterKind::space) continue;
    refuse(schedule, application, 2, text, staged.path.back(),
           fmt::format("has the {} iter {}", to_string(iter.kind), iter.variable->name));
  }
  if (block.f.reducer || block.f.init || has_blocks(block)) {
    refuse(schedule, application, 2, text, staged.path.back(), "is more than one statement a point");
  }
  for (const Region& region : block.f.writes) {
    if (staged.buffer && region.buffer != staged.buffer)
      refuse(schedule, application, 2, text, staged.path.back(), "writes several buffers");
    staged.buffer = region.buffer;
  }
  if (!staged.buffer) refuse(schedule, application, 2, text, staged.path.back(), "writes nothing");
  if (!is_allocated(schedule.func(), staged.buffer) || staged.buffer->view_of) {
    refuse(schedule, application, 2, text, staged.path.back(),
           fmt::format("writes {}, which is no allocation", staged.buffer->name));
  }
  if (reads(block, staged.buffer)) {
    refuse(schedule, application, 2, text, staged.path.back(), fmt::format("reads {}", staged.buffer->name));
  }
}

void check_others(const Schedule& schedule, const std::string& application, const StagedProducer& staged) {
  const std::string text =
      "only blocks directly below loop touch the buffer, by Loads and Stores at scalar indices, without a hint, and "
      "block alone writes it";
  const Buffer& buffer = staged.buffer;
  std::unordered_set<const StmtNode*> below;
  for (const Stmt& s : outer_blocks(staged.loop().body)) below.insert(s.get());
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (!other || s == staged.path.back()) return;
    const bool touches = reads(*other, buffer) || writes(*other, buffer);
    if (touches && (!below.contains(s.get()) || has_blocks(*other))) {
      refuse(schedule, application, 3, text, s, fmt::format("touches {}", buffer->name));
    }
    if (writes(*other, buffer)) refuse(schedule, application, 3, text, s, fmt::format("writes {} too", buffer->name));
  });
  const Path around(staged.path.begin(), staged.path.begin() + static_cast<std::ptrdiff_t>(staged.loop_level) + 1);
  const auto overwrites = [&](DependenceKind kind, const Stmt& source, const Stmt& sink) {
    return (kind == DependenceKind::anti ? source : sink) == staged.path.back() && kind != DependenceKind::output;
  };
  for (const Dependence& dependence :
       dependences(around.back(), staged.path.back(), bounds_at(schedule.func(), around), overwrites)) {
    refuse_dependence(schedule, application, 5, "no block below loop writes what block reads", dependence,
                      staged.path.back());
  }
  if (const UnclearUse use = find_unclear_use(schedule.func()->body, buffer)) {
    refuse(schedule, application, 3, text, use.block, use.note);
  }
}

/// What begins at 0 reads so: no products with 0, no sums with it. The order of terms stays, which simplify's would not
/// for loops of one name.
class ZeroFolder : public Mutator {
 protected:
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    Expr changed = Mutator::mutate_Binary(e, node);
    const Binary* binary = changed.as<Binary>();
    if (!binary || binary->dtype != i64) return changed;
    const bool left = is_int(binary->a, 0), right = is_int(binary->b, 0);
    if (binary->op == BinaryOp::mul && (left || right)) return index(0);
    if (binary->op == BinaryOp::add && (left || right)) return left ? binary->b : binary->a;
    return changed;
  }
};

}  // namespace

StagedProducer require_staged(const Schedule& schedule, const std::string& application, const BlockRef& block,
                              const LoopRef& loop) {
  const Path loop_path = path_to(schedule, loop);
  StagedProducer staged{path_to(schedule, block), 0, 0, nullptr};
  check_place(schedule, application, loop_path.back(), staged);
  check_block(schedule, application, staged);
  check_others(schedule, application, staged);
  Bounds inside = bounds_at(schedule.func(), loop_path);
  inside.bind(staged.loop().variable, Range{staged.loop().min, staged.loop().extent});
  const auto exposed =
      exposed_reads(staged.loop().body, inside, [&](const Buffer& buffer) { return buffer == staged.buffer; });
  if (!exposed.empty()) {
    refuse(schedule, application, 4,
           "what an iteration of loop reads of the buffer is proved to be written before in that iteration",
           exposed.front().block ? exposed.front().block : staged.path.back(),
           fmt::format("reads {}, which the iteration is not proved to write", print(exposed.front().region)));
  }
  return staged;
}

Stmt first_iteration(const Schedule& schedule, const StagedProducer& staged, const std::string& name) {
  const For& loop = staged.loop();
  Stmt nest = fresh_copy(substitute_loops(staged.nest(), {{loop.variable.get(), loop.min}}));
  const Bounds bounds =
      bounds_at(schedule.func(),
                Path(staged.path.begin(), staged.path.begin() + static_cast<std::ptrdiff_t>(staged.loop_level) + 1));
  const Expr runs = gt(loop.extent, index(0));
  const bool always = proves(bounds, runs);
  nest = rewrite_blocks(nest, [&](const Block& block) {
    return with_fields(block, [&](Block::Fields& f) {
      f.name = name;
      ZeroFolder folder;
      for (Expr& binding : f.bindings) binding = folder.mutate(binding);
      if (f.predicate) f.predicate = folder.mutate(f.predicate);
      if (!always) f.predicate = logical_and(f.predicate, runs);
    });
  });
  return nest;
}

Stmt with_stages(const StagedProducer& staged, const Stmt& nest, const Stmt& before) {
  const auto level = [&](size_t i) { return staged.path.begin() + static_cast<std::ptrdiff_t>(i); };
  const Stmt loop = replace_last(Path(level(staged.loop_level), level(staged.nest_level) + 1), nest);
  return replace_last(Path(level(0), level(staged.loop_level) + 1), Seq::make({before, loop}));
}

}  // namespace lathe
