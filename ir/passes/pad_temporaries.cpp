#include "ir/passes/pad_temporaries.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "ir/conjuncts.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/buffer_uses.h"
#include "ir/passes/loop_cuts.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Iterations that share a mask, from which on making it costs little beside what they do.
constexpr std::int64_t least_sharing = 4;
/// Tiles, from which on what is computed beyond the ends of rows is a small part of all (down columns of 2000 x 300, in
/// ten tiles, 1.14 of the time; of 1000 x 1003 in 32, 1.03).
constexpr std::int64_t least_tiles = 16;
/// A row grows by no more elements than a tile of the widest vectors has, where it is the only one, or by this share.
constexpr std::int64_t most_elements = 64, least_share = 8;

/// A dimension of a temporary of which all conditional accesses end at one place.
struct Row {
  size_t dimension;
  Affine end;          ///< the last element that counts
  std::int64_t reach;  ///< the last one that is named where conditions are not asked
};

bool same(Affine a, const Affine& b) {
  return add_scaled(a, b, -1) && a.is_constant() && a.constant == 0;
}

/// Where the use's conditions end the index of a dimension; nothing where none does.
std::vector<Affine> limits(const BufferUse& use, size_t d) {
  std::vector<Affine> found;
  for (const Affine& cut : use.cuts)
    if (const auto limit = limit_of(cut, use.indices[d], use.loops, true)) found.push_back(*limit);
  return found;
}

/// The dimension as a row that may be padded: what is stored reaches as far as what is loaded, under a condition that
/// says where the row ends, and no access reaches further in a way that no condition tells.
std::optional<Row> row_of(const std::vector<BufferUse>& uses, size_t d, const Bounds& bounds) {
  std::optional<Affine> end;
  for (const BufferUse& use : uses) {
    const std::vector<Affine> ends = limits(use, d);
    if (!end && !ends.empty()) end = ends.front();
  }
  if (!end) return std::nullopt;
  std::int64_t reach = -1, loaded = -1, stored = std::numeric_limits<std::int64_t>::max();
  for (const BufferUse& use : uses) {
    const auto first = extreme(use.indices[d], use.loops, false, bounds),
               last = extreme(use.indices[d], use.loops, true, bounds);
    if (!first || !last || !last->is_constant() || bounds.interval(*first).min.value_or(-1) < 0) return std::nullopt;
    const std::vector<Affine> ends = limits(use, d);
    if (std::none_of(ends.begin(), ends.end(), [&](const Affine& limit) { return same(limit, *end); })) {
      Affine beyond = *last;
      if (use.writes || !add_scaled(beyond, *end, -1) || bounds.interval(beyond).max.value_or(1) > 0)
        return std::nullopt;
      continue;
    }
    reach = std::max(reach, last->constant);
    if (use.writes) stored = std::min(stored, last->constant);
    if (use.reads) loaded = std::max(loaded, last->constant);
  }
  if (loaded > stored) return std::nullopt;
  return Row{d, *end, reach};
}

bool is_one_row(const BufferNode& buffer, size_t dimension) {
  for (size_t d = 0; d < buffer.rank(); ++d)
    if (d != dimension && !is_int(buffer.shape[d], 1)) return false;
  return true;
}

/// Do vectors go on from one row to the next, as they walk joined axes? Padded rows would no longer follow each other.
bool walks_on(const std::vector<BufferUse>& uses, size_t d, std::int64_t extent) {
  return std::any_of(uses.begin(), uses.end(), [&](const BufferUse& use) {
    return std::any_of(use.indices[d].terms.begin(), use.indices[d].terms.end(), [&](const AffineTerm& term) {
      const Binary* place = term.atom.as<Binary>();
      return place && place->op == BinaryOp::floor_mod && is_int(place->b, extent);
    });
  });
}

using Rows = std::unordered_map<const BufferNode*, Row>;

/// Of the temporaries that `block` allocates, those with a row to pad.
void find_rows(const Block& block, Bounds& bounds, Rows& rows) {
  BoundsScope scope(bounds);
  const auto found = find_uses(block.f.body, block.f.allocs, bounds);
  for (const Buffer& buffer : block.f.allocs) {
    const BufferUses& touched = found.at(buffer.get());
    const bool plain = std::all_of(touched.uses.begin(), touched.uses.end(), [&](const BufferUse& use) {
      // What an If with two arms leaves out is no end of a row that a guard settles.
      const bool chosen = use.writes && std::any_of(use.arms.begin(), use.arms.end(), [](const BufferUse::Arm& arm) {
                            return arm.node->else_case != nullptr;
                          });
      return !use.conditional && !chosen && use.first.empty() && use.indices.size() == buffer->rank();
    });
    if (touched.whole || !plain || buffer->view_of || buffer->offset || !buffer->strides.empty()) continue;
    if (buffer->space != space::global && buffer->space != space::worker && buffer->space != space::registers) continue;
    for (size_t d = 0; d < buffer->rank(); ++d) {
      const std::int64_t* extent = as_int(buffer->shape[d]);
      const auto row = extent ? row_of(touched.uses, d, bounds) : std::nullopt;
      if (!row) continue;
      const std::int64_t grows = row->reach + 1 - *extent;
      const bool alone = is_one_row(*buffer, d);
      if ((grows <= *extent / least_share && (alone || !walks_on(touched.uses, d, *extent))) ||
          (alone && grows <= most_elements))
        rows.emplace(buffer.get(), *row);
      break;
    }
  }
}

/// A comparison around a statement that may be left out.
struct Guard {
  const If* branch;
  Expr comparison;
  Affine cut;                ///< >= 0 where it holds
  const For* tiles;          ///< the innermost loop that it depends on, but for lanes and copies
  std::vector<VarRef> uses;  ///< variables of loops
  /// Variables of the loops between the two that it does not depend on, whose iterations share a mask, and how many.
  std::vector<VarRef> sharing;
  std::int64_t shared;
  std::int64_t copies;      ///< of the comparison, each of which is a mask of its own, once loops are unrolled
  std::int64_t tile_count;  ///< iterations of all loops that it depends on but those; unknown ones count as one
  Bounds bounds;            ///< what is known there
  bool stays = false;
};

/// Does the guard say of an access that it stays in its row?
bool ends_row(const Guard& guard, const Rows& rows, const Buffer& buffer, const std::vector<Expr>& indices) {
  const auto row = rows.find(buffer.get());
  if (row == rows.end()) return false;
  Affine end = to_affine(indices[row->second.dimension]);
  return add_scaled(end, guard.cut, 1) && same(end, row->second.end);
}

bool use_any(const std::vector<Expr>& indices, const std::vector<VarRef>& variables) {
  return std::any_of(variables.begin(), variables.end(), [&](const VarRef& variable) {
    return std::any_of(indices.begin(), indices.end(), [&](const Expr& i) { return uses_var(i, variable.get()); });
  });
}

/// Tells of what is under a guard whether it can do without.
class GuardedReader : public Visitor {
 public:
  GuardedReader(const Guard& guard, const Rows& rows) : guard_(guard), rows_(rows) { visit(guard.branch->then_case); }
  bool fits = true;                     ///< stores go to ends of rows, and nothing traps
  bool masks = false;                   ///< are there loads from elsewhere?
  std::vector<const BufferNode*> rows;  ///< that are stored to, and end where the guard says

 protected:
  void visit_Store(const Store* node) override {
    Visitor::visit_Store(node);
    if (ends_row(guard_, rows_, node->buffer, node->indices)) {
      rows.push_back(node->buffer.get());
    } else {
      fits = false;
    }
    fits &= !node->mask;
  }
  void visit_Load(const Load* node) override {
    Visitor::visit_Load(node);
    bool inside = true;
    for (size_t d = 0; d < node->indices.size(); ++d) {
      const Expr& index = node->indices[d];
      for_each_expr(index, [&](const Expr& e) { fits &= !e.as<Load>(); });
      const Interval place = guard_.bounds.interval(index), extent = guard_.bounds.interval(node->buffer->shape[d]);
      inside &= place.min && *place.min >= 0 && place.max && extent.min && *place.max < *extent.min;
    }
    if (ends_row(guard_, rows_, node->buffer, node->indices)) return;
    if (use_any(node->indices, guard_.uses)) {
      masks = true;
      // LLVM moves no masked load out of a loop, nor what hangs on it.
      fits &= !node->mask && use_any(node->indices, guard_.sharing);
    } else {
      fits &= inside;
    }
  }
  void visit_Binary(const Binary* node) override {
    Visitor::visit_Binary(node);
    const bool divides = node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod;
    if (divides && !node->a->dtype.is_float()) fits &= as_int(node->b) && *as_int(node->b) > 0;
  }
  void visit_Call(const Call* node) override {
    Visitor::visit_Call(node);
    fits &= node->call_kind == CallKind::intrinsic;
  }
  void visit_AddressOf(const AddressOf*) override { fits = false; }
  void visit_Assert(const Assert*) override { fits = false; }
  void visit_While(const While*) override { fits = false; }
  void visit_Block(const Block*) override { fits = false; }

 private:
  const Guard& guard_;
  const Rows& rows_;
};

/// Finds rows and guards, and settles which can go.
class Planner : public Visitor {
 public:
  Planner(const Func& func, const Device& device) : mask_registers_(device.mask_registers), bounds_(func) {
    visit(func->body);
  }
  Rows rows;
  std::vector<Guard> guards;

  /// Guards that stay keep what they guard, and the rows that this stores to, as they are.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Guard& guard : guards) {
        const GuardedReader reader(guard, rows);
        const bool cut = guard.tiles && cut_anyway_.contains(guard.tiles);
        if (guard.stays) {
          for (const BufferNode* buffer : reader.rows) changed |= rows.erase(buffer) > 0;
        } else if (cut || !reader.fits || (reader.masks && !masks_pay(guard))) {
          guard.stays = changed = true;
          if (guard.tiles) cut_anyway_.insert(guard.tiles);
        }
      }
    }
  }

 protected:
  void visit_Block(const Block* node) override {
    if (!node->f.allocs.empty()) find_rows(*node, bounds_, rows);
    visit(node->f.body);
  }
  void visit_For(const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    loops_.push_back(node);
    visit(node->body);
    loops_.pop_back();
  }
  void visit_Let(const Let* node) override {
    BoundsScope scope(bounds_);
    if (node->value->dtype == i64) bounds_.bind_value(node->variable, node->value);
    visit(node->body);
  }
  void visit_If(const If* node) override {
    for (const Expr& conjunct : conjuncts_of(node->condition)) {
      std::optional<Affine> cut = node->else_case ? std::nullopt : cut_of(conjunct, bounds_);
      Guard guard{node, conjunct, cut.value_or(Affine{}), nullptr, {}, {}, 1, 1, 1, bounds_};
      bool lanes = false;
      for (const For* loop : loops_) {
        if (!uses_var(conjunct, loop->variable.get())) {
          if (loop->for_kind != ForKind::serial || !as_int(loop->extent)) continue;
          guard.sharing.push_back(loop->variable);
          guard.shared *= *as_int(loop->extent);
          continue;
        }
        guard.uses.push_back(loop->variable);
        lanes |= loop->for_kind == ForKind::vectorized;
        if (loop->for_kind == ForKind::unrolled && as_int(loop->extent)) guard.copies *= *as_int(loop->extent);
        if (is_point_loop(*loop)) continue;
        guard.tiles = loop;
        guard.tile_count *= as_int(loop->extent) ? *as_int(loop->extent) : 1;
        guard.sharing.clear();
        guard.shared = 1;
      }
      if (guard.tiles && (!cut || !lanes)) cut_anyway_.insert(guard.tiles);
      // What is stored one by one under a condition leaves the ends of its rows out.
      guard.stays = !lanes;
      if (cut) guards.push_back(std::move(guard));
    }
    Visitor::visit_If(node);
  }

 private:
  bool masks_pay(const Guard& guard) const {
    return guard.tiles && guard.tile_count >= least_tiles && guard.shared >= least_sharing &&
           guard.copies <= mask_registers_ && !guard.tiles->annotations.contains(shiftable_key);
  }

  int mask_registers_;
  Bounds bounds_;
  std::vector<const For*> loops_;
  std::unordered_set<const For*> cut_anyway_;
};

class Padder : public Mutator {
 public:
  explicit Padder(const Planner& plan) : plan_(plan) {
    for (const Guard& guard : plan.guards)
      if (!guard.stays) guards_[guard.branch].push_back(&guard);
  }

 protected:
  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    if (node->f.allocs.empty()) return Mutator::mutate_Block(s, node);
    Block::Fields f = node->f;
    for (Buffer& alloc : f.allocs) {
      const auto row = plan_.rows.find(alloc.get());
      if (row == plan_.rows.end() || row->second.reach < *as_int(alloc->shape[row->second.dimension])) continue;
      std::vector<Expr> shape = alloc->shape;
      shape[row->second.dimension] = index(row->second.reach + 1);
      const Buffer padded =
          BufferNode::make(alloc->name, alloc->dtype, std::move(shape), alloc->space, {}, nullptr, alloc->alignment);
      padded_.emplace(alloc.get(), padded);
      alloc = padded;
    }
    f.body = mutate(f.body);
    return Block::make(std::move(f));
  }

  Stmt mutate_For(const Stmt& s, const For* node) override {
    Stmt loop = Mutator::mutate_For(s, node);
    if (!masked_.contains(node->variable.get()) || is_point_loop(*node)) return loop;
    const For* changed = loop.as<For>();
    Annotations annotations = changed->annotations;
    annotations[masked_loads_key] = 1;
    return For::make(changed->variable, changed->min, changed->extent, changed->for_kind, changed->body, annotations,
                     changed->thread_axis);
  }

  Stmt mutate_If(const Stmt& s, const If* node) override {
    const auto found = guards_.find(node);
    if (found == guards_.end()) return Mutator::mutate_If(s, node);
    std::vector<Expr> kept = conjuncts_of(node->condition);
    for (const Guard* guard : found->second) {
      std::erase(kept, guard->comparison);
      inside_.push_back(guard);
    }
    const Stmt body = mutate(node->then_case);
    inside_.resize(inside_.size() - found->second.size());
    const Expr condition = conjunction(kept);
    return condition ? If::make(condition, body) : body;
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    Expr mask = node->mask;
    for (const Guard* guard : inside_) {
      if (!use_any(node->indices, guard->uses) || ends_row(*guard, plan_.rows, node->buffer, node->indices)) continue;
      mask = logical_and(mask, guard->comparison);
      for (const VarRef& variable : guard->uses) masked_.insert(variable.get());
    }
    const auto padded = padded_.find(node->buffer.get());
    if (padded == padded_.end() && mask == node->mask) return Mutator::mutate_Load(e, node);
    bool changed = false;
    return Load::make(padded == padded_.end() ? node->buffer : padded->second, mutate_all(node->indices, &changed),
                      mask);
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const auto padded = padded_.find(node->buffer.get());
    if (padded == padded_.end()) return Mutator::mutate_Store(s, node);
    bool changed = false;
    return Store::make(padded->second, mutate_all(node->indices, &changed), mutate(node->value), node->mask);
  }

 private:
  const Planner& plan_;
  std::unordered_map<const If*, std::vector<const Guard*>> guards_;
  std::vector<const Guard*> inside_;
  std::unordered_map<const BufferNode*, Buffer> padded_;
  std::unordered_set<const Var*> masked_;
};

}  // namespace

Func pad_temporaries(const Func& func, const Device& device) {
  bool guarded = false;
  for_each_stmt(func->body, [&](const Stmt& s) { guarded |= s.as<If>() != nullptr; });
  if (device.mask_registers == 0 || !guarded) return func;
  Planner plan(func, device);
  if (plan.rows.empty() || plan.guards.empty()) return func;
  plan.settle();
  const bool all_stay =
      std::all_of(plan.guards.begin(), plan.guards.end(), [](const Guard& guard) { return guard.stays; });
  if (all_stay) return func;
  return with_body(func, Padder(plan).mutate(func->body));
}

}  // namespace lathe
