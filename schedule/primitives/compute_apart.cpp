#include "schedule/primitives/compute_apart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/beforehand.h"

namespace lathe {
namespace {

/// By number, from 1 on.
constexpr const char* conditions[] = {
    "block has parts that hang on these iters or this input alone, of what it does not write itself, under no mask, "
    "and no predicate",
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
  std::vector<BlockRef> commit(Parts& parts, const OverIters& over, const std::vector<Buffer>& buffers,
                               const std::function<Expr(const Expr&)>& value_of, const Buffer& source = nullptr) {
    const Stmt body = parts.mutate(node_.f.body);
    if (parts.parts.empty()) refused(1, path_.back(), "has none");
    std::vector<Stmt> nests;
    std::vector<BlockRef> made;
    for (size_t k = 0; k < parts.parts.size(); ++k) {
      refuse_written(parts.parts[k].value, source);
      nests.push_back(over.nest(buffers[k], value_of(parts.parts[k].value)));
      made.push_back({buffers[k]->name});
    }
    const Stmt changed = with_fields(node_, [&](Block::Fields& f) { f.body = body; });
    Stmt whole = put_before(path_, std::move(nests), with_inferred_regions(*changed.as<Block>()));
    for (const Buffer& buffer : buffers) whole = add_allocation(whole, buffer);
    schedule_.commit(whole, application_);
    return made;
  }

  const Block& node() const { return node_; }
  const Stmt& culprit() const { return path_.back(); }

 private:
  void refuse_written(const Expr& part, const Buffer& source) const {
    const std::vector<const Load*> loads = loads_of(part);
    for_each_stmt(path_[nest_level(path_)], [&](const Stmt& s) {
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
  std::vector<std::string> names_;
};

}  // namespace

std::vector<BlockRef> compute_apart(Schedule& schedule, const BlockRef& block, const std::vector<size_t>& iters) {
  Computer computer(schedule, block, fmt::format("{}", fmt::join(iters, ", ")));
  const Block& node = computer.node();
  OverIters over;
  std::vector<const Var*> chosen;
  const auto is_chosen = [&](const Var* var) { return std::find(chosen.begin(), chosen.end(), var) != chosen.end(); };
  Bounds bounds(schedule.func());
  for (const size_t i : iters) {
    if (i >= node.f.iters.size() || is_chosen(node.f.iters[i].variable.get()))
      computer.refused(1, computer.culprit(), fmt::format("has no iter {}, or twice", i));
    const Iter& iter = node.f.iters[i];
    chosen.push_back(iter.variable.get());
    bounds.bind(iter.variable, iter.domain);
    over.add(iter);
  }
  std::vector<Buffer> buffers;
  const auto fits = [&](const Expr& e) {
    const std::vector<VarRef> used = used_vars(e);
    return computer.may_stand_apart(e) && evaluates(e) && std::all_of(used.begin(), used.end(), [&](const VarRef& var) {
             return is_chosen(var.get()) || computer.is_scalar(var);
           });
  };
  Parts parts(fits, [&](size_t, const Expr& e) {
    for (const Load* load : loads_of(e)) {
      if (!lies_inside(*load, bounds))
        computer.refused(3, computer.culprit(), fmt::format("may read {} elsewhere", load->buffer->name));
    }
    buffers.push_back(computer.new_buffer(e->dtype, over.shape()));
    return load(buffers.back(), over.places());
  });
  return computer.commit(parts, over, buffers, [](const Expr& part) { return part; });
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
  // The element that a part reads, where that is all that it goes by.
  const auto element_of = [&](const Expr& e) -> const Load* {
    const std::vector<const Load*> loads = loads_of(e);
    const Load* element = loads.empty() ? nullptr : loads.front();
    if (!element || element->buffer != source) return nullptr;
    const Expr stand_in = Var::make("element", source->dtype);
    const Expr without = replace_element(e, Expr(element), stand_in);
    const std::vector<VarRef> used = used_vars(without);
    const bool alone = !has_load(without) && std::all_of(used.begin(), used.end(), [&](const VarRef& var) {
      return Expr(var) == stand_in || computer.is_scalar(var);
    });
    return alone ? element : nullptr;
  };
  std::vector<Buffer> buffers;
  Parts parts([&](const Expr& e) { return computer.may_stand_apart(e) && element_of(e); },
              [&](size_t, const Expr& e) {
                buffers.push_back(computer.new_buffer(e->dtype, source->shape));
                return load(buffers.back(), element_of(e)->indices);
              });
  OverIters over;
  for (size_t d = 0; d < source->rank(); ++d)
    over.add({Var::make(fmt::format("e{}", d)), {index(0), source->shape[d]}, IterKind::space});
  const Expr own = load(source, over.places());
  return computer.commit(
      parts, over, buffers, [&](const Expr& part) { return replace_element(part, Expr(element_of(part)), own); },
      source);
}

}  // namespace lathe
