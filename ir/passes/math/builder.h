#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"
#include "ir/intrinsics.h"

namespace lathe::math {

/// Collects the values that a lowered function computes, so that one used twice is computed once: `bind` names a value,
/// and `wrap` puts the names around the statement that uses them.
///
/// Where nothing can stand before the user (the condition of a While) a Builder is made with `binds` false, and values
/// stay shared expressions.
class Builder {
 public:
  explicit Builder(const Device& device, bool binds = true) : device_(device), binds_(binds) {}

  const Device& device() const { return device_; }
  bool binds() const { return binds_; }

  /// A variable that holds `value`; constants, variables and broadcasts of them are returned themselves.
  Expr bind(const char* name, Expr value);
  /// a*b + c: with one rounding where the device has the instruction, else with two.
  Expr multiply_add(const Expr& a, const Expr& b, const Expr& c) const;
  /// Has the device one instruction for the intrinsic `scaleb`?
  bool scales_by_exponent() const;
  /// Has the device one instruction for the intrinsic `permute` of `lanes` lanes by a vector of its own?
  bool permutes(DType dtype, int lanes) const;
  /// Is `permute` of 4 lanes of f32 quicker than of 8, whose lanes cross the halves of a register?
  bool permutes_in_halves() const;
  /// .. for the intrinsic `reciprocal`?
  bool estimates_reciprocals() const;
  /// .. for each of the intrinsics `exponent` and `mantissa`?
  bool splits_floats() const;
  /// 1 / (x + low) within a unit in the last place, where |x| lies between 2^-100 and 2^100; otherwise some value.
  /// `low` may be null, and is no more than x's rounding.
  Expr inverse(const Expr& x, const Expr& low = nullptr);
  /// A polynomial in x - center in each of 4, 8 or 16 cells of what is not negative: rows of a table are the centers,
  /// then coefficients, lowest degree first; `cell` is x's, modulo their number. In the cell at zero, whose center and
  /// first coefficient are zero, x times `slope` (0 or 1) is added: there alone x - center is over the first
  /// coefficient.
  template <class T, std::size_t rows, std::size_t cells>
  Expr piecewise(const T (&table)[rows][cells], const Expr& x, const Expr& cell, int slope) {
    const Expr t = bind("t", x - entry(table[0], x->dtype, cell));
    Expr sum = entry(table[rows - 1], x->dtype, cell);
    for (std::size_t i = rows - 1; i-- > 2;) sum = multiply_add(sum, t, entry(table[i], x->dtype, cell));
    Expr first = entry(table[1], x->dtype, cell);
    if (slope != 0) {
      first = bind("first", std::move(first));
      first = select(gt(t, first), t, first);
    }
    return multiply_add(sum, t, first);
  }
  /// The element of a table of a power of two of numbers, whose index is the low bits of `cell` (`permutes`).
  template <class T, std::size_t cells>
  static Expr entry(const T (&row)[cells], DType dtype, const Expr& cell) {
    std::vector<Expr> numbers;
    std::vector<int> order;
    for (const T number : row) {
      order.push_back(static_cast<int>(numbers.size()));
      numbers.push_back(constant(dtype.element(), static_cast<double>(number)));
    }
    return permute(Shuffle::make(std::move(numbers), std::move(order)), cell);
  }
  /// Horner's scheme, lowest degree first.
  template <class T, std::size_t n>
  Expr polynomial(const T (&coefficients)[n], const Expr& x) {
    Expr sum = constant(x->dtype, static_cast<double>(coefficients[n - 1]));
    for (std::size_t i = n - 1; i-- > 0;) {
      sum = multiply_add(sum, x, constant(x->dtype, static_cast<double>(coefficients[i])));
    }
    return sum;
  }
  /// The same of even and of odd powers side by side: a longer sum in half the steps, where those wait for each other.
  template <class T, std::size_t n>
  Expr polynomial_by_halves(const T (&coefficients)[n], const Expr& x) {
    T even[(n + 1) / 2], odd[n / 2];
    for (std::size_t i = 0; i < n; ++i) (i % 2 == 0 ? even : odd)[i / 2] = coefficients[i];
    const Expr square = bind("power", x * x);
    return multiply_add(polynomial(odd, square), x, polynomial(even, square));
  }
  /// `usual` in every lane, then, only if `rare` is true in some lane, `replacement` in those lanes.
  Expr unless(const Expr& rare, const Expr& usual, const Expr& replacement);

  /// One turn of a loop: whether it runs, and the state after it.
  struct Iteration {
    Expr runs;
    std::vector<Expr> next;
  };
  /// The state after the loop that turns while `runs` holds in any lane. The step must leave a lane alone where it does
  /// not.
  std::vector<Expr> loop(const std::vector<Expr>& initial,
                         const std::function<Iteration(const std::vector<Expr>&)>& step);

  /// The statement under the names collected so far, which are then forgotten.
  Stmt wrap(Stmt stmt);

 private:
  struct Step {
    VarRef variable;
    Expr value;
    std::vector<Buffer> temporaries;  ///< or, when there are any, buffers in registers
    Stmt before;                      ///< that this statement fills
  };
  bool has_avx512() const;

  const Device& device_;
  const bool binds_;
  std::vector<Step> steps_;
};

/// The bits of a float as an integer of its width, signed.
Expr bits(const Expr& x);
/// `pattern` in every lane of an integer type.
Expr pattern(DType dtype, std::uint64_t pattern);
/// |magnitude| is taken as non-negative: its sign bit must be clear unless it is NaN.
Expr with_sign_of(const Expr& magnitude, const Expr& sign);

/// The bits of scale * |x| + offset from `shift` on say in which cell x lies.
struct Cells {
  double scale, offset;
  int shift;
  double one_from_here;  ///< of |x|: the function is one
};
/// An odd function that rises to one, by the table of Builder::piecewise for |x|.
template <class Table>
Expr odd_by_cells(Builder& b, const Expr& x, const Table& table, const Cells& cells, int slope) {
  const DType type = x->dtype;
  const Expr most = constant(type, cells.one_from_here), magnitude = b.bind("magnitude", unary(UnaryOp::abs, x));
  const Expr inside = b.bind("inside", select(gt(magnitude, most), most, magnitude));
  const Expr offset = constant(type, cells.offset);
  const Expr image =
      bits(cells.scale == 1 ? inside + offset : b.multiply_add(inside, constant(type, cells.scale), offset));
  const Expr cell = b.bind("cell", binary(BinaryOp::shr, image, constant(image->dtype, cells.shift)));
  return with_sign_of(b.piecewise(table, inside, cell, slope), x);
}

}  // namespace lathe::math
