#include "schedule/primitives/inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/reduction.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/copy_source.h"

namespace lathe {
namespace {

const char* const condition_text =
    "where a checked hint says what is read, block copies from a buffer that still holds the same below loop, no "
    "reduction starts below loop and goes on around it, and what loop computes decides no index";

/// Pushes a condition into every load, which then touches nothing where it is false.
class Masker : public Mutator {
 public:
  explicit Masker(const Expr& mask) : mask_(mask) {}

 protected:
  Expr mutate_Load(const Expr&, const Load* node) override {
    bool changed = false;
    std::vector<Expr> indices = mutate_all(node->indices, &changed);
    return Load::make(node->buffer, std::move(indices), logical_and(mask_, node->mask));
  }

 private:
  const Expr& mask_;
};

Expr masked(const Expr& e, const Expr& mask) {
  return mask ? Masker(mask).mutate(e) : e;
}

/// Loads of a copy become loads of what was copied, one step up the chain.
class LoadRedirector : public Mutator {
 public:
  LoadRedirector(const Buffer& copy, const CopySource& source) : copy_(copy), source_(source) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (node->buffer != copy_) return Mutator::mutate_Load(e, node);
    bool changed = false;
    const std::vector<Expr> at = mutate_all(node->indices, &changed);
    const Substitution map = iters_at(*source_.block.as<Block>(), source_.store->indices, at);
    std::vector<Expr> from;
    from.reserve(source_.load->indices.size());
    for (const Expr& index : source_.load->indices) from.push_back(substitute(index, map));
    return Load::make(source_.load->buffer, std::move(from), node->mask ? mutate(node->mask) : nullptr);
  }

 private:
  const Buffer& copy_;
  const CopySource& source_;
};

}  // namespace

Versioning::Versioning(const Schedule& schedule, std::string application, int condition, Path path,
                       const Path& producer, std::vector<RequiredRegion::Relied> relied)
    : schedule_(schedule),
      application_(std::move(application)),
      condition_(condition),
      path_(std::move(path)),
      producer_(*producer.back().as<Block>()),
      relied_(std::move(relied)) {
  for (const Stmt& s : path_) {
    if (s.as<Block>()) around_.clear();
    const For* loop = s.as<For>();
    if (!loop) continue;
    around_.push_back(loop);
    if (loop->for_kind == ForKind::vectorized) refuse_version(s, "is vectorized, and cannot choose between two tiles");
  }
  check_reductions();
  find_root();
  make_inspectors();
}

void Versioning::refuse_version(const Stmt& culprit, const std::string& note) const {
  const RequiredRegion::Relied& relied = relied_.front();
  refuse(schedule_, application_, condition_, condition_text, culprit, note,
         fmt::format("the hint {} of block {} is checked when the kernel runs", print(relied.hint),
                     relied.block.as<Block>()->f.name));
}

void Versioning::check_reductions() const {
  for_each_stmt(path_.back(), [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block || !block->f.init) return;
    for (size_t i = 0; i < block->f.iters.size(); ++i) {
      if (block->f.iters[i].kind == IterKind::space) continue;
      for (const For* loop : around_) {
        if (uses_var(block->f.bindings[i], loop->variable.get()))
          refuse_version(s,
                         fmt::format("reduces along {}; decompose_reduction takes its init out", loop->variable->name));
      }
    }
  });
}

void Versioning::find_root() {
  const Stmt& body = schedule_.func()->body;
  for (const Region& written : producer_.f.writes) {
    Buffer root = written.buffer;
    std::optional<CopySource> source = copy_source(body, root);
    if (!source) refuse_version(Stmt(&producer_), "computes what it writes, so there is nothing else to read");
    Stmt first = source->block;
    while (source) {
      root = source->load->buffer;
      first = source->block;
      for (const Expr& index : source->load->indices) {
        if (has_load(index)) refuse_version(first, "copies from where data says");
      }
      source = copy_source(body, root);
    }
    // What is copied below the loop itself is read at the same time either way. Earlier links of the chain were filled
    // before: from then on, and while any loop around runs, nothing may write the root.
    const bool direct = first == Stmt(&producer_);
    const auto outermost = std::find_if(path_.begin(), path_.end(), [](const Stmt& s) { return s.as<For>(); });
    bool copied = false, done = false;
    const StmtNode* last = nullptr;
    for_each_stmt(*outermost, [&](const Stmt& s) { last = s.get(); });
    for_each_stmt(body, [&](const Stmt& s) {
      copied |= s == first;
      const Block* block = s.as<Block>();
      const bool looked_at = block && !has_blocks(*block) && copied && !done && !direct;
      if (looked_at && writes(*block, root))
        refuse_version(s, fmt::format("overwrites {}, the root of the copies", root->name));
      done |= s.get() == last;
    });
    roots_[written.buffer.get()] = root;
  }
}

std::string Versioning::fresh_name(const std::string& base) const {
  std::string name = schedule_.unique_name(base);
  for (int i = 1; std::count(names_.begin(), names_.end(), name) > 0; ++i)
    name = schedule_.unique_name(fmt::format("{}_{}", base, i));
  names_.push_back(name);
  return name;
}

void Versioning::make_inspectors() {
  std::vector<Expr> shape;
  shape.reserve(around_.size());
  for (const For* loop : around_) shape.push_back(loop->extent);
  struct Question {
    Path path;
    BlockAccess access;
    Region hint;
    size_t dimension;
  };
  std::vector<Question> questions;
  for (const RequiredRegion::Relied& relied : relied_) {
    const Path inner = find_path(path_.back(), [&](const Stmt& s) { return s == relied.block; });
    Path whole(path_.begin(), path_.end() - 1);
    whole.insert(whole.end(), inner.begin(), inner.end());
    const std::vector<Decision> decisions = decide_hint(schedule_.func(), whole, relied.hint, false);
    for (const BlockAccess& access : accesses_of(*relied.block.as<Block>(), relied.hint.buffer, false)) {
      if (access.indices.size() != decisions.size()) refuse_version(relied.block, "reads at a flat index");
      for (size_t d = 0; d < decisions.size(); ++d) {
        if (decisions[d].verdict != Verdict::proved) questions.push_back({inner, access, relied.hint, d});
      }
    }
  }
  shape.push_back(index(static_cast<std::int64_t>(questions.size())));
  const std::string cache = producer_.f.writes[0].buffer->name;
  flags_ = BufferNode::make(fresh_name("keeps_to_hint_of_" + cache), boolean, std::move(shape));
  for (size_t i = 0; i < questions.size(); ++i) {
    const Question& q = questions[i];
    inspectors_.push_back(inspector(q.path, q.access, q.hint, q.dimension, i));
  }
}

Stmt Versioning::inspector(const Path& block, const BlockAccess& access, const Region& hint, size_t dimension,
                           size_t slot) {
  // From the loop's body to the access: loops stay, iters and Lets are written out, conditions are collected.
  std::vector<Step> steps = steps_into(Path(block.begin() + 1, block.end()));
  steps.insert(steps.end(), access.steps.begin(), access.steps.end());
  std::vector<const For*> loops;
  std::vector<Expr> guards;
  Substitution values;
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::loop:
        loops.push_back(step.loop);
        break;
      case Step::Kind::value:
      case Step::Kind::iter:
        values[step.variable.get()] = substitute(step.expr, values);
        break;
      case Step::Kind::condition:
        for (Expr& guard : conjuncts_of(substitute(step.expr, values))) guards.push_back(std::move(guard));
        break;
      case Step::Kind::unknown:
        refuse_version(block.back(),
                       fmt::format("reads {} in a while loop or under a vector's mask", hint.buffer->name));
    }
  }
  const Expr& at = access.indices[dimension];
  if (!at->dtype.is_scalar()) refuse_version(block.back(), "reads at a vector of indices");
  const Range& range = hint.ranges[dimension];
  const Expr inside = substitute(logical_and(le(range.min, at), lt(at, range.min + range.extent)), values);

  // An earlier inspector's choice says nothing of indices: both of its tiles read the same.
  std::erase_if(guards, [&](const Expr& guard) {
    bool choice = false;
    for_each_expr(guard, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      choice |= load && load->buffer->name.starts_with("keeps_to_hint_of_");
    });
    return choice;
  });
  std::unordered_set<const Var*> local, used;
  for (const For* loop : loops) local.insert(loop->variable.get());
  const auto use = [&](const Expr& e) {
    for (const VarRef& v : used_vars(e)) used.insert(v.get());
  };
  const auto concerns = [&](const Expr& guard) {
    bool any = false, met = false;
    for (const VarRef& v : used_vars(guard)) {
      any |= local.contains(v.get());
      met |= used.contains(v.get()) && local.contains(v.get());
    }
    return met || !any;
  };
  use(inside);
  std::vector<Expr> kept;
  for (size_t before = 0; before != used.size();) {
    before = used.size();
    kept.clear();
    for (const Expr& guard : guards) {
      if (!concerns(guard)) continue;
      kept.push_back(guard);
      use(guard);
    }
    for (const For* loop : loops) {
      if (!used.contains(loop->variable.get())) continue;
      use(loop->min);
      use(loop->extent);
    }
  }

  // What depends on data becomes a mask of the loads behind it, the rest the block's predicate.
  Expr predicate, mask;
  for (const Expr& guard : kept) {
    if (has_load(guard)) {
      mask = logical_and(mask, masked(guard, mask));
    } else {
      predicate = logical_and(predicate, guard);
    }
  }
  Expr term = masked(inside, mask);
  if (mask) term = logical_or(logical_not(mask), term);

  Block::Fields f;
  f.name = fresh_name("inspect_" + hint.buffer->name);
  Substitution iters;
  std::vector<Expr> at_flags;
  for (const For* loop : around_) {
    const VarRef iter = Var::make("v" + loop->variable->name);
    f.iters.push_back({iter, {loop->min, loop->extent}, IterKind::space});
    f.bindings.emplace_back(loop->variable);
    iters[loop->variable.get()] = iter;
    at_flags.push_back(Expr(iter) - loop->min);
  }
  at_flags.push_back(index(static_cast<std::int64_t>(slot)));
  Substitution fresh;
  std::vector<std::pair<const For*, VarRef>> nest;
  for (const For* loop : loops) {
    if (!used.contains(loop->variable.get())) continue;
    const VarRef variable = Var::make(loop->variable->name), iter = Var::make("v" + loop->variable->name);
    f.iters.push_back({iter, {substitute(loop->min, fresh), substitute(loop->extent, fresh)}, IterKind::reduce});
    f.bindings.emplace_back(variable);
    fresh[loop->variable.get()] = variable;
    iters[loop->variable.get()] = iter;
    nest.emplace_back(loop, variable);
  }
  f.predicate = predicate ? substitute(predicate, fresh) : nullptr;
  f.reducer = simple_reducer(BinaryOp::logical_and, boolean);
  const std::vector<ReductionOutput> outputs = {{flags_, at_flags}};
  f.init = make_init(*f.reducer, outputs);
  term = simplify(substitute(term, iters));
  for_each_expr(term, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load) return;
    for_each_stmt(path_.back(), [&](const Stmt& s) {
      if (s.as<Block>() && writes(*s.as<Block>(), load->buffer))
        refuse_version(s,
                       fmt::format("writes {}, which decides an index of {}", load->buffer->name, hint.buffer->name));
    });
  });
  f.body = make_update(*f.reducer, outputs, {term});
  Stmt made = Block::make(std::move(f));
  made = with_inferred_regions(*made.as<Block>());
  for (size_t i = nest.size(); i-- > 0;) {
    const auto& [loop, variable] = nest[i];
    made = For::make(variable, substitute(loop->min, fresh), substitute(loop->extent, fresh), ForKind::serial, made);
  }
  return made;
}

Stmt Versioning::marked_body() const {
  class Marker : public Mutator {
   public:
    Marker(const std::vector<RequiredRegion::Relied>& relied, const std::string& flag) : relied_(relied), flag_(flag) {}
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e; }

   protected:
    Stmt mutate_Block(const Stmt& s, const Block* node) override {
      const Stmt inner = mutate(node->f.body);
      return with_fields(*node, [&](Block::Fields& f) {
        f.body = inner;
        for (const RequiredRegion::Relied& relied : relied_)
          if (relied.block == s) f.annotations[inspected_key(relied.hint.buffer)] = flag_;
      });
    }

   private:
    const std::vector<RequiredRegion::Relied>& relied_;
    const std::string& flag_;
  };
  return Marker(relied_, flags_->name).mutate(path_.back().as<For>()->body);
}

Stmt Versioning::versioned(const Stmt& tile) const {
  std::vector<Stmt> stmts = inspectors_;
  std::vector<Expr> at;
  at.reserve(around_.size() + 1);
  for (const For* loop : around_) at.push_back(Expr(loop->variable) - loop->min);
  at.emplace_back();
  Expr holds;
  for (size_t slot = 0; slot < inspectors_.size(); ++slot) {
    at.back() = index(static_cast<std::int64_t>(slot));
    holds = logical_and(holds, load(flags_, at));
  }
  stmts.push_back(If::make(holds, tile, fallback()));
  return Seq::make(std::move(stmts));
}

Stmt Versioning::fallback() const {
  class Rewriter : public Mutator {
   public:
    explicit Rewriter(const Versioning& owner) : owner_(owner) {}
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e; }

   protected:
    Stmt mutate_Block(const Stmt&, const Block* node) override {
      const bool leaf = !has_blocks(*node);
      const Stmt inner = leaf ? owner_.redirected(node->f.body) : mutate(node->f.body);
      const Stmt made = with_fields(*node, [&](Block::Fields& f) {
        f.name = owner_.fresh_name(f.name);
        f.body = inner;
        if (leaf) return;
        for (const auto& [copy, root] : owner_.roots_) {
          const Buffer& to = root;
          const auto of = [&](const BufferNode* b) { return [b](const Region& r) { return r.buffer.get() == b; }; };
          if (std::erase_if(f.reads, of(copy)) > 0 && std::none_of(f.reads.begin(), f.reads.end(), of(to.get())))
            f.reads.push_back(full_region(to));
        }
      });
      const Block& block = *made.as<Block>();
      return leaf && inner != node->f.body ? with_inferred_regions(block) : made;
    }

   private:
    const Versioning& owner_;
  };
  return Rewriter(*this).mutate(fresh_copy(path_.back().as<For>()->body));
}

Stmt Versioning::redirected(const Stmt& body) const {
  Stmt result = body;
  for (const Region& written : producer_.f.writes) {
    Buffer copy = written.buffer;
    for (auto source = copy_source(schedule_.func()->body, copy); source;
         source = copy_source(schedule_.func()->body, copy)) {
      result = LoadRedirector(copy, *source).mutate(result);
      copy = source->load->buffer;
    }
  }
  return result;
}

}  // namespace lathe
