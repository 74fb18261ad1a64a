#pragma once
#include <optional>
#include <string>

#include "backends/stages.h"
#include "ir/device.h"

namespace lathe {

/// The machine this process runs on, as LLVM and the operating system report it. LATHE_CPU_FEATURES masks features: a
/// comma-separated list of names to switch off ("-avx512f,-avx512vl"), or one level: "baseline", "avx2", "avx512",
/// "native". A level keeps only what both it and the host have.
Device host_device();
/// The same with the mask given.
Device host_device(const std::string& feature_mask);

/// Registers the CPU's pipeline and the host as device "cpu", through the same doors as any other; idempotent.
void register_cpu();

}  // namespace lathe
