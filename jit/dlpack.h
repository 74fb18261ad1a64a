#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "ir/dtype.h"

/// DLPack 1.3's structures, laid out as its specification says, under names of our own so that a host may include any
/// version of the original header beside ours.
namespace lathe::dlpack {

struct Device {
  std::int32_t type;  ///< 1 is the CPU
  std::int32_t id;
};
inline constexpr std::int32_t cpu = 1;

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null means compact row-major
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major, minor;
};

struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  Tensor tensor;
};
inline constexpr std::uint64_t flag_read_only = 1;

/// The older, unversioned capsule.
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);
};

/// What a framework's tensor type publishes as `__dlpack_c_exchange_api__`, a capsule named "dlpack_exchange_api".
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*from_object)(void* object, ManagedTensorVersioned** out);
  int (*to_object)(ManagedTensorVersioned* tensor, void** out_object);
  int (*view_object)(void* object, Tensor* out);  ///< borrowed; may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out_stream);
};

/// The element type as Lathe's; an unknown code or width gives a DType that equals none of all_dtypes.
inline DType element_type(DataType dtype) {
  return {static_cast<TypeCode>(dtype.code), dtype.bits, dtype.lanes};
}
/// True for one of all_dtypes.
inline bool is_known(DataType dtype) {
  // Widths are powers of two: one bit each.
  constexpr auto widths = [] {
    std::array<std::uint8_t, 8> table{};
    for (const DType known : all_dtypes) table[static_cast<size_t>(known.code)] |= known.bits;
    return table;
  }();
  return dtype.code < widths.size() && std::has_single_bit(dtype.bits) && (widths[dtype.code] & dtype.bits) &&
         dtype.lanes == 1;
}
inline DataType data_type(DType dtype) {
  return {static_cast<std::uint8_t>(dtype.code), dtype.bits, dtype.lanes};
}

}  // namespace lathe::dlpack
