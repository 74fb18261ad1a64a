#pragma once
/// Programs and devices for the tests of the automatic scheduler.
#include <cstdint>
#include <string>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe::testing {

/// A convolution of windows of `taps` by `taps`, `apart` from each other, as wide as the image of `side` by `side`.
Func padded_convolution(int channels, int filters, int side, int taps = 3, int apart = 1);

/// 512-bit vectors, 32 registers, fused multiply-add.
Device wide();
/// 128-bit vectors, 16 registers.
Device narrow();
/// The device with so many fused multiply-adds a cycle: two, or one over the whole width of 512 bits.
Device fused(Device device, int per_cycle);
/// One of 512 bits with caches of 32 KiB and of so many bytes a core, and 64 MiB shared.
Device with_caches(std::int64_t own);
/// A machine with one dot product, of unsigned by signed bytes.
Device dotting();

/// out = relu(a · b + c); `transposed` lays b out with k contiguous.
Func matmul(int m, int n, int k, bool transposed);

/// out[i, j] = sum over k of x[k, i] * y[k, j].
Func product_of_columns(int m, int n, int k);

/// out[i, j] = sum over k of x[i, k] * y[k, j]; the strides of x and out where these do not lie densely, and what
/// follows the buffers.
Func product_lying(int m, int n, int k, const std::string& x_strides, const std::string& out_strides = "",
                   const std::string& params = "");

/// The text with every `from` replaced.
std::string replaced_all(std::string text, const std::string& from, const std::string& to);

/// Schedules for wide() and narrow(): the same results, and nothing that `verify` finds.
void expect_scheduled_well(const Func& func);
/// The decisions that speak of a block, one a line; the schedule is checked as expect_scheduled_well does.
std::string decisions_on(const Func& func, const Device& device, const std::string& block);
/// Does a decision that begins so come of the schedule, which is not run, as large ones would take long to?
bool decides(const Func& func, const Device& device, const std::string& decision);
/// Does one of these lines begin so? A decision that could not be carried out begins with "not".
bool says(const std::string& decisions, const std::string& what);

}  // namespace lathe::testing
