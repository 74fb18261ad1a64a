#include "schedule/primitives/cache_cast.h"

#include <fmt/format.h>

#include <optional>

#include "ir/buffer.h"
#include "ir/visitor.h"
#include "schedule/copy_block.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Is it a Load of the buffer that is cast?
const Load* cast_load(const Expr& e, const Buffer& buffer) {
  const Cast* cast = e.as<Cast>();
  const Load* load = cast ? cast->value.as<Load>() : nullptr;
  return load && load->buffer == buffer ? load : nullptr;
}

class CastReplacer : public Mutator {
 public:
  CastReplacer(Buffer source, Buffer copy) : source_(std::move(source)), copy_(std::move(copy)) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override {
    const Expr inner = Mutator::mutate(e);
    const Load* load = inner ? cast_load(inner, source_) : nullptr;
    return load ? Load::make(copy_, load->indices, load->mask) : inner;
  }

 private:
  const Buffer source_, copy_;
};

}  // namespace

BlockRef cache_cast(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                    const std::string& memory_space) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("cache_cast({}, \"{}\", \"{}\")", block.name, buffer, memory_space);
  const auto refuse_reads = [&](const std::string& note) {
    refuse(schedule, application, 1,
           "block reads a buffer of that name, by Loads alone, each of which is cast to the same type, and does not "
           "write it",
           path.back(), note);
  };
  Buffer source;
  for (const Region& region : node.f.reads) {
    if (region.buffer->name == buffer) source = region.buffer;
  }
  if (!source) refuse_reads(fmt::format("reads no {}", buffer));
  if (writes(node, source)) refuse_reads(fmt::format("writes {}", buffer));
  std::optional<DType> type;
  bool otherwise = false;
  for_each_expr(node.f.body, [&](const Expr& e) {
    const AddressOf* taken = e.as<AddressOf>();
    otherwise |= taken && taken->buffer == source;
    if (!cast_load(e, source)) return;
    otherwise |= type && *type != e->dtype.element();
    type = e->dtype.element();
  });
  if (!type || otherwise) refuse_reads(fmt::format("reads {} in another way", buffer));

  const DType wanted = type.value_or(source->dtype);
  const Buffer copy = BufferNode::make(schedule.unique_name(fmt::format("{}_{}", source->name, to_string(wanted))),
                                       wanted, source->shape, memory_space);
  const std::string name = schedule.unique_name(source->name + "_cast");
  CastReplacer replacer(source, copy);
  const Stmt changed = with_fields(node, [&](Block::Fields& f) { f.body = replacer.mutate(f.body); });
  for_each_expr(changed.as<Block>()->f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (load && load->buffer == source) refuse_reads(fmt::format("reads {} in another way", buffer));
  });
  const Stmt reader = replace_buffers(changed, {{source.get(), copy}});
  const Stmt body = copied_before(schedule, application, 2, path, source, copy_nest(name, source, copy), reader);
  require_written(schedule, application, 3, path, source, body);
  schedule.commit(add_allocation(body, copy), application);
  return {name};
}

}  // namespace lathe
