#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// The bytes from which an output no longer fits the device's last cache beside as much that is read: half of it; the
/// greatest number where it has none, or too few cores for such stores to pay.
std::int64_t least_streamed_bytes(const Device& device);

/// Has an output a size and a place in memory with which it can be written past the caches?
bool may_stream(const Buffer& buffer, const Device& device);

/// Has outputs of half the last cache and more written past it (loop annotation `streaming_stores`): an ordinary store
/// first reads the line that it writes to, a third of the traffic of an element-wise operator, and drives out of the
/// caches what is still wanted. An output that fits stays where its reader finds it.
///
/// Only compact outputs that begin with a cache line, that blocks write, each element once, and none reads, and whose
/// innermost loops fill whole lines: a line of which a part is written costs more than an ordinary store.
void stream_outputs(RuleContext& context);

}  // namespace lathe
