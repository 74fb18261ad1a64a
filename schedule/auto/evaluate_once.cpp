#include "schedule/auto/evaluate_once.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "schedule/auto/block_model.h"
#include "schedule/primitives/compute_once.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A dimension of a buffer along which all elements are alike.
using Dimension = std::pair<const BufferNode*, size_t>;

/// The iters that a block computes with, but for those that only say which of several equal elements is read; and
/// these.
class IterUses : public Visitor {
 public:
  IterUses(const Block& block, const std::set<Dimension>& alike) : written_(block.f.writes[0].buffer), alike_(alike) {
    if (block.f.predicate) visit(block.f.predicate);
    visit(block.f.body);
    if (block.f.init) visit(block.f.init);
  }
  std::set<const Var*> computed_with;
  std::map<const Var*, std::set<Dimension>> read_along;
  std::map<const Var*, size_t> stored_along;

  using Visitor::visit;

 protected:
  void visit_Var(const Var* node) override { computed_with.insert(node); }
  void visit_Load(const Load* node) override {
    const bool own = node->buffer == written_;
    for (size_t d = 0; d < node->indices.size(); ++d) {
      const Var* variable = node->indices[d].as<Var>();
      const Dimension dimension{node->buffer.get(), d};
      if (variable && own) continue;
      if (variable && alike_.contains(dimension)) {
        read_along[variable].insert(dimension);
      } else {
        visit(node->indices[d]);
      }
    }
    if (node->mask) visit(node->mask);
  }
  void visit_Store(const Store* node) override {
    for (size_t d = 0; d < node->indices.size(); ++d) {
      if (const Var* variable = node->indices[d].as<Var>()) {
        stored_along[variable] = d;
      } else {
        visit(node->indices[d]);
      }
    }
    if (node->mask) visit(node->mask);
    visit(node->value);
  }

 private:
  const Buffer& written_;
  const std::set<Dimension>& alike_;
};

struct Axis {
  BlockRef block;
  size_t iter;
  Dimension dimension;
  std::set<Dimension> reads;  ///< what has to be computed once as well
  bool costs;
};

/// The axes of the program's intermediate results along which these come out alike, producers first.
std::vector<Axis> axes_of_equal_results(const RuleContext& context) {
  const Schedule& schedule = context.schedule;
  std::vector<Axis> axes;
  std::set<Dimension> alike;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block) || block.f.writes.size() != 1 || !is_allocated(schedule.func(), block.f.writes[0].buffer) ||
        is_sealed(block))
      continue;
    const IterUses uses(block, alike);
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const Iter& iter = block.f.iters[i];
      const Var* variable = iter.variable.get();
      const std::int64_t* extent = as_int(iter.domain.extent);
      const auto stored = uses.stored_along.find(variable);
      if (iter.kind != IterKind::space || !extent || *extent < 2 || uses.computed_with.contains(variable) ||
          stored == uses.stored_along.end())
        continue;
      const auto read = uses.read_along.find(variable);
      const Dimension dimension{block.f.writes[0].buffer.get(), stored->second};
      alike.insert(dimension);
      axes.push_back({ref, i, dimension, read == uses.read_along.end() ? std::set<Dimension>{} : read->second,
                      block.f.reducer || asserts(block) || body_cost(block) > copy_body});
    }
  }
  return axes;
}

}  // namespace

void evaluate_once(RuleContext& context) {
  Schedule& schedule = context.schedule;
  std::vector<Axis> axes = axes_of_equal_results(context);
  std::set<Dimension> wanted;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    axis->costs |= wanted.contains(axis->dimension);
    if (axis->costs) wanted.insert(axis->reads.begin(), axis->reads.end());
  }
  std::vector<std::pair<BlockRef, LoopRef>> loops;  // before iters are taken out
  for (const Axis& axis : axes) {
    const std::optional<LoopRef> loop = axis.costs ? loop_of_iter(schedule, axis.block, axis.iter) : std::nullopt;
    if (loop) loops.emplace_back(axis.block, *loop);
  }
  for (const auto& [block, loop] : loops) {
    attempt(context, fmt::format("compute {} once along {}", block.name, loop.variable->name),
            [&, block = block, loop = loop] { compute_once(schedule, block, loop); });
  }
}

}  // namespace lathe
