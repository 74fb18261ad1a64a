#include "schedule/primitives/scan_lanes.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/analysis/regions.h"
#include "ir/intrinsics.h"
#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"
#include "schedule/scan.h"

namespace lathe {
namespace {

/// What the three blocks have in common.
struct Scan {
  const Block& block;
  const ScanParts& parts;
  std::int64_t lanes;
  Expr steps, identity, neutral;
  Buffer carry, term;
};

/// The block's iters without the ordered one, as space iters of variables of their own.
Substitution copy_space_iters(const Scan& scan, Block::Fields& f, std::vector<Expr>& indices) {
  Substitution map;
  for (size_t i = 0; i < scan.block.f.iters.size(); ++i) {
    if (i == scan.parts.iter) continue;
    const Iter& iter = scan.block.f.iters[i];
    const VarRef variable = Var::make(iter.variable->name);
    map[iter.variable.get()] = variable;
    f.iters.push_back({variable, iter.domain, IterKind::space});
    f.bindings.push_back(scan.block.f.bindings[i]);
    indices.push_back(variable - iter.domain.min);
  }
  return map;
}

Expr all_lanes(const Scan& scan, const Expr& first) {
  return Ramp::make(first, index(1), static_cast<int>(scan.lanes));
}

Stmt finished(Block::Fields f) {
  const Stmt made = Block::make(std::move(f));
  return with_inferred_regions(*made.as<Block>());
}

Stmt start_block(const Scan& scan, const std::string& name) {
  Block::Fields f;
  f.name = name;
  std::vector<Expr> indices;
  copy_space_iters(scan, f, indices);
  indices.push_back(all_lanes(scan, index(0)));
  f.body = Store::make(scan.carry, indices, Broadcast::make(scan.identity, static_cast<int>(scan.lanes)));
  return finished(std::move(f));
}

Stmt terms_block(const Scan& scan, const std::string& name, const VarRef& outer, const VarRef& inner) {
  Block::Fields f;
  f.name = name;
  std::vector<Expr> indices;
  Substitution map = copy_space_iters(scan, f, indices);
  const VarRef step = Var::make("v" + outer->name), lane = Var::make("v" + inner->name);
  f.iters.push_back({step, {index(0), scan.steps}, IterKind::space});
  f.iters.push_back({lane, {index(0), index(scan.lanes)}, IterKind::space});
  f.bindings.insert(f.bindings.end(), {Expr(outer), Expr(inner)});
  indices.insert(indices.end(), {Expr(step), Expr(lane)});
  map[scan.block.f.iters[scan.parts.iter].variable.get()] = step * scan.lanes + lane;
  std::vector<std::pair<VarRef, Expr>> lets;
  for (const Stmt& s : scan.parts.lets) {
    const Let* let = s.as<Let>();
    lets.emplace_back(Var::make(let->variable->name, let->variable->dtype), substitute(let->value, map));
    map[let->variable.get()] = lets.back().first;
  }
  f.body = Store::make(scan.term, indices, substitute(scan.parts.term, map));
  for (size_t i = lets.size(); i-- > 0;) f.body = Let::make(lets[i].first, lets[i].second, f.body);
  for (const Region& region : scan.block.f.reads) {
    if (is_hint(region) && region.buffer != scan.parts.store->buffer) f.reads.push_back(substitute(region, map));
  }
  return finished(std::move(f));
}

/// What changes no element that it is combined with: of sums -0, for 0 makes a 0 of -0.
Expr neutral_element(BinaryOp op, const Expr& identity) {
  return op == BinaryOp::add && identity->dtype.is_float() ? constant(identity->dtype, -0.0) : identity;
}

/// The lanes of `vector` moved up by `distance`, behind lanes that change nothing.
Expr shifted(const Scan& scan, const Expr& vector, std::int64_t distance) {
  std::vector<int> lanes;
  lanes.reserve(static_cast<size_t>(scan.lanes));
  for (std::int64_t lane = 0; lane < scan.lanes; ++lane)
    lanes.push_back(static_cast<int>(lane < distance ? lane : scan.lanes + lane - distance));
  return Shuffle::make({Broadcast::make(scan.neutral, static_cast<int>(scan.lanes)), vector}, lanes);
}

/// May factors be grouped? Where so many as there are lanes stay in the range of normal numbers however large or small
/// each is, and with what came before too, factors one after another do so. What has left that range a normal factor
/// changes by no more than it loses in rounding.
Expr may_group(const Scan& scan, const Expr& before, const Expr& factors, const Expr& all) {
  const DType dtype = before->dtype;
  const auto lies_between = [&](const Expr& v, double least, double most) {
    const Expr magnitude = unary(UnaryOp::abs, v);
    return logical_and(ge(magnitude, constant(dtype, least)), le(magnitude, constant(dtype, most)));
  };
  const bool wide = dtype.bits == 64;
  const int least_exponent = wide ? -1022 : -126;
  const double least = std::ldexp(1.0, least_exponent),
               most = wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max(),
               share = std::ldexp(1.0, least_exponent / static_cast<int>(scan.lanes));
  const Expr normal = logical_or(lies_between(all, least, most), logical_not(lies_between(before, least, most)));
  return reduce_lanes(BinaryOp::logical_and, logical_and(lies_between(factors, share, 1 / share), normal));
}

/// Lane i is `before` combined with the lanes of `terms` up to i, one after another.
Expr in_order(const Scan& scan, const Expr& before, const Expr& terms) {
  Expr result = before;
  for (std::int64_t step = 0; step < scan.lanes; ++step) {
    std::vector<int> lanes;
    lanes.reserve(static_cast<size_t>(scan.lanes));
    for (std::int64_t lane = 0; lane < scan.lanes; ++lane)
      lanes.push_back(static_cast<int>(lane < step ? lane : scan.lanes + step));
    const Expr neutral = Broadcast::make(scan.neutral, static_cast<int>(scan.lanes));
    result = binary(scan.parts.op, result, Shuffle::make({neutral, terms}, lanes));
  }
  return result;
}

Stmt steps_block(const Scan& scan, const VarRef& outer) {
  const Block::Fields& old = scan.block.f;
  Block::Fields f = old;
  const VarRef step = Var::make("v" + outer->name);
  f.iters[scan.parts.iter] = {step, {index(0), scan.steps}, IterKind::ordered};
  f.bindings[scan.parts.iter] = outer;
  std::vector<Expr> row;
  for (size_t i = 0; i < old.iters.size(); ++i) {
    if (i != scan.parts.iter) row.push_back(old.iters[i].variable - old.iters[i].domain.min);
  }
  std::vector<Expr> carry_at = row, term_at = row;
  carry_at.push_back(all_lanes(scan, index(0)));
  term_at.insert(term_at.end(), {Expr(step), all_lanes(scan, index(0))});

  std::vector<std::pair<VarRef, Expr>> lets;
  const auto bind = [&](const std::string& name, const Expr& value) {
    lets.emplace_back(Var::make(name, value->dtype), value);
    return Expr(lets.back().first);
  };
  const Expr terms = bind("upto1", load(scan.term, term_at));
  Expr upto = terms;
  for (std::int64_t distance = 1; distance < scan.lanes; distance *= 2)
    upto = bind(fmt::format("upto{}", 2 * distance), binary(scan.parts.op, shifted(scan, upto, distance), upto));
  const Expr before = bind("before", load(scan.carry, carry_at));
  std::vector<Expr> stored = scan.parts.store->indices;
  stored[scan.parts.dimension] = all_lanes(scan, step * scan.lanes);
  const auto store_both = [&](const Expr& elements, const Expr& carry) {
    return Seq::make(
        {Store::make(scan.parts.store->buffer, stored, elements), Store::make(scan.carry, carry_at, carry)});
  };
  const auto last_of = [&](const Expr& vector) {
    return Shuffle::make({vector}, std::vector<int>(static_cast<size_t>(scan.lanes), static_cast<int>(scan.lanes - 1)));
  };
  if (scan.parts.op == BinaryOp::mul && scan.identity->dtype.is_float()) {
    const Expr all = bind("all", before * upto);
    const VarRef ordered = Var::make("ordered", all->dtype);
    f.body = If::make(may_group(scan, before, terms, all), store_both(all, before * last_of(upto)),
                      Let::make(ordered, in_order(scan, before, terms), store_both(ordered, last_of(ordered))));
  } else {
    f.body = store_both(binary(scan.parts.op, before, upto), binary(scan.parts.op, before, last_of(upto)));
  }
  for (size_t i = lets.size(); i-- > 0;) f.body = Let::make(lets[i].first, lets[i].second, f.body);
  return finished(std::move(f));
}

/// The loop that goes on behind the last whole step.
Stmt rest_loop(const Scan& scan, const std::string& name, const For& loop) {
  Block::Fields f = scan.block.f;
  const Stmt copy = fresh_copy(Block::make(std::move(f)));
  const VarRef variable = Var::make(loop.variable->name);
  const Stmt block = with_fields(*copy.as<Block>(), [&](Block::Fields& fields) {
    fields.name = name;
    fields.bindings[scan.parts.iter] = variable;
  });
  return For::make(variable, scan.steps * scan.lanes, loop.extent - scan.steps * scan.lanes, ForKind::serial, block,
                   loop.annotations);
}

}  // namespace

ScanLanes scan_lanes(Schedule& schedule, const BlockRef& block, std::int64_t lanes) {
  const std::string application = fmt::format("scan_lanes({}, {})", block.name, lanes);
  const Path path = path_to(schedule, block);
  const Stmt& at = path.back();
  const Block& node = *at.as<Block>();
  if (lanes < 2 || lanes > 1024 || !std::has_single_bit(static_cast<std::uint64_t>(lanes)))
    refuse(schedule, application, 1, "lanes is a power of two, of at least 2", at, fmt::format("is given {}", lanes));
  const std::string scan_text = "block is a scan without a predicate";
  const std::optional<ScanParts> parts = match_scan(node);
  if (!parts) refuse(schedule, application, 2, scan_text, at, "is no scan");
  if (node.f.predicate) refuse(schedule, application, 2, scan_text, at, "has a predicate");
  const Iter& iter = node.f.iters[parts->iter];
  const For* loop = path[path.size() - 2].as<For>();
  const std::int64_t* extent = loop ? as_int(loop->extent) : nullptr;
  bool alone = loop && loop->for_kind == ForKind::serial && is_int(loop->min, 0) && is_int(iter.domain.min, 0) &&
               node.f.bindings[parts->iter] == Expr(loop->variable) && (!extent || *extent >= lanes);
  for (size_t i = 0; alone && i < node.f.iters.size(); ++i)
    alone = i == parts->iter || !uses_var(node.f.bindings[i], loop->variable.get());
  if (!alone) {
    refuse(schedule, application, 3,
           "its ordered iter is bound to a serial loop of its own that directly holds the block and nothing else, and "
           "both run from 0, for at least lanes elements where their number is known",
           path[path.size() - 2], "is no such loop");
  }

  const DType dtype = parts->store->value->dtype;
  std::vector<Expr> rows;
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    if (i != parts->iter) rows.push_back(node.f.iters[i].domain.extent);
  }
  std::vector<Expr> carry_shape = rows, term_shape = rows;
  carry_shape.push_back(index(lanes));
  const Expr whole_steps = floor_div(loop->extent, lanes);
  term_shape.insert(term_shape.end(), {whole_steps, index(lanes)});
  const Expr identity = simple_reducer(parts->op, dtype).identities[0];
  const Scan scan{node,
                  *parts,
                  lanes,
                  whole_steps,
                  identity,
                  neutral_element(parts->op, identity),
                  BufferNode::make(schedule.unique_name(block.name + "_carry"), dtype, carry_shape),
                  BufferNode::make(schedule.unique_name(block.name + "_term"), dtype, term_shape)};
  ScanLanes made{
      {schedule.unique_name(block.name + "_start")}, {schedule.unique_name(block.name + "_terms")}, std::nullopt};
  const VarRef outer = Var::make(loop->variable->name + "o"), inner = Var::make(loop->variable->name + "i");
  const Stmt terms =
      For::make(inner, index(0), index(lanes), ForKind::serial, terms_block(scan, made.terms.name, outer, inner));
  const Stmt steps = For::make(outer, index(0), scan.steps, ForKind::serial,
                               Seq::make({terms, steps_block(scan, outer)}), loop->annotations);
  std::vector<Stmt> stmts{start_block(scan, made.start.name), steps};
  if (!extent || *extent % lanes != 0) {
    made.rest = BlockRef{schedule.unique_name(block.name + "_rest")};
    stmts.push_back(rest_loop(scan, made.rest->name, *loop));
  }
  const Path above(path.begin(), path.end() - 1);
  const Stmt body = replace_last(above, Seq::make(std::move(stmts)));
  schedule.commit(add_allocation(add_allocation(body, scan.carry), scan.term), application);
  return made;
}

}  // namespace lathe
