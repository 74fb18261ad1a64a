#pragma once
#include <optional>
#include <unordered_set>

#include "ir/analysis/interval.h"
#include "jit/trace/tensor.h"

/// What a Tensor refers to: for the files of this room, not for callers.
namespace lathe {

enum class TensorKind : std::uint8_t { input, scalar, literal, compute, view };

/// A condition that must hold for an instance of a block before it stores; it becomes an Assert.
struct Requirement {
  Expr condition;
  std::string message;  ///< "operator|axis|what"
  Expr index;
};

/// What an output holds before the first instance: a Block that stands before the node's own.
struct Beginning {
  std::vector<Iter> iters;
  std::vector<Expr> indices;
  Expr value;
};

/// One Block to be. A scan's values read its own buffer, as do those of what adds up from a beginning. Iters of extent
/// 1 are left out: their index is the constant 0.
struct ComputeNode {
  std::string name;
  bool is_step = false;     ///< a part of an operator: listings leave it out
  bool rounds = false;      ///< what casts its values to f16 or bf16 is the operator's, not what its caller asked for
  std::vector<Iter> iters;  ///< space iters and ordered ones, then reduce iters
  std::optional<Reducer> reducer;
  std::vector<Expr> values;     ///< one an output: what is stored, or the reducer's term
  std::vector<Buffer> buffers;  ///< one an output
  std::vector<Expr> indices;    ///< where every output is stored
  std::optional<Beginning> begin;
  std::vector<Requirement> requirements;
  std::vector<Tensor> sources;  ///< every input, scalar and compute that the values read, each once
};

/// What the domains of its iters say.
Bounds domains_of(const ComputeNode& node);

class KeptView;  // jit/trace/kept_view.h

/// Tensors of one shape, and the axis of the result along which they lie.
struct Stacked {
  std::vector<Tensor> parts;
  size_t axis;
};

struct TensorNode {
  TensorKind kind = TensorKind::input;
  DType dtype;
  Shape shape = {};
  std::string name = {};
  bool weak = false;
  bool expression = false;  ///< a view that stands for one expression of a compute's body
  Buffer buffer = {};       ///< of an input or a compute
  Expr value = {};          ///< a scalar's variable, a literal's constant
  std::function<Expr(const Indices&, const Expr& mask)> element = {};  ///< of a view
  std::shared_ptr<const ComputeNode> definition = {};                  ///< of a compute
  std::shared_ptr<KeptView> kept = {};                                 ///< of a view that has a shape
  std::shared_ptr<const Stacked> stacked = {};                         ///< of what stacks others
};

/// An element that a body took by Tensor::element.
struct ElementAccess {
  Expr element;
  Tensor tensor;
  Indices indices;
};

/// Does the expression load of `source`, or may it use it, as a scalar?
bool reads(const Expr& e, const Tensor& source);

/// What the terms of a reduction touch.
struct Heard {
  std::vector<Tensor> sources;
  std::vector<Requirement> requirements;
  std::vector<ElementAccess> accesses;
  bool saw_view = false;
};

/// Notes what the body of a compute touches while that body runs: the innermost one alive on this thread listens.
class Listener {
 public:
  Listener();
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// The innermost listener, or null.
  static Listener* active();
  /// The one that listens to what is around.
  const Listener* around() const { return outer_; }
  void read(const Tensor& tensor);
  /// Notes what the terms of a reduction touch.
  void add(const Heard& heard);

  std::vector<Tensor> sources;
  std::vector<Requirement> requirements;
  std::vector<ElementAccess> accesses;
  bool saw_view = false;        ///< indices went through index maps, so that simplifying them may pay
  Bounds domains;               ///< of the variables that the body counts by
  size_t reads = 0, views = 0;  ///< elements taken of tensors, and those of views among them
  std::unordered_set<const TensorNode*>* met = nullptr;  ///< where asked: these views
  std::vector<Expr> before_ends;  ///< of the axes that are folded around and end early: their variable is below the end

 private:
  Listener* outer_;
};

/// An InputError unless `name` is letters, digits and underscores: it becomes a name in the IR's text.
void check_identifier(const std::string& name, const char* what);

/// Within a compute's body: stops the kernel with an index error when `condition` is false. Loads that rely on it must
/// still be masked or clamped: both arms of everything are evaluated.
void require(Expr condition, std::string message, Expr index);

}  // namespace lathe
