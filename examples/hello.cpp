// One operator from C++: traced on the first call, compiled for these shapes, called.
#include <cstdio>
#include <vector>

#include "jit/function.h"
#include "jit/trace/ops/activation.h"
#include "jit/trace/ops/arithmetic.h"

int main() {
  using namespace lathe;

  const Function f = jit([](Tensor x, Tensor y) { return ops::gelu(x * y + literal(f32, 1.0)); }, "f");

  const std::int64_t shape[] = {2, 3};
  std::vector<float> x{0, 1, 2, 3, 4, 5}, y{1, 1, 1, -1, -1, -1}, out(6);
  const auto view = [&](std::vector<float>& v) { return TensorView{v.data(), f32, 2, shape, nullptr}; };
  f(view(out), {view(x), view(y)});

  for (const float value : out) std::printf("%.4f ", value);
  std::printf("\n");
}
