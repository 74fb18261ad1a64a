#include "schedule/primitives/required_region.h"

#include <algorithm>
#include <optional>

#include "ir/analysis/regions.h"
#include "ir/analysis/relax.h"
#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

class Collector {
 public:
  Collector(const Block& producer, Bounds around) : producer_(producer), around_(std::move(around)) {}

  void walk(const Stmt& s) {
    if (!s) return;
    switch (s->kind) {
      case StmtKind::For: {
        const For* loop = s.as<For>();
        axes_.push_back({loop->variable, {loop->min, loop->extent}});
        walk(loop->body);
        axes_.pop_back();
        break;
      }
      case StmtKind::Seq:
        for (const Stmt& child : s.as<Seq>()->stmts) walk(child);
        break;
      case StmtKind::If:
        walk(s.as<If>()->then_case);
        walk(s.as<If>()->else_case);
        break;
      case StmtKind::Let:
        walk(s.as<Let>()->body);
        break;
      case StmtKind::While:
        walk(s.as<While>()->body);
        break;
      case StmtKind::Block:
        enter(s);
        break;
      default:
        break;
    }
  }

  std::optional<Region> result;
  std::vector<RequiredRegion::Relied> relied;

 private:
  void enter(const Stmt& s) {
    const Block& block = *s.as<Block>();
    const bool leaf = !has_blocks(block);
    const auto wanted = [&](const Region& region) { return writes(producer_, region.buffer); };
    if (&block == &producer_ || (leaf && std::none_of(block.f.reads.begin(), block.f.reads.end(), wanted))) return;
    const std::vector<Substitution> outer = bindings_;
    const size_t governed = governed_.size();
    Substitution map;
    for (size_t i = 0; i < block.f.iters.size(); ++i) map[block.f.iters[i].variable.get()] = block.f.bindings[i];
    bindings_.push_back(std::move(map));
    for (const Region& region : block.f.reads) {
      const bool known = std::any_of(governed_.begin(), governed_.begin() + static_cast<std::ptrdiff_t>(governed),
                                     [&](const Buffer& buffer) { return buffer == region.buffer; });
      if (!wanted(region) || known) continue;
      if (is_hint(region)) {
        governed_.push_back(region.buffer);
        if (!hint_holds(region, block.f.annotations, false)) relied.push_back({s, region});
      } else if (!leaf) {
        continue;
      }
      add(region);
    }
    if (!leaf) walk(block.f.body);
    governed_.resize(governed);
    bindings_ = outer;
  }

  void add(Region region) {
    for (size_t i = bindings_.size(); i-- > 0;) region = substitute(region, bindings_[i]);
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      std::optional<Range> range = eliminate(region.ranges[d], axes_);
      if (!range) range = relaxed(region.ranges[d]);
      region.ranges[d] = range ? *range : Range{index(0), region.buffer->shape[d]};
    }
    region.buffer = producer_.f.writes[0].buffer;
    result = result ? bounding_region(*result, region) : region;
  }

  /// The union over the loops below where indices are no affine forms: floats, quotients, choices.
  std::optional<Range> relaxed(const Range& range) const {
    Bounds bounds = around_;
    const Bounds::Mark outer = bounds.mark();
    for (const Axis& axis : axes_) bounds.bind(axis.variable, axis.domain);
    Relaxation relaxation(bounds, outer);
    const Expr low = relaxation.range(range.min).low;
    const Expr high = relaxation.range(range.min + range.extent - 1).high;
    if (!low || !high) return std::nullopt;
    const Expr extent = simplify(high - low + 1, around_);
    if (!as_int(extent)) return std::nullopt;
    return Range{simplify(low, around_), extent};
  }

  const Block& producer_;
  const Bounds around_;
  std::vector<Axis> axes_;
  std::vector<Substitution> bindings_;
  std::vector<Buffer> governed_;
};

}  // namespace

RequiredRegion required_region(const Block& producer, const Stmt& loop, const Bounds& around) {
  Bounds inside = around;
  inside.bind(loop.as<For>()->variable, Range{loop.as<For>()->min, loop.as<For>()->extent});
  Collector collector(producer, std::move(inside));
  collector.walk(loop.as<For>()->body);
  Region region = collector.result ? *collector.result : full_region(producer.f.writes[0].buffer);
  // Whole dimensions are recognized by a minimum of 0, so a loop that runs once must not hide it.
  const For* node = loop.as<For>();
  if (is_int(node->extent, 1)) region = substitute(region, {{node->variable.get(), node->min}});
  for (Range& range : region.ranges) {
    const LinearForm min = linear_form(range.min), extent = linear_form(range.extent);
    if (min.terms.empty()) range.min = index(min.constant);
    if (extent.terms.empty()) range.extent = index(extent.constant);
  }
  return {std::move(region), std::move(collector.relied)};
}

}  // namespace lathe
