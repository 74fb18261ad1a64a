#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/stmt.h"

namespace lathe {

/// What is known of a scalar parameter; dispatch checks it before the kernel runs.
struct Fact {
  VarRef variable;
  std::optional<std::int64_t> min, max;  ///< both inclusive
  std::int64_t multiple_of = 1;
  Expr equals;  ///< null, or an expression over other parameters that it is equal to
};

using Param = std::variant<Buffer, VarRef>;

/// Where a Func stands on its way through lowering. Block rules end at `flatten`.
#define LATHE_STAGES(X) X(begin) X(tuning) X(tiling) X(before_flatten) X(flatten) X(before_emit) X(end)
#define LATHE_ENUM_ENTRY(name) name,
enum class Stage : std::uint8_t { LATHE_STAGES(LATHE_ENUM_ENTRY) };
#undef LATHE_ENUM_ENTRY
std::string_view to_string(Stage stage);
std::optional<Stage> parse_stage(std::string_view name);
/// The stages' names in order, for messages.
std::vector<std::string> stage_names();

/// One kernel to be. Parameters are in the caller's order: buffers go to the kernel's `buffers` array, scalars (as i64,
/// or the bits of another type widened to 64) to its `scalars` array, each in parameter order.
struct FuncNode : Node {
  std::string name;
  std::vector<Param> params;
  std::vector<Fact> facts;
  Stmt body;
  Annotations attrs;
  Stage stage = Stage::begin;

  static Ref<FuncNode> make(std::string name, std::vector<Param> params, Stmt body, std::vector<Fact> facts = {},
                            Annotations attrs = {}, Stage stage = Stage::begin);
};
using Func = Ref<FuncNode>;

Func with_body(const Func& func, Stmt body);
Func with_stage(const Func& func, Stage stage);

/// The buffer parameters, in order.
std::vector<Buffer> buffer_params(const Func& func);
/// The scalar parameters, in order.
std::vector<VarRef> scalar_params(const Func& func);
/// For each buffer parameter: does a Store write it?
std::vector<bool> written_params(const Func& func);
/// Every buffer that the body allocates, outermost first.
std::vector<Buffer> allocations(const Func& func);

}  // namespace lathe
