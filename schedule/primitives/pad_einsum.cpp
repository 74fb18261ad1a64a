#include "schedule/primitives/pad_einsum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// An operand as it is read, and its padded copy.
struct Operand {
  const Load* load;
  std::vector<const Iter*> iters;  ///< one a dimension; null where the index is 0
  Buffer padded;                   ///< null when none of its iters grows
};

class Replacer : public Mutator {
 public:
  explicit Replacer(const std::vector<Operand>& operands) : operands_(operands) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    for (const Operand& operand : operands_) {
      if (operand.padded && equal(Expr(operand.load), e)) return load(operand.padded, node->indices);
    }
    return e;
  }

 private:
  const std::vector<Operand>& operands_;
};

class Zeros : public Mutator {
 protected:
  Expr mutate_Load(const Expr& e, const Load*) override { return constant(e->dtype, 0); }
};

class Padder {
 public:
  Padder(const Schedule& schedule, const BlockRef& block, const std::vector<std::int64_t>& padding)
      : application(fmt::format("pad_einsum({}, {})", block.name, fmt::join(padding, ", "))),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        block_(*path_.back().as<Block>()),
        bounds_(schedule.func()) {
    check_block();
    check_padding(padding);
    collect_operands();
    check_terms();
    check_writes();
  }

  const std::string application;

  Stmt run() {
    std::vector<Stmt> before, behind;
    std::vector<Buffer> made;
    for (Operand& operand : operands_) {
      const bool grows =
          std::any_of(operand.iters.begin(), operand.iters.end(), [&](const Iter* i) { return i && grows_[at(*i)]; });
      if (!grows) continue;
      operand.padded = padded(operand.load->buffer, operand.iters);
      before.push_back(fill(operand));
      made.push_back(operand.padded);
    }
    BufferMap outputs;
    for (const ReductionOutput& output : parts_.outputs) {
      std::vector<const Iter*> iters;
      iters.reserve(output.indices.size());
      for (const Expr& e : output.indices) iters.push_back(find_iter(e));
      const bool grows = std::any_of(iters.begin(), iters.end(), [&](const Iter* i) { return i && grows_[at(*i)]; });
      if (!grows) continue;
      const Buffer target = padded(output.buffer, iters);
      outputs[output.buffer.get()] = target;
      made.push_back(target);
      behind.push_back(copy_nest(unique(block_.f.name + "_unpad"), target, output.buffer));
    }
    before.push_back(grown_nest(outputs));
    before.insert(before.end(), behind.begin(), behind.end());
    Stmt body = replace_last(Path(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(own_) + 1),
                             Seq::make(std::move(before)));
    for (const Buffer& buffer : made) body = add_allocation(body, buffer);
    return body;
  }

 private:
  size_t at(const Iter& iter) const { return static_cast<size_t>(&iter - block_.f.iters.data()); }
  const Iter* find_iter(const Expr& e) const {
    for (const Iter& iter : block_.f.iters) {
      if (Expr(iter.variable) == e) return &iter;
    }
    return nullptr;
  }
  /// Names that this application has given are taken, too.
  std::string unique(const std::string& base) {
    std::string name = schedule_.unique_name(base);
    for (int i = 1; std::find(names_.begin(), names_.end(), name) != names_.end(); ++i) {
      name = schedule_.unique_name(fmt::format("{}_{}", base, i));
    }
    names_.push_back(name);
    return name;
  }

  void check_block() {
    const std::string text =
        "block is a reduction from its identity that runs over its whole domain, each iter by a serial loop of its "
        "own, "
        "with no other block in those loops";
    std::optional<ReductionParts> parts = match_update(block_);
    if (!parts || !block_.f.reducer || !block_.f.init) {
      refuse(schedule_, application, 1, text, path_.back(),
             block_.f.reducer ? "has no init, or another body" : "is no reduction");
    }
    parts_ = std::move(*parts);
    identities_ = block_.f.reducer->identities;
    if (!starts_at_identity(block_)) {
      refuse(schedule_, application, 1, text, path_.back(), "starts with another value than its identity");
    }
    if (const std::string reason = why_not_alone(path_, own_); !reason.empty()) {
      refuse(schedule_, application, 1, text, path_.back(), reason);
    }
  }

  void check_padding(const std::vector<std::int64_t>& padding) {
    const std::string text = "padding has a factor of at least 1 for each iter, whose domains begin at 0";
    if (padding.size() != block_.f.iters.size()) {
      refuse(schedule_, application, 2, text, path_.back(), fmt::format("has {} iters", block_.f.iters.size()));
    }
    for (size_t i = 0; i < padding.size(); ++i) {
      const Iter& iter = block_.f.iters[i];
      if (padding[i] < 1 || !is_int(iter.domain.min, 0)) {
        refuse(schedule_, application, 2, text, path_.back(),
               padding[i] < 1 ? fmt::format("cannot pad {} so", iter.variable->name)
                              : fmt::format("begins {} at {}", iter.variable->name, print(iter.domain.min)));
      }
      extents_.push_back(simplify(floor_div(iter.domain.extent + (padding[i] - 1), padding[i]) * padding[i], bounds_));
      grows_.push_back(!proves_equal(bounds_, extents_.back(), iter.domain.extent));
    }
  }

  void collect_operands() {
    const std::string text = "every Load of the terms is without a mask, at iters, each over a whole dimension, or 0";
    const auto look = [&](const Expr& e) {
      if (e.as<AddressOf>()) refuse(schedule_, application, 3, text, path_.back(), "takes an address");
      const Load* node = e.as<Load>();
      if (!node) return;
      for (const Operand& known : operands_) {
        if (equal(Expr(known.load), e)) return;
      }
      const auto refuse_load = [&](const std::string& how) {
        refuse(schedule_, application, 3, text, path_.back(), fmt::format("reads {} {}", print(e), how));
      };
      if (node->mask) refuse_load("under a mask");
      Operand operand{node, {}, nullptr};
      for (size_t d = 0; d < node->indices.size(); ++d) {
        const Iter* iter = find_iter(node->indices[d]);
        if (iter && std::find(operand.iters.begin(), operand.iters.end(), iter) != operand.iters.end())
          refuse_load("at one iter twice");
        if (!iter && !is_int(node->indices[d], 0)) refuse_load("at an index that is no iter");
        if (iter && !proves_equal(bounds_, node->buffer->shape[d], iter->domain.extent))
          refuse_load("not over a whole dimension");
        operand.iters.push_back(iter);
      }
      operands_.push_back(std::move(operand));
    };
    for (const Stmt& s : parts_.lets) for_each_expr(s.as<Let>()->value, look);
    for (const Expr& term : parts_.terms) for_each_expr(term, look);
  }

  void check_terms() {
    const std::string text =
        "every Load uses each reduce iter that grows, and the terms are the identity where all Loads are zero";
    bool reduce_grows = false;
    for (const Iter& iter : block_.f.iters) {
      if (iter.kind == IterKind::space || !grows_[at(iter)]) continue;
      reduce_grows = true;
      for (const Operand& operand : operands_) {
        if (std::find(operand.iters.begin(), operand.iters.end(), &iter) != operand.iters.end()) continue;
        refuse(schedule_, application, 4, text, path_.back(),
               fmt::format("reads {} without {}", print(Expr(operand.load)), iter.variable->name));
      }
    }
    if (!reduce_grows) return;
    Substitution lets;
    Zeros zeros;
    for (const Stmt& s : parts_.lets) {
      const Let* let = s.as<Let>();
      lets[let->variable.get()] = zeros.mutate(substitute(let->value, lets));
    }
    for (size_t k = 0; k < parts_.terms.size(); ++k) {
      const Expr term = simplify(zeros.mutate(substitute(parts_.terms[k], lets)), bounds_);
      if (equal(term, identities_[k])) continue;
      refuse(schedule_, application, 4, text, path_.back(),
             fmt::format("adds {} where all operands are zero", print(term)));
    }
  }

  void check_writes() {
    const std::string text = "block writes at its space iters, each once, and is the only one to write there";
    if (const std::string reason = why_not_pointwise(block_); !reason.empty()) {
      refuse(schedule_, application, 5, text, path_.back(), reason);
    }
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* other = s.as<Block>();
      if (!other || s == path_.back() || has_blocks(*other)) return;
      for (const ReductionOutput& output : parts_.outputs) {
        if (writes(*other, output.buffer))
          refuse(schedule_, application, 5, text, s, fmt::format("writes {} too", output.buffer->name));
      }
    });
  }

  Buffer padded(const Buffer& buffer, const std::vector<const Iter*>& iters) {
    std::vector<Expr> shape;
    shape.reserve(iters.size());
    for (size_t d = 0; d < iters.size(); ++d) shape.push_back(iters[d] ? extents_[at(*iters[d])] : buffer->shape[d]);
    return BufferNode::make(unique(buffer->name + "_pad"), buffer->dtype, std::move(shape));
  }

  /// Copies an operand, with zeros around it.
  Stmt fill(const Operand& operand) {
    Block::Fields f;
    f.name = operand.padded->name;
    std::vector<Expr> indices;
    std::vector<Range> ranges;
    Expr inside;
    for (size_t d = 0; d < operand.iters.size(); ++d) {
      const Iter* iter = operand.iters[d];
      if (!iter) {
        indices.push_back(index(0));
        continue;
      }
      const VarRef variable = Var::make(iter->variable->name);
      ranges.push_back({index(0), extents_[at(*iter)]});
      f.iters.push_back({variable, ranges.back(), IterKind::space});
      f.bindings.push_back(index(0));
      if (grows_[at(*iter)]) inside = logical_and(inside, lt(Expr(variable), iter->domain.extent));
      indices.emplace_back(variable);
    }
    f.body = Store::make(operand.padded, indices, load(operand.load->buffer, indices, inside));
    const Stmt block = Block::make(std::move(f));
    const Stmt inferred = with_inferred_regions(*block.as<Block>());
    return make_nest(*inferred.as<Block>(), ranges);
  }

  /// The block's own loops, in their order, over the larger domains.
  Stmt grown_nest(const BufferMap& outputs) {
    Replacer replacer(operands_);
    std::vector<VarRef> added(block_.f.iters.size());
    Stmt nest = with_fields(block_, [&](Block::Fields& f) {
      f.body = replacer.mutate(f.body);
      for (size_t i = 0; i < f.iters.size(); ++i) {
        if (!grows_[i]) continue;
        f.iters[i].domain.extent = extents_[i];
        if (f.bindings[i].as<Var>()) continue;
        added[i] = Var::make(loop_name(block_, i));
        f.bindings[i] = added[i];
      }
    });
    nest = replace_buffers(nest, outputs);
    nest = with_inferred_regions(*nest.as<Block>());
    for (size_t i = added.size(); i-- > 0;) {
      if (added[i]) nest = For::make(added[i], index(0), extents_[i], ForKind::serial, nest);
    }
    for (size_t level = path_.size() - 1; level-- > own_;) {
      const For& loop = *path_[level].as<For>();
      Expr extent = loop.extent;
      for (size_t i = 0; i < block_.f.iters.size(); ++i) {
        if (grows_[i] && block_.f.bindings[i] == Expr(loop.variable)) extent = extents_[i];
      }
      nest = For::make(loop.variable, loop.min, extent, loop.for_kind, nest, loop.annotations);
    }
    return nest;
  }

  const Schedule& schedule_;
  const Path path_;
  const Block& block_;
  const Bounds bounds_;
  ReductionParts parts_;
  std::vector<Expr> identities_;  ///< of the block's reducer
  size_t own_ = 0;
  std::vector<Expr> extents_;
  std::vector<bool> grows_;
  std::vector<Operand> operands_;
  std::vector<std::string> names_;
};

}  // namespace

void pad_einsum(Schedule& schedule, const BlockRef& block, const std::vector<std::int64_t>& padding) {
  Padder padder(schedule, block, padding);
  Stmt body = padder.run();
  schedule.commit(std::move(body), padder.application);
}

}  // namespace lathe
