#include "schedule/statement_index.h"

#include <algorithm>
#include <array>
#include <span>

namespace lathe {
namespace {

/// What stands directly below: at most two statements, or null.
std::array<const Stmt*, 2> children(const Stmt& s) {
  if (!s) return {};
  switch (s->kind) {
    case StmtKind::For:
      return {&s.as<For>()->body, nullptr};
    case StmtKind::Block:
      return {&s.as<Block>()->f.body, nullptr};
    case StmtKind::Let:
      return {&s.as<Let>()->body, nullptr};
    case StmtKind::If:
      return {&s.as<If>()->then_case, s.as<If>()->else_case ? &s.as<If>()->else_case : nullptr};
    case StmtKind::While:
      return {&s.as<While>()->body, nullptr};
    default:
      return {};
  }
}

std::span<const Stmt> listed(const Stmt& s) {
  if (!s) return {};
  if (const Seq* seq = s.as<Seq>()) return seq->stmts;
  return {&s, 1};
}

}  // namespace

void StatementIndex::clear() {
  entries_.clear();
  names_.clear();
  root_ = nullptr;
}

StatementIndex::Key StatementIndex::key(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::For:
      return s.as<For>()->variable.get();
    case StmtKind::Block:
      return &*names_.insert(s.as<Block>()->f.name).first;
    default:
      return s.get();
  }
}

void StatementIndex::update(const Stmt& root) {
  if (root == root_) return;
  ++number_;
  place_children(root_, root, nullptr);
  root_ = root;
}

void StatementIndex::place_children(const Stmt& before, const Stmt& now, Key owner) {
  if (before == now) return;
  std::span<const Stmt> old = listed(before), stmts = listed(now);
  while (!old.empty() && !stmts.empty() && old.front() == stmts.front()) {
    old = old.subspan(1);
    stmts = stmts.subspan(1);
  }
  while (!old.empty() && !stmts.empty() && old.back() == stmts.back()) {
    old = old.first(old.size() - 1);
    stmts = stmts.first(stmts.size() - 1);
  }
  for (const Stmt& s : stmts) place(s, owner);
}

void StatementIndex::place(const Stmt& s, Key parent) {
  const std::array<const Stmt*, 2> now = children(s);
  if (!now[0]) return;
  const Key here = key(s);
  Entry& entry = entries_[here];
  entry.parent = parent;
  if (entry.node == s) return;
  const Stmt before = std::exchange(entry.node, s);
  const std::array<const Stmt*, 2> old = children(before);
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i]) place_children(old[i] ? *old[i] : Stmt(), *now[i], here);
  }
}

StatementIndex::Key StatementIndex::known(const std::string& block) const {
  const auto name = names_.find(block);
  return name == names_.end() ? nullptr : &*name;
}

std::vector<Stmt> StatementIndex::path(const VarRef& loop) {
  std::vector<Stmt> path;
  return find(loop.get(), &path) ? path : std::vector<Stmt>{};
}

std::vector<Stmt> StatementIndex::path(const std::string& block) {
  std::vector<Stmt> path;
  return find(known(block), &path) ? path : std::vector<Stmt>{};
}

const StmtNode* StatementIndex::node(const VarRef& loop) {
  return find(loop.get(), nullptr);
}

const StmtNode* StatementIndex::node(const std::string& block) {
  return find(known(block), nullptr);
}

const StmtNode* StatementIndex::find(Key key, std::vector<Stmt>* path) {
  if (!key || !entries_.contains(key)) return nullptr;
  if (const StmtNode* found = descend(key, path)) return found;
  // What was taken out, moved or put back may have left entries that are not so: all are made anew, once.
  const Stmt root = std::exchange(root_, nullptr);
  entries_.clear();
  update(root);
  return entries_.contains(key) ? descend(key, path) : nullptr;
}

const StmtNode* StatementIndex::descend(Key key, std::vector<Stmt>* path) {
  constexpr size_t deepest = 4096;
  chain_.clear();
  Entry* above = nullptr;
  for (; key; key = chain_.back()->parent) {
    const auto entry = entries_.find(key);
    if (entry == entries_.end() || chain_.size() == deepest) return nullptr;
    if (!path && entry->second.seen == number_) {
      above = &entry->second;
      break;
    }
    chain_.push_back(&entry->second);
  }
  if (chain_.empty()) return above->node.get();
  if (path) {
    path->clear();
    path->reserve(2 * chain_.size());
  }
  std::array<const Stmt*, 2> below = above ? children(above->node) : std::array<const Stmt*, 2>{&root_, nullptr};
  for (size_t i = chain_.size(); i-- > 0;) {
    const Stmt& wanted = chain_[i]->node;
    const auto inside = [&](const Stmt* s) {
      const std::span<const Stmt> stmts = s ? listed(*s) : std::span<const Stmt>();
      return std::find(stmts.begin(), stmts.end(), wanted) != stmts.end();
    };
    const auto holder = std::find_if(below.begin(), below.end(), inside);
    if (holder == below.end()) return nullptr;
    if (path && (*holder)->as<Seq>()) path->push_back(**holder);
    if (path) path->push_back(wanted);
    chain_[i]->seen = number_;
    below = children(wanted);
  }
  return chain_.front()->node.get();
}

}  // namespace lathe
