#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/analysis/verify_rules.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

bool is_concurrent(ForKind kind) {
  return kind == ForKind::parallel || kind == ForKind::vectorized || kind == ForKind::bound;
}

/// `e` with the Lets between the enclosing block and this one written out.
Expr written_out(const PlacedBlock& placed, Expr e) {
  for (size_t i = placed.steps.size(); i-- > placed.outer;) {
    const Step& step = placed.steps[i];
    if (step.kind == Step::Kind::value) e = substitute(e, {{step.variable.get(), step.expr}});
  }
  return e;
}

/// The positions of the loops around the block that a written-out `binding` depends on, outermost first.
std::vector<size_t> driving_loops(const PlacedBlock& placed, const Expr& binding) {
  std::vector<size_t> loops;
  for (size_t i = placed.outer; i < placed.steps.size(); ++i) {
    const Step& step = placed.steps[i];
    if (step.kind == Step::Kind::loop && uses_var(binding, step.variable.get())) loops.push_back(i);
  }
  return loops;
}

/// Reports a loop whose iterations run at once and that drives `iter`.
void check_one_at_a_time(const PlacedBlock& placed, size_t iter, const char* rule, Report& report) {
  const Block::Fields& f = placed.block->f;
  for (const size_t i : driving_loops(placed, written_out(placed, f.bindings[iter]))) {
    const For* loop = placed.steps[i].loop;
    if (!is_concurrent(loop->for_kind) || is_int(loop->extent, 1)) continue;
    report.wrong(rule, fmt::format("block {}: {} loop {} drives the {} iter {}", f.name, to_string(loop->for_kind),
                                   loop->variable->name, to_string(f.iters[iter].kind), f.iters[iter].variable->name));
  }
}

bool uses_kind(const Expr& e, const Block::Fields& f, IterKind kind) {
  return std::any_of(f.iters.begin(), f.iters.end(),
                     [&](const Iter& iter) { return iter.kind == kind && uses_var(e, iter.variable.get()); });
}

/// The block with the assertions before its update left out: they store nothing.
Block without_assertions(const Block& block) {
  Block::Fields f = block.f;
  if (const Seq* seq = f.body.as<Seq>()) {
    std::vector<Stmt> stmts = seq->stmts;
    std::erase_if(stmts, [](const Stmt& s) { return s->kind == StmtKind::Assert; });
    f.body = Seq::make(std::move(stmts));
  }
  return Block(std::move(f));
}

/// One Store to each output, at its place, of a value that no output is in: the reduction goes on from there.
bool starts_each(const Stmt& init, const std::vector<ReductionOutput>& outputs) {
  const std::vector<Stmt> stores = init.as<Seq>() ? init.as<Seq>()->stmts : std::vector<Stmt>{init};
  if (stores.size() != outputs.size()) return false;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Store* store = stores[k].as<Store>();
    if (!store || store->mask || store->buffer != outputs[k].buffer) return false;
    for (size_t d = 0; d < store->indices.size(); ++d) {
      if (!equal(store->indices[d], outputs[k].indices[d])) return false;
    }
    bool reads_output = false;
    for_each_expr(store->value, [&](const Expr& e) {
      for (const ReductionOutput& output : outputs)
        reads_output |= e.as<Load>() && e.as<Load>()->buffer == output.buffer;
    });
    if (reads_output) return false;
  }
  return true;
}

void check_init(const Block::Fields& f, const ReductionParts* parts, Report& report) {
  constexpr const char* rule = "block.init_per_space_point";
  bool wrong = false;
  for_each_stmt(f.init, [&](const Stmt& s) {
    const Store* store = s.as<Store>();
    if (!store) return;
    for (const Expr& e : store->indices) wrong |= uses_kind(e, f, IterKind::reduce);
    wrong |= uses_kind(store->value, f, IterKind::reduce);
  });
  if (wrong) return report.wrong(rule, fmt::format("block {}: the init depends on a reduce iter", f.name));
  if (!f.reducer) return report.wrong(rule, fmt::format("block {}: it has an init but no reducer", f.name));
  if (parts && !equal(f.init, make_init(*f.reducer, parts->outputs)) && !starts_each(f.init, parts->outputs)) {
    report.unproved(
        rule, fmt::format("block {}: the init is not known to store to each output once\n{}", f.name, print(f.init)));
  }
}

}  // namespace

void check_reduction(const PlacedBlock& placed, Report& report) {
  const Block::Fields& f = placed.block->f;
  constexpr const char* rule = "block.reduction_canonical";
  bool reduces = false;
  for (size_t i = 0; i < f.iters.size(); ++i) {
    if (f.iters[i].kind != IterKind::reduce) continue;
    reduces = true;
    check_one_at_a_time(placed, i, "block.reduce_iters_not_at_once", report);
  }
  const Block bare = without_assertions(*placed.block);
  const std::optional<ReductionParts> parts = match_update(bare);
  if (reduces && !f.reducer) {
    report.wrong(rule, fmt::format("block {}: it has reduce iters but no reducer", f.name));
  } else if (reduces && !parts) {
    report.unproved(rule, fmt::format("block {}: the body is not the canonical update of the reducer", f.name));
  } else if (reduces) {
    for (const ReductionOutput& output : parts->outputs) {
      for (const Expr& e : output.indices) {
        if (uses_kind(e, f, IterKind::reduce)) {
          report.wrong(rule, fmt::format("block {}: the place of output {} depends on a reduce iter", f.name,
                                         output.buffer->name));
        }
      }
      const auto reads_output = [&](const Expr& e) {
        const Load* load = e.as<Load>();
        if (!load || load->buffer != output.buffer) return;
        report.unproved(rule, fmt::format("block {}: a term reads output {}", f.name, output.buffer->name));
      };
      for (const Expr& term : parts->terms) for_each_expr(term, reads_output);
      for (const Stmt& let : parts->lets) for_each_expr(let.as<Let>()->value, reads_output);
    }
  }
  if (f.init) check_init(f, parts ? &*parts : nullptr, report);
}

void check_order(const PlacedBlock& placed, Report& report) {
  const Block::Fields& f = placed.block->f;
  constexpr const char* rule = "block.ordered_iters_in_order";
  for (size_t i = 0; i < f.iters.size(); ++i) {
    if (f.iters[i].kind != IterKind::ordered) continue;
    check_one_at_a_time(placed, i, rule, report);
    // Loop by loop from outside: one more step of it, with any values of those inside, must not make the iter smaller.
    const Expr binding = written_out(placed, f.bindings[i]);
    const std::vector<size_t> loops = driving_loops(placed, binding);
    for (size_t l = 0; l < loops.size(); ++l) {
      Bounds bounds = placed.bounds;
      std::vector<Step> steps = placed.steps;
      Substitution later;
      for (size_t inner = l; inner < loops.size(); ++inner) {
        const Step& step = placed.steps[loops[inner]];
        const VarRef other = Var::make(step.variable->name + "'");
        const Range domain{substitute(step.domain.min, later), substitute(step.domain.extent, later)};
        later[step.variable.get()] = other;
        steps.push_back({Step::Kind::loop, other, domain, nullptr, nullptr});
        bounds.bind(other, domain);
      }
      const auto hold = [&](const Expr& condition) {
        bounds.assume(condition);
        steps.push_back(Step::of_condition(condition));
      };
      hold(lt(placed.steps[loops[l]].variable, later.at(placed.steps[loops[l]].variable.get())));
      // Both are instances of one point of the other iters, and both run.
      for (size_t j = 0; j < f.iters.size(); ++j) {
        if (f.iters[j].kind == IterKind::ordered) continue;
        const Expr one = written_out(placed, f.bindings[j]), other = substitute(one, later);
        if (other == one) continue;
        hold(le(one, other));
        hold(le(other, one));
      }
      if (f.predicate) hold(substitute(written_out(placed, f.predicate), later));
      const Expr rises = le(binding, substitute(binding, later));
      report.decided(rule, decide(report.func(), bounds, steps, rises),
                     fmt::format("block {}: {} = {} never falls as loop {} runs", f.name, f.iters[i].variable->name,
                                 print(f.bindings[i]), placed.steps[loops[l]].variable->name));
    }
  }
}

}  // namespace lathe
