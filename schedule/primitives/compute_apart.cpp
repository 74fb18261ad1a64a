#include "schedule/primitives/compute_apart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// By number, from 1 on.
constexpr const char* conditions[] = {
    "block has parts that hang on these iters or this input alone, of what it does not write itself, under no mask, "
    "and no "
    "predicate",
    "nothing in the nest that holds block writes what they read",
    "the elements that they read are proved to lie in their buffers for every value of the iters",
};

std::vector<const Load*> loads_of(const Expr& e) {
  std::vector<const Load*> loads;
  for_each_expr(e, [&](const Expr& part) {
    if (const Load* load = part.as<Load>()) loads.push_back(load);
  });
  return loads;
}

/// Puts an expression in the place of an element.
class InItsPlace : public Mutator {
 public:
  InItsPlace(const Load& element, Expr with) : value(std::move(with)), element_(element) {}

  const Expr value;

  using Mutator::mutate;

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    return equal(e, Expr(&element_)) ? value : Mutator::mutate_Load(e, node);
  }

 private:
  const Load& element_;
};

/// Puts expressions in the place of the largest that fit, alike ones in that of alike ones.
class Parts : public Mutator {
 public:
  struct Part {
    Expr value, in_its_place;
  };
  using Fits = std::function<bool(const Expr&)>;
  /// Makes what stands in the place of the part of that number.
  using Replace = std::function<Expr(size_t, const Expr&)>;

  Parts(Fits fits, Replace replace) : fits_(std::move(fits)), replace_(std::move(replace)) {}

  std::vector<Part> parts;

  using Mutator::mutate;
  Expr mutate(const Expr& e) override {
    if (!computes(e) || !fits_(e)) return Mutator::mutate(e);
    for (const Part& part : parts) {
      if (equal(part.value, e)) return part.in_its_place;
    }
    parts.push_back({e, replace_(parts.size(), e)});
    return parts.back().in_its_place;
  }

 private:
  static bool computes(const Expr& e) {
    const bool operation = e.as<Unary>() || e.as<Binary>() || e.as<Select>() || e.as<Cast>();
    return operation && e->dtype.is_scalar() && e->dtype != i64 && !e->dtype.is_bool();
  }

  Fits fits_;
  Replace replace_;
};

/// Is a function evaluated, or something divided, beside what takes an instruction?
bool evaluates(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& part) {
    const Unary* unary = part.as<Unary>();
    const Binary* binary = part.as<Binary>();
    found |= unary && unary->op != UnaryOp::neg && unary->op != UnaryOp::abs && unary->op != UnaryOp::bit_not;
    found |= binary && binary->op == BinaryOp::div;
  });
  return found;
}

/// What both ways of computing parts apart share.
class Computer {
 public:
  Computer(Schedule& schedule, const BlockRef& block, const std::string& given)
      : schedule_(schedule),
        path_(path_to(schedule, block)),
        node_(*path_.back().as<Block>()),
        application_(fmt::format("compute_apart({}, {})", block.name, given)),
        scalars_(scalar_params(schedule.func())) {
    outermost_ = path_.size() - 1;
    for (size_t level = outermost_; level-- > 0;) {
      const Block* around = path_[level].as<Block>();
      if (around && around->f.iters.empty()) break;
      if (path_[level].as<For>() || around) outermost_ = level;
    }
    if (node_.f.predicate || has_blocks(node_)) refused(1, path_.back(), "has a predicate, or blocks");
  }

  [[noreturn]] void refused(int condition, const Stmt& culprit, const std::string& note) const {
    refuse(schedule_, application_, condition, conditions[condition - 1], culprit, note);
  }

  bool is_scalar(const VarRef& used) const {
    return std::find(scalars_.begin(), scalars_.end(), used) != scalars_.end();
  }

  /// Does a part load something, nothing of it under a mask or of what the block writes, and call nothing?
  bool may_stand_apart(const Expr& e) const {
    bool may = true, loads = false;
    for_each_expr(e, [&](const Expr& part) {
      const Load* load = part.as<Load>();
      loads |= load != nullptr;
      if (load) may &= !load->mask && load->dtype.is_scalar() && !writes(node_, load->buffer);
      may &= !part.as<Call>() && !part.as<AddressOf>();
    });
    return may && loads;
  }

  Buffer new_buffer(DType dtype, std::vector<Expr> shape) {
    names_.push_back(schedule_.unique_name(node_.f.name + "_part", names_));
    return BufferNode::make(names_.back(), dtype, std::move(shape));
  }

  /// Puts a block for each part before the nest, and the rest in the place of the block. Parts read `source` alone, or,
  /// where it is null, all that they name.
  std::vector<BlockRef> commit(Parts& parts, const std::function<Stmt(size_t)>& nest_of,
                               const std::vector<Buffer>& buffers, const Buffer& source = nullptr) {
    const Stmt body = parts.mutate(node_.f.body);
    if (parts.parts.empty()) refused(1, path_.back(), "has none");
    for (const Parts::Part& part : parts.parts) refuse_written(part.value, source);
    std::vector<Stmt> stmts;
    std::vector<BlockRef> made;
    for (size_t k = 0; k < parts.parts.size(); ++k) {
      stmts.push_back(nest_of(k));
      made.push_back({buffers[k]->name});
    }
    const Stmt changed = with_fields(node_, [&](Block::Fields& f) { f.body = body; });
    const Stmt rest = with_inferred_regions(*changed.as<Block>());
    const auto at = static_cast<std::ptrdiff_t>(outermost_);
    stmts.push_back(replace_last(Path(path_.begin() + at, path_.end()), rest));
    Stmt whole = replace_last(Path(path_.begin(), path_.begin() + at + 1), Seq::make(std::move(stmts)));
    for (const Buffer& buffer : buffers) whole = add_allocation(whole, buffer);
    schedule_.commit(whole, application_);
    return made;
  }

  const Block& node() const { return node_; }
  const Stmt& culprit() const { return path_.back(); }

  /// A block that stores a value at its iters, within loops over ranges.
  static Stmt nest(const Buffer& target, std::vector<Iter> iters, const std::vector<Range>& ranges,
                   const std::vector<Expr>& at, const Expr& value) {
    Block::Fields made;
    made.name = target->name;
    for (const Range& range : ranges) made.bindings.push_back(range.min);
    made.iters = std::move(iters);
    made.body = Store::make(target, at, value);
    const Stmt block = with_inferred_regions(*Block::make(std::move(made)).as<Block>());
    return make_nest(*block.as<Block>(), ranges);
  }

 private:
  void refuse_written(const Expr& part, const Buffer& source) const {
    const std::vector<const Load*> loads = loads_of(part);
    for_each_stmt(path_[outermost_], [&](const Stmt& s) {
      for (const Load* load : loads) {
        const bool read = !source || load->buffer == source;
        if (read && s.as<Block>() && writes(*s.as<Block>(), load->buffer))
          refused(2, s, fmt::format("writes {}", load->buffer->name));
      }
    });
  }

  Schedule& schedule_;
  const Path path_;
  const Block& node_;
  const std::string application_;
  const std::vector<VarRef> scalars_;
  size_t outermost_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<BlockRef> compute_apart(Schedule& schedule, const BlockRef& block, const std::vector<size_t>& iters) {
  Computer computer(schedule, block, fmt::format("{}", fmt::join(iters, ", ")));
  const Block& node = computer.node();
  std::vector<Iter> own;
  std::vector<Range> ranges;
  std::vector<Expr> shape, at, at_reader;
  Substitution names;
  Bounds bounds(schedule.func());
  for (const size_t i : iters) {
    if (i >= node.f.iters.size() || names.contains(node.f.iters[i].variable.get()))
      computer.refused(1, computer.culprit(), fmt::format("has no iter {}, or twice", i));
    const Iter& iter = node.f.iters[i];
    bounds.bind(iter.variable, iter.domain);
    const VarRef variable = Var::make(iter.variable->name);
    names[iter.variable.get()] = variable;
    own.push_back({variable, iter.domain, IterKind::space});
    ranges.push_back(iter.domain);
    shape.push_back(iter.domain.extent);
    at.push_back(is_int(iter.domain.min, 0) ? Expr(variable) : variable - iter.domain.min);
    at_reader.push_back(is_int(iter.domain.min, 0) ? Expr(iter.variable) : iter.variable - iter.domain.min);
  }
  std::vector<Buffer> buffers;
  const auto fits = [&](const Expr& e) {
    const std::vector<VarRef> used = used_vars(e);
    return computer.may_stand_apart(e) && evaluates(e) && std::all_of(used.begin(), used.end(), [&](const VarRef& var) {
             return names.contains(var.get()) || computer.is_scalar(var);
           });
  };
  Parts parts(fits, [&](size_t, const Expr& e) {
    for (const Load* load : loads_of(e)) {
      for (size_t d = 0; d < load->indices.size(); ++d) {
        if (!proves(bounds, ge(load->indices[d], index(0))) ||
            !proves(bounds, lt(load->indices[d], load->buffer->shape[d])))
          computer.refused(3, computer.culprit(), fmt::format("may read {} elsewhere", load->buffer->name));
      }
    }
    buffers.push_back(computer.new_buffer(e->dtype, shape));
    return load(buffers.back(), at_reader);
  });
  const auto nest_of = [&](size_t k) {
    // Each with variables of its own.
    Substitution fresh;
    std::vector<Iter> mine = own;
    for (Iter& iter : mine) {
      const VarRef variable = Var::make(iter.variable->name);
      fresh[iter.variable.get()] = variable;
      iter.variable = variable;
    }
    std::vector<Expr> places;
    for (const Expr& place : at) places.push_back(substitute(place, fresh));
    return Computer::nest(buffers[k], std::move(mine), ranges, places,
                          substitute(substitute(parts.parts[k].value, names), fresh));
  };
  return computer.commit(parts, nest_of, buffers);
}

std::vector<BlockRef> compute_apart(Schedule& schedule, const BlockRef& block, const std::string& buffer) {
  Computer computer(schedule, block, fmt::format("\"{}\"", buffer));
  Buffer source;
  for (const Region& region : computer.node().f.reads) {
    if (region.buffer->name == buffer) source = region.buffer;
  }
  // Of what is allocated not all elements need be written.
  if (!source || is_allocated(schedule.func(), source))
    computer.refused(1, computer.culprit(), fmt::format("reads no input {}", buffer));
  /// The element that a part reads, where that is all that it goes by.
  const auto element_of = [&](const Expr& e) -> const Load* {
    const std::vector<const Load*> loads = loads_of(e);
    const Load* element = loads.empty() ? nullptr : loads.front();
    if (!element || element->buffer != source) return nullptr;
    InItsPlace rest(*element, Var::make("element", source->dtype));
    const Expr without = rest.mutate(e);
    const std::vector<VarRef> used = used_vars(without);
    const bool alone = !has_load(without) && std::all_of(used.begin(), used.end(), [&](const VarRef& var) {
      return Expr(var) == rest.value || computer.is_scalar(var);
    });
    return alone ? element : nullptr;
  };
  std::vector<Buffer> buffers;
  Parts parts([&](const Expr& e) { return computer.may_stand_apart(e) && element_of(e); },
              [&](size_t, const Expr& e) {
                buffers.push_back(computer.new_buffer(e->dtype, source->shape));
                return load(buffers.back(), element_of(e)->indices);
              });
  const auto nest_of = [&](size_t k) {
    std::vector<Iter> iters;
    std::vector<Range> ranges;
    std::vector<Expr> at;
    for (size_t d = 0; d < source->rank(); ++d) {
      const VarRef variable = Var::make(fmt::format("e{}", d));
      ranges.push_back({index(0), source->shape[d]});
      iters.push_back({variable, ranges.back(), IterKind::space});
      at.push_back(variable);
    }
    const Expr& part = parts.parts[k].value;
    const Expr value = InItsPlace(*element_of(part), load(source, at)).mutate(part);
    return Computer::nest(buffers[k], std::move(iters), ranges, at, value);
  };
  return computer.commit(parts, nest_of, buffers, source);
}

}  // namespace lathe
