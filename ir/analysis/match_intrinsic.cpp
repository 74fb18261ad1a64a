#include "ir/analysis/match_intrinsic.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/analysis/affine.h"
#include "ir/analysis/interval.h"
#include "ir/analysis/simplify.h"
#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

std::string first_line(const Stmt& s) {
  const std::string text = print(s);
  return text.substr(0, text.find('\n'));
}

/// The statement without Lets where all that they enclose is one Store, which may as well use their values.
Stmt without_lets(const Stmt& s) {
  Substitution values;
  Stmt at = s;
  while (const Let* let = at.as<Let>()) {
    values[let->variable.get()] = substitute(let->value, values);
    at = let->body;
  }
  return at.as<Store>() && !values.empty() ? substitute(at, values) : s;
}

Stmt body_at_bindings(const Block& block, const Stmt& part) {
  Substitution iters;
  for (size_t i = 0; i < block.f.iters.size(); ++i) iters[block.f.iters[i].variable.get()] = block.f.bindings[i];
  return iters.empty() ? part : substitute(part, iters);
}

bool swaps(BinaryOp op) {
  return op == BinaryOp::add || op == BinaryOp::mul;
}

/// `described` is the intrinsic's, `found` the program's, throughout.
class Matcher {
 public:
  explicit Matcher(const Func& intrinsic) : params_(buffer_params(intrinsic)) {
    state_.arguments.resize(params_.size());
  }

  IntrinsicMatch run(const Stmt& described, const Stmt& found) {
    if (same(described, found)) check_writes();
    return {std::move(state_.arguments), std::move(difference_)};
  }

 private:
  struct State {
    std::vector<IntrinsicArgument> arguments;
    std::vector<bool> written;
    std::unordered_map<const Var*, VarRef> variables;  ///< bound in the intrinsic, to those of the program
  };

  bool differ(const std::string& described, const std::string& found) {
    if (difference_.empty()) difference_ = fmt::format("the intrinsic has {}, the block has {}", described, found);
    return false;
  }
  bool differ(const Stmt& described, const Stmt& found) {
    return differ("'" + first_line(described) + "'", "'" + first_line(found) + "'");
  }
  bool differ(const Expr& described, const Expr& found) {
    return differ("'" + print(described) + "'", "'" + print(found) + "'");
  }

  /// A block that neither starts a reduction nor allocates, and always runs or never, is what it holds.
  Stmt opened(Stmt s) const {
    while (const Block* block = s.as<Block>()) {
      const Expr& predicate = block->f.predicate;
      const bool varies = predicate && std::any_of(moving_.begin(), moving_.end(),
                                                   [&](const Var* loop) { return uses_var(predicate, loop); });
      const bool described = predicate && std::any_of(state_.variables.begin(), state_.variables.end(),
                                                      [&](const auto& v) { return uses_var(predicate, v.first); });
      if (varies || described || block->f.init || !block->f.allocs.empty()) break;
      s = body_at_bindings(*block, block->f.body);
    }
    return without_lets(s);
  }

  bool same(const Stmt& described, const Stmt& found) {
    const Stmt d = opened(described), a = opened(found);
    if (d->kind != a->kind) return differ(d, a);
    switch (d->kind) {
      case StmtKind::For:
        return same(d, *d.as<For>(), a, *a.as<For>());
      case StmtKind::Block:
        return same(d, *d.as<Block>(), a, *a.as<Block>());
      case StmtKind::Store: {
        const Store *x = d.as<Store>(), *y = a.as<Store>();
        return access(x->buffer, x->indices, y->buffer, y->indices, true) && same(x->value, y->value) &&
               same_or_null(x->mask, y->mask, d, a);
      }
      case StmtKind::Let: {
        const Let *x = d.as<Let>(), *y = a.as<Let>();
        if (!same(x->value, y->value)) return false;
        state_.variables[x->variable.get()] = y->variable;
        return same(x->body, y->body);
      }
      case StmtKind::If: {
        const If *x = d.as<If>(), *y = a.as<If>();
        if (!x->else_case != !y->else_case) return differ(d, a);
        return same(x->condition, y->condition) && same(x->then_case, y->then_case) &&
               (!x->else_case || same(x->else_case, y->else_case));
      }
      case StmtKind::Seq: {
        const std::vector<Stmt>&x = d.as<Seq>()->stmts, &y = a.as<Seq>()->stmts;
        for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
          if (!same(x[i], y[i])) return false;
        }
        if (x.size() > y.size()) return differ("'" + first_line(x[y.size()]) + "'", "nothing more");
        if (x.size() < y.size()) return differ("nothing more", "'" + first_line(y[x.size()]) + "'");
        return true;
      }
      default:
        return differ(d, a);
    }
  }

  bool same(const Stmt& described, const For& d, const Stmt& found, const For& a) {
    const std::int64_t *d_min = as_int(d.min), *d_extent = as_int(d.extent);
    const std::int64_t *a_min = as_int(a.min), *a_extent = as_int(a.extent);
    const bool range = d_min && d_extent && a_min && a_extent && *d_min == *a_min && *d_extent == *a_extent;
    const bool together = a.for_kind == ForKind::parallel || a.for_kind == ForKind::bound;
    if (!range || (together && (a.for_kind != d.for_kind || a.thread_axis != d.thread_axis))) {
      return differ(described, found);
    }
    state_.variables[d.variable.get()] = a.variable;
    moving_.push_back(a.variable.get());
    const Bounds::Mark mark = bounds_.mark();
    bounds_.bind(a.variable, Range{a.min, a.extent});
    const bool result = same(d.body, a.body);
    bounds_.rollback(mark);
    moving_.pop_back();
    return result;
  }

  bool same(const Stmt& described, const Block& d, const Stmt& found, const Block& a) {
    if (!a.f.allocs.empty() || !d.f.allocs.empty() || !d.f.init != !a.f.init) return differ(described, found);
    if (!same_or_null(d.f.predicate, a.f.predicate, described, found)) return false;
    if (d.f.init) {
      // When an init runs is up to the loops that reduce.
      for (const auto& [theirs, ours] : state_.variables) {
        if (reduces(d, theirs) != reduces(a, ours.get())) return differ(described, found);
      }
      if (!same(body_at_bindings(d, d.f.init), body_at_bindings(a, a.f.init))) return false;
    }
    return same(body_at_bindings(d, d.f.body), body_at_bindings(a, a.f.body));
  }

  static bool reduces(const Block& block, const Var* loop) {
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (block.f.iters[i].kind != IterKind::space && uses_var(block.f.bindings[i], loop)) return true;
    }
    return false;
  }

  bool same_or_null(const Expr& d, const Expr& a, const Stmt& described, const Stmt& found) {
    if (!d && !a) return true;
    return d && a ? same(d, a) : differ(described, found);
  }

  bool same(const std::vector<Expr>& d, const std::vector<Expr>& a) {
    for (size_t i = 0; i < d.size(); ++i) {
      if (!same(d[i], a[i])) return false;
    }
    return true;
  }

  bool same(const Expr& d, const Expr& a) {
    if (d->kind != a->kind || !(d->dtype == a->dtype)) return differ(d, a);
    switch (d->kind) {
      case ExprKind::IntImm:
        return d.as<IntImm>()->value == a.as<IntImm>()->value || differ(d, a);
      case ExprKind::FloatImm:
        return equal(d, a) || differ(d, a);
      case ExprKind::Var: {
        const auto known = state_.variables.find(d.as<Var>());
        return (known != state_.variables.end() && Expr(known->second) == a) || differ(d, a);
      }
      case ExprKind::Unary:
        if (d.as<Unary>()->op != a.as<Unary>()->op) return differ(d, a);
        return same(d.as<Unary>()->a, a.as<Unary>()->a);
      case ExprKind::Binary:
        return same_operands(d, *d.as<Binary>(), a, *a.as<Binary>());
      case ExprKind::Select: {
        const Select *x = d.as<Select>(), *y = a.as<Select>();
        return same(x->condition, y->condition) && same(x->when_true, y->when_true) &&
               same(x->when_false, y->when_false);
      }
      case ExprKind::Cast:
        return same(d.as<Cast>()->value, a.as<Cast>()->value);
      case ExprKind::Load: {
        const Load *x = d.as<Load>(), *y = a.as<Load>();
        if (!x->mask != !y->mask) return differ(d, a);
        return access(x->buffer, x->indices, y->buffer, y->indices, false) && (!x->mask || same(x->mask, y->mask));
      }
      case ExprKind::Call: {
        const Call *x = d.as<Call>(), *y = a.as<Call>();
        const bool callee = x->call_kind == CallKind::intrinsic && y->call_kind == CallKind::intrinsic;
        if (!callee || x->callee != y->callee) return differ(d, a);
        return same(x->args, y->args);
      }
      default:
        return differ(d, a);
    }
  }

  bool same_operands(const Expr& described, const Binary& d, const Expr& found, const Binary& a) {
    if (d.op != a.op) return differ(described, found);
    if (!swaps(d.op)) return same(d.a, a.a) && same(d.b, a.b);
    const State before = state_;
    const bool differed = !difference_.empty();
    if (same(d.a, a.a) && same(d.b, a.b)) return true;
    // What is told is how the operands differ as they stand.
    std::string straight = std::move(difference_);
    difference_.clear();
    state_ = before;
    const bool swapped = same(d.a, a.b) && same(d.b, a.a);
    difference_ = swapped && !differed ? std::string() : std::move(straight);
    return swapped;
  }

  bool is_still(const Affine& a) const {
    return std::none_of(a.terms.begin(), a.terms.end(), [&](const AffineTerm& term) {
      return std::any_of(moving_.begin(), moving_.end(), [&](const Var* loop) { return uses_var(term.atom, loop); });
    });
  }

  /// What an index of the program is ahead of one of the description; nothing when the loops move it.
  std::optional<Affine> ahead(const Expr& found, const Expr& described) const {
    Affine result = to_affine(simplify(found, bounds_));
    if (described) {
      Substitution map;
      for (const auto& [theirs, ours] : state_.variables) map[theirs] = ours;
      if (!add_scaled(result, to_affine(substitute(described, map)), -1)) return std::nullopt;
    }
    return is_still(result) ? std::optional(std::move(result)) : std::nullopt;
  }

  bool access(const Buffer& described, const std::vector<Expr>& d, const Buffer& found, const std::vector<Expr>& a,
              bool written) {
    const auto fail = [&](const std::string& why) {
      return differ(fmt::format("'{}'", print(load(described, d))),
                    fmt::format("'{}'{}", print(load(found, a)), why.empty() ? "" : ", " + why));
    };
    const auto param = std::find(params_.begin(), params_.end(), described);
    LATHE_CHECK(param != params_.end(), "an intrinsic uses parameters only");
    if (!(described->dtype == found->dtype)) return fail(fmt::format("of {}", to_string(found->dtype)));
    if (described->space != space::global && described->space != found->space) {
      return fail(fmt::format("in space {}", found->space));
    }
    if (a.size() != found->rank()) return fail("");
    for (const Expr& i : a) {
      if (!i->dtype.is_scalar()) return fail("");
    }
    IntrinsicArgument argument{found, std::vector<size_t>(d.size()), std::vector<Expr>(a.size())};
    std::vector<const Expr*> of(a.size(), nullptr);
    size_t next = a.size();
    for (size_t k = d.size(); k-- > 0;) {
      while (next > 0 && !ahead(a[next - 1], d[k])) --next;
      if (next == 0) return fail("");
      argument.dimensions[k] = --next;
      of[next] = &d[k];
    }
    for (size_t k = 0; k < a.size(); ++k) {
      const std::optional<Affine> rest = ahead(a[k], of[k] ? *of[k] : Expr());
      if (!rest) return fail("");
      argument.first[k] = to_expr(*rest);
    }
    const std::vector<Expr> strides = strides_of(described), own = strides_of(found);
    for (size_t k = 0; k < d.size(); ++k) {
      const std::int64_t* wanted = as_int(strides[k]);
      const std::int64_t* stride = as_int(own[argument.dimensions[k]]);
      if (!wanted || is_int(described->shape[k], 1)) continue;
      if (!stride || *stride != *wanted) {
        return fail(fmt::format("with a stride of {} instead of {}", print(own[argument.dimensions[k]]), *wanted));
      }
    }
    const auto number = static_cast<size_t>(param - params_.begin());
    IntrinsicArgument& known = state_.arguments[number];
    if (!known.buffer) {
      known = std::move(argument);
    } else {
      bool agrees = known.buffer == found && known.dimensions == argument.dimensions;
      for (size_t k = 0; k < a.size() && agrees; ++k) agrees = identical(known.first[k], argument.first[k]);
      if (!agrees) return fail(fmt::format("after '{}'", print(load(known.buffer, known.first))));
    }
    state_.written.resize(params_.size());
    if (written) state_.written[number] = true;
    return true;
  }

  void check_writes() {
    state_.written.resize(params_.size());
    for (size_t i = 0; i < params_.size(); ++i) {
      for (size_t j = 0; j < params_.size(); ++j) {
        const Buffer& buffer = state_.arguments[i].buffer;
        if (i == j || !state_.written[i] || !buffer || state_.arguments[j].buffer != buffer) continue;
        differ(fmt::format("two buffers, {} and {}", params_[i]->name, params_[j]->name), buffer->name + " for both");
      }
    }
  }

  const std::vector<Buffer> params_;
  State state_;
  std::vector<const Var*> moving_;  ///< the program's loops around here
  Bounds bounds_;                   ///< of these
  std::string difference_;
};

}  // namespace

IntrinsicMatch match_intrinsic(const Func& intrinsic, const Stmt& body) {
  return Matcher(intrinsic).run(intrinsic->body, body);
}

}  // namespace lathe
