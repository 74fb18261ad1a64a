#pragma once
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseMapInfo.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>

#include "backends/llvm/kernel_info.h"
#include "backends/llvm/values.h"
#include "ir/analysis/affine.h"
#include "ir/device.h"

namespace lathe::codegen {

/// What all functions of one kernel share: the module, the Func's analysis, alias scopes.
struct KernelModule {
  KernelModule(llvm::Module& module, const Func& func, const Device& device, const TargetTraits& traits,
               bool name_values);

  llvm::Function* make_function(const std::string& name, llvm::ArrayRef<llvm::Type*> params, bool external);
  /// The scope of `buffer`'s storage and the list of all others; null for memory that may alias anything.
  struct AliasScopes {
    llvm::MDNode* scope = nullptr;
    llvm::MDNode* noalias = nullptr;
  };
  AliasScopes alias_scopes(const BufferNode* buffer) const;

  llvm::Module& module;
  llvm::LLVMContext& context;
  const Func& func;
  const Device& device;
  const TargetTraits& traits;
  const KernelInfo info;
  const bool name_values;
  bool address_sanitizer = false;
  std::unordered_map<const BufferNode*, int> param_index;
  std::unordered_set<const BufferNode*> may_alias;  ///< parameters that the func attribute "may_alias" names
  std::vector<std::string> externals;
  std::unordered_map<llvm::Constant*, llvm::GlobalVariable*> stored_constants;
  int outlined = 0;

 private:
  void refuse_large_register_buffers() const;
  /// Groups the buffers of each workspace whose bytes overlap; none where a layout is not known.
  void tell_pieces_apart();
  /// A parameter; a workspace's piece that shares no byte with others; or else all of its workspace.
  std::string alias_class(const BufferNode* buffer) const;
  std::unordered_map<std::string, AliasScopes> scopes_;
  std::unordered_map<const BufferNode*, std::int64_t> piece_of_;  ///< of workspaces whose layout is known
};

/// Emits one LLVM function: the kernel's entry, or the body of a parallel loop.
class FunctionEmitter {
 public:
  /// The entry. Emits the whole kernel.
  static void emit_kernel(KernelModule& kernel, const std::string& symbol);

 private:
  FunctionEmitter(KernelModule& kernel, llvm::Function* function, bool outlined);

  // ---- statements (emit_stmt.cpp) ----
  void emit(const Stmt& s);
  void emit_for(const For* loop);
  void emit_serial_loop(const For* loop, llvm::Value* begin, llvm::Value* end);
  void emit_block(const Block* block);
  void emit_if(const If* node);
  void emit_while(const While* node);
  void emit_assert(const Assert* node);
  void finish();

  // ---- parallel loops (emit_parallel.cpp) ----
  void emit_parallel(const For* loop);
  llvm::Value* emit_closure(llvm::StructType* type, llvm::ArrayRef<llvm::Value*> values,
                            llvm::ArrayRef<llvm::LoadInst*> fields, llvm::Argument* argument);
  void emit_spread(const For* loop, llvm::Function* body, llvm::Value* closure, llvm::Value* count, std::int64_t grain);
  llvm::Value* context_field(int field, llvm::Type* type);
  llvm::Value* context_field_address(int field);
  llvm::Value* rounded_up(llvm::Value* base, const char* attribute);

  // ---- expressions (emit_expr.cpp) ----
  llvm::Value* emit(const Expr& e);
  llvm::Value* emit_new(const Expr& e);
  /// As emit, for an i64 that counts elements: arithmetic on loop variables and constants is marked as not overflowing.
  llvm::Value* emit_index(const Expr& e);
  /// variable * constant where the variable's loop counts in steps of which the constant is a multiple; else null.
  llvm::Value* emit_counter_product(const Expr& e);
  bool is_pure_index(const Expr& e);
  bool is_non_negative(const Expr& e);
  /// Is it a quotient or remainder of what is not negative by a positive constant, which unsigned instructions give?
  bool is_natural_division(const Binary* node);
  /// 0 <= x && x < constant by one comparison of numbers without a sign; null where it is none.
  llvm::Value* emit_range_check(const Binary* node);
  llvm::Value* emit_imm(DType dtype, std::int64_t value);
  /// A vector of equal float constants as a load at the top of the function, anything else as it is. Instruction
  /// selection takes a constant operand apart lane by lane wherever it meets one; a loaded register it lets be.
  llvm::Value* loaded_constant(llvm::Value* value);
  /// Likewise a mask of which some lanes are on, where masks are words: as a constant it has an operand a lane.
  llvm::Value* loaded_mask(llvm::Value* mask);
  llvm::Value* load_stored(llvm::IRBuilderBase& place, llvm::Constant* key, llvm::Constant* stored);
  llvm::Value* emit_select(const Select* node);
  static bool selects_what_is_loaded(const Select* node);
  llvm::Value* emit_ramp(const Ramp* node);
  llvm::Value* emit_call(const Call* node);
  // ---- shuffles (emit_shuffle.cpp) ----
  llvm::Value* emit_shuffle(const Shuffle* node);
  llvm::Value* emit_permuted(const Shuffle* node, std::vector<llvm::Value*> vectors);
  llvm::Value* emit_repeated(const Shuffle* node, llvm::ArrayRef<llvm::Value*> vectors);
  llvm::Value* emit_interleaved(const Shuffle* node, llvm::ArrayRef<llvm::Value*> vectors);
  llvm::Value* emit_picked(llvm::Value* first, llvm::Value* second, llvm::ArrayRef<int> lanes);
  // ---- dot products (emit_dot.cpp) ----
  llvm::Value* emit_dot(const Call* node);
  llvm::Value* emit_dot_bytes(const Call* node);
  llvm::Value* emit_dot_halves(const Call* node);
  struct DotOperands {
    DType sum, a, b;  ///< of all sums; elements of the factors
    int group = 1;    ///< of these for each sum
    llvm::Value *total, *x, *y;
    int parts = 1;  ///< elements of the values that hold a group: a word, or as many as it has
  };
  llvm::Value* emit_dot_as_sum(const DotOperands& dot);
  llvm::Value* emit_dot(DotOperands dot);
  llvm::Value* lanes_from(llvm::Value* vector, int first, int count);
  llvm::Value* every_other(DType bytes, llvm::Value* vector, int odd);
  llvm::Value* emit_join_bytes(DType word, const std::vector<Expr>& bytes);
  llvm::Value* emit_join_halves(const Call* node);
  llvm::Value* emit_reduce(BinaryOp op, DType dtype, llvm::Value* vector);
  llvm::Value* emit_cast(DType to, DType from, llvm::Value* value);

  // ---- arithmetic (emit_arith.cpp) ----
  llvm::Value* emit_unary(UnaryOp op, DType dtype, llvm::Value* a);
  llvm::Value* emit_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_float_binary(BinaryOp op, llvm::Value* a, llvm::Value* b);
  /// By a constant, where that is exact, with a fused multiply-add.
  llvm::Value* emit_quotient(llvm::Value* x, llvm::Value* y);
  llvm::Value* emit_integer_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_bool_binary(BinaryOp op, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_shift(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_division(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_comparison(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_ramp_comparison(const Binary* node);
  llvm::Value* emit_narrow_comparison(const Binary* node);
  llvm::Value* emit_ramp_division(const Binary* node);

  // ---- addresses, and what is known of the memory there (emit_address.cpp) ----
  /// A flat element index as a run-time part and a constant part, which folds into the instruction's displacement.
  struct Offset {
    llvm::Value* variable = nullptr;
    std::int64_t constant = 0;
  };
  Offset split_offset(const Expr& index);
  llvm::Value* base_pointer(const BufferNode* buffer);
  llvm::Value* element_address(const BufferNode* buffer, Offset offset, bool inbounds);
  llvm::Align access_alignment(const BufferNode* buffer, const Expr& index);
  static llvm::Align element_align(const BufferNode* buffer);
  std::int64_t known_multiple(const Expr& index);
  /// The distance of a ramp's elements as an i64.
  llvm::Value* emit_step(const Expr& stride);
  Offset stepped(Offset offset, llvm::Value* step);
  bool is_constant_memory(const BufferNode* buffer) const;
  llvm::Instruction* marked(llvm::Instruction* access, const BufferNode* buffer);
  llvm::Value* from_memory(DType dtype, llvm::Value* value);
  llvm::Value* to_memory(DType dtype, llvm::Value* value);
  llvm::Value* emit_mask(const Expr& mask);
  llvm::Value* reverse(llvm::Value* vector);
  llvm::Value* spread_mask(llvm::Value* mask, int step, int part);

  // ---- loads (emit_load.cpp) ----
  llvm::Value* emit_load(const Load* node);
  llvm::Value* emit_load_run(const BufferNode* buffer, Offset first, int lanes, llvm::Align align, llvm::Value* mask);
  llvm::Value* emit_elements(const BufferNode* buffer, unsigned lanes, llvm::Align align,
                             const std::function<llvm::Value*(unsigned)>& address);
  llvm::Value* emit_narrow_gather(const BufferNode* buffer, const Expr& narrow, const Expr& uniform, llvm::Align align);
  llvm::Value* emit_gather(const BufferNode* buffer, llvm::Value* places, llvm::Align align, llvm::Value* mask);
  static constexpr std::uint64_t zero_bytes = 64;
  llvm::Value* zeros();
  llvm::Value* shared_condition(llvm::Type* run, llvm::Value* mask);
  llvm::Value* emit_strided_load(const BufferNode* buffer, Offset base, const Expr& stride, int lanes,
                                 llvm::Value* mask);
  llvm::Value* emit_picks(const BufferNode* buffer, Offset base, std::int64_t stride, int lanes, std::int64_t length);
  llvm::Value* emit_narrow_picks(const BufferNode* buffer, Offset base, std::int64_t stride, int lanes);

  // ---- stores (emit_store.cpp) ----
  void emit_store(const Store* node);
  void emit_store_run(const BufferNode* buffer, Offset first, llvm::Value* run, llvm::Align align, llvm::Value* mask);
  void emit_store_pieces(const BufferNode* buffer, Offset first, llvm::Value* run, llvm::Align align, int count);
  void emit_spread_store(const BufferNode* buffer, Offset offset, int step, llvm::Value* value, llvm::Value* mask);
  void emit_scatter(const BufferNode* buffer, const Expr& index, llvm::Value* value, llvm::Value* mask);
  void emit_store_lanes(const BufferNode* buffer, llvm::Value* value, llvm::Value* mask,
                        const std::function<llvm::Value*(int)>& address);
  llvm::Value* sink();
  bool goes_past_caches(const BufferNode* buffer, llvm::Type* run, llvm::Align align) const;
  void fence_streamed_stores();

  // ---- spaces without addresses (emit_register.cpp) ----
  llvm::Value* emit_register_load(const Load* node);
  void emit_register_store(const Store* node, llvm::Value* value, llvm::Value* mask);

  // ---- asking for lines ahead (emit_prefetch.cpp) ----
  enum class Asked { run, element, store };  ///< what is loaded, for one lane each or for all, or stored to
  void emit_prefetch(const BufferNode* buffer, const Expr& first, Asked kind);
  std::int64_t elements_ahead(const BufferNode* buffer, Asked kind) const;
  void emit_prefetch_walk(const BufferNode* buffer, const Expr& first, std::int64_t offset, std::int64_t further);
  int asked_cache() const;
  void ask_for(llvm::Value* address, bool to_write, int keep);
  std::int64_t line_bytes() const;
  /// What a loop annotated with prefetch_stores asks for: in its iteration i, lines at these distances from start +
  /// i * step, all in bytes.
  struct StoresBehind {
    llvm::Value* start = nullptr;
    std::int64_t step = 0, steps = 0;
    std::vector<std::int64_t> lines = {};
  };
  std::vector<StoresBehind> find_stores_behind(std::int64_t trips);
  std::optional<StoresBehind> walk_in_steps(std::vector<std::int64_t> places, std::int64_t trips) const;
  void emit_stores_behind(const std::vector<StoresBehind>& behind, llvm::Value* iteration, std::int64_t trips);

  // ---- known instructions (known.cpp): unrolled copies ask for the same ones again and again ----
  /// Names an instruction without side effects by what it is made of.
  using Key = std::tuple<unsigned, llvm::Value*, llvm::Value*, llvm::Type*, std::int64_t>;
  /// The value that `make` gives, or the one that it gave for the same key where that one is still in scope.
  template <class Make>
  llvm::Value* known(const Key& key, Make make);
  llvm::Value* add(llvm::Value* x, llvm::Value* y);
  llvm::Value* subtract(llvm::Value* x, llvm::Value* y);
  llvm::Value* multiply(llvm::Value* x, std::int64_t factor, bool wraps);
  llvm::Value* offset_by(llvm::Type* type, llvm::Value* pointer, llvm::Value* index, bool inbounds);
  /// Of llvm.smin, llvm.umax and their like.
  llvm::Value* extreme(llvm::Intrinsic::ID intrinsic, llvm::Value* x, llvm::Value* y);
  llvm::Value* repeated(llvm::Value* scalar, int lanes);
  /// Integers of another width.
  llvm::Value* resized(llvm::Value* x, llvm::Type* type, bool is_signed);
  /// The same bits as values of another type.
  llvm::Value* seen_as(llvm::Value* x, llvm::Type* type);
  /// Of integers or floats.
  llvm::Value* compare(llvm::CmpInst::Predicate predicate, llvm::Value* x, llvm::Value* y);
  /// A bitwise operation, a shift, or a division of integers.
  llvm::Value* combine(llvm::Instruction::BinaryOps operation, llvm::Value* x, llvm::Value* y);
  /// A sum, difference or product of integers that does not leave their range.
  llvm::Value* combine_exactly(llvm::Instruction::BinaryOps operation, llvm::Value* x, llvm::Value* y);
  /// All bits turned over: of a comparison the opposite one.
  llvm::Value* opposite(llvm::Value* x);

  // ---- scopes: what was computed inside a branch or a loop is forgotten behind it ----
  struct Scope {
    size_t values, offsets, known;
  };
  Scope open_scope() const { return {value_log_.size(), offset_log_.size(), known_log_.size()}; }
  void close_scope(Scope scope);
  void remember(const Expr& e, llvm::Value* value);

  llvm::BasicBlock* new_block(const char* name);
  void name(llvm::Value* value, const std::string& text);

  KernelModule& kernel;
  llvm::LLVMContext& context;
  llvm::Function* function;
  const bool outlined;
  llvm::BasicBlock* entry;
  Builder prologue;              ///< pointers and workspaces, loaded once at the top
  llvm::Value* sink_ = nullptr;  ///< where lanes that are off store to
  Builder b;
  FloatEmitter floats;

  llvm::Value* context_argument = nullptr;
  llvm::Value* buffers_argument = nullptr;
  llvm::Value* worker = nullptr;

  std::unordered_map<const Var*, llvm::Value*> vars_;
  /// Of a loop variable that is only ever used times multiples of this: `vars_` then holds the product. The machine has
  /// one instruction less in each iteration, and no address to compute where elements of 2, 4 or 8 bytes follow on.
  std::unordered_map<const Var*, std::int64_t> strides_;
  std::unordered_set<const Var*> index_vars_, non_negative_vars_;
  std::unordered_set<const Var*> counters_;  ///< of loops: no arithmetic has made them
  std::unordered_map<const ExprNode*, llvm::Value*> values_;
  NodeMap<const ExprNode*, llvm::Value*> transient_;
  std::unordered_map<const ExprNode*, Offset> offsets_;
  std::vector<const ExprNode*> value_log_, offset_log_;
  std::vector<Expr> made_here_;  ///< expressions that the program does not hold: their values are known by address
  std::unordered_map<const BufferNode*, llvm::Value*> pointers_;
  llvm::Value *shared_workspace_ = nullptr, *worker_workspace_ = nullptr;  ///< of all buffers that lie there
  llvm::DenseMap<Key, llvm::Value*> known_;
  std::vector<Key> known_log_;
  std::int64_t memory_version_ = 0;  ///< another one behind whatever may have written to memory
  std::unordered_map<llvm::Constant*, llvm::Value*> loaded_constants_;
  /// The last store under a mask, as long as no other access to memory may have come in between. LLVM does not carry
  /// the value over to a load under the same mask, and a machine's stores wait until all their lanes are in the cache.
  struct MaskedStore {
    const BufferNode* buffer = nullptr;
    Expr index;
    llvm::Value *mask = nullptr, *value = nullptr;
    llvm::BasicBlock* block = nullptr;
  };
  MaskedStore masked_store_;
  /// The last comparison of lanes with a limit: stores and loads of one iteration ask for it again and again.
  struct LaneMask {
    BinaryOp op = BinaryOp::lt;
    Expr lanes, limit;
    llvm::Value* mask = nullptr;
    llvm::BasicBlock* block = nullptr;
  };
  LaneMask lane_mask_;
  const ExprNode* evaluated_ = nullptr;  ///< the expression of the Eval that is being emitted
  /// The loop that is being emitted, when it is annotated with prefetches, and what its body asked for already.
  struct Prefetch {
    const Var* variable = nullptr;
    std::int64_t offset = 0;    ///< elements
    std::int64_t elements = 0;  ///< the same of elements that all lanes take in, of arrays of the kernel's own
    int cache = 1;              ///< into which the lines come: annotation prefetch_cache, 1 is the nearest
    /// Of annotations prefetch_param_N: elements ahead of what is loaded from and stored to a parameter.
    std::unordered_map<const BufferNode*, std::int64_t> params = {};
    /// Of annotations prefetch_walk_N: elements that a walk over what is ahead goes on by with each iteration, whose
    /// number is `iteration`, from where the first load of the parameter was in the first one.
    std::unordered_map<const BufferNode*, std::int64_t> walks = {};
    llvm::Value* iteration = nullptr;
    std::vector<std::pair<const BufferNode*, Affine>> asked = {};
  };
  Prefetch prefetch_;
  /// The sequences that the statement stands in, within the innermost loop, and where each goes on behind it.
  std::vector<std::pair<const Seq*, size_t>> sequels_;
  bool streaming_ = false;           ///< inside a loop that is annotated with streaming_stores
  bool streamed_ = false;            ///< some store went past the caches
  std::vector<llvm::Value*> slots_;  ///< each register slot's current value; null while not allocated
};

template <class Make>
llvm::Value* FunctionEmitter::known(const Key& key, Make make) {
  const auto [at, is_new] = known_.try_emplace(key, nullptr);
  if (!is_new) return at->second;
  known_log_.push_back(key);
  return at->second = make();
}

}  // namespace lathe::codegen
