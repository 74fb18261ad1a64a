#include "bindings/cli/npy.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "ir/error.h"

namespace lathe {
namespace {

constexpr char magic[] = "\x93NUMPY";

struct NamedDType {
  const char* descr;
  DType dtype;
};
constexpr NamedDType types[] = {{"|b1", boolean}, {"|i1", i8},  {"<i2", i16}, {"<i4", i32}, {"<i8", i64}, {"|u1", u8},
                                {"<u2", u16},     {"<u4", u32}, {"<u8", u64}, {"<f2", f16}, {"<f4", f32}, {"<f8", f64}};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw InputError(Mistake::value, path + ": " + what);
}

/// What follows `key` in the header's dictionary.
std::string field(const std::string& path, const std::string& header, const std::string& key) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) fail(path, "the .npy header has no " + key);
  at = header.find(':', at) + 1;
  at = header.find_first_not_of(' ', at);
  if (at == std::string::npos) fail(path, "the .npy header ends early");
  const char open = header[at];
  const size_t end = open == '('    ? header.find(')', at)
                     : open == '\'' ? header.find('\'', at + 1)
                                    : header.find_first_of(",}", at);
  if (end == std::string::npos) fail(path, "the .npy header ends early");
  return header.substr(at, end - at + (open == '(' || open == '\'' ? 1 : 0));
}

std::vector<std::int64_t> parse_shape(const std::string& path, const std::string& text) {
  std::vector<std::int64_t> shape;
  const char* p = text.c_str() + 1;
  while (*p && *p != ')') {
    char* end;
    const long long extent = std::strtoll(p, &end, 10);
    if (end == p || extent < 0) fail(path, "the .npy header's shape is " + text);
    shape.push_back(extent);
    p = end + std::strspn(end, ", L");
  }
  return shape;
}

}  // namespace

TensorView Array::view() {
  return {bytes.data(), dtype, static_cast<std::int32_t>(shape.size()), shape.data(), strides.data()};
}

Array Array::zeros(DType dtype, std::vector<std::int64_t> shape) {
  Array array;
  array.dtype = dtype;
  array.strides.resize(shape.size());
  std::int64_t count = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    array.strides[d] = count;
    count *= shape[d];
  }
  array.shape = std::move(shape);
  array.bytes.resize(static_cast<size_t>(count * dtype.bytes()));
  return array;
}

Array read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be opened");
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  if (all.size() < 10 || std::memcmp(all.data(), magic, 6) != 0) fail(path, "is no .npy file");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(all[i])); };
  const size_t version = byte(6);
  size_t length = byte(8) | byte(9) << 8, start = 10;
  if (version >= 2) {
    if (all.size() < 12) fail(path, "is cut off");
    length |= byte(10) << 16 | byte(11) << 24;
    start = 12;
  }
  if (version < 1 || version > 3 || all.size() < start + length) fail(path, "is cut off, or of an unknown version");
  const std::string header = all.substr(start, length);
  const std::string descr = field(path, header, "descr");
  const DType* dtype = nullptr;
  for (const NamedDType& type : types) {
    if (descr == fmt::format("'{}'", type.descr)) dtype = &type.dtype;
  }
  if (!dtype) fail(path, fmt::format("has dtype {}, which is not one of Lathe's", descr));
  std::vector<std::int64_t> shape = parse_shape(path, field(path, header, "shape"));
  const bool fortran = field(path, header, "fortran_order") == "True";
  Array array = Array::zeros(*dtype, std::move(shape));
  if (fortran) {
    std::int64_t stride = 1;
    for (size_t d = 0; d < array.shape.size(); ++d) {
      array.strides[d] = stride;
      stride *= array.shape[d];
    }
  }
  if (all.size() - start - length < array.bytes.size()) fail(path, "holds fewer elements than its shape says");
  std::memcpy(array.bytes.data(), all.data() + start + length, array.bytes.size());
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  const char* descr = nullptr;
  for (const NamedDType& type : types) {
    if (type.dtype == array.dtype) descr = type.descr;
  }
  if (!descr) fail(path, fmt::format(".npy has no dtype for {}", to_string(array.dtype)));
  std::string shape = "(";
  for (const std::int64_t extent : array.shape) shape += fmt::format("{}, ", extent);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}), }}", descr, shape);
  header.append(64 - (10 + header.size() + 1) % 64, ' ').push_back('\n');
  std::ofstream file(path, std::ios::binary);
  file.write(magic, 6).put(1).put(0);
  file.put(static_cast<char>(header.size() & 255)).put(static_cast<char>(header.size() >> 8));
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(array.bytes.data()), static_cast<std::streamsize>(array.bytes.size()));
  if (!file) fail(path, "cannot be written");
}

}  // namespace lathe
