#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "jit/function.h"

namespace lathe::bench {

/// A compact f32 array at a 64-byte boundary, filled with seeded values in [-1, 1).
class Floats {
 public:
  explicit Floats(std::vector<std::int64_t> shape, unsigned seed = 1);
  TensorView view() const;
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::vector<std::int64_t> shape_;
  std::unique_ptr<float, Free> data_;
};

/// CPU seconds of this thread: a busy machine does not count.
double thread_seconds();

/// Vector fma instructions on registers alone, as many chains as hide their latency: GFLOP/s that one core can reach,
/// on the device that kernels are compiled for. Measured anew on each call, for about `milliseconds` and at least once.
double fma_peak_gflops(double milliseconds = 20);

}  // namespace lathe::bench
