#include "ir/interpreter/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "ir/text/print.h"

namespace lathe::interpreter {
namespace {

std::int64_t int_attr(const Func& func, const char* name) {
  const auto found = func->attrs.find(name);
  if (found == func->attrs.end()) return 0;
  const std::int64_t* value = std::get_if<std::int64_t>(&found->second);
  return value ? *value : 0;
}

std::string value_text(const Variable& variable, const Cell& cell) {
  if (variable.var->dtype.lanes > 1) return "(a vector)";
  return variable.var->dtype.is_float() ? fmt::format("{}", cell.d) : fmt::format("{}", cell.i);
}

}  // namespace

Machine::Machine(const Compiled& program, const InterpreterOptions& options, std::span<const HostBuffer> buffers,
                 std::span<const std::int64_t> scalars)
    : program_(program), options_(options), host_(buffers) {
  if (buffers.size() != program.params.size() || scalars.size() != program.scalars.size()) {
    throw InputError(Mistake::value, fmt::format("interpret {}: given {} buffers and {} scalars, expected {} and {}",
                                                 program.func->name, buffers.size(), scalars.size(),
                                                 program.params.size(), program.scalars.size()));
  }
  cells_.resize(static_cast<size_t>(program.temporaries) + program.slots.size());
  frame_ = cells_.data() + program.temporaries;
  std::copy(program.slots.begin(), program.slots.end(), frame_);
  for (size_t k = 0; k < scalars.size(); ++k) {
    const Variable& variable = program.scalars[k];
    *at(variable.slot) = from_bits(variable.var->dtype, static_cast<std::uint64_t>(scalars[k]));
    scope_.push_back(&variable);
  }
  if (options.bounds) {
    tracked_cells_.resize(cells_.size());
    tracked_ = tracked_cells_.data() + program.temporaries;
    // Constants and scalars. What is read from the slots of integers is never asked for.
    for (size_t k = 0; k < program.slots.size(); ++k) tracked_[k] = exactly(frame_[k].d);
  }
  arrays_.resize(static_cast<size_t>(program.array_count));
  own_.resize(static_cast<size_t>(program.array_count));
}

void Machine::run() {
  evaluate(program_.entry);
  const std::vector<bool> written = written_params(program_.func);
  for (size_t k = 0; k < host_.size(); ++k) {
    const HostBuffer& host = host_[k];
    const BufferCode& code = program_.params[k];
    storages_.push_back(std::make_unique<Storage>(code.buffer->name, host.begin, host.end,
                                                  static_cast<int>(code.buffer->dtype.bytes()), !written[k]));
    declare(code, storages_.back().get(), static_cast<std::byte*>(host.data));
  }
  for (const auto& [attr, storage] :
       {std::pair("shared_bytes", &shared_workspace_), {"worker_bytes", &worker_workspace_}}) {
    storages_.push_back(std::make_unique<Storage>(
        attr == std::string("shared_bytes") ? "the shared workspace" : "the worker's workspace", 1));
    *storage = storages_.back().get();
    (*storage)->renew(int_attr(program_.func, attr));
  }
  declare_planned();
  execute(*program_.body);
  if (options_.bounds) report_bounds();
}

void Machine::declare_planned() {
  // What lies in a device's own space says by its offset and shape which addresses of the space it uses; the space is
  // as large as they need together.
  struct Addresses {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    Storage* storage = nullptr;
  };
  std::map<std::string, Addresses> spaces;
  const auto is_workspace = [](const Buffer& b) { return b->space == space::global || b->space == space::worker; };
  for (const BufferCode& code : program_.workspace_buffers) {
    const Buffer& buffer = code.buffer;
    if (buffer->view_of || is_workspace(buffer)) continue;
    if (buffer->space == space::registers || buffer->space == space::constants) {
      throw Trap(
          fmt::format("buffer {} in space {} is neither a parameter nor allocated", buffer->name, buffer->space));
    }
    std::int64_t first = code.offset == none ? 0 : integer(code.offset), elements = 1;
    for (size_t d = 0; d < code.shape.size(); ++d) {
      elements += std::max<std::int64_t>(integer(code.shape[d]) - 1, 0) * integer(code.strides[d]);
    }
    Addresses& addresses = spaces[buffer->space];
    addresses.begin = std::min(addresses.begin, first * buffer->dtype.bytes());
    addresses.end = std::max(addresses.end, (first + elements) * buffer->dtype.bytes());
  }
  for (auto& [name, addresses] : spaces) {
    storages_.push_back(std::make_unique<Storage>("space " + name, 1));
    addresses.storage = storages_.back().get();
    addresses.storage->renew(addresses.end - addresses.begin);
  }
  for (const BufferCode& code : program_.workspace_buffers) {
    if (code.buffer->view_of) {
      declare(code, nullptr, nullptr);
    } else if (is_workspace(code.buffer)) {
      // Its offset, which a flat index includes, says where it lies in the workspace.
      Storage* storage = code.buffer->space == space::worker ? worker_workspace_ : shared_workspace_;
      declare(code, storage, storage->begin());
    } else {
      const Addresses& addresses = spaces.at(code.buffer->space);
      declare(code, addresses.storage, addresses.storage->begin() - addresses.begin);
    }
  }
}

void Machine::trap(const std::string& what) {
  std::string message = what;
  if (current_) {
    std::string text = print(current_->source);
    // A loop's or a block's own line is enough.
    if (const size_t end = text.find('\n'); end != std::string::npos) text.resize(end);
    message += "\n  in: " + text;
  }
  if (!scope_.empty()) {
    message += "\n  with";
    for (const Variable* variable : scope_) {
      message += fmt::format(" {} = {}{}", variable->var->name, value_text(*variable, *at(variable->slot)),
                             variable == scope_.back() ? "" : ",");
    }
  }
  throw Trap(message);
}

void Machine::execute(const Statement& s) {
  if (init_only_ && !s.has_init) return;
  current_ = &s;
  if (options_.step_limit > 0 && ++steps_ > options_.step_limit) trap("the step limit is reached");
  switch (s.kind) {
    case StmtKind::For:
      loop(s);
      break;
    case StmtKind::Block:
      block(s);
      break;
    case StmtKind::Store:
      store(s);
      break;
    case StmtKind::Let:
      evaluate(s.code);
      std::copy_n(at(s.a), s.lanes, at(s.variable.slot));
      if (tracked_) std::copy_n(tracked_ + s.a, s.lanes, tracked_ + s.variable.slot);
      scope_.push_back(&s.variable);
      execute(*s.children[0]);
      scope_.pop_back();
      break;
    case StmtKind::If:
      evaluate(s.code);
      if (integer(s.a) != 0) {
        execute(*s.children[0]);
      } else if (s.children.size() > 1) {
        execute(*s.children[1]);
      }
      break;
    case StmtKind::While:
      for (evaluate(s.code); integer(s.a) != 0; evaluate(s.code)) {
        execute(*s.children[0]);
        current_ = &s;
      }
      break;
    case StmtKind::Seq:
      for (const StatementRef& child : s.children) execute(*child);
      break;
    case StmtKind::Eval:
      evaluate(s.code);
      break;
    case StmtKind::Assert:
      assertion(s);
      break;
  }
}

void Machine::loop(const Statement& s) {
  evaluate(s.code);
  const std::int64_t min = integer(s.a), extent = integer(s.b);
  if (extent <= 0) {
    if (s.reduces) {
      *at(s.variable.slot) = *at(s.variable.min_slot) = Cell{.i = min};
      without_iterations(s);
    }
    return;
  }
  *at(s.variable.min_slot) = Cell{.i = min};
  scope_.push_back(&s.variable);
  if (s.for_kind == ForKind::parallel && options_.check_parallel) {
    tasks_.push_back({next_task_, static_cast<std::uint32_t>(next_task_ + extent), 0});
    next_task_ += static_cast<std::uint32_t>(extent) + 1;
    for (std::int64_t k = extent; k-- > 0;) {
      tasks_.back().current = tasks_.back().first + 1 + static_cast<std::uint32_t>(k);
      at(s.variable.slot)->i = min + k;
      if (tasks_.size() == 1) {
        // What one iteration leaves in its worker's memory no other may count on.
        worker_workspace_->renew_contents();
        worker_workspace_->parallel_depth = 1;
      }
      give_own(s.privates, tasks_.size());
      execute(*s.children[0]);
    }
    tasks_.pop_back();
    give_own(s.privates, tasks_.size());
  } else {
    for (std::int64_t k = 0; k < extent; ++k) {
      at(s.variable.slot)->i = min + k;
      execute(*s.children[0]);
    }
  }
  scope_.pop_back();
}

void Machine::give_own(const std::vector<int>& arrays, size_t depth) {
  for (const int array : arrays) {
    Storage& own = *arrays_[static_cast<size_t>(array)].storage;
    own.renew_contents();
    own.parallel_depth = depth;
  }
}

void Machine::without_iterations(const Statement& s) {
  const bool before = std::exchange(init_only_, true);
  scope_.push_back(&s.variable);
  execute(*s.children[0]);
  scope_.pop_back();
  init_only_ = before;
}

bool Machine::enter_domain(const IterCode& iter) {
  const std::int64_t value = integer(iter.variable.slot), min = integer(iter.domain_min),
                     extent = integer(iter.domain_extent);
  at(iter.variable.min_slot)->i = min;
  if (iter.kind == IterKind::reduce) {
    at(iter.variable.slot)->i = min;
    return true;
  }
  return value >= min && value < min + extent;
}

void Machine::check_domain(const IterCode& iter) {
  const std::int64_t value = integer(iter.variable.slot), min = integer(iter.domain_min),
                     extent = integer(iter.domain_extent);
  at(iter.variable.min_slot)->i = min;
  if (value < min || value >= min + extent) {
    trap(fmt::format("iter {} is bound to {}, outside its domain [{}, {})", iter.variable.var->name, value, min,
                     min + extent));
  }
}

void Machine::block(const Statement& s) {
  const BlockCode& block = *s.block;
  evaluate(s.code);
  bool body_runs = !init_only_, init_runs = block.init != nullptr;
  if (block.predicate != none && integer(block.predicate) == 0) body_runs = false;
  for (const Variable& variable : block.reduce_variables) {
    init_runs = init_runs && integer(variable.slot) == integer(variable.min_slot);
  }
  // Inits of blocks inside, for which a loop outside has no iteration.
  const bool inner_inits = init_only_ && s.children[0]->has_init && !block.init;
  if (!body_runs && !init_runs && !inner_inits) return;
  const size_t depth = scope_.size();
  for (const IterCode& iter : block.iters) {
    *at(iter.variable.slot) = *at(iter.binding);
    scope_.push_back(&iter.variable);
  }
  evaluate(block.domains);
  for (const IterCode& iter : block.iters) {
    if (iter.decides_init && integer(iter.variable.slot) != integer(iter.domain_min)) init_runs = false;
  }
  if (!body_runs && !init_runs && !inner_inits) {
    scope_.resize(depth);
    return;
  }
  bool exists = true;
  if (body_runs) {
    for (const IterCode& iter : block.iters) check_domain(iter);
  } else {
    // Where only inits run, the reduce iters have no value, and space iters out of their domains are no point.
    for (const IterCode& iter : block.iters) exists = enter_domain(iter) && exists;
    if (!exists) {
      scope_.resize(depth);
      return;
    }
  }
  evaluate(block.buffers_code);
  for (const BufferCode& alloc : block.allocs) allocate(alloc);
  if (init_runs) {
    const bool before = std::exchange(init_only_, false);
    execute(*block.init);
    init_only_ = before;
  }
  if (body_runs || inner_inits) execute(*s.children[0]);
  scope_.resize(depth);
}

void Machine::store(const Statement& s) {
  evaluate(s.code);
  const Array& array = arrays_[static_cast<size_t>(s.access.array)];
  for (int l = 0; l < s.lanes; ++l) {
    if (s.access.mask != none && integer(s.access.mask + l) == 0) continue;
    write(array, locate(s.access, array, l), s.a + l);
  }
}

void Machine::assertion(const Statement& s) {
  evaluate(s.code);
  for (int l = 0; l < s.lanes; ++l) {
    if (integer(s.a + l) == 0) {
      throw AssertFailed{static_cast<const Assert*>(s.source.get())->message, s.b == none ? 0 : integer(s.b + l)};
    }
  }
}

}  // namespace lathe::interpreter
