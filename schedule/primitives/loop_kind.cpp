#include "schedule/primitives/loop_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/sum_limits.h"

namespace lathe {
namespace {

/// One buffer's use below a loop, by one block: the region of an instance, over the loops.
struct Use {
  Stmt block;
  Region region;
};

/// Of the outermost blocks with instances of their own: what lies in them uses their iters, not the loops.
void collect_writes(const Stmt& s, std::vector<Use>& uses) {
  for (const Stmt& at : outer_blocks(s)) {
    const Block* block = at.as<Block>();
    if (block->f.iters.empty()) {
      collect_writes(block->f.body, uses);
      continue;
    }
    Substitution map;
    for (size_t i = 0; i < block->f.iters.size(); ++i) map[block->f.iters[i].variable.get()] = block->f.bindings[i];
    for (const Region& region : block->f.writes) uses.push_back({at, substitute(region, map)});
  }
}

/// A digit of a loop's variable, which may have been fused of several: loop // divisor % modulus, or without the
/// modulus when that is 0.
struct Digit {
  std::int64_t divisor = 1, modulus = 0;
  friend bool operator==(const Digit&, const Digit&) = default;
};

std::optional<Digit> as_digit(const Expr& e, const Var* loop) {
  if (e.as<Var>() == loop) return Digit{};
  const Binary* node = e.as<Binary>();
  const std::int64_t* by = node ? as_int(node->b) : nullptr;
  if (!by || *by < 1 || (node->op != BinaryOp::floor_div && node->op != BinaryOp::floor_mod)) return std::nullopt;
  std::optional<Digit> digit = as_digit(node->a, loop);
  if (!digit || digit->modulus % *by != 0) return std::nullopt;
  if (node->op == BinaryOp::floor_div) {
    digit->divisor *= *by;
    digit->modulus /= *by;
  } else {
    digit->modulus = *by;
  }
  return digit;
}

/// The buffers written below a loop of which each iteration touches a slice of its own, found in the declared regions
/// alone: in some dimensions every region lies in [width * digit, width * (digit + 1)) from the same place on, or in
/// such a slice of a slice, and their digits make up the loop's variable.
class Slices {
 public:
  explicit Slices(const For& loop) : loop_(loop) {
    bounds_.bind(loop.variable, Range{loop.min, loop.extent});
    for_each_stmt(loop.body, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      for (size_t i = 0; block && i < block->f.writes.size(); ++i) written_.insert(block->f.writes[i].buffer.get());
    });
    if (!walk(loop.body)) slices_.clear();
  }

  std::unordered_set<const BufferNode*> buffers() const {
    std::unordered_set<const BufferNode*> found;
    for (const auto& [buffer, slices] : slices_) {
      if (tell_apart(slices)) found.insert(buffer);
    }
    return found;
  }
  /// Is every buffer that is written below among them?
  bool are_all() const { return buffers().size() == written_.size(); }

 private:
  using Terms = SumLimit::Terms;
  /// Of one dimension. No access is known yet at width 0; at -1 they lie in no common slice.
  struct Slice {
    std::int64_t width = 0;
    std::vector<std::pair<std::int64_t, Digit>> digits;  ///< and the widths that they count, from `width` up
    Terms from;                                          ///< what loops outside add to the place
    friend bool operator==(const Slice& a, const Slice& b) {
      return a.width == b.width && a.digits == b.digits &&
             std::is_permutation(a.from.begin(), a.from.end(), b.from.begin(), b.from.end());
    }
  };
  static Slice none() { return {-1, {}, {}}; }

  /// Do the digits of the dimensions fit on to each other, up to the loop's extent?
  bool tell_apart(const std::vector<Slice>& slices) const {
    const std::int64_t* extent = is_int(loop_.min, 0) ? as_int(loop_.extent) : nullptr;
    std::vector<Digit> digits;
    for (const Slice& slice : slices) {
      for (const auto& [width, digit] : slice.digits) digits.push_back(digit);
    }
    std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.divisor < b.divisor; });
    std::int64_t reach = 1;
    for (const Digit& digit : digits) {
      if (digit.divisor != reach) continue;
      if (digit.modulus == 0) return true;
      reach *= digit.modulus;
      if (extent && reach >= *extent) return true;
    }
    return false;
  }

  /// False when something else than blocks in loops may touch a buffer.
  bool walk(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::For: {
        const For* inner = s.as<For>();
        const std::int64_t *min = as_int(inner->min), *extent = as_int(inner->extent);
        if (min && extent) inner_[inner->variable.get()] = {*min, *min + *extent - 1};
        below_.insert(inner->variable.get());
        bounds_.bind(inner->variable, Range{inner->min, inner->extent});
        return walk(inner->body);
      }
      case StmtKind::Seq:
        return std::all_of(s.as<Seq>()->stmts.begin(), s.as<Seq>()->stmts.end(),
                           [&](const Stmt& child) { return walk(child); });
      case StmtKind::If: {
        const If* choice = s.as<If>();
        for_each_expr(choice->condition, [&](const Expr& e) {
          if (const Load* load = e.as<Load>())
            slices_[load->buffer.get()] = std::vector<Slice>(load->buffer->rank(), none());
        });
        return walk(choice->then_case) && (!choice->else_case || walk(choice->else_case));
      }
      case StmtKind::Block:
        break;
      default:
        return false;
    }
    const Block& block = *s.as<Block>();
    if (block.f.iters.empty()) return walk(block.f.body);
    Substitution bindings;
    for (size_t i = 0; i < block.f.iters.size(); ++i) bindings[block.f.iters[i].variable.get()] = block.f.bindings[i];
    const std::vector<SumLimit> limits = limits_of(block);
    for (const auto* regions : {&block.f.reads, &block.f.writes}) {
      for (const Region& region : *regions) {
        if (region.buffer->view_of) return false;
        if (!written_.contains(region.buffer.get())) continue;
        std::vector<Slice>& slices = slices_.try_emplace(region.buffer.get(), region.ranges.size()).first->second;
        for (size_t d = 0; d < region.ranges.size(); ++d) {
          if (slices[d].width < 0) continue;
          const Slice slice = is_hint(region) ? none() : slice_of(region.ranges[d], bindings, limits);
          slices[d] = slices[d].width == 0 || slices[d] == slice ? slice : none();
        }
      }
    }
    return true;
  }

  Slice slice_of(const Range& range, const Substitution& bindings, const std::vector<SumLimit>& limits) const {
    const std::int64_t* extent = as_int(range.extent);
    if (!extent) return none();
    const Expr place = substitute(range.min, bindings);
    LinearForm form = linear_form(place);
    // A tile's index by a divisor of its width is the tile's.
    const bool divides = std::any_of(form.terms.begin(), form.terms.end(), [&](const auto& term) {
      return term.first->kind == ExprKind::Binary && !as_digit(term.first, loop_.variable.get());
    });
    if (divides) form = linear_form(simplify(place, bounds_));
    Slice slice;
    for (auto term = form.terms.begin(); term != form.terms.end();) {
      if (const auto digit = as_digit(term->first, loop_.variable.get())) {
        slice.digits.emplace_back(term->second, *digit);
        term = form.terms.erase(term);
      } else {
        ++term;
      }
    }
    if (slice.digits.empty()) return none();
    std::sort(slice.digits.begin(), slice.digits.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    slice.width = slice.digits.front().first;
    for (size_t i = 0; i + 1 < slice.digits.size(); ++i) {
      const auto& [width, digit] = slice.digits[i];
      std::int64_t next;
      if (digit.modulus == 0 || __builtin_mul_overflow(width, digit.modulus, &next) || next > slice.digits[i + 1].first)
        return none();
    }
    std::int64_t low = 0, high = 0;
    for (const auto& [atom, coefficient] : form.terms) {
      const Var* variable = atom.as<Var>();
      const auto known = inner_.find(variable);
      if (known == inner_.end()) {
        if (!variable || variable == loop_.variable.get() || below_.contains(variable)) return none();
        slice.from.emplace_back(atom, coefficient);
        continue;
      }
      low += coefficient * (coefficient > 0 ? known->second.first : known->second.second);
      high += coefficient * (coefficient > 0 ? known->second.second : known->second.first);
    }
    for (const SumLimit& limit : limits) {
      if (limit.is_of(form.terms)) high = std::min(high, limit.most);
    }
    return low + form.constant >= 0 && high + form.constant + *extent <= slice.width ? slice : none();
  }

  const For& loop_;
  Bounds bounds_;
  std::unordered_map<const Var*, std::pair<std::int64_t, std::int64_t>> inner_;
  std::unordered_set<const BufferNode*> written_;
  std::unordered_set<const Var*> below_;  ///< the variables of loops below, those too whose extents are not known
  std::unordered_map<const BufferNode*, std::vector<Slice>> slices_;
};

/// Parameters, and what blocks read or write that do not lie below the loop that the path ends with.
std::unordered_set<const BufferNode*> used_outside(const Func& func, const Path& path) {
  std::unordered_set<const BufferNode*> used;
  for (const Buffer& param : buffer_params(func)) used.insert(param.get());
  const std::function<void(const Stmt&)> walk = [&](const Stmt& s) {
    if (s == path.back()) return;
    switch (s->kind) {
      case StmtKind::For:
        return walk(s.as<For>()->body);
      case StmtKind::Seq:
        for (const Stmt& child : s.as<Seq>()->stmts) walk(child);
        return;
      case StmtKind::Block:
        if (std::find(path.begin(), path.end(), s) != path.end()) return walk(s.as<Block>()->f.body);
        for (const Region& region : s.as<Block>()->f.reads) used.insert(region.buffer.get());
        for (const Region& region : s.as<Block>()->f.writes) used.insert(region.buffer.get());
        return;
      case StmtKind::Let:
        return walk(s.as<Let>()->body);
      case StmtKind::If:
        for_each_expr(s.as<If>()->condition, [&](const Expr& e) {
          if (const Load* load = e.as<Load>()) used.insert(load->buffer.get());
        });
        walk(s.as<If>()->then_case);
        if (s.as<If>()->else_case) walk(s.as<If>()->else_case);
        return;
      case StmtKind::While:
        return walk(s.as<While>()->body);
      default:
        return;
    }
  };
  walk(func->body);
  return used;
}

}  // namespace

Stmt with_kind(const For& loop, ForKind kind) {
  return For::make(loop.variable, loop.min, loop.extent, kind, loop.body, loop.annotations);
}

void require_constant_extent(const Schedule& schedule, const std::string& application, int number, const Stmt& loop) {
  const std::int64_t* extent = as_int(loop.as<For>()->extent);
  if (!extent || *extent < 1) {
    refuse(schedule, application, number, "the extent is a constant of at least 1", loop,
           extent ? "never runs" : "has an extent that is no constant", "split it by a constant first");
  }
}

void require_space_iters(const Schedule& schedule, const std::string& application, int number, const Stmt& loop) {
  const Var* variable = loop.as<For>()->variable.get();
  for (const Stmt& s : outer_blocks(loop.as<For>()->body)) {
    const Block& block = *s.as<Block>();
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (block.f.iters[i].kind != IterKind::space && uses_var(block.f.bindings[i], variable)) {
        refuse(schedule, application, number,
               "no reduce, ordered or opaque iter below is bound to an expression of loop", s,
               fmt::format("binds {} iter {} to it", to_string(block.f.iters[i].kind), block.f.iters[i].variable->name),
               block.f.iters[i].kind == IterKind::reduce ? "rfactor makes a space iter of it" : "");
      }
    }
  }
}

void require_lanes_apart(const Schedule& schedule, const std::string& application, int number, const Path& path) {
  const For& node = *path.back().as<For>();
  bool takes_address = false;
  for_each_expr(node.body, [&](const Expr& e) { takes_address |= e.as<AddressOf>() != nullptr; });
  if (!takes_address && Slices(node).are_all()) return;
  require_apart(schedule, application, number, "no iteration touches what another one writes", path);
}

std::vector<Buffer> require_independent_iterations(const Schedule& schedule, const std::string& application, int first,
                                                   const Path& path) {
  const For& node = *path.back().as<For>();
  require_space_iters(schedule, application, first, path.back());
  if (is_int(node.extent, 1)) return {};

  std::vector<Use> written;
  collect_writes(node.body, written);
  const std::unordered_set<const BufferNode*> outside = used_outside(schedule.func(), path);
  for (const Use& use : written) {
    bool uses_loop = false;
    for (const Range& range : use.region.ranges) uses_loop |= uses_var(range.min, node.variable.get());
    if (!uses_loop && outside.contains(use.region.buffer.get())) {
      refuse(schedule, application, first + 1,
             "a block below that does not use loop writes only buffers that nothing outside of loop reads or writes",
             use.block, fmt::format("writes the same elements of {} in every iteration", use.region.buffer->name));
    }
  }
  // Each iteration has for itself what it writes before it reads it, if nobody else looks.
  Bounds inside = bounds_at(schedule.func(), path);
  inside.bind(node.variable, Range{node.min, node.extent});
  std::unordered_set<const BufferNode*> shared = outside;
  const std::unordered_set<const BufferNode*> sliced = Slices(node).buffers();
  const auto is_private = [&](const Buffer& buffer) {
    return !outside.contains(buffer.get()) && !sliced.contains(buffer.get());
  };
  for (const ExposedRead& read : exposed_reads(node.body, inside, is_private)) shared.insert(read.region.buffer.get());
  require_apart(schedule, application, first + 2,
                "no two iterations meet in an element that one of them writes, but for buffers that nothing outside of "
                "loop uses and that each iteration writes before it reads them",
                path,
                [&](const Buffer& buffer) { return shared.contains(buffer.get()) && !sliced.contains(buffer.get()); });
  std::vector<Buffer> own;
  for (const Use& use : written) {
    const Buffer& buffer = use.region.buffer;
    if (shared.contains(buffer.get()) || sliced.contains(buffer.get()) ||
        std::find(own.begin(), own.end(), buffer) != own.end())
      continue;
    const auto only = [&](const Buffer& other) { return other == buffer; };
    if (!carried_dependences(path.back(), bounds_at(schedule.func(), path), 1, only).empty()) own.push_back(buffer);
  }
  return own;
}

}  // namespace lathe
