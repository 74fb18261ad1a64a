#include <fmt/format.h>

#include "ir/text/device.h"
#include "ir/text/device_fields.h"
#include "ir/text/print.h"
#include "ir/text/syntax.h"

namespace lathe {
namespace {

std::string braced(const std::vector<std::string>& names, std::string (*quote)(std::string_view)) {
  std::string out = "{";
  for (size_t i = 0; i < names.size(); ++i) out += (i == 0 ? "" : ", ") + quote(names[i]);
  return out + "}";
}

std::string indented(const std::string& text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && c != '\n') out += "  ";
    out += c;
    begins = c == '\n';
  }
  return out;
}

std::string print_space(const MemorySpace& space) {
  std::string out = fmt::format("  space {} {{\n", text::quote_name(space.name));
  for (const text::SpaceNumber& number : text::space_numbers) {
    out += fmt::format("    {} {}\n", number.name, space.*number.member);
  }
  out += fmt::format("    capacity_bits {}\n    {}", space.capacity_bits, to_string(space.addressing));
  if (space.head) out += " " + print(space.head);
  out += fmt::format("\n    reach {}\n", braced(space.reach, text::quote_name));
  if (!space.per.empty()) out += fmt::format("    per {}\n", text::quote_name(space.per));
  return out + "  }\n";
}

}  // namespace

std::string print_device(const Device& device) {
  std::string out =
      fmt::format("device {} {{\n  family {}\n", text::quote_name(device.name), text::quote_name(device.family));
  if (!device.triple.empty()) out += fmt::format("  triple {}\n", text::quote_string(device.triple));
  if (!device.cpu.empty()) out += fmt::format("  cpu {}\n", text::quote_string(device.cpu));
  if (!device.features.empty()) out += fmt::format("  features {}\n", braced(device.features, text::quote_string));
  for (const text::DeviceNumber& number : text::device_numbers) {
    out += fmt::format("  {} {}\n", number.name, device.*number.member);
  }
  out += fmt::format("  fused_multiply_add {}\n", device.fused_multiply_add);
  for (const CacheLevel& cache : device.caches) {
    out += fmt::format("  cache {{bytes {} ways {} line_bytes {}{}}}\n", cache.bytes, cache.ways, cache.line_bytes,
                       cache.shared ? " shared" : "");
  }
  for (const ThreadAxis& axis : device.axes) {
    out += fmt::format("  axis {} {}\n", text::quote_name(axis.name()), axis.extent);
  }
  for (const MemorySpace& space : device.spaces) out += print_space(space);
  for (const SpaceCopy& copy : device.copies) {
    out += fmt::format("  copy {} -> {} {}\n", text::quote_name(copy.from), text::quote_name(copy.to),
                       text::quote_string(copy.instruction));
  }
  for (const Func& intrinsic : device.intrinsics) out += indented("intrinsic " + print(intrinsic));
  return out + "}\n";
}

}  // namespace lathe
