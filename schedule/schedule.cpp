#include "schedule/schedule.h"

#include <fmt/format.h>

#include <unordered_set>

#include "ir/error.h"
#include "schedule/access.h"
#include "schedule/hints.h"
#include "schedule/rewrite.h"

namespace lathe {

Schedule::Schedule(Func func) : func_(func), original_(std::move(func)) {
  tiled_ = has_tiles(func_->body);
  for_each_stmt(func_->body, [&](const Stmt& s) { hinted_ |= s.as<Block>() && has_hints(*s.as<Block>()); });
}

std::vector<BlockRef> Schedule::blocks() const {
  std::vector<BlockRef> found;
  for_each_stmt(func_->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (block && s != func_->body) found.push_back({block->f.name});
  });
  return found;
}

BlockRef Schedule::block(const std::string& name) const {
  std::vector<std::string> known;
  for (const BlockRef& block : blocks()) {
    if (block.name == name) return block;
    known.push_back(block.name);
  }
  throw InputError(Mistake::value, unknown_name("block", name, known));
}

std::vector<LoopRef> Schedule::loops(const BlockRef& block) const {
  std::vector<LoopRef> found;
  for (const For* loop : loops_of(path_to(*this, block))) found.push_back({loop->variable});
  return found;
}

LoopRef Schedule::loop(const std::string& block, size_t depth) const {
  const std::vector<LoopRef> around = loops({block});
  if (depth >= around.size()) {
    throw InputError(Mistake::value,
                     fmt::format("block {} has {} loops around it, and none at depth {}", block, around.size(), depth));
  }
  return around[depth];
}

std::string Schedule::place(const LoopRef& loop) const {
  if (!names_places) return {};
  const Path path = path_to(*this, loop);
  const Path first = find_path(path.back(), [](const Stmt& s) { return s->kind == StmtKind::Block; });
  if (first.empty()) return loop.variable->name;
  return fmt::format("{}.{}", first.back().as<Block>()->f.name, loops_of(path).size() - 1);
}

const For& Schedule::node(const LoopRef& loop) const {
  index_.update(func_->body);
  if (const StmtNode* found = index_.node(loop.variable)) return *static_cast<const For*>(found);
  return *path_to(*this, loop).back().as<For>();
}
const Block& Schedule::node(const BlockRef& block) const {
  index_.update(func_->body);
  if (const StmtNode* found = index_.node(block.name)) return *static_cast<const Block*>(found);
  return *path_to(*this, block).back().as<Block>();
}

std::vector<BlockRef> Schedule::producers(const BlockRef& block) const {
  const Block& reader = node(block);
  std::vector<BlockRef> found;
  for_each_stmt(func_->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (!other || other == &reader || s == func_->body) return;
    for (const Region& region : other->f.writes) {
      if (reads(reader, region.buffer)) {
        found.push_back({other->f.name});
        return;
      }
    }
  });
  return found;
}

std::vector<BlockRef> Schedule::consumers(const BlockRef& block) const {
  const Block& writer = node(block);
  std::vector<BlockRef> found;
  for_each_stmt(func_->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (!other || other == &writer || s == func_->body) return;
    for (const Region& region : writer.f.writes) {
      if (reads(*other, region.buffer)) {
        found.push_back({other->f.name});
        return;
      }
    }
  });
  return found;
}

std::string Schedule::unique_name(const std::string& base, const std::vector<std::string>& others) const {
  std::unordered_set<std::string> taken(others.begin(), others.end());
  const auto note = [&](const std::string& name) {
    if (name.starts_with(base)) taken.insert(name);
  };
  for_each_stmt(func_->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block) return;
    if (s != func_->body) note(block->f.name);
    for (const Buffer& buffer : block->f.allocs) note(buffer->name);
  });
  for (const Buffer& buffer : buffer_params(func_)) note(buffer->name);
  std::string name = base;
  for (int i = 1; taken.contains(name); ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

std::vector<Stmt> Schedule::find(const LoopRef& loop) const {
  index_.update(func_->body);
  return index_.path(loop.variable);
}
std::vector<Stmt> Schedule::find(const BlockRef& block) const {
  index_.update(func_->body);
  return index_.path(block.name);
}

void Schedule::rollback(const Checkpoint& checkpoint) {
  func_ = checkpoint.func;
  record_.resize(checkpoint.applications);
}

void Schedule::commit(Stmt body, std::string line, bool hints) {
  if (tiled_) body = with_tile_regions(body);
  if (hinted_ && !hints) require_hints_kept(*this, body, line);
  hinted_ |= hints;
  func_ = with_body(func_, std::move(body));
  record_.push_back(std::move(line));
}

void Schedule::commit(Stmt body, std::vector<std::string> lines) {
  for (size_t i = 0; i + 1 < lines.size(); ++i) record_.push_back(std::move(lines[i]));
  commit(std::move(body), std::move(lines.back()));
}

}  // namespace lathe
