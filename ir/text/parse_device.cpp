#include <algorithm>
#include <limits>

#include "ir/text/device.h"
#include "ir/text/device_fields.h"
#include "ir/text/parser.h"

namespace lathe {
namespace text {
namespace {

constexpr int most_int = std::numeric_limits<int>::max();
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

/// The words that may stand where a field is expected.
template <class Field>
std::vector<std::string> field_names(const std::vector<Field>& numbers, std::vector<std::string> others) {
  for (const Field& field : numbers) others.emplace_back(field.name);
  return others;
}

}  // namespace

std::vector<std::string> Parser::names(const std::string& what) {
  std::vector<std::string> result;
  expect("{");
  while (!is("}")) {
    result.push_back(peek().kind == TokenKind::string ? string(what) : name_text(name_token(what + " or '}'")));
    if (!accept(",")) break;
  }
  expect("}");
  return result;
}

CacheLevel Parser::cache_level() {
  CacheLevel cache{};
  expect("{");
  expect("bytes");
  cache.bytes = integer("a number of bytes", 1, most);
  expect("ways");
  cache.ways = static_cast<int>(integer("a number of ways", 1, most_int));
  expect("line_bytes");
  cache.line_bytes = static_cast<int>(integer("the bytes of a cache line", 1, most_int));
  cache.shared = accept("shared");
  expect("}");
  return cache;
}

MemorySpace Parser::memory_space() {
  MemorySpace space;
  space.name = name_text(name_token("the space's name"));
  // The common spaces begin as every device has them.
  if (const MemorySpace* common = Device().find_space(space.name)) space = *common;
  std::vector<std::string> seen;
  expect("{");
  while (!is("}")) {
    const Token field = peek();
    const bool again = std::find(seen.begin(), seen.end(), field.text) != seen.end();
    if (again) fail(field, "each field once");
    seen.emplace_back(field.text);
    const auto number =
        std::find_if(space_numbers.begin(), space_numbers.end(), [&](const SpaceNumber& n) { return is(n.name); });
    if (number != space_numbers.end()) {
      take();
      space.*number->member = static_cast<int>(integer("a number of bits", 1, most_int));
    } else if (accept("capacity_bits")) {
      space.capacity_bits = integer("a number of bits, 0 for no limit", 0, most);
    } else if (accept("reach")) {
      space.reach = names("an axis or host");
    } else if (accept("per")) {
      space.per = name_text(name_token("an axis"));
    } else if (const auto addressing =
                   std::find_if(addressings.begin(), addressings.end(), [&](Addressing a) { return is(to_string(a)); });
               addressing != addressings.end()) {
      take();
      space.addressing = *addressing;
      for (const Addressing other : addressings) seen.emplace_back(to_string(other));
      if (space.addressing == Addressing::head_address) space.head = index();
    } else {
      std::vector<std::string> known = field_names(space_numbers, {"capacity_bits", "reach", "per"});
      for (const Addressing a : addressings) known.emplace_back(to_string(a));
      if (field.kind != TokenKind::word) fail(field, "a field of a space or '}'");
      fail_unknown(field, "a field of a space", known);
    }
  }
  expect("}");
  return space;
}

Device Parser::device() {
  Device device;
  const Token at = expect("device");
  device.name = name_text(name_token("the device's name"));
  const size_t mark = open_scope();
  std::vector<std::string> seen;
  expect("{");
  while (!is("}")) {
    const Token field = peek();
    const bool repeats = is("cache") || is("axis") || is("space") || is("copy") || is("intrinsic");
    if (!repeats && std::find(seen.begin(), seen.end(), field.text) != seen.end()) fail(field, "each field once");
    seen.emplace_back(field.text);
    const auto number =
        std::find_if(device_numbers.begin(), device_numbers.end(), [&](const DeviceNumber& n) { return is(n.name); });
    if (number != device_numbers.end()) {
      take();
      device.*number->member = static_cast<int>(integer("a number of at least 0", 0, most_int));
    } else if (accept("family")) {
      device.family = name_text(name_token("the name of a pipeline"));
    } else if (accept("triple")) {
      device.triple = string("LLVM's target triple between double quotes");
    } else if (accept("cpu")) {
      device.cpu = string("LLVM's name of the CPU between double quotes");
    } else if (accept("features")) {
      device.features = names("a feature's name");
      std::sort(device.features.begin(), device.features.end());
    } else if (accept("fused_multiply_add")) {
      if (!is("true") && !is("false")) fail(peek(), "true or false");
      device.fused_multiply_add = take().text == "true";
    } else if (accept("cache")) {
      device.caches.push_back(cache_level());
    } else if (accept("axis")) {
      ThreadAxis axis;
      axis.variable = declare_variable(name_token("the axis' name"), i64);
      axis.extent = integer("how many positions the axis has", 1, most_int);
      device.axes.push_back(std::move(axis));
    } else if (accept("space")) {
      device.spaces.push_back(memory_space());
    } else if (accept("copy")) {
      SpaceCopy copy;
      copy.from = name_text(name_token("the space to copy from"));
      expect("->");
      copy.to = name_text(name_token("the space to copy to"));
      copy.instruction = string("the instruction between double quotes");
      device.copies.push_back(std::move(copy));
    } else if (accept("intrinsic")) {
      device.intrinsics.push_back(func());
    } else {
      if (field.kind != TokenKind::word) fail(field, "a field of a device or '}'");
      fail_unknown(field, "a field of a device",
                   field_names(device_numbers, {"family", "triple", "cpu", "features", "fused_multiply_add", "cache",
                                                "axis", "space", "copy", "intrinsic"}));
    }
  }
  expect("}");
  close_scope(mark);
  checked(at, [&] { check_device(device); });
  return device;
}

}  // namespace text

Device parse_device(std::string_view text, std::string_view file) {
  text::Parser parser(text, file);
  Device device = parser.device();
  parser.end_of_file();
  return device;
}

}  // namespace lathe
