#pragma once
#include <optional>

#include "schedule/rewrite.h"

namespace lathe {

/// A buffer that holds copies: the one block that writes it stores elements of another buffer as they are.
struct CopySource {
  Stmt block;
  const Store* store;
  const Load* load;
};

/// How `buffer` is filled, when that is by copying: one block, in every iteration of its iters one Store without a mask
/// of one Load without a mask. Nothing otherwise.
std::optional<CopySource> copy_source(const Stmt& body, const Buffer& buffer);

}  // namespace lathe
