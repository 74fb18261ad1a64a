#include "schedule/statement_index.h"

#include <algorithm>
#include <array>
#include <span>

namespace lathe {
namespace {

/// What stands directly below: at most two statements.
std::array<Stmt, 2> children(const Stmt& s) {
  if (!s) return {};
  switch (s->kind) {
    case StmtKind::For:
      return {s.as<For>()->body, nullptr};
    case StmtKind::Block:
      return {s.as<Block>()->f.body, nullptr};
    case StmtKind::Let:
      return {s.as<Let>()->body, nullptr};
    case StmtKind::If:
      return {s.as<If>()->then_case, s.as<If>()->else_case};
    case StmtKind::While:
      return {s.as<While>()->body, nullptr};
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
  const std::array<Stmt, 2> now = children(s);
  if (!now[0] && !now[1]) return;
  const Key here = key(s);
  Entry& entry = entries_[here];
  entry.parent = parent;
  if (entry.node == s) return;
  const std::array<Stmt, 2> before = children(entry.node);
  entry.node = s;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i]) place_children(before[i], now[i], here);
  }
}

std::vector<Stmt> StatementIndex::path(const VarRef& loop) {
  return loop ? find(loop.get()) : std::vector<Stmt>{};
}

std::vector<Stmt> StatementIndex::path(const std::string& block) {
  const auto name = names_.find(block);
  return name == names_.end() ? std::vector<Stmt>{} : find(&*name);
}

std::vector<Stmt> StatementIndex::find(Key key) {
  if (!entries_.contains(key)) return {};
  std::vector<Stmt> path = descend(key);
  if (!path.empty()) return path;
  // What was taken out, moved or put back may have left entries that are not so: all are made anew, once.
  const Stmt root = std::exchange(root_, nullptr);
  entries_.clear();
  update(root);
  return entries_.contains(key) ? descend(key) : std::vector<Stmt>{};
}

std::vector<Stmt> StatementIndex::descend(Key key) const {
  constexpr size_t deepest = 4096;
  std::vector<const Entry*> chain;
  chain.reserve(16);
  for (; key; key = chain.back()->parent) {
    const auto entry = entries_.find(key);
    if (entry == entries_.end() || chain.size() == deepest) return {};
    chain.push_back(&entry->second);
  }
  std::vector<Stmt> path;
  path.reserve(2 * chain.size());
  std::array<Stmt, 2> below{root_, nullptr};
  for (size_t i = chain.size(); i-- > 0;) {
    const Stmt& wanted = chain[i]->node;
    const auto inside = [&](const Stmt& s) {
      const std::span<const Stmt> stmts = listed(s);
      return std::find(stmts.begin(), stmts.end(), wanted) != stmts.end();
    };
    const auto holder = std::find_if(below.begin(), below.end(), inside);
    if (holder == below.end()) return {};
    if (holder->as<Seq>()) path.push_back(*holder);
    path.push_back(wanted);
    below = children(wanted);
  }
  return path;
}

}  // namespace lathe
