#include "schedule/homomorphism.h"

#include <fmt/format.h>

#include <optional>

#include "ir/intrinsics.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

class Finder {
 public:
  Finder(const Var* result, const Var* own) : result_(result), own_(own) {}

  std::string why_not;

  std::optional<Homomorphism> factor(const Expr& e) {
    if (!uses_var(e, result_)) return Homomorphism{};
    if (const Binary* binary = e.as<Binary>()) {
      if (binary->op == BinaryOp::mul) return both(factor(binary->a), factor(binary->b), e);
      if (binary->op == BinaryOp::div && !uses_var(binary->b, result_)) return factor(binary->a);
    }
    if (const Unary* unary = e.as<Unary>()) {
      if (unary->op == UnaryOp::neg) return factor(unary->a);
      if (unary->op == UnaryOp::exp || unary->op == UnaryOp::exp2) return power(*unary, e);
    }
    return fail(e, "follows it in no known way");
  }

 private:
  struct Slopes {
    double result = 0, own = 0;
  };

  std::nullopt_t fail(const Expr& e, const char* what) {
    if (why_not.empty()) why_not = fmt::format("{} {}", print(e), what);
    return std::nullopt;
  }

  std::optional<Homomorphism> both(const std::optional<Homomorphism>& a, const std::optional<Homomorphism>& b,
                                   const Expr& e) {
    if (!a || !b) return std::nullopt;
    if (a->slope == 0) return b;
    if (b->slope == 0) return a;
    if (a->op != b->op) return fail(e, "has powers of e and of 2");
    return Homomorphism{a->op, a->slope + b->slope};
  }

  std::optional<Homomorphism> power(const Unary& unary, const Expr& e) {
    const std::optional<Slopes> slopes = linear(without_limit(unary.a));
    if (!slopes) return fail(e, "has an exponent that is not linear in it");
    if (slopes->own != -slopes->result) return fail(e, "has an exponent that may grow past what it is in the end");
    return Homomorphism{unary.op, slopes->result};
  }

  std::optional<Slopes> linear(const Expr& e) const {
    if (e.get() == result_) return Slopes{1, 0};
    if (e.get() == own_) return Slopes{0, 1};
    if (!uses_var(e, result_) && !uses_var(e, own_)) return Slopes{};
    if (const Unary* unary = e.as<Unary>(); unary && unary->op == UnaryOp::neg) return scaled(linear(unary->a), -1);
    const Binary* binary = e.as<Binary>();
    if (!binary) return std::nullopt;
    const FloatImm* left = binary->a.as<FloatImm>();
    const FloatImm* right = binary->b.as<FloatImm>();
    switch (binary->op) {
      case BinaryOp::add:
        return sum(linear(binary->a), linear(binary->b));
      case BinaryOp::sub:
        return sum(linear(binary->a), scaled(linear(binary->b), -1));
      case BinaryOp::mul:
        if (left) return scaled(linear(binary->b), left->value);
        return right ? scaled(linear(binary->a), right->value) : std::nullopt;
      case BinaryOp::div:
        return right && right->value != 0 ? scaled(linear(binary->a), 1 / right->value) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  static std::optional<Slopes> scaled(std::optional<Slopes> slopes, double by) {
    if (slopes) *slopes = {slopes->result * by, slopes->own * by};
    return slopes;
  }
  static std::optional<Slopes> sum(const std::optional<Slopes>& a, const std::optional<Slopes>& b) {
    if (!a || !b) return std::nullopt;
    return Slopes{a->result + b->result, a->own + b->own};
  }

  const Var* result_;
  const Var* own_;
};

}  // namespace

FoundHomomorphism find_homomorphism(const Expr& term, const Var* result, const Var* own) {
  Finder finder(result, own);
  const std::optional<Homomorphism> found = finder.factor(term);
  if (!found) return {{}, finder.why_not};
  return {*found, ""};
}

Expr carry_factor(const Homomorphism& f, const Expr& from, const Expr& to) {
  if (f.slope == -1) return unary(f.op, from - to);
  return unary(f.op, constant(to->dtype, f.slope) * (to - from));
}

}  // namespace lathe
