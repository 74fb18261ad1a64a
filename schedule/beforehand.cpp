#include "schedule/beforehand.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/complete.h"

namespace lathe {
namespace {

class Replacer : public Mutator {
 public:
  Replacer(const Expr& element, const Expr& value) : element_(element), value_(value) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    return equal(e, element_) ? value_ : Mutator::mutate_Load(e, node);
  }

 private:
  const Expr &element_, &value_;
};

}  // namespace

std::vector<Expr> elements_of(const Block& block, const Buffer& buffer) {
  std::vector<Expr> elements;
  const auto look = [&](const Expr& e) {
    const Load* load = e.as<Load>();
    const bool known =
        std::any_of(elements.begin(), elements.end(), [&](const Expr& element) { return equal(element, e); });
    if (load && load->buffer == buffer && !known) elements.push_back(e);
  };
  for_each_expr(block.f.body, look);
  if (block.f.init) for_each_expr(block.f.init, look);
  return elements;
}

Expr replace_element(const Expr& e, const Expr& element, const Expr& value) {
  return Replacer(element, value).mutate(e);
}
Stmt replace_element(const Stmt& s, const Expr& element, const Expr& value) {
  return Replacer(element, value).mutate(s);
}

bool lies_inside(const Load& load, const Bounds& bounds) {
  for (size_t d = 0; d < load.indices.size(); ++d) {
    const Expr& at = load.indices[d];
    if (!proves(bounds, ge(at, index(0))) || !proves(bounds, lt(at, load.buffer->shape[d]))) return false;
  }
  return true;
}

void OverIters::add(const Iter& iter) {
  iters_.push_back(iter);
  shape_.push_back(iter.domain.extent);
  places_.push_back(is_int(iter.domain.min, 0) ? Expr(iter.variable) : iter.variable - iter.domain.min);
}

Stmt OverIters::nest(const Buffer& target, const Expr& value) const {
  Block::Fields made;
  made.name = target->name;
  Substitution own;
  std::vector<Range> ranges;
  for (const Iter& iter : iters_) {
    const VarRef variable = Var::make(iter.variable->name);
    own[iter.variable.get()] = variable;
    made.iters.push_back({variable, iter.domain, IterKind::space});
    made.bindings.push_back(iter.domain.min);
    ranges.push_back(iter.domain);
  }
  std::vector<Expr> at;
  for (const Expr& place : places_) at.push_back(substitute(place, own));
  made.body = Store::make(target, at, substitute(value, own));
  const Stmt block = with_inferred_regions(*Block::make(std::move(made)).as<Block>());
  return make_nest(*block.as<Block>(), ranges);
}

size_t nest_level(const Path& path) {
  size_t outermost = path.size() - 1;
  for (size_t level = outermost; level-- > 0;) {
    const Block* around = path[level].as<Block>();
    if (around && around->f.iters.empty()) break;
    if (path[level].as<For>() || around) outermost = level;
  }
  return outermost;
}

Stmt put_before(const Path& path, std::vector<Stmt> nests, const Stmt& reader) {
  const auto at = path.begin() + static_cast<std::ptrdiff_t>(nest_level(path));
  nests.push_back(replace_last(Path(at, path.end()), reader));
  return replace_last(Path(path.begin(), at + 1), Seq::make(std::move(nests)));
}

}  // namespace lathe
