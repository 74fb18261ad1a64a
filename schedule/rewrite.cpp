#include "schedule/rewrite.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

/// The path from the wanted statement up, so that nothing is counted on the way to where it is not.
bool descend(const Stmt& s, const std::function<bool(const Stmt&)>& wanted, Path& path) {
  if (wanted(s)) {
    path.push_back(s);
    return true;
  }
  const auto into = [&](const Stmt& child) { return child && descend(child, wanted, path); };
  bool found = false;
  switch (s->kind) {
    case StmtKind::For:
      found = into(s.as<For>()->body);
      break;
    case StmtKind::Block:
      found = into(s.as<Block>()->f.body);
      break;
    case StmtKind::Let:
      found = into(s.as<Let>()->body);
      break;
    case StmtKind::If:
      found = into(s.as<If>()->then_case) || into(s.as<If>()->else_case);
      break;
    case StmtKind::While:
      found = into(s.as<While>()->body);
      break;
    case StmtKind::Seq:
      for (const Stmt& child : s.as<Seq>()->stmts) {
        found = into(child);
        if (found) break;
      }
      break;
    case StmtKind::Store:
    case StmtKind::Eval:
    case StmtKind::Assert:
      break;
  }
  if (found) path.push_back(s);
  return found;
}

Stmt with_child(const Stmt& parent, const Stmt& child, const Stmt& replacement) {
  const auto pick = [&](const Stmt& s) { return s == child ? replacement : s; };
  switch (parent->kind) {
    case StmtKind::For:
      return with_body(*parent.as<For>(), replacement);
    case StmtKind::Block:
      return with_fields(*parent.as<Block>(), [&](Block::Fields& f) { f.body = replacement; });
    case StmtKind::Let:
      return Let::make(parent.as<Let>()->variable, parent.as<Let>()->value, replacement);
    case StmtKind::If: {
      const If* node = parent.as<If>();
      return If::make(node->condition, pick(node->then_case), pick(node->else_case));
    }
    case StmtKind::While:
      return While::make(parent.as<While>()->condition, replacement);
    case StmtKind::Seq: {
      std::vector<Stmt> stmts;
      for (const Stmt& s : parent.as<Seq>()->stmts) stmts.push_back(pick(s));
      return Seq::make(std::move(stmts));
    }
    default:
      break;
  }
  LATHE_CHECK(false, "a statement without children has none to replace");
}

}  // namespace

Path find_path(const Stmt& root, const std::function<bool(const Stmt&)>& wanted) {
  Path path;
  descend(root, wanted, path);
  std::reverse(path.begin(), path.end());
  return path;
}

Path path_to(const Schedule& schedule, const BlockRef& block) {
  Path path = schedule.find(block);
  if (path.empty()) schedule.block(block.name);
  return path;
}

Path path_to(const Schedule& schedule, const LoopRef& loop) {
  Path path = schedule.find(loop);
  if (path.empty()) {
    throw InputError(Mistake::value, fmt::format("the schedule has no loop {}: it was split, fused or moved away",
                                                 loop.variable ? loop.variable->name : "(null)"));
  }
  return path;
}

Stmt replace_last(const Path& path, const Stmt& replacement) {
  Stmt result = replacement;
  for (size_t i = path.size() - 1; i-- > 0;) result = with_child(path[i], path[i + 1], result);
  return result;
}

Stmt remove_last(const Path& path) {
  size_t level = path.size() - 1;
  while (level > 0) {
    const Stmt& parent = path[level - 1];
    const Seq* seq = parent.as<Seq>();
    if (seq) {
      std::vector<Stmt> rest;
      for (const Stmt& s : seq->stmts) {
        if (s != path[level]) rest.push_back(s);
      }
      if (!rest.empty() || level == 1) {
        return replace_last(Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(level)),
                            Seq::make(std::move(rest)));
      }
    } else if (parent->kind != StmtKind::For && !(parent.as<Block>() && !parent.as<Block>()->f.iters.empty())) {
      break;
    }
    --level;
  }
  return replace_last(Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(level) + 1), Seq::make({}));
}

Stmt with_body(const For& loop, Stmt body) {
  return For::make(loop.variable, loop.min, loop.extent, loop.for_kind, std::move(body), loop.annotations,
                   loop.thread_axis);
}

Stmt with_fields(const Block& block, const std::function<void(Block::Fields&)>& change) {
  Block::Fields fields = block.f;
  change(fields);
  return Block::make(std::move(fields));
}

std::vector<Stmt> outer_blocks(const Stmt& s) {
  std::vector<Stmt> found;
  const std::function<void(const Stmt&)> walk = [&](const Stmt& at) {
    if (!at) return;
    switch (at->kind) {
      case StmtKind::Block:
        found.push_back(at);
        break;
      case StmtKind::For:
        walk(at.as<For>()->body);
        break;
      case StmtKind::Let:
        walk(at.as<Let>()->body);
        break;
      case StmtKind::If:
        walk(at.as<If>()->then_case);
        walk(at.as<If>()->else_case);
        break;
      case StmtKind::While:
        walk(at.as<While>()->body);
        break;
      case StmtKind::Seq:
        for (const Stmt& child : at.as<Seq>()->stmts) walk(child);
        break;
      default:
        break;
    }
  };
  walk(s);
  return found;
}

namespace {

bool holds_block(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::Block:
      return true;
    case StmtKind::For:
      return holds_block(s.as<For>()->body);
    case StmtKind::Let:
      return holds_block(s.as<Let>()->body);
    case StmtKind::If:
      return holds_block(s.as<If>()->then_case) || (s.as<If>()->else_case && holds_block(s.as<If>()->else_case));
    case StmtKind::While:
      return holds_block(s.as<While>()->body);
    case StmtKind::Seq:
      return std::any_of(s.as<Seq>()->stmts.begin(), s.as<Seq>()->stmts.end(), holds_block);
    case StmtKind::Store:
    case StmtKind::Eval:
    case StmtKind::Assert:
      return false;
  }
  return false;
}

}  // namespace

bool has_blocks(const Block& block) {
  return holds_block(block.f.body);
}

bool asserts(const Block& block) {
  bool found = false;
  for_each_stmt(block.f.body, [&](const Stmt& s) { found |= s.as<Assert>() != nullptr; });
  return found;
}

std::vector<Stmt> bare_statements(const Stmt& s) {
  std::vector<Stmt> found;
  const std::function<void(const Stmt&)> walk = [&](const Stmt& at) {
    switch (at->kind) {
      case StmtKind::Block:
        break;
      case StmtKind::For:
        walk(at.as<For>()->body);
        break;
      case StmtKind::Seq:
        for (const Stmt& child : at.as<Seq>()->stmts) walk(child);
        break;
      default:
        found.push_back(at);
    }
  };
  walk(s);
  return found;
}

bool reads(const Block& block, const Buffer& buffer) {
  for (const Region& region : block.f.reads) {
    if (region.buffer == buffer) return true;
  }
  return false;
}

bool writes(const Block& block, const Buffer& buffer) {
  for (const Region& region : block.f.writes) {
    if (region.buffer == buffer) return true;
  }
  return false;
}

bool drives(const Block& block, IterKind kind, const For& loop) {
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == kind && uses_var(block.f.bindings[i], loop.variable.get())) return true;
  }
  return false;
}

std::optional<size_t> iter_moved_by(const Block& block, const VarRef& loop) {
  std::optional<size_t> found;
  for (size_t i = 0; i < block.f.bindings.size(); ++i) {
    if (!uses_var(block.f.bindings[i], loop.get())) continue;
    if (found || block.f.bindings[i] != Expr(loop)) return std::nullopt;
    found = i;
  }
  return found;
}

const Block* root_block(const Func& func) {
  const Block* block = func->body.as<Block>();
  return block && block->f.iters.empty() ? block : nullptr;
}

std::vector<Stmt> outermost_statements(const Func& func) {
  const Block* root = root_block(func);
  const Stmt& body = root ? root->f.body : func->body;
  return body.as<Seq>() ? body.as<Seq>()->stmts : std::vector<Stmt>{body};
}

bool is_allocated(const Func& func, const Buffer& buffer) {
  if (const Block* root = root_block(func)) {
    if (std::find(root->f.allocs.begin(), root->f.allocs.end(), buffer) != root->f.allocs.end()) return true;
  }
  for (const Buffer& allocated : allocations(func)) {
    if (allocated == buffer) return true;
  }
  return false;
}

Stmt add_allocation(const Stmt& body, const Buffer& buffer) {
  const Block* root = body.as<Block>();
  if (root && root->f.iters.empty()) {
    return with_fields(*root, [&](Block::Fields& f) { f.allocs.push_back(buffer); });
  }
  Block::Fields fields;
  fields.name = "root";
  fields.allocs = {buffer};
  fields.body = body;
  return Block::make(std::move(fields));
}

Stmt remove_allocation(const Stmt& body, const Buffer& buffer) {
  class Remover : public Mutator {
   public:
    explicit Remover(const Buffer& buffer) : buffer_(buffer) {}
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e; }

   protected:
    Stmt mutate_Block(const Stmt& s, const Block* node) override {
      Block::Fields fields = node->f;
      if (std::erase(fields.allocs, buffer_) > 0) return Block::make(std::move(fields));
      const Stmt inner = mutate(node->f.body);
      return inner == node->f.body ? s : with_fields(*node, [&](Block::Fields& f) { f.body = inner; });
    }

   private:
    const Buffer& buffer_;
  };
  return Remover(buffer).mutate(body);
}

Stmt replace_declared_buffers(const Stmt& body, const BufferMap& map) {
  class Replacer : public Mutator {
   public:
    explicit Replacer(const BufferMap& map) : map_(map) {}
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e; }

   protected:
    Stmt mutate_Block(const Stmt& s, const Block* node) override {
      const Block::Fields& f = node->f;
      const auto listed = [&](const Region& region) { return map_.contains(region.buffer.get()); };
      const bool declared =
          std::any_of(f.reads.begin(), f.reads.end(), listed) || std::any_of(f.writes.begin(), f.writes.end(), listed);
      const bool allocated = std::any_of(f.allocs.begin(), f.allocs.end(),
                                         [&](const Buffer& buffer) { return map_.contains(buffer.get()); });
      if (!has_blocks(*node)) return declared || allocated ? replace_buffers(s, map_) : s;
      const Stmt inner = mutate(f.body);
      if (inner == f.body && !declared && !allocated) return s;
      const Stmt shell = with_fields(*node, [](Block::Fields& fields) { fields.body = Seq::make({}); });
      const Stmt changed = declared || allocated ? replace_buffers(shell, map_) : shell;
      return with_fields(*changed.as<Block>(), [&](Block::Fields& fields) { fields.body = inner; });
    }
    /// A choice between tiles stands in no block of its own.
    Stmt mutate_If(const Stmt& s, const If* node) override {
      const Stmt asked = replace_buffers(Eval::make(node->condition), map_);
      const Stmt then_case = Mutator::mutate(node->then_case);
      const Stmt else_case = node->else_case ? Mutator::mutate(node->else_case) : nullptr;
      const Expr& condition = asked.as<Eval>()->value;
      if (condition == node->condition && then_case == node->then_case && else_case == node->else_case) return s;
      return If::make(condition, then_case, else_case);
    }

   private:
    const BufferMap& map_;
  };
  return Replacer(map).mutate(body);
}

Stmt replace_loads(const Stmt& s, const Buffer& buffer, const Expr& value) {
  class Replacer : public Mutator {
   public:
    Replacer(const Buffer& buffer, const Expr& value) : buffer_(buffer), value_(value) {}

   protected:
    Expr mutate_Load(const Expr& e, const Load* node) override {
      return node->buffer == buffer_ ? value_ : Mutator::mutate_Load(e, node);
    }

   private:
    const Buffer& buffer_;
    const Expr& value_;
  };
  return Replacer(buffer, value).mutate(s);
}

Stmt rewrite_blocks(const Stmt& s, const std::function<Stmt(const Block&)>& f) {
  if (!s) return s;
  switch (s->kind) {
    case StmtKind::Block:
      return f(*s.as<Block>());
    case StmtKind::For:
      return with_body(*s.as<For>(), rewrite_blocks(s.as<For>()->body, f));
    case StmtKind::Let:
      return Let::make(s.as<Let>()->variable, s.as<Let>()->value, rewrite_blocks(s.as<Let>()->body, f));
    case StmtKind::If: {
      const If* node = s.as<If>();
      return If::make(node->condition, rewrite_blocks(node->then_case, f), rewrite_blocks(node->else_case, f));
    }
    case StmtKind::While:
      return While::make(s.as<While>()->condition, rewrite_blocks(s.as<While>()->body, f));
    case StmtKind::Seq: {
      std::vector<Stmt> stmts;
      for (const Stmt& child : s.as<Seq>()->stmts) stmts.push_back(rewrite_blocks(child, f));
      return Seq::make(std::move(stmts));
    }
    default:
      return s;
  }
}

Stmt substitute_loops(const Stmt& s, const Substitution& map) {
  switch (s->kind) {
    case StmtKind::Block:
      return with_fields(*s.as<Block>(), [&](Block::Fields& f) {
        for (Expr& binding : f.bindings) binding = substitute(binding, map);
        f.predicate = substitute(f.predicate, map);
      });
    case StmtKind::For: {
      const For* loop = s.as<For>();
      return For::make(loop->variable, substitute(loop->min, map), substitute(loop->extent, map), loop->for_kind,
                       substitute_loops(loop->body, map), loop->annotations, loop->thread_axis);
    }
    case StmtKind::Seq: {
      std::vector<Stmt> stmts;
      for (const Stmt& child : s.as<Seq>()->stmts) stmts.push_back(substitute_loops(child, map));
      return Seq::make(std::move(stmts));
    }
    default:
      return substitute(s, map);
  }
}

std::vector<const For*> loops_of(const Path& path) {
  std::vector<const For*> loops;
  for (const Stmt& s : path) {
    if (const For* loop = s.as<For>()) loops.push_back(loop);
  }
  return loops;
}

void refuse(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
            const Stmt& culprit, const std::string& note, const std::string& advice) {
  std::string message =
      fmt::format("{} refused: condition {}, {}\n{}", application, condition, text,
                  schedule.shows_func_when_refused ? print_marked(schedule.func(), culprit, note) : note);
  if (!advice.empty()) {
    if (message.back() != '\n') message += '\n';
    message += advice;
  }
  throw Refusal(application.substr(0, application.find('(')), condition, std::move(message));
}

}  // namespace lathe
