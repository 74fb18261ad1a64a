// Eigen, headers only, for the instruction set of this machine.
#include <Eigen/Core>
#include <cstring>
#include <utility>

#include "bench/libraries/library.h"

namespace {

using lathe::bench::library_call;
using Array = Eigen::Map<Eigen::ArrayXf, Eigen::Aligned64>;
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using View = Eigen::Map<Matrix<T>>;

template <class T>
LibraryCall product(const std::int64_t* integers, void* const* buffers) {
  const Eigen::Index batch = integers[0], m = integers[1], n = integers[2], k = integers[3];
  const bool a_transposed = integers[4] != 0, b_transposed = integers[5] != 0;
  T *const a = static_cast<T*>(buffers[0]), *const b = static_cast<T*>(buffers[1]),
           *const c = static_cast<T*>(buffers[2]);
  return library_call([=] {
    for (Eigen::Index i = 0; i < batch; ++i) {
      const View<T> left(a + i * m * k, a_transposed ? k : m, a_transposed ? m : k);
      const View<T> right(b + i * k * n, b_transposed ? n : k, b_transposed ? k : n);
      View<T> out(c + i * m * n, m, n);
      if (a_transposed) {
        out.noalias() = left.transpose() * right;
      } else if (b_transposed) {
        out.noalias() = left * right.transpose();
      } else {
        out.noalias() = left * right;
      }
    }
  });
}

LibraryCall sum(const std::int64_t* integers, void* const* buffers) {
  const Eigen::Index rows = integers[0], columns = integers[1], axis = integers[2];
  float *const x = static_cast<float*>(buffers[0]), *const out = static_cast<float*>(buffers[1]);
  return library_call([=] {
    const View<float> view(x, rows, columns);
    if (axis == 0) {
      Eigen::Map<Eigen::RowVectorXf>(out, columns) = view.colwise().sum();
    } else if (axis == 1) {
      Eigen::Map<Eigen::VectorXf>(out, rows) = view.rowwise().sum();
    } else {
      *out = view.sum();
    }
  });
}

LibraryCall argmax(const std::int64_t* integers, void* const* buffers) {
  const Eigen::Index rows = integers[0], columns = integers[1];
  float* const x = static_cast<float*>(buffers[0]);
  auto* const out = static_cast<std::int64_t*>(buffers[1]);
  return library_call([=] {
    for (Eigen::Index i = 0; i < rows; ++i) {
      Eigen::Index best;
      Array(x + i * columns, columns).maxCoeff(&best);
      out[i] = best;
    }
  });
}

}  // namespace

const char* library_open(const char* /*path*/, int threads) {
  Eigen::setNbThreads(threads);
  return nullptr;
}

bool library_prepare(const char* operation, const std::int64_t* integers, void* const* buffers, LibraryCall* call) {
  const auto is = [&](const char* name) { return std::strcmp(operation, name) == 0; };
  float *const x = static_cast<float*>(buffers[0]), *const y = static_cast<float*>(buffers[1]);
  const Eigen::Index count = integers[0];
  if (is("matmul") && integers[7] == 0 && integers[6] == library_f32) {
    *call = product<float>(integers, buffers);
  } else if (is("matmul") && integers[7] == 0 && integers[6] == library_f64) {
    *call = product<double>(integers, buffers);
  } else if (is("add") || is("multiply")) {
    float* const out = static_cast<float*>(buffers[2]);
    if (is("add")) {
      *call = library_call([=] { Array(out, count) = Array(x, count) + Array(y, count); });
    } else {
      *call = library_call([=] { Array(out, count) = Array(x, count) * Array(y, count); });
    }
  } else if (is("exp")) {
    *call = library_call([=] { Array(y, count) = Array(x, count).exp(); });
  } else if (is("tanh")) {
    *call = library_call([=] { Array(y, count) = Array(x, count).tanh(); });
  } else if (is("sum")) {
    *call = sum(integers, buffers);
  } else if (is("argmax")) {
    *call = argmax(integers, buffers);
  } else {
    return false;
  }
  return true;
}
