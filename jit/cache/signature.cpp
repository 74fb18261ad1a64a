#include "jit/cache/signature.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lathe {
namespace {

std::string describe_strides(const TensorSignature& tensor) {
  if (tensor.strides == 0) return "dense";
  if (is_permuted(tensor.strides)) {
    std::string text;
    for (size_t k = tensor.dims.size(); k-- > 0;) {
      text += (text.empty() ? "" : ", ") + std::to_string(permuted_dimension(tensor.strides, static_cast<int>(k)));
    }
    return fmt::format("dense in the order ({})", text);
  }
  constexpr const char* names[] = {"dense", "zero", "unit", "runtime"};
  std::string text = "(";
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    text += (d ? ", " : "") + std::string(names[static_cast<int>(stride_class(tensor.strides, static_cast<int>(d)))]);
  }
  const std::int64_t step = stride_step(tensor.strides);
  return step != 1 ? fmt::format("{}) by {}", text, step) : text + ")";
}

const char* describe(AlignmentClass alignment) {
  constexpr const char* names[] = {"misaligned", "aligned", "at a cache line"};
  return names[static_cast<int>(alignment)];
}

}  // namespace

std::uint64_t Signature::hash() const {
  const std::string text = to_string();
  return XXH3_64bits(text.data(), text.size());
}

std::string Signature::to_string() const {
  std::string text = fmt::format("program   {:016x}\n", program);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSignature& t = tensors[i];
    std::string dims;
    for (size_t d = 0; d < t.dims.size(); ++d) dims += (d ? ", " : "") + std::to_string(t.dims[d]);
    text += fmt::format("{:<9} {}[{}] strides {} {}\n", t.output ? "output" : "input", lathe::to_string(t.dtype), dims,
                        describe_strides(t), describe(t.alignment));
  }
  for (const DType scalar : scalars) text += fmt::format("scalar    {}\n", lathe::to_string(scalar));
  return text + fmt::format("precision {}\ndevice    {}\nabi       {}\nlathe     {}\nllvm      {}\n", precision, device,
                            abi, lathe, llvm);
}

}  // namespace lathe
