#pragma once
#include <cstdint>

#include "ir/func.h"

namespace lathe {

/// Structural equality: the same tree up to the identity and names of bound variables and allocated buffers. Free
/// variables and buffers must be identical, but parameters of a Func correspond by position (names of parameters count,
/// since callers see them). Floats compare by bits.
bool equal(const Expr& a, const Expr& b);
bool equal(const Stmt& a, const Stmt& b);
bool equal(const Func& a, const Func& b);

/// Equal things have equal hashes; stable across processes and runs (no address goes in), so that it can be part of a
/// key on disk.
std::uint64_t structural_hash(const Expr& e);
std::uint64_t structural_hash(const Stmt& s);
std::uint64_t structural_hash(const Func& func);

}  // namespace lathe
