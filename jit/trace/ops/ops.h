#pragma once
/// The whole library.
#include "jit/trace/ops/activation.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/bitwise.h"
#include "jit/trace/ops/comparison.h"
#include "jit/trace/ops/creation.h"
#include "jit/trace/ops/indexing.h"
#include "jit/trace/ops/joining.h"
#include "jit/trace/ops/linear_algebra.h"
#include "jit/trace/ops/normalization.h"
#include "jit/trace/ops/reduction.h"
#include "jit/trace/ops/transcendental.h"
#include "jit/trace/ops/view_shape.h"
