#pragma once
#include <string>
#include <vector>

#include "ir/analysis/verify.h"
#include "ir/analysis/witness.h"

namespace lathe {

/// Where the parts of `verify` put what they find.
class Report {
 public:
  explicit Report(const Func& func) : func_(func) {}
  const Func& func() const { return func_; }
  Stage stage() const { return func_->stage; }

  void wrong(const char* rule, const std::string& message) { add(rule, true, message); }
  void unproved(const char* rule, const std::string& message) { add(rule, false, message); }
  /// Nothing when proved; `message` with the witness behind it when wrong.
  void decided(const char* rule, const Decision& decision, const std::string& message);
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  void add(const char* rule, bool proved_wrong, const std::string& message);

  const Func& func_;
  std::vector<Finding> findings_;
};

/// One Load, Store or AddressOf below a Block, or a region that a Block inside it declares.
struct BlockAccess {
  Buffer buffer;
  std::vector<Expr> indices;  ///< empty for a region
  const Region* region = nullptr;
  bool writes = false;
  std::vector<Step> steps;  ///< from the block's body to the access
};

/// What one instance of `block` touches, in program order; what it allocates itself left out. Blocks inside are seen
/// through their regions when `through_regions`, else through their own accesses.
std::vector<BlockAccess> block_accesses(const Block& block, bool through_regions);

/// Does every element that `access` touches lie in `region`? `steps` lead to the body of its block, and `bounds` knows
/// them; the region's provenance does not count.
Decision lies_inside(const BlockAccess& access, const Region& region, Bounds bounds, std::vector<Step> steps,
                     const Func& func);

/// A Block that only allocates, and may say what hold as hints inside: it has no instances and promises nothing.
bool is_bare_scope(const Block::Fields& f);

/// A Block where it stands.
struct PlacedBlock {
  const Block* block;
  const std::vector<Step>& steps;  ///< from the start of the Func to the block, its predicate included
  size_t outer;                    ///< where in `steps` the body of the innermost enclosing block begins
  const Bounds& bounds;            ///< knows `steps`
};

void check_names(Report& report);                                   ///< scope.*, types.*
void check_accesses(Report& report);                                ///< access.*, loop.*, stage.*
void check_spaces(Report& report, const Device& device);            ///< space.*
void check_promises(Report& report);                                ///< block.*
void check_covers(const PlacedBlock& placed, Report& report);       ///< promise 2
void check_independent(const PlacedBlock& placed, Report& report);  ///< promise 4
void check_reduction(const PlacedBlock& placed, Report& report);    ///< promise 5 and the rule for init
void check_order(const PlacedBlock& placed, Report& report);        ///< promise 6

}  // namespace lathe
