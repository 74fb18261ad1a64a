#include "schedule/copy_source.h"

namespace lathe {

std::optional<CopySource> copy_source(const Stmt& body, const Buffer& buffer) {
  std::optional<CopySource> found;
  bool several = false;
  for_each_stmt(body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block || has_blocks(*block) || !writes(*block, buffer)) return;
    several |= found.has_value();
    const Store* store = block->f.body.as<Store>();
    const Load* load = store ? store->value.as<Load>() : nullptr;
    const bool plain = load && !store->mask && !load->mask && store->buffer == buffer && load->buffer != buffer;
    if (!plain || block->f.init) {
      several = true;
    } else {
      found = CopySource{s, store, load};
    }
  });
  if (several) return std::nullopt;
  return found;
}

}  // namespace lathe
