#include "schedule/primitives/shift_operand.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/byte_factor.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"

namespace lathe {
namespace {

class Shifter {
 public:
  Shifter(const Schedule& schedule, const BlockRef& block, const std::string& buffer)
      : application(fmt::format("shift_operand({}, \"{}\")", block.name, buffer)),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        block_(*path_.back().as<Block>()) {
    match();
    choose(buffer);
    check_result();
  }

  const std::string application;
  std::string copy_name;

  Stmt run() {
    const Buffer source = shifted_.load->buffer;
    const DType other = source->dtype == i8 ? u8 : i8;
    const Buffer copy = BufferNode::make(schedule_.unique_name(source->name + "_shifted"), other, source->shape);
    copy_name = copy->name;
    const Buffer alike = BufferNode::make(copy->name, source->dtype, source->shape);
    const Stmt nest = rewrite_blocks(copy_nest(copy_name, source, alike), [&](const Block& block) {
      const Stmt shifted = with_fields(block, [&](Block::Fields& f) {
        const Store& store = *f.body.as<Store>();
        const Expr high = binary(BinaryOp::bit_xor, cast(u8, store.value), constant(u8, 128));
        f.body = Store::make(copy, store.indices, cast(other, high));
      });
      return with_inferred_regions(*shifted.as<Block>());
    });
    const Expr moved =
        padded_factor(shifted_, sum_type(), Load::make(copy, shifted_.load->indices, shifted_.load->mask),
                      source->dtype == i8 ? shifted_.border + 128 : shifted_.border - 128);
    const Expr found = shifted_text_;
    const Stmt reader = with_fields(block_, [&](Block::Fields& f) { f.body = with_factor(f.body, found, moved); });
    const Stmt sums = sum_nest();
    copied_before(schedule_, application, 4, path_, kept_.load->buffer, nest, reader);
    Stmt body = copied_before(schedule_, application, 4, path_, source, Seq::make({nest, sums}),
                              with_inferred_regions(*reader.as<Block>()));
    require_written(schedule_, application, 5, path_, source, body);
    body = corrected(body, source->dtype == i8 ? BinaryOp::sub : BinaryOp::add);
    return add_allocation(add_allocation(body, copy), sum_);
  }

 private:
  DType sum_type() const { return first_text_->dtype; }

  [[noreturn]] void refuse_match(const std::string& note) {
    refuse(
        schedule_, application, 1,
        "block is a sum from zero of products of two Loads of 8-bit integers, cast to its type, of 32 or 64 bits, or "
        "padded with a constant; it runs over its whole domain, each iter by a serial loop of its own, with no other "
        "block in those loops",
        path_.back(), note);
  }

  void match() {
    std::optional<ReductionParts> parts = match_update(block_);
    const std::optional<BinaryOp> op = block_.f.reducer ? simple_op(*block_.f.reducer) : std::nullopt;
    if (!parts || op != BinaryOp::add || parts->outputs.size() != 1 || !parts->lets.empty() ||
        !starts_at_identity(block_))
      refuse_match("is no such sum");
    const Binary* product = parts->terms[0].as<Binary>();
    const bool multiplies = product && product->op == BinaryOp::mul;
    const auto first = multiplies ? byte_factor(product->a) : std::nullopt,
               second = multiplies ? byte_factor(product->b) : std::nullopt;
    const DType dtype = parts->terms[0]->dtype;
    if (!first || !second || dtype.is_float() || dtype.bits < 32) refuse_match("adds something else");
    first_ = *first;
    second_ = *second;
    first_text_ = product->a;
    second_text_ = product->b;
    size_t own = 0;
    if (const std::string reason = why_not_alone(path_, own); !reason.empty()) refuse_match(reason);
    result_ = parts->outputs[0];
    reducer_ = *block_.f.reducer;
  }

  void choose(const std::string& buffer) {
    const bool is_first = first_.load->buffer->name == buffer, is_second = second_.load->buffer->name == buffer;
    shifted_ = is_second ? second_ : first_;
    shifted_text_ = is_second ? second_text_ : first_text_;
    kept_ = is_second ? first_ : second_;
    if (is_first != is_second && !kept_.condition) return;
    refuse(schedule_, application, 2, "one of the Loads is of a buffer of that name, and the other is not padded",
           path_.back(), is_first && is_second ? "has it for both" : "loads otherwise");
  }

  void check_result() {
    const std::string text =
        "block writes an allocation at its space iters, each once; others read it by Loads alone, and none writes it";
    const Buffer& buffer = result_.buffer;
    if (!is_allocated(schedule_.func(), buffer) || buffer->view_of) {
      refuse(schedule_, application, 3, text, path_.back(), fmt::format("writes {}, which is none", buffer->name));
    }
    if (const std::string reason = why_not_pointwise(block_); !reason.empty()) {
      refuse(schedule_, application, 3, text, path_.back(), reason);
    }
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* other = s.as<Block>();
      if (!other || s == path_.back() || !outer_blocks(other->f.body).empty()) return;
      if (writes(*other, buffer)) refuse(schedule_, application, 3, text, s, fmt::format("writes {}", buffer->name));
      if (!reads(*other, buffer)) return;
      for_each_expr(other->f.body, [&](const Expr& e) {
        const AddressOf* address = e.as<AddressOf>();
        const Load* load = e.as<Load>();
        const bool scalar = !load || load->buffer != buffer || e->dtype.is_scalar();
        if ((address && address->buffer == buffer) || !scalar || other->f.reducer || other->f.init) {
          refuse(schedule_, application, 3, text, s, fmt::format("reads {} otherwise", buffer->name));
        }
      });
    });
  }

  static Stmt with_factor(const Stmt& s, const Expr& found, const Expr& moved) {
    class Replacer : public Mutator {
     public:
      Replacer(const Expr& found, const Expr& moved) : found_(found), moved_(moved) {}
      using Mutator::mutate;
      Expr mutate(const Expr& e) override { return e == found_ ? moved_ : Mutator::mutate(e); }

     private:
      const Expr &found_, &moved_;
    };
    return Replacer(found, moved).mutate(s);
  }

  bool kept_uses(const Expr& e) const {
    const Var* iter = e.as<Var>();
    return iter && std::any_of(kept_.load->indices.begin(), kept_.load->indices.end(),
                               [&](const Expr& i) { return uses_var(i, iter); });
  }

  /// The sums of the other factor, for each point that it tells apart, over the whole reduction.
  Stmt sum_nest() {
    Block::Fields f;
    f.name = schedule_.unique_name(block_.f.name + "_shift");
    std::vector<Expr> shape, indices;
    for (size_t d = 0; d < result_.indices.size(); ++d) {
      if (!kept_uses(result_.indices[d])) continue;
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
    f.body = make_update(reducer_, outputs, {cast(sum_->dtype, Expr(kept_.load))});
    const Stmt block = fresh_copy(Block::make(std::move(f)));
    const Stmt inferred = with_inferred_regions(*block.as<Block>());
    return make_nest(*inferred.as<Block>(), ranges);
  }

  Stmt corrected(const Stmt& body, BinaryOp op) const {
    class Corrector : public Mutator {
     public:
      Corrector(const Shifter& shifter, BinaryOp op) : shifter_(shifter), op_(op) {}

     protected:
      Expr mutate_Load(const Expr& e, const Load* node) override {
        if (node->buffer != shifter_.result_.buffer) return Mutator::mutate_Load(e, node);
        std::vector<Expr> at;
        at.reserve(shifter_.dimensions_.size());
        for (const size_t d : shifter_.dimensions_) at.push_back(node->indices[d]);
        const Expr extra = load(shifter_.sum_, at, node->mask) * constant(e->dtype, 128);
        return binary(op_, e, extra);
      }
      Stmt mutate_Block(const Stmt& s, const Block* node) override {
        // A tile without iters names no regions.
        const bool tile = has_blocks(*node);
        if (node->f.name == shifter_.block_.f.name || (!tile && !reads(*node, shifter_.result_.buffer))) return s;
        const Stmt changed = with_fields(*node, [&](Block::Fields& f) { f.body = mutate(f.body); });
        return tile ? changed : with_inferred_regions(*changed.as<Block>());
      }

     private:
      const Shifter& shifter_;
      BinaryOp op_;
    };
    // The root's regions are of parameters; tiles follow what they hold when the application is committed.
    const Block* root = body.as<Block>();
    Corrector corrector(*this, op);
    if (!root || !root->f.iters.empty()) return corrector.mutate(body);
    return with_fields(*root, [&](Block::Fields& f) { f.body = corrector.mutate(f.body); });
  }

  const Schedule& schedule_;
  const Path path_;
  const Block& block_;
  ByteFactor first_, second_, shifted_, kept_;
  Expr first_text_, second_text_, shifted_text_;
  ReductionOutput result_;
  Reducer reducer_;
  Buffer sum_;
  std::vector<size_t> dimensions_;  ///< of the result, that the sums have too
};

}  // namespace

BlockRef shift_operand(Schedule& schedule, const BlockRef& block, const std::string& buffer) {
  Shifter shifter(schedule, block, buffer);
  Stmt body = shifter.run();
  schedule.commit(std::move(body), shifter.application);
  return {shifter.copy_name};
}

}  // namespace lathe
