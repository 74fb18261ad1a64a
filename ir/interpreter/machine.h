#pragma once
#include "ir/interpreter/memory.h"
#include "ir/interpreter/program.h"

namespace lathe::interpreter {

/// A kernel's failed Assert, on its way out of the statements.
struct AssertFailed {
  std::string message;
  std::int64_t index;
};

/// One run of a compiled program.
class Machine {
 public:
  Machine(const Compiled& program, const InterpreterOptions& options, std::span<const HostBuffer> buffers,
          std::span<const std::int64_t> scalars);

  /// Throws Trap or AssertFailed.
  void run();

 private:
  /// The iteration of a parallel loop that runs: ids (first, first + extent], never reused within a run.
  struct Task {
    std::uint32_t first, last, current;
  };

  Cell* at(int slot) { return frame_ + slot; }
  std::int64_t integer(int slot) { return frame_[slot].i; }

  void evaluate(const Code& code);
  void evaluate(const Instruction& instruction);
  /// What error analysis says of an instruction that has just run.
  void track_results(const Instruction& instruction);
  Tracked track_lane(const Instruction& instruction, int lane);
  Tracked recall(const Array& array, const std::byte* address, Cell value);
  void report_bounds();
  void load(const Instruction& instruction);
  void address_of(const Instruction& instruction);
  void reduce(const Instruction& instruction);
  void call_extern(const Instruction& instruction);

  /// The address of one lane of an access, checked against the shape and the memory.
  std::byte* locate(const AccessCode& access, const Array& array, int lane);
  Cell read(const Array& array, std::byte* address);
  void write(const Array& array, std::byte* address, int slot);
  void check_read(Storage& storage, std::int64_t unit);
  void check_write(Storage& storage, std::int64_t unit);

  /// Gives what plan_storage placed its memory: in the workspaces, and in a storage for each other space.
  void declare_planned();
  void declare(const BufferCode& code, Storage* storage, std::byte* base);
  void allocate(const BufferCode& code);

  void execute(const Statement& s);
  void loop(const Statement& s);
  void block(const Statement& s);
  void check_domain(const IterCode& iter);
  /// For an iter of a block that runs no instance: reduce iters go to their start. False: no point of a space iter.
  bool enter_domain(const IterCode& iter);
  void store(const Statement& s);
  void assertion(const Statement& s);
  /// What these arrays hold is of one iteration of `depth` parallel loops, and gone with the next.
  void give_own(const std::vector<int>& arrays, size_t depth);
  /// Runs the inits of the reductions below that the loop around has no iteration for.
  void without_iterations(const Statement& s);

  [[noreturn]] void trap(const std::string& what);

  const Compiled& program_;
  const InterpreterOptions& options_;
  std::span<const HostBuffer> host_;
  std::vector<Cell> cells_;
  Cell* frame_;
  std::vector<Tracked> tracked_cells_;  ///< beside cells_, when errors are analysed
  Tracked* tracked_ = nullptr;
  std::vector<std::unique_ptr<Storage>> storages_;
  std::vector<Array> arrays_;
  std::vector<std::unique_ptr<Storage>> own_;  ///< of the allocated array of the same number
  Storage* shared_workspace_ = nullptr;
  Storage* worker_workspace_ = nullptr;
  std::vector<Task> tasks_;
  std::uint32_t next_task_ = 1;
  std::int64_t steps_ = 0;
  bool init_only_ = false;
  const Statement* current_ = nullptr;
  std::vector<const Variable*> scope_;
};

}  // namespace lathe::interpreter
