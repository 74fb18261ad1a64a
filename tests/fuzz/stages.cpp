#include "tests/fuzz/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cpu/cpu.h"
#include "ir/error.h"
#include "ir/interpreter/interpreter.h"
#include "ir/passes/math/vector_library.h"
#include "ir/text/device.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/bind.h"
#include "schedule/schedule.h"

namespace lathe::testing {

namespace {

/// Binds the outermost loop of each nest to the cores, where that many iterations may run at once.
Func bind_outer(const Func& func) {
  Schedule schedule(func);
  schedule.shows_func_when_refused = false;
  for (const BlockRef& block : schedule.blocks()) {
    const std::vector<LoopRef> loops = schedule.loops(block);
    if (loops.empty()) continue;
    const For& loop = schedule.node(loops[0]);
    const std::int64_t* extent = as_int(loop.extent);
    if (loop.for_kind != ForKind::serial || !is_int(loop.min, 0) || !extent || *extent > 8) continue;
    try {
      bind_loop(schedule, loops[0], "core");
    } catch (const Refusal&) {
      // Its iterations depend on each other, or a loop inside is bound already.
    }
  }
  return schedule.func();
}

/// The loop along the cores that holds every access of a buffer; null when there is none, or there are several.
class HomeFinder : public Visitor {
 public:
  std::unordered_map<const BufferNode*, const For*> home;

 protected:
  void visit_For(const For* node) override {
    const For* outer = around_;
    if (node->for_kind == ForKind::bound) around_ = node;
    Visitor::visit_For(node);
    around_ = outer;
  }
  void visit_Load(const Load* node) override {
    use(node->buffer);
    Visitor::visit_Load(node);
  }
  void visit_Store(const Store* node) override {
    use(node->buffer);
    Visitor::visit_Store(node);
  }

 private:
  void use(const Buffer& buffer) {
    const auto [place, is_new] = home.try_emplace(buffer.get(), around_);
    if (place->second != around_) place->second = nullptr;
  }
  const For* around_ = nullptr;
};

/// What only one loop along the cores uses goes to vmem, everything else to spm.
class IntoSpaces : public Mutator {
 public:
  explicit IntoSpaces(const Func& func) { finder_.visit(func->body); }

 protected:
  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    for (const Buffer& alloc : node->f.allocs) {
      if (alloc->space != space::global && alloc->space != space::worker) continue;
      const auto found = finder_.home.find(alloc.get());
      const bool own = found != finder_.home.end() && found->second;
      moved_[alloc.get()] = BufferNode::make(alloc->name, alloc->dtype, alloc->shape, own ? "vmem" : "spm",
                                             alloc->strides, alloc->offset, alloc->alignment);
    }
    return Mutator::mutate_Block(s, node);
  }
  Buffer mutate_buffer(const Buffer& buffer) override {
    const auto found = moved_.find(buffer.get());
    return found == moved_.end() ? buffer : found->second;
  }

 private:
  HomeFinder finder_;
  BufferMap moved_;
};

}  // namespace

Func for_each_form(const GeneratedProgram& program, const Device& device, bool schedule,
                   const std::function<void(const std::string& form, const Func& func)>& f) {
  register_cpu();
  return for_each_form(program, device, find_pipeline("cpu"), schedule, f);
}

Device described_device() {
  return parse_device(R"(
device eight_cores {
  vector_bits 256
  fused_multiply_add true
  cores 8
  axis core 8
  space global { reach {host, core} }
  space constant { reach {host, core} }
  space spm { max_simd_bits 512 capacity_bits 8388608 head_address 0x4000 reach {host, core} }
  space vmem { unit_bits 64 max_simd_bits 256 capacity_bits 524288 head_address 0x40000 + core * 0x10000 reach {core} per core }
})");
}

Pipeline described_pipeline() {
  register_cpu();
  Pipeline pipeline = find_pipeline("cpu");
  pipeline.insert_before("simplify", {"bind_outer", [](const Func& func, const Device&) { return bind_outer(func); }});
  pipeline.insert_before("place_allocations", {"into_spaces", [](const Func& func, const Device&) {
                                                 return with_body(func, IntoSpaces(func).mutate(func->body));
                                               }});
  return pipeline;
}

Func for_each_form(const GeneratedProgram& program, const Device& device, const Pipeline& pipeline, bool schedule,
                   const std::function<void(const std::string& form, const Func& func)>& f) {
  static const bool library_known = [] {
    math::for_each_library_meaning(register_interpreter_extern);
    return true;
  }();
  (void)library_known;
  Func func = program.func;
  if (schedule) {
    func = auto_schedule(func, device);
    f("scheduled", func);
  }
  LowerOptions options;
  options.verify_each = true;
  options.after_pass = [&](Stage stage, const std::string& pass, const Func& after, bool changed) {
    // Within a stage the Func still carries the last one's name; its contents are this stage's already.
    const bool flat = stage > Stage::flatten || (stage == Stage::flatten && pass == "flatten_buffers");
    if (changed) f("after " + pass, flat ? with_stage(after, stage) : after);
  };
  return lower(func, device, pipeline, options);
}

std::string report(const GeneratedProgram& program, const std::string& form, const std::string& what,
                   const Func& func) {
  std::string operators;
  for (const std::string& name : program.operators) operators += " " + name;
  return fmt::format("seed {} run {} {}: {}\noperators:{}\nscalars: {}\ntraced:\n{}\n{}:\n{}", program.seed,
                     program.run, form, what, operators, fmt::join(program.scalars, ", "), print(program.func), form,
                     print(func));
}

}  // namespace lathe::testing
