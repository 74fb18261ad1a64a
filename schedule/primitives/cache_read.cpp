#include "schedule/primitives/cache_read.h"

#include <fmt/format.h>

#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/copy_block.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Does the Load read where the region begins?
bool is_at(const Load& load, const Region& region) {
  bool same = load.buffer == region.buffer;
  for (size_t d = 0; same && d < load.indices.size(); ++d) same = equal(load.indices[d], region.ranges[d].min);
  return same;
}

/// Reads one element of a buffer from another.
class PlaceReader : public Mutator {
 public:
  PlaceReader(const Region& place, const Buffer& cache) : place_(place), cache_(cache) {}
  bool found = false;

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (!is_at(*node, place_)) return Mutator::mutate_Load(e, node);
    found = true;
    return Load::make(cache_, node->indices, node->mask ? mutate(node->mask) : nullptr);
  }

 private:
  const Region& place_;
  const Buffer& cache_;
};

/// The block, with the `place`-th of its reads of `source` from `cache`; null where it has none that is one element.
Stmt read_place(const Block& block, const Buffer& source, const Buffer& cache, size_t place) {
  size_t at = 0;
  for (size_t left = place; at < block.f.reads.size(); ++at) {
    if (block.f.reads[at].buffer == source && left-- == 0) break;
  }
  if (at == block.f.reads.size()) return nullptr;
  for (const Range& range : block.f.reads[at].ranges) {
    if (!is_int(range.extent, 1)) return nullptr;
  }
  PlaceReader reader(block.f.reads[at], cache);
  const Stmt changed = with_fields(block, [&](Block::Fields& f) {
    f.body = reader.mutate(f.body);
    if (f.init) f.init = reader.mutate(f.init);
    f.reads[at].buffer = cache;
  });
  return reader.found ? changed : nullptr;
}

}  // namespace

std::optional<size_t> place_of(const Block& block, const Load& load) {
  std::optional<size_t> place;
  size_t places = 0;
  for (const Region& read : block.f.reads) {
    if (is_at(load, read)) place = places;
    places += read.buffer == load.buffer ? 1 : 0;
  }
  return places > 1 ? place : std::nullopt;
}

BlockRef cache_read(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                    const std::string& memory_space, std::optional<size_t> place) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("cache_read({}, \"{}\", \"{}\"{})", block.name, buffer, memory_space,
                                              place ? fmt::format(", {}", *place) : "");
  const std::string loads = "block reads a buffer of that name, by Loads alone, and does not write it";
  Buffer source;
  for (const Region& region : node.f.reads) {
    if (region.buffer->name == buffer) source = region.buffer;
  }
  if (!source) refuse(schedule, application, 1, loads, path.back(), fmt::format("reads no {}", buffer));
  if (writes(node, source)) refuse(schedule, application, 1, loads, path.back(), fmt::format("writes {}", buffer));
  bool address = false;
  for_each_expr(node.f.body, [&](const Expr& e) {
    const AddressOf* taken = e.as<AddressOf>();
    address |= taken && taken->buffer == source;
  });
  if (address) refuse(schedule, application, 1, loads, path.back(), fmt::format("takes the address of {}", buffer));

  const Buffer cache = BufferNode::make(schedule.unique_name(source->name + "_" + memory_space), source->dtype,
                                        source->shape, memory_space);
  const std::string name = schedule.unique_name(source->name + "_copy");
  const Stmt reader =
      place ? read_place(node, source, cache, *place) : replace_buffers(path.back(), {{source.get(), cache}});
  if (!reader) {
    refuse(schedule, application, 4,
           "place counts a read of the buffer that is one element, where Loads of the block are", path.back(),
           fmt::format("has no such read {} of {}", *place, buffer));
  }
  const Stmt body = copied_before(schedule, application, 2, path, source, copy_nest(name, source, cache), reader);
  require_written(schedule, application, 3, path, source, body);
  schedule.commit(add_allocation(body, cache), application);
  return {name};
}

}  // namespace lathe
