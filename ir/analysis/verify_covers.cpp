#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/step_visitor.h"
#include "ir/analysis/verify_rules.h"
#include "ir/storage.h"
#include "ir/structural.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

/// Collects what a block's body touches.
class AccessCollector : public StepVisitor {
 public:
  AccessCollector(bool through_regions, std::vector<BlockAccess>& into)
      : through_regions_(through_regions), into_(into) {}
  using Visitor::visit;

  void run(const Block::Fields& f) {
    for (const Buffer& buffer : f.allocs) own_.insert(buffer.get());
    if (f.init) visit(f.init);
    visit(f.body);
    std::erase_if(into_, [&](const BlockAccess& access) { return own_.contains(storage_of(access.buffer)); });
  }

 protected:
  void visit_Load(const Load* node) override {
    add(node->buffer, node->indices, node->mask, false);
    Visitor::visit_Load(node);
  }
  void visit_AddressOf(const AddressOf* node) override {
    add(node->buffer, node->indices, nullptr, false);
    Visitor::visit_AddressOf(node);
  }
  void visit_Store(const Store* node) override {
    add(node->buffer, node->indices, node->mask, true);
    Visitor::visit_Store(node);
  }
  void visit_Block(const Block* node) override {
    for (const Buffer& buffer : node->f.allocs) own_.insert(buffer.get());
    StepVisitor::visit_Block(node);
  }
  void visit_inside(const Block::Fields& f) override {
    if (!through_regions_ || is_bare_scope(f)) return StepVisitor::visit_inside(f);
    for (const Region& region : f.reads) into_.push_back({region.buffer, {}, &region, false, steps_});
    for (const Region& region : f.writes) into_.push_back({region.buffer, {}, &region, true, steps_});
  }

 private:
  void add(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask, bool writes) {
    BlockAccess access{buffer, indices, nullptr, writes, steps_};
    if (mask && mask->dtype.is_scalar()) access.steps.push_back(Step::of_condition(mask));
    if (mask && !mask->dtype.is_scalar()) access.steps.push_back(Step::of_unknown());
    into_.push_back(std::move(access));
  }

  const bool through_regions_;
  std::vector<BlockAccess>& into_;
  std::unordered_set<const BufferNode*> own_;
};

/// What must hold for the access to lie inside `region`; dimensions whose form says so already left out.
std::vector<Expr> inside_conditions(const BlockAccess& access, const Region& region) {
  std::vector<Expr> conditions;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Range& range = region.ranges[d];
    // The whole dimension covers whatever does not leave the buffer.
    if (is_whole(range, region.buffer->shape[d])) continue;
    const Expr end = range.min + range.extent;
    if (access.region) {
      const Range& inner = access.region->ranges[d];
      if (equal(inner.min, range.min) && equal(inner.extent, range.extent)) continue;
      const Expr none = le(inner.extent, index(0));
      conditions.push_back(logical_or(none, logical_and(le(range.min, inner.min), le(inner.min + inner.extent, end))));
      continue;
    }
    const Expr& at = access.indices[d];
    if (equal(at, range.min) && is_int(range.extent, 1)) continue;
    const int lanes = at->dtype.lanes;
    const auto spread = [&](const Expr& e) { return Broadcast::make(e, lanes); };
    conditions.push_back(logical_and(le(spread(range.min), at), lt(at, spread(end))));
  }
  return conditions;
}

/// "x[i + 1, j]"
std::string describe_access(const BlockAccess& access) {
  if (access.region) return print(*access.region);
  return print(Load::make(access.buffer, access.indices));
}

/// Does `region` cover the access? A read hint replaces inference: it is guarded at run time, or trusted by choice of
/// the caller. A checked write hint rests on the assertions before the stores.
Decision covers(const Region& region, const BlockAccess& access, const PlacedBlock& placed,
                const std::vector<Step>& path, const Func& func) {
  if (region.provenance == Provenance::trusted) return {Verdict::proved, {}};
  if (region.provenance == Provenance::checked && !access.writes) return {Verdict::proved, {}};
  if (!access.region && access.indices.size() != region.ranges.size()) return {Verdict::unknown, {}};
  if (inside_conditions(access, region).empty()) return {Verdict::proved, {}};
  Bounds bounds = placed.bounds;
  assume_steps(bounds, path, placed.steps.size());
  return lies_inside(access, region, std::move(bounds), path, func);
}

}  // namespace

Decision lies_inside(const BlockAccess& access, const Region& region, Bounds bounds, std::vector<Step> steps,
                     const Func& func) {
  const std::vector<Expr> conditions = inside_conditions(access, region);
  assume_steps(bounds, access.steps);
  steps.insert(steps.end(), access.steps.begin(), access.steps.end());
  Decision worst{Verdict::proved, {}};
  for (const Expr& condition : conditions) {
    Decision decision = decide(func, bounds, steps, condition);
    if (decision.verdict == Verdict::wrong) return decision;
    if (decision.verdict == Verdict::unknown) worst = std::move(decision);
  }
  return worst;
}

std::vector<BlockAccess> block_accesses(const Block& block, bool through_regions) {
  std::vector<BlockAccess> accesses;
  AccessCollector(through_regions, accesses).run(block.f);
  return accesses;
}

void check_covers(const PlacedBlock& placed, Report& report) {
  const Block::Fields& f = placed.block->f;
  std::vector<Step> path = placed.steps;
  for (size_t i = 0; i < f.iters.size(); ++i) path.push_back(Step::of_iter(f.iters[i], f.bindings[i]));
  for (const BlockAccess& access : block_accesses(*placed.block, true)) {
    const char* rule = access.writes ? "block.writes_cover" : "block.reads_cover";
    const std::string what =
        fmt::format("block {}: the {} {} lies in the {}", f.name, access.writes ? "store to" : "load of",
                    describe_access(access), access.writes ? "writes" : "reads");
    bool covered = false;
    std::vector<Decision> refusals;
    std::vector<Region> regions = access.writes ? f.writes : f.reads;
    // What blocks inside read of the instance's own results is covered by its writes, and so are the outputs that a
    // reduction updates: that it reads them is promise 5.
    if (!access.writes && (access.region || f.reducer)) regions.insert(regions.end(), f.writes.begin(), f.writes.end());
    for (const Region& region : regions) {
      if (region.buffer != access.buffer) {
        // All of the memory that a view shows covers the view.
        covered |= region.buffer.get() == storage_of(access.buffer) && is_whole(region);
        continue;
      }
      Decision decision = covers(region, access, placed, path, report.func());
      covered |= decision.verdict == Verdict::proved;
      if (covered) break;
      refusals.push_back(std::move(decision));
    }
    if (covered) continue;
    if (refusals.empty() && storage_of(access.buffer) == access.buffer.get()) {
      report.wrong(rule, fmt::format("{}: they have no region of {}", what, access.buffer->name));
    } else {
      // Several regions may cover an access together, so one witness against each is none against all.
      report.decided(rule, refusals.size() == 1 ? refusals[0] : Decision{Verdict::unknown, {}}, what);
    }
  }
}

}  // namespace lathe
