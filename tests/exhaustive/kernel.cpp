#include "tests/exhaustive/kernel.h"

#include <functional>

#include "backends/cpu/cpu.h"
#include "backends/llvm/emit.h"
#include "ir/error.h"
#include "ir/func.h"
#include "jit/runtime/threads.h"

namespace lathe::exhaustive {
namespace {

std::shared_ptr<LoadedKernel> compile(int arguments, DType dtype, const Device& device, int lanes,
                                      const std::function<Expr(const std::vector<Expr>&)>& value) {
  const VarRef count = Var::make("count"), i = Var::make("i");
  const Buffer out = BufferNode::make("out", dtype, {count});
  const Expr first = i * lanes;
  const Expr place = lanes == 1 ? first : Ramp::make(first, index(1), lanes);
  std::vector<Param> params = {out};
  std::vector<Expr> operands;
  for (int k = 0; k < arguments; ++k) {
    const Buffer in = BufferNode::make("in" + std::to_string(k), dtype, {count});
    params.push_back(in);
    operands.push_back(load(in, {place}));
  }
  params.push_back(count);
  const Stmt body =
      For::make(i, index(0), floor_div(count, lanes), ForKind::serial, Store::make(out, {place}, value(operands)));
  register_cpu();
  const Func func = FuncNode::make("elementwise", std::move(params), body, {}, {}, Stage::flatten);
  return Engine::instance().link(compile_to_object(lower(func, device, find_pipeline("cpu")), device));
}

}  // namespace

ElementwiseKernel::ElementwiseKernel(UnaryOp op, DType dtype, const Device& device, int lanes)
    : lanes_(lanes),
      kernel_(compile(1, dtype, device, lanes, [op](const std::vector<Expr>& x) { return unary(op, x[0]); })) {}

ElementwiseKernel::ElementwiseKernel(BinaryOp op, DType dtype, const Device& device, int lanes)
    : lanes_(lanes),
      kernel_(compile(2, dtype, device, lanes, [op](const std::vector<Expr>& x) { return binary(op, x[0], x[1]); })) {}

void ElementwiseKernel::operator()(void* out, std::vector<const void*> in, std::int64_t count) const {
  LATHE_CHECK(count % lanes_ == 0, "a whole number of vectors");
  std::vector<void*> buffers = {out};
  for (const void* x : in) buffers.push_back(const_cast<void*>(x));
  LatheContext context = {};
  context.abi_version = LATHE_ABI_VERSION;
  context.thread_count = 1;
  context.parallel_for = &tbb_parallel_for;
  LATHE_CHECK(kernel_->entry()(&context, buffers.data(), &count) == LATHE_OK, "the kernel failed");
}

}  // namespace lathe::exhaustive
