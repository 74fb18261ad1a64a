#include "schedule/primitives/shift_operand.h"

#include <fmt/format.h>

#include <optional>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/byte_factor.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"
#include "schedule/sums_beside.h"

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
    sums_.emplace(schedule_, application, path_, result_, *block_.f.reducer);
    sums_->require_result(3);
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
    const Stmt sums = sums_->nest(cast(result_.buffer->dtype, Expr(kept_.load)));
    copied_before(schedule_, application, 4, path_, kept_.load->buffer, nest, reader);
    Stmt body = copied_before(schedule_, application, 4, path_, source, Seq::make({nest, sums}),
                              with_inferred_regions(*reader.as<Block>()));
    require_written(schedule_, application, 5, path_, source, body);
    body = sums_->corrected(body, source->dtype == i8 ? BinaryOp::sub : BinaryOp::add, 128);
    return add_allocation(add_allocation(body, copy), sums_->buffer());
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

  const Schedule& schedule_;
  const Path path_;
  const Block& block_;
  ByteFactor first_, second_, shifted_, kept_;
  Expr first_text_, second_text_, shifted_text_;
  ReductionOutput result_;
  std::optional<SumsBeside> sums_;
};

}  // namespace

BlockRef shift_operand(Schedule& schedule, const BlockRef& block, const std::string& buffer) {
  Shifter shifter(schedule, block, buffer);
  Stmt body = shifter.run();
  schedule.commit(std::move(body), shifter.application);
  return {shifter.copy_name};
}

}  // namespace lathe
