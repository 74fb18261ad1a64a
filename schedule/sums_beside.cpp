#include "schedule/sums_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedule/access.h"
#include "schedule/complete.h"

namespace lathe {

SumsBeside::SumsBeside(const Schedule& schedule, std::string application, Path path, ReductionOutput result,
                       Reducer reducer)
    : schedule_(schedule),
      application_(std::move(application)),
      path_(std::move(path)),
      block_(*path_.back().as<Block>()),
      result_(std::move(result)),
      reducer_(std::move(reducer)) {}

void SumsBeside::require_result(int condition) const {
  const std::string text =
      "block writes an allocation at its space iters, each once; others read it by Loads alone, and none writes it";
  const Buffer& buffer = result_.buffer;
  if (!is_allocated(schedule_.func(), buffer) || buffer->view_of) {
    refuse(schedule_, application_, condition, text, path_.back(),
           fmt::format("writes {}, which is none", buffer->name));
  }
  if (const std::string reason = why_not_pointwise(block_); !reason.empty()) {
    refuse(schedule_, application_, condition, text, path_.back(), reason);
  }
  for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (!other || s == path_.back() || !outer_blocks(other->f.body).empty()) return;
    if (writes(*other, buffer))
      refuse(schedule_, application_, condition, text, s, fmt::format("writes {}", buffer->name));
    if (!reads(*other, buffer)) return;
    for_each_expr(other->f.body, [&](const Expr& e) {
      const AddressOf* address = e.as<AddressOf>();
      const Load* load = e.as<Load>();
      const bool scalar = !load || load->buffer != buffer || e->dtype.is_scalar();
      if ((address && address->buffer == buffer) || !scalar || other->f.reducer || other->f.init) {
        refuse(schedule_, application_, condition, text, s, fmt::format("reads {} otherwise", buffer->name));
      }
    });
  });
}

Stmt SumsBeside::nest(const Expr& factor) {
  Block::Fields f;
  f.name = schedule_.unique_name(block_.f.name + "_shift");
  std::vector<Expr> shape, indices;
  for (size_t d = 0; d < result_.indices.size(); ++d) {
    const Var* iter = result_.indices[d].as<Var>();
    if (!iter || !uses_var(factor, iter)) continue;
    dimensions_.push_back(d);
    shape.push_back(result_.buffer->shape[d]);
    indices.push_back(result_.indices[d]);
  }
  sum_ = BufferNode::make(f.name, result_.buffer->dtype, shape);
  std::vector<Range> ranges;
  for (const Iter& iter : block_.f.iters) {
    const bool used =
        std::any_of(indices.begin(), indices.end(), [&](const Expr& i) { return uses_var(i, iter.variable.get()); });
    if (iter.kind == IterKind::space && !used) continue;
    f.iters.push_back(iter);
    f.bindings.push_back(iter.domain.min);
    ranges.push_back(iter.domain);
  }
  f.reducer = reducer_;
  const std::vector<ReductionOutput> outputs = {{sum_, indices}};
  f.init = make_init(reducer_, outputs);
  f.body = make_update(reducer_, outputs, {factor});
  const Stmt block = fresh_copy(Block::make(std::move(f)));
  const Stmt inferred = with_inferred_regions(*block.as<Block>());
  return make_nest(*inferred.as<Block>(), ranges);
}

Stmt SumsBeside::corrected(const Stmt& body, BinaryOp op, std::int64_t weight) const {
  class Corrector : public Mutator {
   public:
    Corrector(const SumsBeside& sums, BinaryOp op, std::int64_t weight) : sums_(sums), op_(op), weight_(weight) {}

   protected:
    Expr mutate_Load(const Expr& e, const Load* node) override {
      if (node->buffer != sums_.result_.buffer) return Mutator::mutate_Load(e, node);
      std::vector<Expr> at;
      at.reserve(sums_.dimensions_.size());
      for (const size_t d : sums_.dimensions_) at.push_back(node->indices[d]);
      return binary(op_, e, load(sums_.sum_, at, node->mask) * constant(e->dtype, weight_));
    }
    Stmt mutate_Block(const Stmt& s, const Block* node) override {
      // A tile without iters names no regions.
      const bool tile = has_blocks(*node);
      if (node->f.name == sums_.block_.f.name || (!tile && !reads(*node, sums_.result_.buffer))) return s;
      const Stmt changed = with_fields(*node, [&](Block::Fields& f) { f.body = mutate(f.body); });
      return tile ? changed : with_inferred_regions(*changed.as<Block>());
    }

   private:
    const SumsBeside& sums_;
    const BinaryOp op_;
    const std::int64_t weight_;
  };
  // The root's regions are of parameters; tiles follow what they hold when the application is committed.
  const Block* root = body.as<Block>();
  Corrector corrector(*this, op, weight);
  if (!root || !root->f.iters.empty()) return corrector.mutate(body);
  return with_fields(*root, [&](Block::Fields& f) { f.body = corrector.mutate(f.body); });
}

}  // namespace lathe
