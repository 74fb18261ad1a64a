// OpenBLAS or MKL, whichever shared library the path names: products by cblas_sgemm and cblas_dgemm.
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <utility>

#include "bench/libraries/library.h"

namespace {

constexpr int row_major = 101, no_transpose = 111, transpose = 112;  // CBLAS

template <class T>
using Gemm = void (*)(int order, int a_form, int b_form, int m, int n, int k, T alpha, const T* a, int a_stride,
                      const T* b, int b_stride, T beta, T* c, int c_stride);
Gemm<float> sgemm;
Gemm<double> dgemm;

/// A function by its name or by the name with the prefix of SciPy's build.
void* find(void* library, const std::string& name) {
  void* const found = dlsym(library, name.c_str());
  return found ? found : dlsym(library, ("scipy_" + name).c_str());
}

template <class T>
LibraryCall product(Gemm<T> gemm, const std::int64_t* integers, void* const* buffers) {
  const int batch = static_cast<int>(integers[0]), m = static_cast<int>(integers[1]), n = static_cast<int>(integers[2]),
            k = static_cast<int>(integers[3]);
  const bool a_transposed = integers[4] != 0, b_transposed = integers[5] != 0;
  const T *a = static_cast<T*>(buffers[0]), *b = static_cast<T*>(buffers[1]);
  T* const c = static_cast<T*>(buffers[2]);
  return lathe::bench::library_call([=] {
    for (std::int64_t i = 0; i < batch; ++i) {
      gemm(row_major, a_transposed ? transpose : no_transpose, b_transposed ? transpose : no_transpose, m, n, k, T(1),
           a + i * m * k, a_transposed ? m : k, b + i * k * n, b_transposed ? k : n, T(0), c + i * m * n, n);
    }
  });
}

}  // namespace

const char* library_open(const char* path, int threads) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return dlerror();
  sgemm = reinterpret_cast<Gemm<float>>(find(library, "cblas_sgemm"));
  dgemm = reinterpret_cast<Gemm<double>>(find(library, "cblas_dgemm"));
  if (!sgemm || !dgemm) return "no cblas_sgemm in it";
  using SetThreads = void (*)(int);
  for (const char* name : {"openblas_set_num_threads", "MKL_Set_Num_Threads"}) {
    if (void* const set = find(library, name)) reinterpret_cast<SetThreads>(set)(threads);
  }
  return nullptr;
}

bool library_prepare(const char* operation, const std::int64_t* integers, void* const* buffers, LibraryCall* call) {
  if (std::strcmp(operation, "matmul") != 0 || integers[7] != 0) return false;
  if (integers[6] == library_f32) {
    *call = product(sgemm, integers, buffers);
  } else if (integers[6] == library_f64) {
    *call = product(dgemm, integers, buffers);
  } else {
    return false;
  }
  return true;
}
