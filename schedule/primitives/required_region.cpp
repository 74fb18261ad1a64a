#include "schedule/primitives/required_region.h"

#include <optional>

#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

class Collector {
 public:
  Collector(const Block& producer) : producer_(producer) {}

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
        enter(*s.as<Block>());
        break;
      default:
        break;
    }
  }

  std::optional<Region> result;

 private:
  void enter(const Block& block) {
    if (&block == &producer_) return;
    const std::vector<Substitution> outer = bindings_;
    Substitution map;
    for (size_t i = 0; i < block.f.iters.size(); ++i) map[block.f.iters[i].variable.get()] = block.f.bindings[i];
    bindings_.push_back(std::move(map));
    if (outer_blocks(block.f.body).empty()) {
      for (const Region& region : block.f.reads) add(region);
    } else {
      walk(block.f.body);
    }
    bindings_ = outer;
  }

  void add(Region region) {
    if (!writes(producer_, region.buffer)) return;
    for (size_t i = bindings_.size(); i-- > 0;) region = substitute(region, bindings_[i]);
    region = eliminate(region, axes_);
    region.buffer = producer_.f.writes[0].buffer;
    result = result ? bounding_region(*result, region) : region;
  }

  const Block& producer_;
  std::vector<Axis> axes_;
  std::vector<Substitution> bindings_;
};

}  // namespace

Region required_region(const Block& producer, const Stmt& loop) {
  Collector collector(producer);
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
  return region;
}

}  // namespace lathe
