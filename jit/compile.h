#pragma once
#include <memory>
#include <string>

#include "ir/device.h"
#include "jit/kernel.h"
#include "jit/precision.h"

namespace lathe {

/// Compiles `func`: traced (stage begin, scheduled here when `schedule` is true), or already lowered some way. Not
/// cached.
std::shared_ptr<Kernel> compile(const Func& func, const Device& device, bool schedule = true,
                                CompileTimes times = CompileTimes());

/// The names that stage_text takes: traced, scheduled, the stages of lowering, llvm, asm.
std::vector<std::string> text_stages();
/// The program as it stands after a stage, as text.
std::string stage_text(const Func& func, const Device& device, const std::string& stage);

/// The machine that kernels are compiled for, fixed at first use: this host under LATHE_CPU_FEATURES
/// (backends/cpu/cpu.h). Where `strict`, without the instructions that round in their own way.
const Device& compile_device(Precision precision = Precision::standard);

}  // namespace lathe
