#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/analysis/verify_rules.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

class SpaceChecker : public Visitor {
 public:
  SpaceChecker(Report& report, const Device& device) : report_(report), device_(device), bounds_(report.func()) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  void visit_For(const For* node) override {
    visit(node->min);
    visit(node->extent);
    if (node->for_kind != ForKind::bound) return visit(node->body);
    check_axis(node);
    axes_.push_back(node->thread_axis);
    seen_.clear();
    visit(node->body);
    axes_.pop_back();
    seen_.clear();
  }

  void visit_Block(const Block* node) override {
    for (const Buffer& buffer : node->f.allocs) known(buffer);
    Visitor::visit_Block(node);
  }

  void visit_Store(const Store* node) override {
    const Load* source = node->value.as<Load>();
    if (source && is_copy(source->buffer, node->buffer)) {
      // The copy reaches both; their indices are computed here.
      for (const Expr& index : source->indices) visit(index);
    } else {
      reach("a store to", node->buffer);
      visit(node->value);
    }
    for (const Expr& index : node->indices) visit(index);
    if (node->mask) visit(node->mask);
  }

  void visit_Load(const Load* node) override {
    reach("a load from", node->buffer);
    Visitor::visit_Load(node);
  }

 private:
  void check_axis(const For* loop) {
    const ThreadAxis* axis = device_.find_axis(loop->thread_axis);
    if (!axis) {
      std::vector<std::string> names;
      names.reserve(device_.axes.size());
      for (const ThreadAxis& each : device_.axes) names.push_back(each.name());
      report_.wrong("space.axis",
                    fmt::format("loop {}: {}", loop->variable->name, unknown_name("axis", loop->thread_axis, names)));
      return;
    }
    const Interval min = bounds_.interval(loop->min), end = bounds_.interval(loop->min + loop->extent);
    if (min.min && *min.min >= 0 && end.max && *end.max <= axis->extent) return;
    const std::string message =
        fmt::format("loop {} runs over [{}, {} + {}) along axis {}, which has {} positions", loop->variable->name,
                    print(loop->min), print(loop->min), print(loop->extent), axis->name(), axis->extent);
    if (min.as_point() && end.as_point()) {
      report_.wrong("space.axis", message);
    } else {
      report_.unproved("space.axis", message);
    }
  }

  const MemorySpace* known(const Buffer& buffer) {
    const MemorySpace* space = device_.find_space(buffer->space);
    if (!space) {
      report_.wrong("space.known", fmt::format("buffer {}: {}", buffer->name,
                                               unknown_name("space", buffer->space, device_.space_names())));
    }
    return space;
  }

  bool is_copy(const Buffer& from, const Buffer& to) const {
    return !axes_.empty() && std::any_of(device_.copies.begin(), device_.copies.end(), [&](const SpaceCopy& copy) {
      return copy.from == from->space && copy.to == to->space;
    });
  }

  void reach(const char* what, const Buffer& buffer) {
    const MemorySpace* space = known(buffer);
    if (!space || space->addressing == Addressing::none) return;
    const bool reached = axes_.empty() ? space->reachable_from(host_agent)
                                       : std::any_of(axes_.begin(), axes_.end(), [&](const std::string& axis) {
                                           return space->reachable_from(axis);
                                         });
    if (reached) return;
    report_.wrong(
        "space.reachable",
        fmt::format("{} {} {} in space {}, which {} reach",
                    axes_.empty() ? "the host has" : fmt::format("{} has", fmt::join(axes_, ", ")), what, buffer->name,
                    space->name,
                    space->reach.empty() ? "none can" : fmt::format("only {} can", fmt::join(space->reach, ", "))));
  }

  Report& report_;
  const Device& device_;
  const Bounds bounds_;
  std::vector<std::string> axes_;  ///< of the loops around here
  std::unordered_set<const ExprNode*> seen_;
};

}  // namespace

void check_spaces(Report& report, const Device& device) {
  SpaceChecker(report, device).visit(report.func()->body);
}

}  // namespace lathe
