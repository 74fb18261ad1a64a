// cross_object DEVICE PROGRAM OBJECT: schedules a program for the device that a file describes, writes its object code,
// and prints its symbol, its shared bytes and its worker bytes. Knows the AArch64 and RISC-V targets of LLVM, which the
// product, that runs its kernels on this host, does without.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "backends/cpu/cpu.h"
#include "backends/llvm/emit.h"
#include "backends/stages.h"
#include "ir/error.h"
#include "ir/text/device.h"
#include "ir/text/parse.h"
#include "schedule/auto/auto_schedule.h"

extern "C" {
void LLVMInitializeAArch64TargetInfo();
void LLVMInitializeAArch64Target();
void LLVMInitializeAArch64TargetMC();
void LLVMInitializeAArch64AsmPrinter();
void LLVMInitializeRISCVTargetInfo();
void LLVMInitializeRISCVTarget();
void LLVMInitializeRISCVTargetMC();
void LLVMInitializeRISCVAsmPrinter();
}

namespace {

using namespace lathe;

std::string read_text(const char* path) {
  std::ifstream file(path);
  if (!file) throw InputError(Mistake::value, fmt::format("{}: cannot be opened", path));
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_object(const char* device_path, const char* program_path, const char* object_path) {
  register_cpu();
  const Device device = parse_device(read_text(device_path), device_path);
  const Func func = parse_func(read_text(program_path), program_path);
  const Func lowered = lower(auto_schedule(func, device), device, find_pipeline(device.family), LowerOptions());
  const ObjectCode object = compile_to_object(lowered, device);
  for (const std::string& name : object.externals) {
    throw InputError(Mistake::value, fmt::format("the kernel calls {}, which the harness does not have", name));
  }
  std::ofstream(object_path, std::ios::binary)
      .write(object.bytes.data(), static_cast<std::streamsize>(object.bytes.size()));
  fmt::print("{} {} {}\n", object.symbol, object.shared_bytes, object.worker_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  LLVMInitializeRISCVTargetInfo();
  LLVMInitializeRISCVTarget();
  LLVMInitializeRISCVTargetMC();
  LLVMInitializeRISCVAsmPrinter();
  try {
    if (argc != 4) throw InputError(Mistake::value, "usage: cross_object DEVICE PROGRAM OBJECT");
    write_object(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
