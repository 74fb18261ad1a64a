#include "schedule/byte_factor.h"

#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {

namespace {

/// The whole number that a constant is.
std::optional<std::int64_t> whole_number(const Expr& e) {
  if (const std::int64_t* value = as_int(e)) return *value;
  const FloatImm* value = e.as<FloatImm>();
  return value && value->value == 0 ? std::optional<std::int64_t>(0) : std::nullopt;
}

/// A load that is cast, and chosen by a condition or not.
std::optional<ByteFactor> widened_factor(const Expr& e) {
  ByteFactor found;
  bool widened = false;
  Expr at = e;
  while (true) {
    if (const Select* choice = at.as<Select>()) {
      const auto border = whole_number(choice->when_false);
      // What is read under the condition may be chosen by it once more.
      if (!border || (found.condition && !(equal(found.condition, choice->condition) && *border == found.border)))
        return std::nullopt;
      found.condition = choice->condition;
      found.border = *border;
      at = choice->when_true;
    } else if (const Cast* cast = at.as<Cast>(); cast && !widened) {
      widened = true;
      at = cast->value;
    } else {
      break;
    }
  }
  found.load = at.as<Load>();
  if (!found.load || !widened || !found.load->dtype.is_scalar()) return std::nullopt;
  if (found.load->mask && !(found.condition && equal(found.load->mask, found.condition))) return std::nullopt;
  return found;
}

}  // namespace

std::optional<ByteFactor> byte_factor(const Expr& e) {
  const std::optional<ByteFactor> found = widened_factor(e);
  if (!found || !found->load->dtype.is_integer() || found->load->dtype.bits != 8) return std::nullopt;
  const bool is_signed = found->load->dtype.is_signed();
  const bool fits = found->border >= (is_signed ? -128 : 0) && found->border <= (is_signed ? 127 : 255);
  return fits ? found : std::nullopt;
}

std::optional<ByteFactor> half_factor(const Expr& e) {
  const std::optional<ByteFactor> found = widened_factor(e);
  return found && found->load->dtype == bf16 && found->border == 0 ? found : std::nullopt;
}

Expr padded_factor(const ByteFactor& factor, DType dtype, const Expr& load, std::int64_t border) {
  const Expr value = cast(dtype, load);
  return factor.condition ? select(factor.condition, value, constant(dtype, border)) : value;
}

}  // namespace lathe
