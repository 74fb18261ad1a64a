// oneDNN primitives on the layouts that Lathe reads and writes. Where a blocked layout may be quicker, the primitive is
// also made on layouts of its own choice, with the reorders in the call, and the quicker of the two is what is timed.
#include <chrono>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/libraries/library.h"
#include "dnnl.hpp"

namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;
using Type = memory::data_type;
using Integers = const std::int64_t*;
using Buffers = void* const*;
constexpr auto inference = dnnl::prop_kind::forward_inference;

const dnnl::engine& engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}
const dnnl::stream& stream() {
  static const dnnl::stream s(engine());
  return s;
}

/// Primitives with their arguments, in order.
struct Plan {
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, memory>>> steps;
  void operator()() const {
    for (const auto& [primitive, arguments] : steps) primitive.execute(stream(), arguments);
  }
  void add(const dnnl::primitive& primitive, std::unordered_map<int, memory> arguments) {
    steps.emplace_back(primitive, std::move(arguments));
  }
  void copy(const memory& from, const memory& to) {
    add(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  /// `user` in the layout that a primitive wants, copied into it by the call where they differ.
  memory input(const memory& user, const memory::desc& wanted) {
    if (user.get_desc() == wanted) return user;
    memory own(wanted, engine());
    copy(user, own);
    return own;
  }
};

memory at(const Dims& dims, Type type, Tag tag, void* data) {
  return memory({dims, type, tag}, engine(), data);
}

double seconds(const Plan& plan) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    plan();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

/// The quicker of a plan on plain layouts and one on layouts that oneDNN chooses.
Plan quicker(const std::function<Plan(bool free)>& make) {
  Plan plain = make(false), chosen = make(true);
  return seconds(plain) <= seconds(chosen) ? plain : chosen;
}

Plan matmul(Integers n, Buffers buffers) {
  const auto types = [&]() -> std::pair<Type, Type> {
    switch (n[6]) {
      case library_f16:
        return {Type::f16, Type::f16};
      case library_bf16:
        return {Type::bf16, Type::bf16};
      case library_i8:
        return {Type::s8, Type::s32};
      case library_f64:
        return {Type::f64, Type::f64};
      default:
        return {Type::f32, Type::f32};
    }
  };
  const auto [in, out] = types();
  const Dims a_dims{n[0], n[1], n[3]}, b_dims{n[0], n[3], n[2]}, c_dims{n[0], n[1], n[2]};
  const memory a = at(a_dims, in, n[4] ? Tag::acb : Tag::abc, buffers[0]);
  const memory b = at(b_dims, in, n[5] ? Tag::acb : Tag::abc, buffers[1]);
  const bool bias_gelu = n[7] != 0;
  const memory c = at(c_dims, out, Tag::abc, buffers[bias_gelu ? 3 : 2]);
  return quicker([&](bool free) {
    const memory::desc b_desc = free ? memory::desc(b_dims, in, Tag::any) : b.get_desc();
    const memory::desc bias_desc({1, 1, n[2]}, out, Tag::abc);
    dnnl::primitive_attr attributes;
    if (bias_gelu) {
      dnnl::post_ops after;
      after.append_eltwise(dnnl::algorithm::eltwise_gelu_erf, 0, 0);
      attributes.set_post_ops(after);
    }
    const auto desc =
        bias_gelu ? dnnl::matmul::primitive_desc(engine(), a.get_desc(), b_desc, bias_desc, c.get_desc(), attributes)
                  : dnnl::matmul::primitive_desc(engine(), a.get_desc(), b_desc, c.get_desc());
    Plan plan;
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, a}, {DNNL_ARG_DST, c}};
    arguments[DNNL_ARG_WEIGHTS] = plan.input(b, desc.weights_desc());
    if (bias_gelu) arguments[DNNL_ARG_BIAS] = memory(bias_desc, engine(), buffers[2]);
    plan.add(dnnl::matmul(desc), arguments);
    return plan;
  });
}

/// A primitive_desc of a convolution or a transposed one, whose constructors differ in the algorithm's name alone.
template <class Forward>
Plan convolution(Integers n, Buffers buffers, dnnl::algorithm algorithm, bool transposed) {
  const std::int64_t stride = n[8], pad = n[9], dilation = n[10], groups = n[11];
  const bool residual = n[12] != 0;
  const std::int64_t kernels = transposed ? n[5] : n[4];
  const auto extent = [&](std::int64_t size, std::int64_t kernel) {
    return transposed ? (size - 1) * stride - 2 * pad + kernel
                      : (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  };
  const Dims x_dims{n[0], n[1], n[2], n[3]}, y_dims{n[0], kernels, extent(n[2], n[6]), extent(n[3], n[7])};
  const Dims w_dims = groups > 1 ? Dims{groups, kernels / groups, n[5], n[6], n[7]} : Dims{kernels, n[1], n[6], n[7]};
  const Tag w_tag = groups > 1 ? Tag::goihw : transposed ? Tag::iohw : Tag::oihw;
  const memory x = at(x_dims, Type::f32, Tag::nchw, buffers[0]), w = at(w_dims, Type::f32, w_tag, buffers[1]);
  const memory y = at(y_dims, Type::f32, Tag::nchw, buffers[residual ? 4 : 2]);
  return quicker([&](bool free) {
    const auto desc_of = [&](const memory& m, const Dims& dims) {
      return free ? memory::desc(dims, Type::f32, Tag::any) : m.get_desc();
    };
    const Dims strides{stride, stride}, dilates{dilation - 1, dilation - 1}, pads{pad, pad};
    const memory::desc bias_desc({kernels}, Type::f32, Tag::a);
    dnnl::primitive_attr attributes;
    if (residual) {
      dnnl::post_ops after;
      after.append_sum();
      after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
      attributes.set_post_ops(after);
    }
    using Desc = typename Forward::primitive_desc;
    const memory::desc x_desc = desc_of(x, x_dims), w_desc = desc_of(w, w_dims), y_desc = desc_of(y, y_dims);
    const Desc desc = residual ? Desc(engine(), inference, algorithm, x_desc, w_desc, bias_desc, y_desc, strides,
                                      dilates, pads, pads, attributes)
                               : Desc(engine(), inference, algorithm, x_desc, w_desc, y_desc, strides, dilates, pads,
                                      pads, attributes);
    Plan plan;
    const memory own_y = desc.dst_desc() == y.get_desc() ? y : memory(desc.dst_desc(), engine());
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, plan.input(x, desc.src_desc())},
                                              {DNNL_ARG_WEIGHTS, plan.input(w, desc.weights_desc())},
                                              {DNNL_ARG_DST, own_y}};
    if (residual) {
      arguments[DNNL_ARG_BIAS] = memory(bias_desc, engine(), buffers[2]);
      plan.copy(at(y_dims, Type::f32, Tag::nchw, buffers[3]), own_y);
    }
    plan.add(Forward(desc), arguments);
    if (own_y.get_data_handle() != y.get_data_handle()) plan.copy(own_y, y);
    return plan;
  });
}

Plan one(const dnnl::primitive& primitive, const std::unordered_map<int, memory>& arguments) {
  Plan plan;
  plan.add(primitive, arguments);
  return plan;
}

Plan eltwise(Integers n, Buffers buffers, dnnl::algorithm algorithm) {
  const memory x = at({n[0]}, Type::f32, Tag::a, buffers[0]), y = at({n[0]}, Type::f32, Tag::a, buffers[1]);
  const dnnl::eltwise_forward::primitive_desc desc(engine(), inference, algorithm, x.get_desc(), y.get_desc());
  return one(dnnl::eltwise_forward(desc), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
}

Plan binary(Integers n, Buffers buffers, dnnl::algorithm algorithm) {
  const memory x = at({n[0]}, Type::f32, Tag::a, buffers[0]), y = at({n[0]}, Type::f32, Tag::a, buffers[1]),
               out = at({n[0]}, Type::f32, Tag::a, buffers[2]);
  const dnnl::binary::primitive_desc desc(engine(), algorithm, x.get_desc(), y.get_desc(), out.get_desc());
  return one(dnnl::binary(desc), {{DNNL_ARG_SRC_0, x}, {DNNL_ARG_SRC_1, y}, {DNNL_ARG_DST, out}});
}

Plan softmax(Integers n, Buffers buffers) {
  const memory x = at({n[0], n[1]}, Type::f32, Tag::ab, buffers[0]),
               y = at({n[0], n[1]}, Type::f32, Tag::ab, buffers[1]);
  const dnnl::softmax_forward::primitive_desc desc(engine(), inference, dnnl::algorithm::softmax_accurate, x.get_desc(),
                                                   y.get_desc(), static_cast<int>(n[2]));
  return one(dnnl::softmax_forward(desc), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
}

Plan layer_norm(Integers n, Buffers buffers) {
  const Dims dims{n[0], n[1]};
  const memory x = at(dims, Type::f32, Tag::ab, buffers[0]), y = at(dims, Type::f32, Tag::ab, buffers[3]);
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  const dnnl::layer_normalization_forward::primitive_desc desc(engine(), inference, x.get_desc(), y.get_desc(), 1e-5f,
                                                               flags);
  return one(dnnl::layer_normalization_forward(desc), {{DNNL_ARG_SRC, x},
                                                       {DNNL_ARG_SCALE, at({n[1]}, Type::f32, Tag::a, buffers[1])},
                                                       {DNNL_ARG_SHIFT, at({n[1]}, Type::f32, Tag::a, buffers[2])},
                                                       {DNNL_ARG_DST, y}});
}

Plan sum(Integers n, Buffers buffers) {
  const Dims out{n[2] == 1 ? n[0] : 1, n[2] == 0 ? n[1] : 1};
  const memory x = at({n[0], n[1]}, Type::f32, Tag::ab, buffers[0]), y = at(out, Type::f32, Tag::ab, buffers[1]);
  const dnnl::reduction::primitive_desc desc(engine(), dnnl::algorithm::reduction_sum, x.get_desc(), y.get_desc(), 0,
                                             0);
  return one(dnnl::reduction(desc), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
}

Plan nchw_to_nhwc(Integers n, Buffers buffers) {
  const Dims dims{n[0], n[1], n[2], n[3]};
  Plan plan;
  plan.copy(at(dims, Type::f32, Tag::nchw, buffers[0]), at(dims, Type::f32, Tag::nhwc, buffers[1]));
  return plan;
}

Plan bilinear_resize(Integers n, Buffers buffers) {
  const memory x = at({n[0], n[1], n[2], n[3]}, Type::f32, Tag::nchw, buffers[0]),
               y = at({n[0], n[1], n[4], n[5]}, Type::f32, Tag::nchw, buffers[1]);
  const dnnl::resampling_forward::primitive_desc desc(engine(), inference, dnnl::algorithm::resampling_linear,
                                                      x.get_desc(), y.get_desc());
  return one(dnnl::resampling_forward(desc), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
}

Plan max_pool(Integers n, Buffers buffers) {
  const std::int64_t size = n[4], stride = n[5], pad = n[6];
  const auto extent = [&](std::int64_t length) { return (length + 2 * pad - size) / stride + 1; };
  // What the last window needs past the end is less than `pad` where the stride does not divide.
  const auto after = [&](std::int64_t length) { return (extent(length) - 1) * stride + size - length - pad; };
  const memory x = at({n[0], n[1], n[2], n[3]}, Type::f32, Tag::nchw, buffers[0]),
               y = at({n[0], n[1], extent(n[2]), extent(n[3])}, Type::f32, Tag::nchw, buffers[1]);
  const dnnl::pooling_forward::primitive_desc desc(engine(), inference, dnnl::algorithm::pooling_max, x.get_desc(),
                                                   y.get_desc(), {stride, stride}, {size, size}, {0, 0}, {pad, pad},
                                                   {after(n[2]), after(n[3])});
  return one(dnnl::pooling_forward(desc), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
}

using Make = std::function<Plan(Integers, Buffers)>;
const std::unordered_map<std::string, Make>& operations() {
  using dnnl::algorithm;
  static const std::unordered_map<std::string, Make> table{
      {"matmul", matmul},
      {"convolution",
       [](Integers n, Buffers b) {
         return convolution<dnnl::convolution_forward>(n, b, algorithm::convolution_direct, false);
       }},
      {"transposed_convolution",
       [](Integers n, Buffers b) {
         return convolution<dnnl::deconvolution_forward>(n, b, algorithm::deconvolution_direct, true);
       }},
      {"softmax", softmax},
      {"layer_norm", layer_norm},
      {"sum", sum},
      {"add", [](Integers n, Buffers b) { return binary(n, b, algorithm::binary_add); }},
      {"multiply", [](Integers n, Buffers b) { return binary(n, b, algorithm::binary_mul); }},
      {"exp", [](Integers n, Buffers b) { return eltwise(n, b, algorithm::eltwise_exp); }},
      {"tanh", [](Integers n, Buffers b) { return eltwise(n, b, algorithm::eltwise_tanh); }},
      {"nchw_to_nhwc", nchw_to_nhwc},
      {"bilinear_resize", bilinear_resize},
      {"max_pool", max_pool},
  };
  return table;
}

}  // namespace

const char* library_open(const char* /*path*/, int /*threads*/) {
  return nullptr;  // OpenMP's environment says how many threads
}

bool library_prepare(const char* operation, const std::int64_t* integers, void* const* buffers, LibraryCall* call) {
  const auto found = operations().find(operation);
  if (found == operations().end()) return false;
  try {
    *call = lathe::bench::library_call(found->second(integers, buffers));
    return true;
  } catch (const dnnl::error&) {
    return false;  // no implementation for these types
  }
}
