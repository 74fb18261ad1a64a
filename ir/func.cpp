#include "ir/func.h"

#include <unordered_set>

#include "ir/error.h"
#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

#define LATHE_NAME(name) #name,
constexpr std::string_view stage_table[] = {LATHE_STAGES(LATHE_NAME)};
#undef LATHE_NAME

}  // namespace

std::string_view to_string(Stage stage) {
  return stage_table[static_cast<int>(stage)];
}

std::optional<Stage> parse_stage(std::string_view name) {
  for (size_t i = 0; i < std::size(stage_table); ++i) {
    if (stage_table[i] == name) return static_cast<Stage>(i);
  }
  return std::nullopt;
}

std::vector<std::string> stage_names() {
  return {std::begin(stage_table), std::end(stage_table)};
}

Func FuncNode::make(std::string name, std::vector<Param> params, Stmt body, std::vector<Fact> facts, Annotations attrs,
                    Stage stage) {
  if (!body) throw InputError(Mistake::value, "func " + name + ": no body");
  auto* node = new FuncNode;
  node->name = std::move(name);
  node->params = std::move(params);
  node->facts = std::move(facts);
  node->body = std::move(body);
  node->attrs = std::move(attrs);
  node->stage = stage;
  return Func(node);
}

Func with_body(const Func& func, Stmt body) {
  if (body == func->body) return func;
  return FuncNode::make(func->name, func->params, std::move(body), func->facts, func->attrs, func->stage);
}

Func with_stage(const Func& func, Stage stage) {
  if (stage == func->stage) return func;
  return FuncNode::make(func->name, func->params, func->body, func->facts, func->attrs, stage);
}

std::vector<Buffer> buffer_params(const Func& func) {
  std::vector<Buffer> buffers;
  for (const Param& param : func->params) {
    if (const Buffer* buffer = std::get_if<Buffer>(&param)) buffers.push_back(*buffer);
  }
  return buffers;
}

std::vector<VarRef> scalar_params(const Func& func) {
  std::vector<VarRef> scalars;
  for (const Param& param : func->params) {
    if (const VarRef* scalar = std::get_if<VarRef>(&param)) scalars.push_back(*scalar);
  }
  return scalars;
}

std::vector<bool> written_params(const Func& func) {
  std::unordered_set<const BufferNode*> written;
  for_each_stmt(func->body, [&](const Stmt& s) {
    if (const Store* store = s.as<Store>()) written.insert(storage_of(store->buffer));
  });
  std::vector<bool> result;
  for (const Buffer& buffer : buffer_params(func)) result.push_back(written.count(buffer.get()) != 0);
  return result;
}

std::vector<Buffer> allocations(const Func& func) {
  std::vector<Buffer> buffers;
  for_each_stmt(func->body, [&](const Stmt& s) {
    if (const Block* block = s.as<Block>())
      buffers.insert(buffers.end(), block->f.allocs.begin(), block->f.allocs.end());
  });
  return buffers;
}

}  // namespace lathe
