#pragma once
#include "ir/analysis/interval.h"
#include "ir/func.h"

namespace lathe {

/// An equal expression in a normal form: constants folded; i64 sums in a canonical affine order; floor_div, floor_mod,
/// min, max, select and comparisons decided where `bounds` decides them; ramps and broadcasts of affine indices kept as
/// a single Ramp. Floats are folded only where the result is exact for every input (x*1, select of a constant), never
/// reassociated.
Expr simplify(const Expr& e, const Bounds& bounds = {});
/// The same below a statement, with loop and iter domains known inside; loops of extent 0 go, of extent 1 become their
/// body, decided Ifs become their arm.
Stmt simplify(const Stmt& s, const Bounds& bounds = {});

/// True only if the bool `condition` (scalar or every lane) holds for all values that `bounds` allows.
bool proves(const Bounds& bounds, const Expr& condition);
/// True only if a == b for all values (i64).
bool proves_equal(const Bounds& bounds, const Expr& a, const Expr& b);

/// That each space binding of a block lies in its iter's domain, where its init runs; null when that is proved anyway.
/// The predicate has no say: it tells which instances there are, and a point has its init without any.
Expr point_exists(const Block::Fields& block, const Bounds& bounds);

}  // namespace lathe
