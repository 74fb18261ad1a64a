#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Loads what a vector gathers from a short stretch of an input at once, and picks its lanes in registers: where a
/// device permutes two registers by lanes, that is an instruction or two beside one load a lane.
///
///   x[(ramp(j, 1, 16)*100 + 116) // 133]   ->   permute(x[ramp(b, 1, 16)], (ramp(j, 1, 16)*100 + 116) // 133 - b)
///       with b = (j*100 + 116) // 133, moved to where the stretch lies in the input
///
/// Resizing reads so, whatever the sizes, at indices that never fall from lane to lane (analysis/window.h). So does
/// what is the same for each short row, as scale[ramp(j, 1, 16) % 3], of which the whole is a stretch, and any table
/// that registers hold (longest_table), wherever its lanes lie. Only from parameters of constant extents that
/// nothing writes. Needs flat indices.
Func permute_windows(const Func& func, const Device& device);
/// Has the device instructions for it, at the least for elements of 32 and 64 bits?
bool picks_in_registers(const Device& device);
/// The most elements of so many bits that a vector picks its lanes out of: two registers, or 256 bytes, whose halves
/// are a third instruction; 0 where the device has none.
std::int64_t longest_table(const Device& device, int bits);

}  // namespace lathe
