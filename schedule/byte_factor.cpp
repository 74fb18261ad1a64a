#include "schedule/byte_factor.h"

#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {

std::optional<ByteFactor> byte_factor(const Expr& e) {
  ByteFactor found;
  bool widened = false;
  Expr at = e;
  while (true) {
    if (const Select* choice = at.as<Select>()) {
      const std::int64_t* border = as_int(choice->when_false);
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
  if (!found.load || !widened || !found.load->dtype.is_integer() || found.load->dtype.bits != 8 ||
      !found.load->dtype.is_scalar())
    return std::nullopt;
  const bool is_signed = found.load->dtype.is_signed();
  if (found.border < (is_signed ? -128 : 0) || found.border > (is_signed ? 127 : 255)) return std::nullopt;
  if (found.load->mask && !(found.condition && equal(found.load->mask, found.condition))) return std::nullopt;
  return found;
}

Expr padded_factor(const ByteFactor& factor, DType dtype, const Expr& load, std::int64_t border) {
  const Expr value = cast(dtype, load);
  return factor.condition ? select(factor.condition, value, constant(dtype, border)) : value;
}

}  // namespace lathe
