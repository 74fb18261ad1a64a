#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/expr.h"
#include "ir/func.h"

namespace lathe {

/// How a kernel names a place in a memory space.
enum class Addressing : std::uint8_t {
  host_pointer,  ///< an ordinary pointer: a parameter, or an offset into a workspace of the call
  head_address,  ///< a fixed base plus an offset
  opaque_index,  ///< a number in the space's own units; no address exists
  none           ///< registers: values, never places
};
std::string_view to_string(Addressing addressing);

/// Whoever runs what stands in no loop that is bound to an axis of the device.
inline constexpr const char* host_agent = "host";

/// A kind of memory. Sizes are of one instance of it.
struct MemorySpace {
  std::string name;
  int unit_bits = 8;               ///< smallest addressable unit; whole bytes
  int max_simd_bits = 512;         ///< alignment that the widest access wants
  std::int64_t capacity_bits = 0;  ///< 0 means as much as the host has
  Addressing addressing = Addressing::host_pointer;
  /// Who can load and store here: "host", and names of the device's axes.
  std::vector<std::string> reach = {host_agent};
  /// The axis each of whose positions has such a memory of its own; empty: all share one.
  std::string per = {};
  /// With head_address: where the space begins, in bytes. Sums, differences and products of integers and of the
  /// variables of the device's axes.
  Expr head = {};

  bool reachable_from(const std::string& agent) const;
  std::int64_t capacity_bytes() const { return capacity_bits / 8; }
};

struct CacheLevel {
  std::int64_t bytes;
  int ways;
  int line_bytes;
  bool shared;  ///< among cores
  friend bool operator==(const CacheLevel&, const CacheLevel&) = default;
};

/// What a `bound` loop runs along. Its variable stands for the position in a MemorySpace's head address.
struct ThreadAxis {
  VarRef variable;
  std::int64_t extent = 1;
  const std::string& name() const { return variable->name; }
};

/// A way from one space to another, and the instruction that takes it.
struct SpaceCopy {
  std::string from, to, instruction;
  friend bool operator==(const SpaceCopy&, const SpaceCopy&) = default;
};

/// A machine, as data: whatever a scheduler or a backend wants to know stands here, not in its code. ir/text/device.h
/// reads and writes it as text.
struct Device {
  std::string name;                   ///< "cpu", or what a description file says
  std::string family = "cpu";         ///< whose pipeline lowers for it (backends/stages.h)
  std::string triple;                 ///< LLVM's target triple
  std::string cpu;                    ///< LLVM's CPU name
  std::vector<std::string> features;  ///< LLVM's feature names that are on, sorted
  int vector_bits = 128;              ///< width of one vector register that arithmetic runs at full rate on
  int vector_registers = 16;
  int mask_registers = 0;  ///< 0: masks live in vector registers
  bool fused_multiply_add = false;
  int fma_per_cycle = 1;  ///< vector fma instructions that start each cycle
  int fma_latency = 4;    ///< cycles
  int loads_per_cycle = 2;
  int issue_width = 6;  ///< instructions that start each cycle
  int cores = 1;
  /// How far ahead of what streams from beyond a core's own caches software is to ask, in bytes; 0 where hardware does.
  int stream_ahead_bytes = 0;
  /// Bytes of a row that are to be read at a time where several rows from beyond a core's own caches are read by turns,
  /// whose streams hardware loses between shorter pieces; 0 where it does not.
  int stream_piece_bytes = 0;
  /// Rows from beyond a core's own caches that are to be read by turns at the most; with more, hardware loses streams.
  int streams_at_once = 8;
  /// Streams in which one walk over an array from beyond a core's own caches is read fastest.
  int read_streams = 1;
  /// Cores from which on stores past the caches pay: fewer may wait longer for each of them than for a line to write
  /// to.
  int streaming_cores = 1;
  std::vector<CacheLevel> caches;  ///< nearest first
  std::vector<ThreadAxis> axes;
  std::vector<MemorySpace> spaces;
  std::vector<SpaceCopy> copies;
  /// Instructions that a block can be tensorized to (schedule/primitives/tensorize.h), each as a Func that says what
  /// it computes (ir/analysis/match_intrinsic.h).
  std::vector<Func> intrinsics;

  /// Lanes of `bits`-wide elements in a vector register.
  int lanes(int bits) const { return vector_bits / bits; }
  bool has_feature(const std::string& feature) const;
  /// Null when the device has none of that name.
  Func find_intrinsic(const std::string& name) const;
  const ThreadAxis* find_axis(const std::string& name) const;
  /// The space as described, or as every device has it (ir/buffer.h); null when there is none of that name.
  const MemorySpace* find_space(const std::string& name) const;
  std::vector<std::string> space_names() const;
  /// Everything that code made for this device depends on, as one line: the cache's device fingerprint.
  std::string fingerprint() const;
};
/// Are vectors as long as a line of the first cache?
bool fills_lines(const Device& device);

/// Do two multiply-adds start each cycle, of vectors that fill a line of the first cache? Arithmetic then leaves loads
/// little time, and each that begins within a line takes two.
bool multiplies_lines(const Device& device);

/// Do multiply-adds leave few slots to start other instructions in: half of all at most, or those of whole lines?
bool lacks_issue_slots(const Device& device);

/// Do the instructions of a tile's steps, loads and their loop included, take three fifths of the slots and more? The
/// fewer registers there are for sums, the more a step loads for each. What counts steps then takes its share of the
/// time, on a core that another thread runs on above all. True of whatever lacks slots.
bool tiles_fill_slots(const Device& device);

/// Axes count by name: two descriptions are equal when they say the same.
bool operator==(const MemorySpace& a, const MemorySpace& b);
bool operator==(const Device& a, const Device& b);

/// An InputError that says what contradicts itself: a name given twice or of nothing, a size that is no size, a head
/// address that is missing or in place where none belongs, spaces and agents that do not exist.
void check_device(const Device& device);

/// Throws an InputError unless `intrinsic` can describe an instruction: its buffers are parameters of constant shape (a
/// stride may be a scalar parameter, which stands for any), without offsets.
void check_intrinsic(const Func& intrinsic);

/// Puts a checked device under its name; a second one of that name is refused.
void register_device(Device device);
/// The registered device; an unknown name is an InputError that lists those known.
Device find_device(const std::string& name);
std::vector<std::string> device_names();

}  // namespace lathe
