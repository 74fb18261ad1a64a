#include "schedule/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/structural.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

bool same_ranges(const Region& a, const Region& b) {
  if (a.ranges.size() != b.ranges.size()) return false;
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    if (!equal(a.ranges[d].min, b.ranges[d].min) || !equal(a.ranges[d].extent, b.ranges[d].extent)) return false;
  }
  return true;
}

bool same_iters(const Block& a, const Block& b) {
  return std::equal(
      a.f.iters.begin(), a.f.iters.end(), b.f.iters.begin(), b.f.iters.end(), [](const Iter& x, const Iter& y) {
        return x.variable == y.variable && equal(x.domain.min, y.domain.min) && equal(x.domain.extent, y.domain.extent);
      });
}

bool same_steps(const std::vector<Step>& a, const std::vector<Step>& b) {
  const auto same = [](const Expr& x, const Expr& y) { return x == y || (x && y && equal(x, y)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Step& x, const Step& y) {
    return x.kind == y.kind && x.variable == y.variable && same(x.expr, y.expr) && same(x.domain.min, y.domain.min) &&
           same(x.domain.extent, y.domain.extent);
  });
}

/// The blocks with hints at or below `s`, with the way to each.
void collect_hinted(const Stmt& s, Path& path, std::vector<Path>& found) {
  if (!s) return;
  path.push_back(s);
  switch (s->kind) {
    case StmtKind::For:
      collect_hinted(s.as<For>()->body, path, found);
      break;
    case StmtKind::Let:
      collect_hinted(s.as<Let>()->body, path, found);
      break;
    case StmtKind::If:
      collect_hinted(s.as<If>()->then_case, path, found);
      collect_hinted(s.as<If>()->else_case, path, found);
      break;
    case StmtKind::While:
      collect_hinted(s.as<While>()->body, path, found);
      break;
    case StmtKind::Seq:
      for (const Stmt& child : s.as<Seq>()->stmts) collect_hinted(child, path, found);
      break;
    case StmtKind::Block:
      if (has_hints(*s.as<Block>())) found.push_back(path);
      collect_hinted(s.as<Block>()->f.body, path, found);
      break;
    default:
      break;
  }
  path.pop_back();
}

std::vector<Path> hinted_blocks(const Stmt& root) {
  std::vector<Path> found;
  Path path;
  collect_hinted(root, path, found);
  return found;
}

/// Is the block picked by the inspector whose flag the annotation names?
bool stands_behind_inspector(const Path& path, const std::string& flag) {
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const If* choice = path[i].as<If>();
    if (!choice || path[i + 1] != choice->then_case) continue;
    bool found = false;
    for_each_expr(choice->condition, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      found |= load && load->buffer->name == flag;
    });
    if (found) return true;
  }
  return false;
}

class Keeper {
 public:
  Keeper(const Schedule& schedule, const std::string& application, const Stmt& after)
      : schedule_(schedule), application_(application), after_(with_body(schedule.func(), after)) {}

  void run(const Stmt& before) {
    std::map<std::string, Path> now;
    std::vector<Path> hinted = hinted_blocks(after_->body);
    for (Path& path : hinted) now.emplace(path.back().as<Block>()->f.name, path);
    const std::vector<Path> were = hinted_blocks(before);
    std::map<std::string, const Block*> old;
    for (const Path& path : were) old.emplace(path.back().as<Block>()->f.name, path.back().as<Block>());
    for (const Path& path : were) check_kept(path, now);
    for (const Path& path : hinted) {
      const auto found = old.find(path.back().as<Block>()->f.name);
      check_true(path, found == old.end() ? nullptr : found->second);
    }
  }

 private:
  [[noreturn]] void refuse_hint(const Stmt& culprit, const std::string& note) {
    refuse(schedule_, application_, 0, "every hint stays true", culprit, note);
  }

  static std::vector<const Region*> hints(const Block& block, bool writes) {
    std::vector<const Region*> found;
    for (const Region& region : writes ? block.f.writes : block.f.reads)
      if (is_hint(region)) found.push_back(&region);
    return found;
  }

  /// No hint gets lost, but with the last access that it speaks of.
  void check_kept(const Path& path, const std::map<std::string, Path>& now) {
    const Block& before = *path.back().as<Block>();
    const auto found = now.find(before.f.name);
    const Block* block = found == now.end() ? nullptr : found->second.back().as<Block>();
    Stmt survivor;
    if (!block) {
      for_each_stmt(after_->body, [&](const Stmt& s) {
        if (s.as<Block>() && s.as<Block>()->f.name == before.f.name) survivor = s;
      });
      block = survivor.as<Block>();
    }
    for (const bool writes : {false, true}) {
      for (const Region* hint : hints(before, writes)) {
        if (!block) refuse_hint(path.back(), fmt::format("would take its hint {} with it", print(*hint)));
        if (find_hint(*block, hint->buffer, writes) || accesses_of(*block, hint->buffer, writes).empty()) continue;
        refuse_hint(path.back(), fmt::format("would lose its hint {}", print(*hint)));
      }
    }
  }

  void check_true(const Path& path, const Block* before) {
    const Block& block = *path.back().as<Block>();
    const bool same_body = before && before->f.body == block.f.body && before->f.init == block.f.init &&
                           (before == &block || same_iters(*before, block));
    for (const bool writes : {false, true}) {
      for (const Region* hint : hints(block, writes)) {
        if (hint->provenance == Provenance::checked && !writes) {
          check_inspected(path, *hint, before);
          continue;
        }
        const Region* known = before ? find_hint(*before, hint->buffer, writes) : nullptr;
        if (same_body && known && known->provenance == hint->provenance && same_ranges(*known, *hint)) continue;
        if (same_accesses(block, before, *hint, writes)) continue;
        const std::vector<Decision> decisions = decide_hint(after_, path, *hint, writes);
        for (const Decision& decision : decisions) {
          if (decision.verdict == Verdict::proved) continue;
          refuse_hint(before ? Stmt(before) : path.back(),
                      decision.verdict == Verdict::wrong
                          ? fmt::format("would leave its hint {} where {}", print(*hint), decision.witness)
                          : fmt::format("is not proved to keep to its hint {}", print(*hint)));
        }
      }
    }
  }

  /// The same hint as it was, maybe of another buffer.
  static const Region* hint_before(const Block& before, const Region& hint, bool writes) {
    for (const Region* other : hints(before, writes)) {
      if (other->provenance == hint.provenance && other->block == hint.block && same_ranges(*other, hint)) return other;
    }
    return nullptr;
  }

  static bool same_indices(const BlockAccess& a, const BlockAccess& b) {
    return std::equal(a.indices.begin(), a.indices.end(), b.indices.begin(), b.indices.end(),
                      [](const Expr& x, const Expr& y) { return x == y || equal(x, y); });
  }

  /// The same elements under another buffer's name, or beside other statements.
  bool same_accesses(const Block& block, const Block* before, const Region& hint, bool writes) const {
    if (!before || !same_iters(block, *before)) return false;
    const Region* known = hint_before(*before, hint, writes);
    if (!known) return false;
    const auto now = accesses_of(block, hint.buffer, writes), then = accesses_of(*before, known->buffer, writes);
    return std::equal(now.begin(), now.end(), then.begin(), then.end(), [](const BlockAccess& a, const BlockAccess& b) {
      return same_steps(a.steps, b.steps) && same_indices(a, b);
    });
  }

  /// Does the block still make the accesses that the hint was given for, maybe others too, to a buffer of that form?
  bool still_accesses(const Block& block, const Block& before, const Region& hint) const {
    const Region* known = hint_before(before, hint, false);
    if (!known || !same_iters(block, before)) return false;
    const std::vector<Expr>&shape = hint.buffer->shape, &old_shape = known->buffer->shape;
    const bool same_shape = std::equal(shape.begin(), shape.end(), old_shape.begin(), old_shape.end(),
                                       [](const Expr& a, const Expr& b) { return equal(a, b); });
    return same_shape &&
           accesses_of(block, hint.buffer, false).size() >= accesses_of(before, known->buffer, false).size();
  }

  void check_inspected(const Path& path, const Region& hint, const Block* before) {
    const Block& block = *path.back().as<Block>();
    const auto flag = block.f.annotations.find(inspected_key(hint.buffer));
    if (flag == block.f.annotations.end()) {
      // Nothing rests on it yet, and other accesses will be checked like those that it was given for; but those stay.
      if (before && !still_accesses(block, *before, hint)) {
        refuse_hint(Stmt(before), fmt::format("would no longer read what its hint {} speaks of", print(hint)));
      }
      return;
    }
    const auto* name = std::get_if<std::string>(&flag->second);
    if (!name || !stands_behind_inspector(path, *name)) {
      refuse_hint(before ? Stmt(before) : path.back(),
                  fmt::format("leaves the inspector of its hint {} behind", print(hint)));
    }
    if (before && before->f.annotations.contains(flag->first) && !same_accesses(block, before, hint, false)) {
      refuse_hint(Stmt(before), fmt::format("would touch what the inspector of its hint {} has not seen", print(hint)));
    }
  }

  const Schedule& schedule_;
  const std::string& application_;
  const Func after_;
};

}  // namespace

std::vector<Step> steps_into(const Path& path) {
  std::vector<Step> steps;
  for (size_t i = 0; i < path.size(); ++i) {
    if (const For* loop = path[i].as<For>()) {
      steps.push_back(Step::of_loop(loop));
    } else if (const Let* let = path[i].as<Let>()) {
      steps.push_back(Step::of_value(let->variable, let->value));
    } else if (path[i].as<While>()) {
      steps.push_back(Step::of_unknown());
    } else if (const If* node = path[i].as<If>(); node && i + 1 < path.size()) {
      steps.push_back(
          Step::of_condition(path[i + 1] == node->then_case ? node->condition : logical_not(node->condition)));
    } else if (const Block* block = path[i].as<Block>()) {
      if (block->f.predicate) steps.push_back(Step::of_condition(block->f.predicate));
      for (size_t k = 0; k < block->f.iters.size(); ++k)
        steps.push_back(Step::of_iter(block->f.iters[k], block->f.bindings[k]));
    }
  }
  return steps;
}

std::vector<BlockAccess> accesses_of(const Block& block, const Buffer& buffer, bool writes) {
  std::vector<BlockAccess> found = block_accesses(block, false);
  std::erase_if(found, [&](const BlockAccess& a) { return a.buffer != buffer || a.writes != writes; });
  return found;
}

Region only_dimension(const Region& region, size_t dimension) {
  Region result = full_region(region.buffer);
  result.ranges[dimension] = region.ranges[dimension];
  return result;
}

std::vector<Decision> decide_hint(const Func& func, const Path& path, const Region& hint, bool writes) {
  const std::vector<Step> steps = steps_into(path);
  Bounds bounds(func);
  assume_steps(bounds, steps);
  std::vector<Decision> decisions(hint.ranges.size(), Decision{Verdict::proved, {}});
  for (BlockAccess& access : accesses_of(*path.back().as<Block>(), hint.buffer, writes)) {
    if (access.indices.size() != hint.ranges.size()) {
      std::fill(decisions.begin(), decisions.end(), Decision{Verdict::unknown, {}});
      continue;
    }
    Bounds inside = bounds;
    assume_steps(inside, access.steps);
    for (Expr& index : access.indices) index = simplify(index, inside);
    for (size_t d = 0; d < decisions.size(); ++d) {
      Decision decision = lies_inside(access, only_dimension(hint, d), bounds, steps, func);
      const auto worse = [](Verdict v) { return v == Verdict::wrong ? 2 : v == Verdict::unknown ? 1 : 0; };
      if (worse(decision.verdict) > worse(decisions[d].verdict)) decisions[d] = std::move(decision);
    }
  }
  return decisions;
}

const Region* find_hint(const Block& block, const Buffer& buffer, bool writes) {
  for (const Region& region : writes ? block.f.writes : block.f.reads)
    if (is_hint(region) && region.buffer == buffer) return &region;
  return nullptr;
}

bool has_hints(const Block& block) {
  return std::any_of(block.f.reads.begin(), block.f.reads.end(), is_hint) ||
         std::any_of(block.f.writes.begin(), block.f.writes.end(), is_hint);
}

void require_hints_kept(const Schedule& schedule, const Stmt& after, const std::string& application) {
  Keeper(schedule, application, after).run(schedule.func()->body);
}

}  // namespace lathe
