#pragma once
#include <functional>
#include <string>

#include "backends/stages.h"
#include "ir/device.h"
#include "tests/fuzz/generator.h"

namespace lathe::testing {

/// Calls `f` on the program as scheduled for `device` and after each pass of its lowering that changed it, with a name
/// for messages. Returns the Func at stage end. A pass that leaves what `verify` refutes is a Bug.
Func for_each_form(const GeneratedProgram& program, const Device& device, bool schedule,
                   const std::function<void(const std::string& form, const Func& func)>& f);
Func for_each_form(const GeneratedProgram& program, const Device& device, const Pipeline& pipeline, bool schedule,
                   const std::function<void(const std::string& form, const Func& func)>& f);

/// A device with memories of its own: `vmem` for each of eight cores, by head address, and `spm`, which the host
/// reaches too. Its passes are the CPU's, and one that puts every allocation into one of the two.
Device described_device();
Pipeline described_pipeline();

/// Everything of a failure that is needed to see it again: the seed, the form, the bounds, the text before and after.
std::string report(const GeneratedProgram& program, const std::string& form, const std::string& what, const Func& func);

}  // namespace lathe::testing
