#pragma once
/// What the rules know of a block: its accesses as strides over its iters, and what an instance costs.
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// A Load or Store of a block as a walk through memory.
struct Access {
  Buffer buffer;
  bool store = false;
  bool masked = false;
  /// Elements that the access moves when an iter advances by one, an entry an iter; nothing where that is no constant.
  std::vector<std::optional<std::int64_t>> strides;
  /// How far that is, either way. Where it is known at run time alone but the same for each step, what it is at the
  /// least in an array whose rows do not overlap; 0 where steps differ.
  std::vector<std::int64_t> distances;
  /// For an iter without a constant stride, the length of aligned runs of it during which the access stands still, as
  /// x[i // 16] does for 16; else 1.
  std::vector<std::int64_t> runs;
  /// For an iter without a constant stride along which the access never goes back, the most elements that it goes on in
  /// so many steps as the widest vector of the device takes.
  static constexpr std::int64_t gain_steps = 15;
  std::vector<std::optional<std::int64_t>> gains;

  /// Is each step of the iter as long as any other, as is known at run time alone?
  bool is_steady(size_t iter) const { return !strides[iter] && distances[iter] > 0; }
};

/// The accesses of a block, which all who ask share.
class Accesses {
 public:
  explicit Accesses(std::vector<Access> found)
      : found_(std::make_shared<const std::vector<Access>>(std::move(found))) {}
  auto begin() const { return found_->begin(); }
  auto end() const { return found_->end(); }
  auto rbegin() const { return found_->rbegin(); }
  auto rend() const { return found_->rend(); }
  size_t size() const { return found_->size(); }
  bool empty() const { return found_->empty(); }
  const Access& operator[](size_t i) const { return (*found_)[i]; }
  const Access& front() const { return found_->front(); }
  operator const std::vector<Access>&() const& { return *found_; }
  operator const std::vector<Access>&() const&& = delete;  // nothing else may hold what is found

 private:
  std::shared_ptr<const std::vector<Access>> found_;
};

/// Every distinct access of the block's body.
Accesses block_accesses(const Block& block);

/// At how many places they load from the buffer.
std::int64_t load_count(const std::vector<Access>& accesses, const Buffer& buffer);

/// Does each step of the iter `outer`, in every access, go as far as all of `inner` do?
bool goes_on(const Block& block, size_t outer, size_t inner);

/// What a variable extent is taken for, or as near to it as the facts allow.
inline constexpr std::int64_t assumed_extent = 64;
std::int64_t extent_estimate(const Expr& extent, const std::vector<Fact>& facts = {});
/// The most that an extent can be; nothing where no fact bounds it.
std::optional<std::int64_t> greatest_extent(const Expr& extent, const Func& func);
/// Is the block element-wise: no reduction, of space iters alone?
bool only_space(const Block& block);
/// The dimension of a region that an iter alone walks.
std::optional<size_t> dimension_of(const Region& region, const Block& block, size_t iter);
/// Is it a minimum or maximum of floats, which takes several instructions?
bool is_float_extreme(const Block& block);
/// The number of instances, estimated.
double instance_count(const Block& block, const std::vector<Fact>& facts = {});
/// To how many elements, estimated, the iters of the block lead that say what the load reads, or whether it does.
double elements_walked(const Block& block, const Load& load, const std::vector<Fact>& facts);
/// The number of a buffer's elements, estimated.
double estimated_elements(const Buffer& buffer, const std::vector<Fact>& facts = {});
/// The bytes of all buffers that the blocks read and write, each once: estimated.
double bytes_of_buffers(const std::vector<const Block*>& blocks, const std::vector<Fact>& facts);

/// Cycles that an expression or a body takes for one element in scalar code, loads from the first cache included.
/// Weights are reciprocal throughputs of vector code on recent x86 cores, relative to an addition.
double expression_cost(const Expr& e);
double body_cost(const Stmt& body);
/// What conditions of choices cost, each once however many choices it decides.
class ConditionCosts {
 public:
  void take(const Select& choice);
  double total() const { return total_; }

 private:
  std::vector<Expr> taken_;
  double total_ = 0;
};
double body_cost(const Block& block);
/// The body_cost of what loads and stores, and no more; of a division or so, beyond which the core's own window
/// overlaps iterations; and of an exponential, beside which places that are computed, gathered or scattered weigh
/// little.
inline constexpr double copy_body = 2, costly_body = 8, function_body = 16;
/// Of an update of a reduction with a costly term: it has two loads, the operation and a store besides.
inline constexpr double costly_update = costly_body + 4;
/// What an update costs that storing its term would not: loading what it is added to, and adding.
inline constexpr double accumulation_cost = 2;
/// Vectors of a row from which on nothing is lost by walking along it.
inline constexpr std::int64_t least_row_vectors = 4;
/// Iterations that copies and chains leave to a loop at the least: a short row needs no more, and compiles sooner.
inline constexpr std::int64_t least_iterations = 4;
/// Estimated time of an instance of a block without inner blocks: what its operations take, in vector or in scalar
/// code, or its share of what the block moves between arrays and registers, whichever is longer.
double instance_nanoseconds(const Block& block, bool vector, const std::vector<Fact>& facts = {});
/// The same where lanes are put together by shuffles, which take half of what they take one by one.
double shuffled_nanoseconds(const Block& block, const std::vector<Fact>& facts = {});

/// Has the machine no masks for elements so narrow, so that each lane is a branch?
bool masks_by_branches(const Device& device, DType dtype);

/// The widest element in bits that the block's arithmetic and memory use, indices left out; of what it reads, that of
/// buffers that count.
int widest_bits(const Block& block, const std::function<bool(const Buffer&)>& counts = nullptr);
/// The same for vectors along an iter, beside which a loaded index that stands still has no width.
int widest_bits(const Block& block, const std::vector<Access>& accesses, size_t iter);
/// Does the block's arithmetic take elements that all lanes share from memory, where the device's can? LLVM 19 loads
/// those of pairs of bf16 first.
bool takes_shared_elements(const Block& block);
/// Lanes of the block's widest type in one vector register of the device; at least 1.
int vector_lanes(const Block& block, const Device& device);
/// Those along an iter.
int vector_lanes(const Block& block, const Device& device, const std::vector<Access>& accesses, size_t iter);

}  // namespace lathe
