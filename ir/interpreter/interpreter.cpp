#include "ir/interpreter/interpreter.h"

#include "ir/abi.h"
#include "ir/interpreter/machine.h"

namespace lathe {

std::int32_t interpret(const Func& func, std::span<const HostBuffer> buffers, std::span<const std::int64_t> scalars,
                       const InterpreterOptions& options, std::string* error_message, std::int64_t* error_index) {
  const interpreter::Compiled program = interpreter::compile(func, options);
  try {
    interpreter::Machine(program, options, buffers, scalars).run();
  } catch (const interpreter::AssertFailed& failed) {
    if (error_message) *error_message = failed.message;
    if (error_index) *error_index = failed.index;
    const bool is_index = failed.message.find("index") != std::string::npos;
    return is_index ? LATHE_INDEX_OUT_OF_RANGE : LATHE_ASSERTION_FAILED;
  }
  return LATHE_OK;
}

}  // namespace lathe
