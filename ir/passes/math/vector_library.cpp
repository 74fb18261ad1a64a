#include "ir/passes/math/vector_library.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "ir/error.h"

namespace lathe::math {
namespace {

struct InstructionSet {
  const char* name;
  int f32_lanes, f64_lanes;
};

/// What the device runs, widest first. A machine that SLEEF has no vectors for gets its portable scalars.
std::vector<InstructionSet> instruction_sets(const Device& device) {
  std::vector<InstructionSet> sets;
  const bool x86 = device.triple.starts_with("x86_64");
  if (x86 && device.fused_multiply_add && device.has_feature("avx2")) {
    if (device.vector_bits >= 512 && device.has_feature("avx512f")) sets.push_back({"avx512f", 16, 8});
    sets.push_back({"avx2", 8, 4});
    sets.push_back({"avx2128", 4, 2});
  } else if (x86) {
    sets.push_back({device.has_feature("sse4.1") ? "sse4" : "sse2", 4, 2});
  } else if (device.triple.starts_with("aarch64")) {
    sets.push_back({"advsimd", 4, 2});
  }
  sets.push_back({device.fused_multiply_add ? "purecfma" : "purec", 1, 1});
  return sets;
}

std::string bound_of(const std::string& name) {
  static const std::unordered_map<std::string, std::string> bounds = {
#define LATHE_BOUND(name, bound) {#name, #bound},
      LATHE_SLEEF_UNARY(LATHE_BOUND) LATHE_SLEEF_BINARY(LATHE_BOUND)
#undef LATHE_BOUND
  };
  const auto found = bounds.find(name);
  LATHE_CHECK(found != bounds.end(), name);
  return found->second;
}

std::string symbol(const std::string& name, DType dtype, const InstructionSet& set) {
  const bool single = dtype.bits == 32;
  return fmt::format("Sleef_{}{}{}_{}{}", name, single ? 'f' : 'd', single ? set.f32_lanes : set.f64_lanes,
                     bound_of(name), set.name);
}

int lanes_of(const InstructionSet& set, DType dtype) {
  return dtype.bits == 32 ? set.f32_lanes : set.f64_lanes;
}

/// `count` lanes of v from `first`; lanes past the end repeat the first one.
Expr slice(const Expr& v, int first, int count) {
  if (v->dtype.lanes == count) return v;
  std::vector<int> lanes(static_cast<size_t>(count), first);
  for (int i = 0; i < count && first + i < v->dtype.lanes; ++i) lanes[static_cast<size_t>(i)] = first + i;
  return Shuffle::make({v}, std::move(lanes));
}

/// The first `count` lanes of the pieces laid end to end.
Expr join(std::vector<Expr> pieces, int count) {
  if (pieces.size() == 1 && pieces[0]->dtype.lanes == count) return pieces[0];
  std::vector<int> lanes(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) lanes[static_cast<size_t>(i)] = i;
  return Shuffle::make(std::move(pieces), std::move(lanes));
}

}  // namespace

Expr library_call(const Builder& b, const std::string& name, const std::vector<Expr>& args) {
  const DType dtype = args[0]->dtype;
  const std::vector<InstructionSet> sets = instruction_sets(b.device());
  std::vector<Expr> pieces;
  for (int done = 0; done < dtype.lanes;) {
    // The narrowest vector that holds what is left, or the widest there is.
    const InstructionSet* set = &sets.front();
    for (const InstructionSet& s : sets) {
      if (lanes_of(s, dtype) >= dtype.lanes - done) set = &s;
    }
    const int lanes = lanes_of(*set, dtype);
    std::vector<Expr> parts;
    parts.reserve(args.size());
    for (const Expr& arg : args) parts.push_back(slice(arg, done, lanes));
    pieces.push_back(
        Call::make(dtype.with_lanes(lanes), CallKind::extern_scalar, symbol(name, dtype, *set), std::move(parts)));
    done += lanes;
  }
  return join(std::move(pieces), dtype.lanes);
}

Expr exact_remainder(const Expr& x, const Expr& y) {
  std::vector<Expr> pieces;
  pieces.reserve(static_cast<size_t>(x->dtype.lanes));
  for (int i = 0; i < x->dtype.lanes; ++i) {
    pieces.push_back(
        Call::make(f64, CallKind::extern_scalar, "lathe_exact_remainder", {slice(x, i, 1), slice(y, i, 1)}));
  }
  return join(std::move(pieces), x->dtype.lanes);
}

void for_each_library_meaning(
    const std::function<void(const std::string&, std::function<double(std::span<const double>)>)>& f) {
  using Arguments = std::span<const double>;
  constexpr InstructionSet sets[] = {
#define LATHE_SET(name, f32_lanes, f64_lanes) {#name, f32_lanes, f64_lanes},
      LATHE_SLEEF_X86_SETS(LATHE_SET){"advsimd", 4, 2}
#undef LATHE_SET
  };
  for (const InstructionSet& set : sets) {
    for (const DType dtype : {f32, f64}) {
#define LATHE_MEANING(name, bound) \
  f(symbol(#name, dtype, set), [](Arguments args) -> double { return std::name(args[0]); });
      LATHE_SLEEF_UNARY(LATHE_MEANING)
#undef LATHE_MEANING
#define LATHE_MEANING(name, bound) \
  f(symbol(#name, dtype, set), [](Arguments args) -> double { return std::name(args[0], args[1]); });
      LATHE_SLEEF_BINARY(LATHE_MEANING)
#undef LATHE_MEANING
    }
  }
  f("lathe_exact_remainder", [](Arguments args) { return lathe_exact_remainder(args[0], args[1]); });
}

}  // namespace lathe::math

double lathe_exact_remainder(double x, double y) {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63, hidden = std::uint64_t{1} << 52;
  const auto bits_x = std::bit_cast<std::uint64_t>(x), bits_y = std::bit_cast<std::uint64_t>(y);
  std::uint64_t a = bits_x & ~sign, b = bits_y & ~sign;
  constexpr std::uint64_t infinity = std::uint64_t{0x7ff} << 52;
  if (a >= infinity || b > infinity || b == 0) return std::numeric_limits<double>::quiet_NaN();
  if (a < b) return x;
  auto exponent_a = static_cast<int>(a >> 52), exponent_b = static_cast<int>(b >> 52);
  // As integers times 2^exponent; a denormal has no hidden bit, and the exponent of the least normal.
  a = exponent_a ? (a & (hidden - 1)) | hidden : a;
  b = exponent_b ? (b & (hidden - 1)) | hidden : b;
  exponent_a = exponent_a ? exponent_a : 1;
  exponent_b = exponent_b ? exponent_b : 1;
  // a * 2^k mod b, 11 bits at a time: a < 2^53.
  a %= b;
  for (int left = exponent_a - exponent_b; left > 0;) {
    const int step = left < 11 ? left : 11;
    a = (a << step) % b;
    left -= step;
  }
  // a < b, and both count in units of 2^(exponent_b - 1075): the unit is a float, if a denormal one, and the product
  // exact.
  const std::uint64_t unit =
      exponent_b > 52 ? static_cast<std::uint64_t>(exponent_b - 52) << 52 : std::uint64_t{1} << (exponent_b - 1);
  const double magnitude = static_cast<double>(a) * std::bit_cast<double>(unit);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) | (bits_x & sign));
}
