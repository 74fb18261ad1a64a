#pragma once
#include "ir/func.h"

namespace lathe {

/// For a program from outside, which may be anything: an InputError where verify proves something wrong, or where an
/// access leaves its buffer at some point of a run. What can only not be proved is left to the caller's word.
void check_given(const Func& func);

}  // namespace lathe
