#pragma once
/// What the primitives share: finding a statement, putting another in its place, and refusing.
#include <functional>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "ir/visitor.h"
#include "schedule/schedule.h"

namespace lathe {

/// The statements from the root down to one, both included.
using Path = std::vector<Stmt>;

/// Empty when there is none.
Path find_path(const Stmt& root, const std::function<bool(const Stmt&)>& wanted);
Path path_to(const Schedule& schedule, const BlockRef& block);
Path path_to(const Schedule& schedule, const LoopRef& loop);

/// The root of `path` with its last statement replaced; only the statements of the path are made anew.
Stmt replace_last(const Path& path, const Stmt& replacement);
/// The root of `path` without its last statement and whatever holds nothing else.
Stmt remove_last(const Path& path);
/// The same statement around other children.
Stmt with_body(const For& loop, Stmt body);
Stmt with_fields(const Block& block, const std::function<void(Block::Fields&)>& change);

/// The blocks at or below `s` that lie in no other block below `s`, in program order.
std::vector<Stmt> outer_blocks(const Stmt& s);
/// Does any other block lie in it?
bool has_blocks(const Block& block);
/// May the block stop the kernel?
bool asserts(const Block& block);
/// Every statement below `s` that is in a block's place, but no block, loop or Seq: what a predicate cannot guard.
std::vector<Stmt> bare_statements(const Stmt& s);

/// The buffers read and written in a block, from its declared regions.
bool reads(const Block& block, const Buffer& buffer);
bool writes(const Block& block, const Buffer& buffer);

/// Is an iter of that kind bound to an expression of the loop?
bool drives(const Block& block, IterKind kind, const For& loop);
/// The iter that a loop alone moves, by one; nothing where there is none, or several.
std::optional<size_t> iter_moved_by(const Block& block, const VarRef& loop);

/// The outermost block of a Func, whose allocs are the intermediates.
const Block* root_block(const Func& func);
/// What that holds, one after another, or a Func without it.
std::vector<Stmt> outermost_statements(const Func& func);
/// Does the root, or another block, allocate `buffer`?
bool is_allocated(const Func& func, const Buffer& buffer);
/// The Func's body with `buffer` added to, or taken from, the root's allocations. Without a root block one is made.
Stmt add_allocation(const Stmt& body, const Buffer& buffer);
Stmt remove_allocation(const Stmt& body, const Buffer& buffer);

/// replace_buffers on a Func's body, looking only into blocks that declare to read, write or allocate one of them.
Stmt replace_declared_buffers(const Stmt& body, const BufferMap& map);

/// `s` with `value` in the place of every Load of the buffer.
Stmt replace_loads(const Stmt& s, const Buffer& buffer, const Expr& value);
/// `s` with loop variables replaced in loop bounds and in the bindings and predicates of its outer blocks, whose bodies
/// use no loop variable.
Stmt substitute_loops(const Stmt& s, const Substitution& map);
/// Rewrites each outer block below `s`.
Stmt rewrite_blocks(const Stmt& s, const std::function<Stmt(const Block&)>& f);

/// The loops of a path, outermost first.
std::vector<const For*> loops_of(const Path& path);

/// Throws the Refusal: "PRIMITIVE(ARGS) refused: condition N, TEXT", the Func with `culprit` marked by `note`, and
/// `advice`.
[[noreturn]] void refuse(const Schedule& schedule, const std::string& application, int condition,
                         const std::string& text, const Stmt& culprit, const std::string& note,
                         const std::string& advice = {});

}  // namespace lathe
