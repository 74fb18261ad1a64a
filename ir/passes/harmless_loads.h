#pragma once
/// Accesses of register buffers, and which masks of theirs nobody sees.
#include <compare>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/stmt.h"
#include "ir/visitor.h"

namespace lathe {

/// The elements of a register buffer that an access touches, as a half-open interval.
struct Slot {
  std::int64_t begin, end;
  auto operator<=>(const Slot&) const = default;
};

/// Nothing where that is no constant, or no neighbours.
std::optional<Slot> slot_of(const std::vector<Expr>& indices);

/// Does the buffer live in registers, under its own name?
bool is_register(const Buffer& buffer);

/// Masks with their Lets written out, so that equal ones compare equal.
class Masks {
 public:
  void bind(const Let* node) {
    if (node->value->dtype.is_bool()) values_[node->variable.get()] = resolve(node->value);
  }
  Expr resolve(const Expr& mask) const {
    if (!mask || values_.empty()) return mask;
    if (const Var* variable = mask.as<Var>()) {
      const auto found = values_.find(variable);
      return found == values_.end() ? mask : found->second;
    }
    return substitute(mask, values_);
  }

 private:
  Substitution values_;
};

/// Finds the masked loads from registers whose other lanes reach nothing but stores under the same mask, among the
/// statements that hold any masked load from a register.
class HarmlessLoads {
 public:
  HarmlessLoads(const Stmt& body, const std::unordered_set<const void*>& holders);
  bool contains(const Load* load) const {
    const auto found = loads_.find(load);
    return found != loads_.end() && found->second;
  }

 private:
  void walk(const Stmt& s);
  /// `mask`: the lanes of `e` that matter; null when all may.
  void value(const Expr& e, const Expr& mask);
  void value_new(const Expr& e, const Expr& mask);

  const std::unordered_set<const void*>& holders_;
  int pending_ = 0;  ///< Lets around, whose value holds such a load
  Masks masks_;
  std::unordered_map<const ExprNode*, Expr> seen_;
  std::unordered_map<const Var*, Expr> uses_;  ///< the one mask under which a variable matters; null when there is none
  std::unordered_map<const Load*, bool> loads_;
};

}  // namespace lathe
