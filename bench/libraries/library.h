#pragma once
#include <cstdint>

/// What a peer library's plugin exports. A plugin is compiled by `./dev bench --peers` and loaded at run time, so that
/// nothing of the build depends on a peer.
///
/// Operations and their integers (buffers: inputs, then the output; f32, dense and row-major unless said):
///   matmul                  batch m n k a_transposed b_transposed dtype bias_gelu: a transposed operand lies in memory
///                           as its transpose; with bias_gelu a third input is added to each row, then gelu
///   convolution             n c h w | k c/groups r s | stride pad dilation groups residual: NCHW; with residual a bias
///                           and a tensor of the output's shape are added, then relu
///   transposed_convolution  n c h w | c k r s | stride pad dilation groups residual
///   softmax, sum, argmax    rows columns [axis, -1 for all]
///   layer_norm              rows columns
///   add, multiply, exp, tanh  count
///   nchw_to_nhwc            n c h w
///   bilinear_resize         n c h w rows columns
///   max_pool                n c h w size stride pad
struct LibraryCall {
  void (*run)(void* state);
  void (*release)(void* state);
  void* state;
};

/// As bench/suite counts the types of a product; f64, f32, f16 and bf16 give their own type, i8 gives i32.
enum LibraryType { library_f32, library_f64, library_f16, library_bf16, library_i8 };

extern "C" {
/// Loads what the plugin needs, by `path` where it needs one. Returns null, or why the library is not to be had.
const char* library_open(const char* path, int threads);
/// Prepares a call on these buffers. False when the library does not have the operation.
bool library_prepare(const char* operation, const std::int64_t* integers, void* const* buffers, LibraryCall* call);
}

namespace lathe::bench {

/// A callable as a LibraryCall.
template <class F>
LibraryCall library_call(F f) {
  return {[](void* state) { (*static_cast<F*>(state))(); }, [](void* state) { delete static_cast<F*>(state); },
          new F(std::move(f))};
}

}  // namespace lathe::bench
