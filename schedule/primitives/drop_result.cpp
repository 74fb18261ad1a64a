#include "schedule/primitives/drop_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Takes out the stores to a buffer; lets that stand around nothing else stay, as LLVM drops them.
class StoreRemover : public Mutator {
 public:
  explicit StoreRemover(const Buffer& buffer) : buffer_(buffer) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }

 protected:
  Stmt mutate_Store(const Stmt& s, const Store* node) override { return node->buffer == buffer_ ? Seq::make({}) : s; }

 private:
  const Buffer& buffer_;
};

bool names(const std::vector<Region>& regions, const Buffer& buffer) {
  return std::any_of(regions.begin(), regions.end(), [&](const Region& region) {
    return region.buffer == buffer || (region.buffer->view_of && region.buffer->view_of->buffer == buffer);
  });
}

}  // namespace

void drop_result(Schedule& schedule, const BlockRef& block, const std::string& buffer) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("drop_result({}, \"{}\")", block.name, buffer);
  const auto fail = [&](int condition, const std::string& text, const std::string& note) {
    refuse(schedule, application, condition, text, path.back(), note);
  };
  const std::string one =
      "block writes an allocation of that name beside another buffer, holds no other block, and has no reducer";
  const auto named = std::find_if(node.f.writes.begin(), node.f.writes.end(),
                                  [&](const Region& region) { return region.buffer->name == buffer; });
  if (named == node.f.writes.end()) fail(1, one, "writes no such buffer");
  const Buffer dropped = named->buffer;
  if (!is_allocated(schedule.func(), dropped) || dropped->view_of) fail(1, one, buffer + " is no allocation");
  if (std::all_of(node.f.writes.begin(), node.f.writes.end(), [&](const Region& r) { return r.buffer == dropped; }))
    fail(1, one, "writes nothing else");
  if (has_blocks(node)) fail(1, one, "holds other blocks");
  if (node.f.reducer || node.f.init) fail(1, one, "has a reducer, or an init");

  const Stmt changed = with_fields(node, [&](Block::Fields& f) { f.body = StoreRemover(dropped).mutate(f.body); });
  const Stmt without = replace_last(path, with_inferred_regions(*changed.as<Block>()));
  for_each_stmt(without, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (!other || has_blocks(*other) || !(names(other->f.reads, dropped) || names(other->f.writes, dropped))) return;
    refuse(schedule, application, 2, "nothing outside of the stores to it touches the buffer",
           other->f.name == node.f.name ? path.back() : s, fmt::format("reads or writes {}", buffer));
  });
  schedule.commit(remove_allocation(without, dropped), application);
}

}  // namespace lathe
