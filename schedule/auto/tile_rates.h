#pragma once
/// What tiles of sums in registers cost, whatever they are summed from.
#include <cstdint>

#include "ir/device.h"

namespace lathe {

/// Rows of a tile up to which any is tried.
constexpr std::int64_t most_rows_tried = 14;
/// Cycles of a tile besides its steps and stores: addresses, and a loop whose end is predicted late.
constexpr double tile_overhead_cycles = 12;
/// What a load costs even where the arithmetic covers it: a slot to issue it in, and its share of the next cache's
/// lines.
constexpr double load_slots = 0.03;
/// Sums in flight, as a multiple of those that latency asks for, from which on no unit waits.
constexpr double ample_chains = 1.5;

/// Rates of vectors of a width, an instruction a cycle each.
struct Rates {
  double arithmetic, loads, stores;
  double load_weight = 1;  ///< of two full multiply-adds a cycle, each covers half as much of the loads
  double overlap = 1;      ///< what arithmetic takes beside twice as many loads and loop instructions, measured
  double line_wait = 0;    ///< of a load beside lines of a packed panel that come from the second cache
  double line_weight = 1;  ///< of a vector of columns beyond that of a row's element, which is one load as well
};

Rates rates_of(const Device& device, std::int64_t vector_bits);

/// Fused multiply-adds in flight that keep the units busy.
double wanted_chains(const Device& device, const Rates& rates);

/// What a further body costs, as a part of all cycles, for it has to be compiled: less for a kernel that runs long.
double body_penalty(double cycles);

}  // namespace lathe
