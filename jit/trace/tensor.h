#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/func.h"
#include "jit/precision.h"

namespace lathe {

/// Extents: i64 expressions, constants or symbolic (a scalar parameter of the Func to be). 0 and 1 are always
/// constants.
using Shape = std::vector<Expr>;
using Indices = std::vector<Expr>;

struct TensorNode;  // jit/trace/tensor_node.h

/// A symbolic tensor: a value of the operator being traced. Copying shares. It holds no data; what it is is one of
///   input    a buffer parameter
///   scalar   a 0-d run-time scalar parameter; weakly typed when it came from a Python number
///   compute  a new buffer, filled by one Block when the trace becomes a Func
///   view     an index map over other tensors: no storage, no block; an element is an expression over its sources'
///   elements
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<const TensorNode> node) : node_(std::move(node)) {}
  /// A weak literal, so that x * 2 and ops::maximum(x, 0.5) read as they should.
  template <class T>
    requires std::is_arithmetic_v<T>
  Tensor(T value);

  DType dtype() const;
  const Shape& shape() const;
  size_t rank() const { return shape().size(); }
  /// The constant extents; an InputError when one is symbolic.
  std::vector<std::int64_t> static_shape() const;
  /// Python's numbers: their dtype gives way to an array's of the same kind.
  bool is_weak() const;
  bool is_expression() const;

  /// The element at `indices`, one index a dimension, under `mask` (null: always): what compute bodies call. A false
  /// mask gives zero and touches no memory.
  Expr at(const Indices& indices, const Expr& mask = nullptr) const;
  template <class... I>
  Expr operator()(I... indices) const {
    return at({Expr(indices)...});
  }

  /// As at, for bodies whose places nobody vouches for: one outside of the tensor is refused where that is known, and
  /// stops the kernel with an index error otherwise.
  Expr element(const Indices& indices) const;

  const TensorNode* node() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  std::shared_ptr<const TensorNode> node_;
};

struct Heard;  // jit/trace/tensor_node.h

/// A reduction in a compute's body: the reducer folded over `domain` of the terms. As the body's outermost thing it is
/// what the compute's block does; within an expression `folded` stands for it.
struct Reduction {
  Reducer reducer;
  std::vector<Range> domain;
  std::vector<VarRef> variables;
  std::vector<Expr> terms;
  std::vector<Expr> within;            ///< where there are terms: each is asked where those before it hold
  std::shared_ptr<const Heard> heard;  ///< what the terms touch; null where no compute listens
};

/// A new tensor whose element at i is f(i): any operator in a line.
///   compute({m, n}, [&](const Indices& i) { return a.at({i[0], i[1]}) + b.at({i[1]}); })
/// `name` names the Block and appears in listings and errors; "softmax.max" is a step of softmax, which listings leave
/// out.
Tensor compute(const Shape& shape, const std::function<Expr(const Indices&)>& f, std::string name = "compute");

/// The same of a body in any type, converted to `dtype`: f16 and bf16 are what an operator rounds to, which readers
/// within the kernel may do without (Precision).
Tensor compute_rounded(const Shape& shape, DType dtype, const std::function<Expr(const Indices&)>& f,
                       std::string name = "compute");

/// Used in a compute's body: folds f over the box of `extents`, which may be expressions of the body's indices.
///   compute({m, n}, [&](const Indices& i) {
///     return reduce(sum_reducer(f32), {k}, [&](const Indices& r) { return a(i[0], r[0]) * b(r[0], i[1]); }); })
Reduction reduce(const Reducer& reducer, const Shape& extents, const std::function<Expr(const Indices&)>& f);
/// Several values folded at once: one term, and one resulting tensor, for each value of the reducer.
Reduction reduce_tuple(const Reducer& reducer, const Shape& extents,
                       const std::function<std::vector<Expr>(const Indices&)>& f);
/// In a compute's body, or in the terms of another reduction: the values of a reduction as parts of an expression, one
/// for each value of its reducer; f16 and bf16 where `rounded` says so. A block of its own folds them for each of the
/// surrounding indices that the terms use, whatever choices stand around it. Where no compute listens, values of those
/// types and no more.
///   compute({m}, [&](const Indices& i) {
///     return b(i[0]) + folded(reduce(sum_reducer(f32), {k}, [&](const Indices& r) { return a(i[0], r[0]); }))[0]; })
std::vector<Expr> folded(const Reduction& reduction, std::optional<DType> rounded = std::nullopt);
Tensor compute(const Shape& shape, const std::function<Reduction(const Indices&)>& f,
               const std::string& name = "reduce");
std::vector<Tensor> compute_tuple(const Shape& shape, const std::function<Reduction(const Indices&)>& f,
                                  std::string name = "reduce");

/// Running results along `axis`: element i is the reducer's combination of f at 0 .. i[axis] there, from its identity
/// on, terms in their order. The reducer has one value; as with reductions, floats are combined in any grouping.
///   scan({m, n}, 1, simple_reducer(BinaryOp::add, f32), [&](const Indices& i) { return a.at(i); })
Tensor scan(const Shape& shape, size_t axis, const Reducer& reducer, const std::function<Expr(const Indices&)>& f,
            const std::string& name = "scan");
/// Several values at once: one term, and one resulting tensor, for each value of the reducer.
std::vector<Tensor> scan_tuple(const Shape& shape, size_t axis, const Reducer& reducer,
                               const std::function<std::vector<Expr>(const Indices&)>& f, std::string name = "scan");

/// Where an element goes, and what it is combined with there.
struct Contribution {
  Indices place;
  Expr term;
};
/// `begin`, and one contribution after another added to it: for each index of the box of `extents` the element at its
/// place becomes the reducer's combination of itself and the term. Places may be loaded, and are to lie inside; those
/// that meet are combined in the order of the box. Its axes that a place has as they are tell elements apart.
///   scatter(zeros, simple_reducer(BinaryOp::add, f32), {m, n}, [&](const Indices& i) {
///     return Contribution{{rows.at({i[0]}), i[1]}, x.at(i)}; })
Tensor scatter(const Tensor& begin, const Reducer& reducer, const Shape& extents,
               const std::function<Contribution(const Indices&)>& f, std::string name = "scatter");

/// A tensor without storage: element i is f(i, mask), an expression over other tensors' at(). Every Load that f makes
/// must be under `mask` (and may narrow it further).
Tensor view(Shape shape, DType dtype, const std::function<Expr(const Indices&, const Expr& mask)>& f,
            std::string name = "view");

/// An expression of a compute's body as a 0-d tensor, so that every element-wise operator can be used in a body: of
/// expressions, numbers and 0-d tensors they give an expression again (`at({})`), and no Block.
Tensor expression(Expr value);

/// Parameters of the operator being traced.
Tensor input(std::string name, DType dtype, Shape shape);
/// A run-time scalar; `weak` as is_weak.
Tensor scalar(std::string name, DType dtype, bool weak);
/// A 0-d constant.
Tensor literal(DType dtype, double value, bool weak = true);
Tensor literal(DType dtype, std::int64_t value, bool weak = true);

template <class T>
  requires std::is_arithmetic_v<T>
Tensor::Tensor(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    *this = literal(boolean, static_cast<std::int64_t>(value));
  } else if constexpr (std::is_integral_v<T>) {
    *this = literal(i64, static_cast<std::int64_t>(value));
  } else {
    *this = literal(f64, static_cast<double>(value));
  }
}

/// Everything that `outputs` needs, as one Func at stage begin: a root block whose allocs are the intermediate tensors
/// and whose body is one loop nest for each compute, in an order in which they can run. Parameters: `inputs` in order
/// (used or not), then one buffer for each output ("out", or "out0", "out1", ..); an output that is a view, an input,
/// or a tensor that occurs twice is copied by a block of its own. Only what the outputs need is kept.
Func make_func(std::string name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               Precision precision = Precision::standard);

}  // namespace lathe
