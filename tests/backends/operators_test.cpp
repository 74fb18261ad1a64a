#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "ir/intrinsics.h"
#include "tests/backends/harness.h"

/// Every operator that emission handles itself, on every dtype, against the interpreter, bit for bit.
namespace lathe {
namespace {

using namespace testing;

constexpr int count = 64;

/// Bit patterns of `dtype` that arithmetic trips over, then random ones, `count` of them in an order that `seed`
/// decides.
std::vector<std::uint64_t> interesting_bits(DType dtype, int seed) {
  std::vector<std::uint64_t> bits;
  if (dtype.is_bool()) {
    bits = {0, 1};
  } else if (dtype.is_float()) {
    const int mantissa = dtype.code == TypeCode::brain ? 7 : dtype.bits == 16 ? 10 : dtype.bits == 32 ? 23 : 52;
    const std::uint64_t sign = std::uint64_t{1} << (dtype.bits - 1);
    const std::uint64_t infinity = sign - (std::uint64_t{1} << mantissa);
    const std::uint64_t one = ((std::uint64_t{1} << (dtype.bits - mantissa - 2)) - 1) << mantissa;
    const std::uint64_t half = one - (std::uint64_t{1} << mantissa), two = one + (std::uint64_t{1} << mantissa);
    const std::uint64_t step = std::uint64_t{1} << (mantissa - 1);
    for (std::uint64_t magnitude :
         {std::uint64_t{0}, std::uint64_t{1}, step, (step << 1) - 1, step << 1, half, half - 1, half + 1, one, one - 1,
          one + 1, one + step, two, two + step / 2, two + step, infinity - 1, infinity, infinity + step,
          std::uint64_t{1} * (one + (std::uint64_t(mantissa) << mantissa)) + 1})
      for (std::uint64_t s : {std::uint64_t{0}, sign}) bits.push_back(magnitude | s);
  } else {
    for (std::int64_t value :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{2}, std::int64_t{-2}, std::int64_t{3},
          std::int64_t{7}, std::int64_t{-7}, std::int64_t{8}, std::int64_t{31}, std::int64_t{32}, std::int64_t{63},
          integer_min(dtype), integer_max(dtype), integer_max(dtype) - 1, integer_min(dtype) + 1})
      bits.push_back(static_cast<std::uint64_t>(value));
  }
  std::mt19937_64 random(seed);
  const size_t special = bits.size();
  while (bits.size() < count) {
    // Half of the rest random, half special again.
    if (dtype.is_bool() || random() % 2)
      bits.push_back(bits[random() % special]);
    else
      bits.push_back(random() >> (random() % 64));
  }
  std::shuffle(bits.begin(), bits.end(), random);
  bits.resize(count);
  return bits;
}

Bytes pack(DType dtype, const std::vector<std::uint64_t>& bits) {
  Bytes bytes(bits.size() * dtype.bytes());
  for (size_t i = 0; i < bits.size(); ++i) std::memcpy(&bytes[i * dtype.bytes()], &bits[i], dtype.bytes());
  return bytes;
}

bool takes(std::string_view operand, DType dtype) {
  if (operand == "any") return true;
  if (operand == "number") return !dtype.is_bool();
  if (operand == "integer") return dtype.is_integer();
  if (operand == "floating") return dtype.is_float();
  return dtype.is_bool();
}

/// One expression under test: a function of the operands' lanes.
struct Case {
  std::string name;
  DType result;
  std::function<Expr(const std::vector<Expr>&)> f;
};

/// Every case over `count` elements, once for each lane count: out_case[i] = f(x0[i], x1[i], ..). All in one kernel,
/// for a kernel of one operator is compiled no faster.
Func elementwise(const std::vector<DType>& types, const std::vector<int>& lane_counts, const std::vector<Case>& cases) {
  std::vector<Param> params;
  std::vector<Buffer> inputs;
  for (size_t k = 0; k < types.size(); ++k) {
    inputs.push_back(BufferNode::make("x" + std::to_string(k), types[k], {index(count)}));
    params.push_back(inputs.back());
  }
  std::vector<Stmt> loops;
  for (const Case& c : cases) {
    for (int lanes : lane_counts) {
      const Buffer out = BufferNode::make("out" + std::to_string(loops.size()), c.result, {index(count)});
      params.push_back(out);
      const VarRef i = Var::make("i");
      const Expr at = lanes == 1 ? Expr(i) : Ramp::make(i * lanes, index(1), lanes);
      std::vector<Expr> operands;
      for (const Buffer& input : inputs) operands.push_back(load(input, {at}));
      loops.push_back(
          For::make(i, index(0), index(count / lanes), ForKind::serial, Store::make(out, {at}, c.f(operands))));
    }
  }
  return FuncNode::make("elementwise", params, Seq::make(loops), {}, {}, Stage::end);
}

double to_double(DType dtype, const std::byte* element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, dtype.bytes());
  if (dtype.bits == 64) return std::bit_cast<double>(bits);
  if (dtype.code == TypeCode::brain) return std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16));
  if (dtype.bits == 32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                           : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                          : std::ldexp(mantissa, -24);
  return bits >> 15 ? -magnitude : magnitude;
}

/// The bits of element `i`.
std::uint64_t element_bits(const Bytes& bytes, DType dtype, int i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &bytes[i * dtype.bytes()], dtype.bytes());
  return bits;
}

/// Compiled for each device, against the interpreter: bitwise up to `ulps` (0: exactly), but any NaN equals any NaN:
/// which one comes out is nobody's promise.
void expect_same_values(const std::vector<DType>& types, const std::vector<Bytes>& operands,
                        const std::vector<int>& lane_counts, const std::vector<Case>& cases, std::uint64_t ulps = 0) {
  const Func func = elementwise(types, lane_counts, cases);
  std::vector<Bytes> buffers = operands;
  for (const Case& c : cases)
    for (size_t k = 0; k < lane_counts.size(); ++k) buffers.push_back(Bytes(count * c.result.bytes()));
  const Outcome expected = run_interpreted(func, buffers);
  for (auto& [device_name, device] : devices()) {
    const Outcome actual = run_compiled(func, device, buffers);
    for (size_t k = operands.size(); k < buffers.size(); ++k) {
      const Case& c = cases[(k - operands.size()) / lane_counts.size()];
      const DType result = c.result;
      const Bytes &a = actual.buffers[k], &e = expected.buffers[k];
      for (int i = 0; i < count; ++i) {
        const std::uint64_t got = element_bits(a, result, i), wanted = element_bits(e, result, i);
        if (got == wanted || (ulps > 0 && (got > wanted ? got - wanted : wanted - got) <= ulps)) continue;
        if (result.is_float() && std::isnan(to_double(result, &a[i * result.bytes()])) &&
            std::isnan(to_double(result, &e[i * result.bytes()])))
          continue;
        std::string text;
        for (size_t n = 0; n < types.size(); ++n) text += fmt::format(" {:#x}", element_bits(operands[n], types[n], i));
        ADD_FAILURE() << fmt::format("{} x{} on {} of{} gives {:#x}, not {:#x}", c.name,
                                     lane_counts[(k - operands.size()) % lane_counts.size()], device_name, text, got,
                                     wanted);
        break;
      }
    }
  }
}

const std::vector<int> lane_counts = {1, 4, 16};

class OnEachDType : public ::testing::TestWithParam<DType> {};

TEST_P(OnEachDType, UnaryOperatorsAgreeWithTheInterpreter) {
  const DType dtype = GetParam();
  struct Row {
    UnaryOp op;
    std::string operand;
  };
#define LATHE_ROW(name, operand) {UnaryOp::name, #operand},
  const std::vector<Row> rows = {LATHE_UNARY_OPS(LATHE_ROW)};
#undef LATHE_ROW
  std::vector<Case> exact, rounded_twice;
  for (auto& [op, operand] : rows) {
    const bool transcendental = op >= UnaryOp::exp && op <= UnaryOp::sigmoid;
    if (!takes(operand, dtype) || transcendental) continue;
    (op == UnaryOp::rsqrt ? rounded_twice : exact)
        .push_back({fmt::format("{} of {}", to_string(op), to_string(dtype)), unary(op, constant(dtype, 1))->dtype,
                    [op = op](const std::vector<Expr>& x) { return unary(op, x[0]); }});
  }
  ASSERT_FALSE(exact.empty());
  expect_same_values({dtype}, {pack(dtype, interesting_bits(dtype, 1))}, lane_counts, exact);
  if (!rounded_twice.empty())
    expect_same_values({dtype}, {pack(dtype, interesting_bits(dtype, 1))}, lane_counts, rounded_twice, 1);
}

TEST_P(OnEachDType, BinaryOperatorsAgreeWithTheInterpreter) {
  const DType dtype = GetParam();
  struct Row {
    BinaryOp op;
    std::string operand;
  };
#define LATHE_ROW(name, operand) {BinaryOp::name, #operand},
  const std::vector<Row> rows = {LATHE_BINARY_OPS(LATHE_ROW)};
#undef LATHE_ROW
  std::vector<Case> cases;
  for (auto& [op, operand] : rows) {
    // What lower_math replaces.
    const bool lowered =
        op == BinaryOp::pow || op == BinaryOp::atan2 || op == BinaryOp::hypot || op == BinaryOp::nextafter;
    const bool division = op == BinaryOp::floor_div || op == BinaryOp::floor_mod;
    if (!takes(operand, dtype) || lowered || (division && dtype.is_float())) continue;
    cases.push_back({fmt::format("{} of {}", to_string(op), to_string(dtype)),
                     binary(op, constant(dtype, 1), constant(dtype, 1))->dtype,
                     [op = op](const std::vector<Expr>& x) { return binary(op, x[0], x[1]); }});
  }
  for (int seed : {2, 3})
    expect_same_values({dtype, dtype},
                       {pack(dtype, interesting_bits(dtype, seed)), pack(dtype, interesting_bits(dtype, seed + 10))},
                       lane_counts, cases);
}

TEST_P(OnEachDType, OperatorsWithConstantOperandsAgreeWithTheInterpreter) {
  const DType dtype = GetParam();
  std::vector<BinaryOp> ops = {BinaryOp::min, BinaryOp::max};
  if (dtype.is_integer())
    ops.insert(ops.end(), {BinaryOp::floor_div, BinaryOp::floor_mod, BinaryOp::shl, BinaryOp::shr});
  std::vector<Expr> constants;
  for (int value : {0, 1, -1, 3, -3, 8, 16, 100}) constants.push_back(constant(dtype, value));
  if (dtype.is_float()) constants.push_back(constant(dtype, -0.0));
  std::vector<Case> cases;
  for (BinaryOp op : ops)
    for (const Expr& c : constants)
      for (bool first : {false, true})
        cases.push_back({fmt::format("{} of {} with {}", to_string(op), to_string(dtype), print(c)), dtype,
                         [=](const std::vector<Expr>& x) {
                           const Expr wide = Broadcast::make(c, x[0]->dtype.lanes);
                           return first ? binary(op, wide, x[0]) : binary(op, x[0], wide);
                         }});
  expect_same_values({dtype}, {pack(dtype, interesting_bits(dtype, 4))}, {1, 8}, cases);
}

TEST_P(OnEachDType, CastsAgreeWithTheInterpreter) {
  const DType from = GetParam();
  for (DType to : all_dtypes) {
    Bytes values = pack(from, interesting_bits(from, 5));
    if (from.is_float() && to.is_integer()) {
      // Out of range any value will do: keep those that both types hold.
      for (int i = 0; i < count; ++i) {
        const double value = to_double(from, &values[i * from.bytes()]);
        const double least = to.is_signed() ? -std::ldexp(1, to.bits - 1) : 0,
                     limit = std::ldexp(1, to.bits - to.is_signed());
        if (!(std::trunc(value) >= least && std::trunc(value) < limit))
          std::memset(&values[i * from.bytes()], 0, from.bytes());
      }
    }
    expect_same_values({from}, {values}, lane_counts,
                       {{fmt::format("cast {} to {}", to_string(from), to_string(to)), to,
                         [&](const std::vector<Expr>& x) { return cast(to, x[0]); }}});
  }
}

TEST_P(OnEachDType, SelectsAndLaneReductionsAgreeWithTheInterpreter) {
  const DType dtype = GetParam();
  const Case choice{"select of " + to_string(dtype), dtype, [&](const std::vector<Expr>& x) {
                      const Expr one = Broadcast::make(constant(dtype, 1), x[0]->dtype.lanes);
                      return select(lt(x[0], x[1]), x[1], select(eq(x[0], x[1]), one, x[0]));
                    }};
  expect_same_values({dtype, dtype}, {pack(dtype, interesting_bits(dtype, 6)), pack(dtype, interesting_bits(dtype, 7))},
                     lane_counts, {choice});
  std::vector<BinaryOp> ops = {BinaryOp::min, BinaryOp::max};
  if (dtype.is_bool())
    ops.insert(ops.end(), {BinaryOp::logical_and, BinaryOp::logical_or});
  else
    ops.insert(ops.end(), {BinaryOp::add, BinaryOp::mul});
  std::vector<Case> cases;
  for (BinaryOp op : ops)
    cases.push_back(
        {fmt::format("reduce {} of {}", to_string(op), to_string(dtype)), dtype,
         [=](const std::vector<Expr>& x) { return Broadcast::make(reduce_lanes(op, x[0]), x[0]->dtype.lanes); }});
  expect_same_values({dtype}, {pack(dtype, interesting_bits(dtype, 8))}, {2, 8, 16}, cases);
}

/// Zeros of either sign alone, and one NaN among numbers, wherever it stands.
TEST(Operators, LaneReductionsKeepTheSignOfZeroAndEveryNan) {
  for (DType dtype : {f32, f64}) {
    const int bits = dtype.bits;
    const std::uint64_t minus = std::uint64_t{1} << (bits - 1);
    const std::uint64_t nan = dtype == f32 ? 0x7fc00000 : 0x7ff8000000000000,
                        one = dtype == f32 ? 0x3f800000 : 0x3ff0000000000000;
    std::vector<std::uint64_t> lanes;
    for (int place = 0; place < 16; ++place) {
      for (std::uint64_t rare : {std::uint64_t{0}, minus, nan, nan | minus}) {
        for (std::uint64_t rest : {std::uint64_t{0}, minus, one, one | minus})
          for (int i = 0; i < 16; ++i) lanes.push_back(i == place ? rare : rest);
      }
    }
    std::vector<Case> cases;
    for (BinaryOp op : {BinaryOp::min, BinaryOp::max})
      cases.push_back(
          {fmt::format("reduce {} of {}", to_string(op), to_string(dtype)), dtype,
           [=](const std::vector<Expr>& x) { return Broadcast::make(reduce_lanes(op, x[0]), x[0]->dtype.lanes); }});
    ASSERT_EQ(lanes.size() % count, 0U);
    for (auto part = lanes.begin(); part != lanes.end(); part += count)
      expect_same_values({dtype}, {pack(dtype, {part, part + count})}, {4, 8, 16}, cases);
  }
}

/// Few of the values are NaN, so that each of several stands alone somewhere, and zeros of either sign meet.
TEST(Operators, ExtremesOfSeveralKeepTheSignOfZeroAndEveryNan) {
  for (DType dtype : {f32, f64, f16, bf16}) {
    std::mt19937_64 random(40);
    const int mantissa = dtype == f32 ? 23 : dtype == f64 ? 52 : dtype == f16 ? 10 : 7;
    const std::uint64_t sign = std::uint64_t{1} << (dtype.bits - 1), infinity = sign - (std::uint64_t{1} << mantissa);
    const std::vector<std::uint64_t> values = {0, sign, 0, sign, infinity, infinity | sign, 1, infinity / 2};
    std::vector<std::vector<std::uint64_t>> operands(5);
    for (int i = 0; i < count; ++i) {
      const size_t nan = random() % 8;
      for (size_t k = 0; k < operands.size(); ++k)
        operands[k].push_back(k == nan ? infinity + 1 + (random() % 2 ? sign : 0) : values[random() % values.size()]);
    }
    std::vector<Bytes> bytes;
    for (const auto& operand : operands) bytes.push_back(pack(dtype, operand));
    std::vector<Case> cases;
    for (BinaryOp op : {BinaryOp::min, BinaryOp::max}) {
      const BinaryOp other = op == BinaryOp::min ? BinaryOp::max : BinaryOp::min;
      const auto both = [op](const Expr& x, const Expr& y) { return binary(op, x, y); };
      const auto add = [&](const std::string& name, const std::function<Expr(const std::vector<Expr>&)>& f) {
        cases.push_back({fmt::format("{} {} of {}", to_string(op), name, to_string(dtype)), dtype, f});
      };
      add("of three", [=](const std::vector<Expr>& x) { return both(both(x[0], x[1]), x[2]); });
      add("of three, from behind", [=](const std::vector<Expr>& x) { return both(x[0], both(x[1], x[2])); });
      add("of five", [=](const std::vector<Expr>& x) { return both(both(both(both(x[0], x[1]), x[2]), x[3]), x[4]); });
      add("of a part that is used twice", [=](const std::vector<Expr>& x) {
        const Expr part = both(x[0], x[1]);
        return both(both(part, x[2]), both(part, part));
      });
      add("of pairs", [=](const std::vector<Expr>& x) { return both(both(x[0], x[1]), both(x[2], x[3])); });
      add("of an other", [=](const std::vector<Expr>& x) {
        return both(both(binary(other, binary(other, x[0], x[1]), x[4]), x[2]), x[3]);
      });
      add("beside infinity", [=](const std::vector<Expr>& x) {
        const double end = std::numeric_limits<double>::infinity();
        const Expr least = Broadcast::make(constant(dtype, op == BinaryOp::max ? -end : end), x[0]->dtype.lanes);
        return both(both(both(least, x[0]), x[1]), x[2]);
      });
    }
    expect_same_values(std::vector<DType>(5, dtype), bytes, {1, 2, 4, 8, 16}, cases);
  }
}

std::string dtype_name(const ::testing::TestParamInfo<DType>& info) {
  return to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(Operators, OnEachDType, ::testing::ValuesIn(all_dtypes), dtype_name);

TEST(Operators, FmaRoundsOnceWhateverTheDeviceHas) {
  for (DType dtype : {f32, f64, f16, bf16}) {
    for (int seed : {20, 21, 22}) {
      std::vector<std::vector<std::uint64_t>> operands;
      for (int k = 0; k < 3; ++k) operands.push_back(interesting_bits(dtype, seed + 3 * k));
      if (dtype == f64) {
        // Without the instruction double's fma is emulated, exactly while the product stays well inside the range.
        const std::uint64_t keep = (std::uint64_t{1} << 63) | ((std::uint64_t{1} << 52) - 1);
        std::mt19937_64 random(seed);
        for (auto& operand : operands)
          for (auto& bits : operand) bits = (random() & keep) | ((1023 + random() % 40 - 20) << 52);
      }
      expect_same_values(
          {dtype, dtype, dtype}, {pack(dtype, operands[0]), pack(dtype, operands[1]), pack(dtype, operands[2])},
          lane_counts,
          {{"fma of " + to_string(dtype), dtype, [](const std::vector<Expr>& x) { return fma(x[0], x[1], x[2]); }}});
    }
  }
}

/// Over the exponents that it is defined for: results that overflow and denormal ones, each rounded once.
TEST(Operators, ScalebRoundsOnceWhateverTheDeviceHas) {
  std::mt19937_64 random(31);
  std::uniform_real_distribution<float> mantissa(-20, 20);
  std::vector<std::uint64_t> a, n;
  for (int exponent = -252; exponent <= 254; exponent += 11) {
    for (float value : {0.0F, -0.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                        1.0F, mantissa(random), std::exp2(mantissa(random)), -std::exp2(mantissa(random))}) {
      a.push_back(std::bit_cast<std::uint32_t>(value));
      // Rounded down, also of negative numbers.
      n.push_back(
          std::bit_cast<std::uint32_t>(static_cast<float>(exponent) + 0.0625F * static_cast<float>(exponent & 15)));
    }
  }
  for (size_t begin = 0; begin < a.size(); begin += count) {
    const size_t end = std::min(begin + count, a.size());
    std::vector<std::uint64_t> some_a(a.begin() + begin, a.begin() + end), some_n(n.begin() + begin, n.begin() + end);
    some_a.resize(count), some_n.resize(count);
    std::vector<Case> cases;
    for (DType dtype : {f16, bf16, f32, f64}) {
      cases.push_back({"scaleb of " + to_string(dtype), dtype, [=](const std::vector<Expr>& x) {
                         const DType type = dtype.with_lanes(x[0]->dtype.lanes);
                         return scaleb(cast(type, x[0]), cast(type, x[1]));
                       }});
    }
    expect_same_values({f32, f32}, {pack(f32, some_a), pack(f32, some_n)}, {1, 2, 3, 4, 8, 16, 32}, cases);
  }
}

TEST(Operators, LongIntegersRoundOnceToSixteenBits) {
  // Halfway between two results, one more and one less: float would lose that, and round to the wrong side of it.
  std::vector<std::uint64_t> bits;
  for (int length = 9; length <= 32; ++length) {
    for (const int kept : {8, 11}) {
      if (length <= kept) continue;
      const std::int64_t unit = std::int64_t{1} << (length - kept);
      for (const std::int64_t odd : {0, 1, (1 << (kept - 1)) - 1}) {
        const std::int64_t half = ((std::int64_t{1} << (kept - 1)) + odd) * unit + unit / 2;
        for (const std::int64_t value : {half - 1, half, half + 1, half + 128, half - 255})
          bits.insert(bits.end(), {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(-value)});
      }
    }
  }
  for (const DType from : {i32, u32}) {
    std::vector<Case> cases;
    for (const DType to : {bf16, f16}) {
      cases.push_back({to_string(from) + " to " + to_string(to), to,
                       [=](const std::vector<Expr>& x) { return cast(to.with_lanes(x[0]->dtype.lanes), x[0]); }});
    }
    expect_same_values({from}, {pack(from, bits)}, lane_counts, cases);
  }
}

TEST(Operators, ReinterpretAndPopulationCount) {
  for (auto [from, to] : std::vector<std::pair<DType, DType>>{
           {f32, i32}, {i32, f32}, {f64, u64}, {u64, f64}, {f16, u16}, {i16, bf16}, {u8, i8}})
    expect_same_values({from}, {pack(from, interesting_bits(from, 9))}, lane_counts,
                       {{"reinterpret " + to_string(from), to,
                         [to = to](const std::vector<Expr>& x) { return reinterpret(to, x[0]); }}});
  for (DType dtype : {i8, u8, i16, i32, u32, i64, u64})
    expect_same_values({dtype}, {pack(dtype, interesting_bits(dtype, 9))}, lane_counts,
                       {{"population_count of " + to_string(dtype), dtype, [](const std::vector<Expr>& x) {
                           return Call::make(x[0]->dtype, CallKind::intrinsic, "population_count", {x[0]});
                         }}});
}

/// 2^lanes numbers in a row, as constants.
Expr table_of(DType dtype, int lanes) {
  std::vector<Expr> numbers;
  std::vector<int> order;
  for (int i = 0; i < lanes; ++i) {
    numbers.push_back(constant(dtype, static_cast<double>(3 * i + 1)));
    order.push_back(i);
  }
  return Shuffle::make(std::move(numbers), std::move(order));
}

TEST(Operators, PermutePicksLanesModuloTheirCount) {
  for (const auto& [dtype, places] :
       std::vector<std::pair<DType, DType>>{{f32, i32}, {f64, i64}, {i32, u32}, {u64, u64}, {f16, i16}, {u8, i8}}) {
    std::vector<Case> cases;
    for (const int lanes : {1, 2, 4, 8, 16, 32}) {
      const Expr table = table_of(dtype, lanes);
      cases.push_back({"permute of " + to_string(table->dtype), dtype,
                       [=](const std::vector<Expr>& x) { return permute(table, x[0]); }});
    }
    expect_same_values({places}, {pack(places, interesting_bits(places, 11))}, lane_counts, cases);
  }
}

TEST(Operators, ExponentAndMantissa) {
  const std::pair<std::string, Expr (*)(Expr)> parts[] = {{"exponent", exponent}, {"mantissa", mantissa}};
  for (const DType dtype : {f16, bf16, f32, f64}) {
    std::vector<std::uint64_t> bits = interesting_bits(dtype, 17);
    std::vector<Case> cases;
    for (const auto& [name, part] : parts)
      cases.push_back(
          {name + " of " + to_string(dtype), dtype, [=](const std::vector<Expr>& x) { return part(x[0]); }});
    expect_same_values({dtype}, {pack(dtype, bits)}, lane_counts, cases);
  }
}

TEST(Operators, ReciprocalIsNear) {
  for (const DType dtype : {f32, f64}) {
    std::vector<std::uint64_t> bits = interesting_bits(dtype, 13);
    expect_same_values({dtype}, {pack(dtype, bits)}, lane_counts,
                       {{"reciprocal of " + to_string(dtype), boolean, [=](const std::vector<Expr>& x) {
                           const auto is = [&](BinaryOp op, double limit) {
                             return binary(op, unary(UnaryOp::abs, x[0]), constant(x[0]->dtype, limit));
                           };
                           const Expr inside = logical_and(is(BinaryOp::gt, 0x1p-100), is(BinaryOp::lt, 0x1p100));
                           const Expr near_one = x[0] * reciprocal(x[0]) - constant(x[0]->dtype, 1.0);
                           const Expr near = le(unary(UnaryOp::abs, near_one), constant(x[0]->dtype, 0x1.01p-14));
                           return logical_or(near, logical_not(inside));
                         }}});
  }
}

}  // namespace
}  // namespace lathe
