#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/analysis/affine.h"
#include "ir/func.h"
#include "ir/node_map.h"

namespace lathe::codegen {

/// The value of each lane of an index made of constants, ramps and broadcasts; nothing when a variable takes part.
std::optional<std::vector<std::int64_t>> constant_lanes(const Expr& index);

/// A run of elements of a register buffer that lives in one SSA value.
struct Slot {
  const BufferNode* buffer;
  std::int64_t first;
  int lanes;
};

/// What emission asks about a Func as a whole, gathered in one walk. A register buffer is cut into slots: accesses that
/// overlap share one, so that a buffer which is only touched by whole vectors has one slot a vector.
class KernelInfo {
 public:
  /// Refuses a register buffer with an index that is not constant.
  explicit KernelInfo(const Func& func);

  bool is_written(const BufferNode* buffer) const { return written_.count(buffer) != 0; }
  bool is_read(const BufferNode* buffer) const { return read_.count(buffer) != 0; }
  bool is_accessed(const BufferNode* buffer) const { return accessed_.count(buffer) != 0; }
  /// Does `e` have one value wherever its variables have theirs? False when it loads from memory that the kernel
  /// writes.
  bool is_stable(const ExprNode* e) const;

  /// Does any expression use the variable?
  bool is_used(const Var* variable) const { return strides_.contains(variable); }
  /// The greatest common divisor of what an index variable is multiplied by wherever it is used; 1 when it also stands
  /// alone.
  std::int64_t stride_of(const Var* variable) const;

  /// Does the form fit a signed integer of 32 bits, with room for a vector's lanes, by loops of constant range alone?
  bool is_narrow(const Affine& form) const;

  const std::vector<Slot>& slots() const { return slots_; }
  /// The slot that holds an element of a register buffer.
  int slot_of(const BufferNode* buffer, std::int64_t element) const;
  /// The slots of `buffer`, ascending.
  std::vector<int> slots_of(const BufferNode* buffer) const;
  /// Every slot stored to below `s`, ascending.
  std::vector<int> stored_slots(const Stmt& s) const;

  /// Buffers in the order in which the body first uses them.
  const std::vector<Buffer>& buffers() const { return order_; }

 private:
  class Collector;
  void lay_out_registers();

  std::vector<Buffer> order_;
  std::unordered_set<const BufferNode*> read_, written_, accessed_;
  std::unordered_map<const Var*, std::int64_t> strides_;
  std::unordered_map<const Var*, std::int64_t> magnitudes_;  ///< of loops' variables, where constants bound them
  mutable NodeMap<const ExprNode*, bool> stable_;
  std::unordered_map<const BufferNode*, std::vector<std::vector<std::int64_t>>> register_accesses_;
  std::vector<Slot> slots_;
  std::unordered_map<const BufferNode*, std::unordered_map<std::int64_t, int>> slot_of_;
};

}  // namespace lathe::codegen
