#pragma once
/// Statements. They run in order, and only Store, and Calls within Eval, have effects.
///
/// A Block is the unit of scheduling. It promises, and `verify` (ir/analysis/verify.h) proves or names:
///   1. its body uses no loop variable from outside, only its own iters, function parameters and enclosing blocks'
///   iters;
///   2. `reads` and `writes` cover every access that one instance makes (may regions: a superset);
///   3. for all loop iterations that satisfy `predicate`, every binding lies in its iter's domain;
///   4. space iters run in any order: no instance reads or overwrites what another writes;
///   5. reduce iters run in any order, but not at once: the body is the canonical update of `reducer`;
///   6. ordered iters run in order; opaque ones promise nothing.
/// `init` runs once per space point, before that point's reduce instances, and also when there are none: for every
/// value of the space iters that the loops reach within the domains, whatever the predicate says of the instances.
/// `allocs` live for one instance of the block; their contents are undefined at its start.
///
/// The canonical update of a reducer, for outputs C_0 .. C_n (the helpers of ir/reduction.h build and match it):
///   let l_0 = C_0[i..]  ..  let r_0 = <term> ..   (other lets may stand between)   C_0[i..] = results_0(l, r) ..
/// Ties belong to the reducer. A reduction has no order of terms but that of its reduce iters as scheduled.
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/buffer.h"
#include "ir/expr.h"
#include "ir/region.h"

namespace lathe {

#define LATHE_STMT_NODES(X) \
  X(For)                    \
  X(Block)                  \
  X(Store)                  \
  X(Let)                    \
  X(If)                     \
  X(While)                  \
  X(Seq)                    \
  X(Eval)                   \
  X(Assert)

#define LATHE_ENUM_ENTRY(name) name,
enum class StmtKind : std::uint8_t { LATHE_STMT_NODES(LATHE_ENUM_ENTRY) };
#undef LATHE_ENUM_ENTRY
std::string_view to_string(StmtKind kind);

struct StmtNode : Node {
  explicit StmtNode(StmtKind kind) : kind(kind) {}
  const StmtKind kind;
};
using Stmt = Ref<StmtNode>;

using Annotation = std::variant<std::int64_t, double, std::string>;
using Annotations = std::map<std::string, Annotation>;

enum class ForKind : std::uint8_t {
  serial,
  parallel,    ///< iterations run at once, on the context's threads
  vectorized,  ///< becomes vector lanes: the extent must be constant
  unrolled,    ///< becomes copies of the body: the extent must be constant
  bound        ///< runs along the device's thread axis `thread_axis`
};
std::string_view to_string(ForKind kind);

/// for variable in [min, min + extent). A negative extent is an empty loop.
struct For : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::For;
  For(VarRef variable, Expr min, Expr extent, ForKind for_kind, Stmt body, Annotations annotations,
      std::string thread_axis)
      : StmtNode(node_kind),
        variable(std::move(variable)),
        min(std::move(min)),
        extent(std::move(extent)),
        for_kind(for_kind),
        body(std::move(body)),
        annotations(std::move(annotations)),
        thread_axis(std::move(thread_axis)) {}
  const VarRef variable;
  const Expr min, extent;
  const ForKind for_kind;
  const Stmt body;
  const Annotations annotations;
  const std::string thread_axis;  ///< for `bound` only
  static Stmt make(VarRef variable, Expr min, Expr extent, ForKind for_kind, Stmt body, Annotations annotations = {},
                   std::string thread_axis = {});
};

enum class IterKind : std::uint8_t { space, reduce, ordered, opaque };
std::string_view to_string(IterKind kind);

struct Iter {
  VarRef variable;
  Range domain;
  IterKind kind = IterKind::space;
};

/// An associative combination of tuples: lhs and rhs are variables, results[k] is the combined k-th value.
struct Reducer {
  std::vector<Expr> identities;
  std::vector<VarRef> lhs, rhs;
  std::vector<Expr> results;
};

struct Block : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::Block;
  struct Fields {
    std::string name;
    std::vector<Iter> iters;
    std::vector<Expr> bindings;  ///< one an iter, over the loop variables
    Expr predicate;              ///< over the loop variables; null means always
    std::vector<Region> reads, writes;
    std::vector<Buffer> allocs;
    std::optional<Reducer> reducer;
    Stmt init;  ///< may be null
    Stmt body;
    Annotations annotations;
  };
  explicit Block(Fields fields) : StmtNode(node_kind), f(std::move(fields)) {}
  const Fields f;
  static Stmt make(Fields fields);
};

struct Store : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::Store;
  Store(Buffer buffer, std::vector<Expr> indices, Expr value, Expr mask)
      : StmtNode(node_kind),
        buffer(std::move(buffer)),
        indices(std::move(indices)),
        value(std::move(value)),
        mask(std::move(mask)) {}
  const Buffer buffer;
  const std::vector<Expr> indices;
  const Expr value;
  const Expr mask;  ///< null, or a bool with the value's lanes
  static Stmt make(Buffer buffer, std::vector<Expr> indices, Expr value, Expr mask = nullptr);
};

struct Let : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::Let;
  Let(VarRef variable, Expr value, Stmt body)
      : StmtNode(node_kind), variable(std::move(variable)), value(std::move(value)), body(std::move(body)) {}
  const VarRef variable;
  const Expr value;
  const Stmt body;
  static Stmt make(VarRef variable, Expr value, Stmt body);
};

struct If : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::If;
  If(Expr condition, Stmt then_case, Stmt else_case)
      : StmtNode(node_kind),
        condition(std::move(condition)),
        then_case(std::move(then_case)),
        else_case(std::move(else_case)) {}
  const Expr condition;
  const Stmt then_case;
  const Stmt else_case;  ///< may be null
  static Stmt make(Expr condition, Stmt then_case, Stmt else_case = nullptr);
};

/// Runs `body` while the scalar condition holds.
struct While : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::While;
  While(Expr condition, Stmt body) : StmtNode(node_kind), condition(std::move(condition)), body(std::move(body)) {}
  const Expr condition;
  const Stmt body;
  static Stmt make(Expr condition, Stmt body);
};

struct Seq : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::Seq;
  explicit Seq(std::vector<Stmt> stmts) : StmtNode(node_kind), stmts(std::move(stmts)) {}
  const std::vector<Stmt> stmts;
  /// Nested Seqs are flattened; a single statement is returned as it is. An empty Seq does nothing.
  static Stmt make(std::vector<Stmt> stmts);
};

struct Eval : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::Eval;
  explicit Eval(Expr value) : StmtNode(node_kind), value(std::move(value)) {}
  const Expr value;
  static Stmt make(Expr value);
};

/// Stops the kernel with an error status when the condition is false in any lane. `message` reads
/// "operator|axis|what": see KernelError in ir/abi.h; `index` is the offending value, reported with it.
struct Assert : StmtNode {
  static constexpr StmtKind node_kind = StmtKind::Assert;
  Assert(Expr condition, std::string message, Expr index)
      : StmtNode(node_kind), condition(std::move(condition)), message(std::move(message)), index(std::move(index)) {}
  const Expr condition;
  const std::string message;
  const Expr index;  ///< an i64 with the condition's lanes, or null
  static Stmt make(Expr condition, std::string message, Expr index = nullptr);
};

}  // namespace lathe
