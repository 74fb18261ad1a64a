#pragma once
#include "ir/buffer.h"

namespace lathe {

/// The buffer whose memory `buffer` is: the end of its chain of views.
const BufferNode* storage_of(const BufferNode* buffer);
inline const BufferNode* storage_of(const Buffer& buffer) {
  return storage_of(buffer.get());
}

}  // namespace lathe
