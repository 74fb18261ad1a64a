#include "ir/passes/mark_shiftable_tiles.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/passes/bounds_scope.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// How often each buffer is loaded.
std::unordered_map<const BufferNode*, std::int64_t> count_loads(const Stmt& s) {
  std::unordered_map<const BufferNode*, std::int64_t> count;
  for_each_expr(s, [&](const Expr& e) {
    if (const Load* load = e.as<Load>()) ++count[load->buffer.get()];
  });
  return count;
}

/// Tells of the statements below a loop whether its last tile can be shifted, and which tile it is.
class TileReader {
 public:
  /// `read_elsewhere` says of a buffer whether anything but the loop needs what is written to it.
  TileReader(const For& loop, std::function<bool(const BufferNode*)> read_elsewhere)
      : loop_(loop), read_elsewhere_(std::move(read_elsewhere)) {}

  bool read(const Bounds& bounds) {
    return walk(loop_.body) && !blocks_.empty() && !ends_.empty() && end_alike(bounds) && told_apart();
  }
  /// Places of a tile.
  std::int64_t tile() const { return tile_; }
  bool written(const Buffer& buffer) const { return written_.contains(buffer.get()); }

 private:
  struct Tiled {
    const Block* block;
    Expr iter;               ///< that is bound to a place of a tile
    std::vector<Expr> ends;  ///< what its range ends at
    bool needed_elsewhere;   ///< beyond the loop
  };

  bool walk(const Stmt& s) {
    if (const Seq* seq = s.as<Seq>())
      return std::all_of(seq->stmts.begin(), seq->stmts.end(), [&](const Stmt& below) { return walk(below); });
    if (const Block* block = s.as<Block>()) return read_block(*block);
    const For* loop = s.as<For>();
    const bool known = loop && loop->for_kind != ForKind::parallel && loop->for_kind != ForKind::bound &&
                       is_int(loop->min, 0) && as_int(loop->extent) && *as_int(loop->extent) > 0;
    if (!known) return false;
    inner_.push_back(loop);
    const bool fits = walk(loop->body);
    inner_.pop_back();
    return fits;
  }

  const For* inner_loop(const Expr& atom) const {
    const auto found =
        std::find_if(inner_.begin(), inner_.end(), [&](const For* loop) { return atom == Expr(loop->variable); });
    return found == inner_.end() ? nullptr : *found;
  }

  bool uses_inner(const Expr& e) const {
    return std::any_of(inner_.begin(), inner_.end(),
                       [&](const For* loop) { return uses_var(e, loop->variable.get()); });
  }

  /// Of a binding that is begin + place + what is from outside the loop, the summands of begin and place; nothing of
  /// any other one.
  std::optional<std::vector<AffineTerm>> tile_of(const Affine& binding) {
    std::vector<AffineTerm> summands;
    std::vector<std::pair<std::int64_t, std::int64_t>> digits;  // coefficient, extent
    std::int64_t step = 0, span = 1;
    for (const AffineTerm& term : binding.terms) {
      const For* inner = inner_loop(term.atom);
      if (term.atom == Expr(loop_.variable)) {
        step = term.coefficient;
      } else if (inner) {
        digits.emplace_back(term.coefficient, *as_int(inner->extent));
      } else if (uses_var(term.atom, loop_.variable.get()) || uses_inner(term.atom)) {
        return std::nullopt;
      } else {
        continue;
      }
      summands.push_back(term);
    }
    std::sort(digits.begin(), digits.end());
    for (const auto& [coefficient, extent] : digits) {
      if (coefficient != span) return std::nullopt;
      span *= extent;
    }
    if (span < 2 || step != span || (tile_ != 0 && tile_ != span)) return std::nullopt;
    tile_ = span;
    return summands;
  }

  /// What begin + place stays below by the conjunct, over variables from outside; nothing when it says something else.
  std::optional<Expr> end_of(const Expr& conjunct, const std::vector<AffineTerm>& summands) const {
    const Binary* comparison = conjunct.as<Binary>();
    if (!comparison || comparison->a->dtype != i64) return std::nullopt;
    const bool less = comparison->op == BinaryOp::lt || comparison->op == BinaryOp::le;
    if (!less && comparison->op != BinaryOp::gt && comparison->op != BinaryOp::ge) return std::nullopt;
    Affine end = to_affine(less ? comparison->b : comparison->a);
    if (!add_scaled(end, to_affine(less ? comparison->a : comparison->b), -1)) return std::nullopt;
    for (const AffineTerm& term : summands)
      if (!add_term(end, term.atom, term.coefficient)) return std::nullopt;
    const bool strict = comparison->op == BinaryOp::lt || comparison->op == BinaryOp::gt;
    if (!strict && !add_constant(end, 1)) return std::nullopt;
    Expr result = to_expr(end);
    if (uses_var(result, loop_.variable.get()) || uses_inner(result)) return std::nullopt;
    return result;
  }

  bool read_block(const Block& block) {
    std::optional<size_t> driven;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const IterKind kind = block.f.iters[i].kind;
      if (kind != IterKind::space && kind != IterKind::reduce) return false;
      if (uses_var(block.f.bindings[i], loop_.variable.get())) {
        if (driven || kind != IterKind::space) return false;
        driven = i;
      } else if (kind == IterKind::reduce && block.f.init) {
        // The init runs again only where the tile runs all that follows it.
        for (const VarRef& variable : used_vars(block.f.bindings[i]))
          if (!inner_loop(variable)) return false;
      }
    }
    if (!driven || !is_plain(block)) return false;
    const auto summands = tile_of(to_affine(block.f.bindings[*driven]));
    if (!summands) return false;
    std::vector<Expr> ends;
    for (const Expr& conjunct : conjuncts_of(block.f.predicate)) {
      const bool concerns = std::any_of(summands->begin(), summands->end(), [&](const AffineTerm& term) {
        return uses_var(conjunct, term.atom.as<Var>());
      });
      if (!concerns) continue;
      // A place that another condition leaves out of every tile would be missing at the end.
      const std::optional<Expr> end = end_of(conjunct, *summands);
      if (!end) return false;
      ends.push_back(*end);
    }
    for (const Expr& end : ends)
      if (!contains(ends_, end)) ends_.push_back(end);
    blocks_.push_back({&block, block.f.iters[*driven].variable, ends, needed_elsewhere(block)});
    return true;
  }

  static bool contains(const std::vector<Expr>& all, const Expr& e) {
    return std::any_of(all.begin(), all.end(), [&](const Expr& other) { return identical(e, other); });
  }

  /// Tiles end where the first of the ends is: what goes further must be needed by none but them.
  bool end_alike(const Bounds& bounds) const {
    const auto implied_by = [&](const Expr& end, const std::vector<Expr>& others) {
      return std::any_of(others.begin(), others.end(),
                         [&](const Expr& other) { return proves(bounds, le(other, end)); });
    };
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const Tiled& at) {
      return !at.needed_elsewhere ||
             std::all_of(ends_.begin(), ends_.end(), [&](const Expr& end) { return implied_by(end, at.ends); });
    });
  }

  bool needed_elsewhere(const Block& block) const {
    bool needed = false;
    for_each_stmt(block.f.body, [&](const Stmt& s) {
      if (const Store* store = s.as<Store>()) needed |= read_elsewhere_(store->buffer.get());
    });
    return needed;
  }

  bool is_plain(const Block& block) {
    bool plain = block.f.allocs.empty();
    for (const Stmt& s : {block.f.init, block.f.body}) {
      if (!s) continue;
      for_each_stmt(s, [&](const Stmt& below) {
        switch (below->kind) {
          case StmtKind::Store:
            written_.insert(below.as<Store>()->buffer.get());
            plain &= !below.as<Store>()->buffer->view_of;
            break;
          case StmtKind::Let:
          case StmtKind::If:
          case StmtKind::For:
          case StmtKind::Seq:
            break;
          default:
            plain = false;
        }
      });
      for_each_expr(s, [&](const Expr& e) {
        const Call* call = e.as<Call>();
        plain &= !e.as<AddressOf>() && !(call && call->call_kind == CallKind::extern_scalar);
        if (const Load* load = e.as<Load>()) plain &= !load->buffer->view_of;
      });
    }
    return plain;
  }

  /// Is every access to what is written below at the iter that the tile drives, in one and the same dimension? And is
  /// that iter a summand of indices, and in nothing else?
  bool told_apart() const {
    std::unordered_map<const BufferNode*, std::vector<bool>> apart;
    bool summand = true;
    for (const Tiled& at : blocks_) {
      const Var* iter = at.iter.as<Var>();
      const auto note = [&](const Buffer& buffer, const std::vector<Expr>& indices) {
        std::vector<bool>* dimensions =
            written(buffer) ? &apart.try_emplace(buffer.get(), indices.size(), true).first->second : nullptr;
        for (size_t d = 0; d < indices.size(); ++d) {
          const Affine index = to_affine(indices[d]);
          for (const AffineTerm& term : index.terms) summand &= term.atom == at.iter || !uses_var(term.atom, iter);
          const bool is_iter = index.terms.size() == 1 && index.terms[0].atom == at.iter &&
                               index.terms[0].coefficient == 1 && index.constant == 0;
          if (dimensions) (*dimensions)[d] = (*dimensions)[d] && is_iter;
        }
      };
      for (const Stmt& s : {at.block->f.init, at.block->f.body}) {
        if (!s) continue;
        for_each_stmt(s, [&](const Stmt& below) {
          if (const Store* store = below.as<Store>()) {
            note(store->buffer, store->indices);
            summand &= uses_in_indices_alone(store->value, iter) && uses_in_indices_alone(store->mask, iter);
          } else if (const Let* let = below.as<Let>()) {
            summand &= uses_in_indices_alone(let->value, iter);
          } else if (const If* branch = below.as<If>()) {
            summand &= uses_in_indices_alone(branch->condition, iter);
          } else if (const For* loop = below.as<For>()) {
            summand &= !uses_var(loop->min, iter) && !uses_var(loop->extent, iter);
          }
        });
        for_each_expr(s, [&](const Expr& e) {
          if (const Load* load = e.as<Load>()) note(load->buffer, load->indices);
        });
      }
    }
    return summand && std::all_of(apart.begin(), apart.end(), [](const auto& entry) {
             return std::find(entry.second.begin(), entry.second.end(), true) != entry.second.end();
           });
  }

  /// Does the expression use the variable nowhere but in indices of Loads?
  static bool uses_in_indices_alone(const Expr& e, const Var* variable) {
    class Finder : public Visitor {
     public:
      explicit Finder(const Var* variable) : variable_(variable) {}
      bool found = false;

     protected:
      void visit_Var(const Var* node) override { found |= node == variable_; }
      void visit_Load(const Load* node) override {
        if (node->mask) visit(node->mask);
      }

     private:
      const Var* variable_;
    };
    Finder finder(variable);
    if (e) finder.visit(e);
    return !finder.found;
  }

  const For& loop_;
  const std::function<bool(const BufferNode*)> read_elsewhere_;
  std::vector<const For*> inner_;
  std::vector<Tiled> blocks_;
  std::vector<Expr> ends_;
  std::int64_t tile_ = 0;
  std::unordered_set<const BufferNode*> written_;
};

class Marker : public Mutator {
 public:
  explicit Marker(const Func& func) : func_(func), bounds_(func) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    Stmt loop = Mutator::mutate_For(s, node);
    if (!node->annotations.contains(shift_last_key) && !node->annotations.contains(shiftable_key)) return loop;
    Annotations annotations = node->annotations;
    annotations.erase(shift_last_key);
    annotations.erase(shiftable_key);
    const auto inside = count_loads(node->body);
    TileReader reader(*node, [&](const BufferNode* buffer) { return read_elsewhere(buffer, inside); });
    if (node->for_kind == ForKind::serial && is_int(node->min, 0) && reader.read(bounds_) &&
        writes_first(*node, reader))
      annotations[shiftable_key] = reader.tile();
    return For::make(node->variable, node->min, node->extent, node->for_kind, loop.as<For>()->body, annotations,
                     node->thread_axis);
  }

 private:
  bool read_elsewhere(const BufferNode* buffer, const std::unordered_map<const BufferNode*, std::int64_t>& inside) {
    if (all_loads_.empty()) all_loads_ = count_loads(func_->body);
    const auto total = all_loads_.find(buffer);
    const auto own = inside.find(buffer);
    const std::vector<Buffer> params = buffer_params(func_);
    const bool output =
        std::any_of(params.begin(), params.end(), [&](const Buffer& param) { return param.get() == buffer; });
    return output || (total != all_loads_.end() && (own == inside.end() || own->second != total->second));
  }

  bool writes_first(const For& loop, const TileReader& reader) const {
    return exposed_reads(loop.body, bounds_, [&](const Buffer& buffer) { return reader.written(buffer); }).empty();
  }

  const Func& func_;
  Bounds bounds_;
  std::unordered_map<const BufferNode*, std::int64_t> all_loads_;
};

}  // namespace

Func mark_shiftable_tiles(const Func& func) {
  return with_body(func, Marker(func).mutate(func->body));
}

}  // namespace lathe
