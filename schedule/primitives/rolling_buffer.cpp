#include "schedule/primitives/rolling_buffer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/rewrite_accesses.h"
#include "schedule/staged_producer.h"

namespace lathe {
namespace {

/// The rows that an iteration writes: step * loop + position of `own` + what neither is in.
struct Window {
  size_t iter = 0;       ///< of the block
  size_t dimension = 0;  ///< of the buffer
  size_t level = 0;      ///< of the loop over the window's rows, in the path
  std::int64_t step = 0, rows = 0;
};

class Roller {
 public:
  Roller(const Schedule& schedule, const BlockRef& block, const LoopRef& loop)
      : application(fmt::format("rolling_buffer({}, {})", block.name, schedule.place(loop))),
        schedule_(schedule),
        staged_(require_staged(schedule, application, block, loop)) {
    find_window();
    check_predicate();
    first_name = schedule.unique_name(block.name + "_first");
  }

  const std::string application;
  std::string first_name;

  Stmt run() const {
    const std::int64_t kept = window_.rows - window_.step;
    const Stmt before = ordered(with_rows(first_iteration(schedule_, staged_, first_name), 0, kept));
    const Stmt inside = ordered(with_rows(staged_.nest(), kept, window_.step));
    std::vector<Expr> shape = staged_.buffer->shape;
    shape[window_.dimension] = index(window_.rows);
    const Buffer ring = BufferNode::make(staged_.buffer->name, staged_.buffer->dtype, std::move(shape),
                                         staged_.buffer->space, {}, nullptr, staged_.buffer->alignment);
    return rewrite_accesses(schedule_.func(), with_stages(staged_, inside, before), staged_.buffer, ring,
                            [&](const Block&, std::vector<Expr> indices) {
                              indices[window_.dimension] = floor_mod(indices[window_.dimension], window_.rows);
                              return indices;
                            });
  }

 private:
  [[noreturn]] void refuse_window(const Stmt& culprit, const std::string& note) const {
    refuse(schedule_, application, 6,
           "block stores without a mask, at its iters; one of them is bound to step*loop + k + what neither of them is "
           "in, where k is one of block's own loops, serial, from 0 to a constant window, and 0 < step < window; no "
           "other iter and no bound of a loop uses loop or k",
           culprit, note);
  }

  void find_window() {
    const Block& block = staged_.block();
    const For& loop = staged_.loop();
    const Stmt& at = staged_.path.back();
    const Store* store = block.f.body.as<Store>();
    for (Stmt s = block.f.body; !store && s.as<Let>();) {
      s = s.as<Let>()->body;
      store = s.as<Store>();
    }
    if (!store || store->mask) refuse_window(at, "does more than one unmasked Store");
    std::optional<size_t> found;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (!uses_var(block.f.bindings[i], loop.variable.get())) continue;
      if (found) refuse_window(at, fmt::format("binds several iters to {}", loop.variable->name));
      found = i;
    }
    if (!found) refuse_window(at, fmt::format("binds no iter to {}", loop.variable->name));
    window_.iter = *found;
    const Expr row = block.f.iters[*found].variable;
    size_t places = 0;
    for (size_t d = 0; d < store->indices.size(); ++d) {
      const Expr& e = store->indices[d];
      const bool is_iter = std::any_of(block.f.iters.begin(), block.f.iters.end(),
                                       [&](const Iter& iter) { return Expr(iter.variable) == e; });
      if (!is_iter && !is_int(e, 0)) refuse_window(at, fmt::format("stores at {}", print(e)));
      if (e == row) {
        window_.dimension = d;
        ++places;
      }
    }
    if (places != 1) refuse_window(at, fmt::format("does not store at {} once", print(row)));
    find_step(block.f.bindings[*found]);
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (i != window_.iter && uses_var(block.f.bindings[i], own().variable.get())) {
        refuse_window(at, fmt::format("binds {} to {} too", block.f.iters[i].variable->name, own().variable->name));
      }
    }
    for (size_t level = staged_.nest_level; level + 1 < staged_.path.size(); ++level) {
      const For& other = *staged_.path[level].as<For>();
      for (const Expr& e : {other.min, other.extent}) {
        if (uses_var(e, loop.variable.get()) || uses_var(e, own().variable.get()))
          refuse_window(staged_.path[level], "has bounds that move");
      }
    }
  }

  void find_step(const Expr& binding) {
    const Stmt& at = staged_.path.back();
    const auto by_loop = split_linear(binding, staged_.loop().variable);
    if (!by_loop) refuse_window(at, fmt::format("binds a row to {}", print(binding)));
    window_.step = by_loop->first;
    for (size_t level = staged_.nest_level; level + 1 < staged_.path.size(); ++level) {
      const For& own = *staged_.path[level].as<For>();
      const auto by_own = split_linear(by_loop->second, own.variable);
      const std::int64_t* extent = as_int(own.extent);
      if (!by_own || by_own->first != 1 || !extent || !is_int(own.min, 0) || own.for_kind != ForKind::serial) continue;
      window_.level = level;
      window_.rows = *extent;
    }
    if (!window_.level) refuse_window(at, fmt::format("binds a row to {}", print(binding)));
    if (window_.step < 1 || window_.step >= window_.rows) {
      refuse_window(at, fmt::format("moves on by {} of {} rows", window_.step, window_.rows));
    }
  }

  const For& own() const { return *staged_.path[window_.level].as<For>(); }

  /// Rows first .. first + count of the window.
  Stmt with_rows(const Stmt& nest, std::int64_t first, std::int64_t count) const {
    // A copy has loops of its own, in the same places.
    Path path;
    for (Stmt s = nest; s; s = s.as<For>() ? Stmt(s.as<For>()->body) : Stmt()) path.push_back(s);
    path.resize(window_.level - staged_.nest_level + 1);
    const For& rows = *path.back().as<For>();
    const VarRef& k = rows.variable;
    const Stmt body = first ? substitute_loops(rows.body, {{k.get(), Expr(k) + first}}) : Stmt(rows.body);
    return replace_last(path, For::make(k, rows.min, index(count), rows.for_kind, body, rows.annotations));
  }

  Stmt ordered(const Stmt& nest) const {
    return rewrite_blocks(nest, [&](const Block& block) {
      return with_fields(block, [&](Block::Fields& f) { f.iters[window_.iter].kind = IterKind::ordered; });
    });
  }

  void check_predicate() const {
    const Block& block = staged_.block();
    if (!block.f.predicate) return;
    // In terms of the row, the loop must be gone.
    const VarRef row = Var::make("row");
    const Expr rest = block.f.bindings[window_.iter] - Expr(own().variable);
    const Expr said = simplify(substitute(block.f.predicate, {{own().variable.get(), Expr(row) - rest}}));
    if (!uses_var(said, staged_.loop().variable.get())) return;
    refuse(schedule_, application, 7, "the predicate of block says the same of a row in every iteration",
           staged_.path.back(), fmt::format("runs where {}", print(block.f.predicate)));
  }

  const Schedule& schedule_;
  const StagedProducer staged_;
  Window window_;
};

}  // namespace

BlockRef rolling_buffer(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Roller roller(schedule, block, loop);
  Stmt body = roller.run();
  schedule.commit(std::move(body), roller.application);
  return {roller.first_name};
}

}  // namespace lathe
