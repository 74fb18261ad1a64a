#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/interpreter/machine.h"

namespace lathe::interpreter {

namespace {

/// The intrinsic `mantissa`.
double mantissa_of(double x) {
  if (std::isnan(x) || (std::signbit(x) && x != 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0 || std::isinf(x)) return std::copysign(1.0, x);
  int exponent = 0;
  const double half = std::frexp(x, &exponent);
  return half < 0.75 ? 2 * half : half;
}

}  // namespace

void Machine::load(const Instruction& instruction) {
  const AccessCode& access = program_.accesses[static_cast<size_t>(instruction.side)];
  const Array& array = arrays_[static_cast<size_t>(access.array)];
  Cell* out = at(instruction.out);
  for (int l = 0; l < access.lanes; ++l) {
    if (access.mask != none && integer(access.mask + l) == 0) {
      out[l] = array.dtype.is_float() ? Cell{.d = 0.0} : Cell{.i = 0};
    } else {
      out[l] = read(array, locate(access, array, l));
    }
  }
}

void Machine::address_of(const Instruction& instruction) {
  const AccessCode& access = program_.accesses[static_cast<size_t>(instruction.side)];
  const Array& array = arrays_[static_cast<size_t>(access.array)];
  at(instruction.out)->i = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(locate(access, array, 0)));
}

void Machine::reduce(const Instruction& instruction) {
  Cell* work = at(instruction.c);
  std::copy_n(at(instruction.a), instruction.b, work);
  for (int half = instruction.b / 2; half > 0; half /= 2) instruction.binary(work, work, work + half, half);
  *at(instruction.out) = work[0];
}

void Machine::call_extern(const Instruction& instruction) {
  const ExternCode& code = program_.externs[static_cast<size_t>(instruction.side)];
  std::vector<double> args(code.args.size());
  for (int l = 0; l < instruction.lanes; ++l) {
    for (size_t k = 0; k < args.size(); ++k) {
      const Cell cell = *at(code.args[k].slot + l * code.args[k].step);
      args[k] = code.dtypes[k].is_float() ? cell.d : static_cast<double>(cell.i);
    }
    const double result = code.function(args);
    Cell& out = at(instruction.out)[l];
    if (!instruction.dtype.is_float()) {
      out.i = wrap_integer(instruction.dtype, static_cast<std::int64_t>(result));
    } else {
      out.d = options_.exact_floats ? result : round_to(instruction.dtype, result);
    }
  }
}

void Machine::evaluate(const Code& code) {
  for (int k = code.begin; k < code.end; ++k) {
    const Instruction& instruction = program_.instructions[static_cast<size_t>(k)];
    evaluate(instruction);
    if (tracked_ && instruction.dtype.is_float()) track_results(instruction);
  }
}

void Machine::evaluate(const Instruction& i) {
  switch (i.op) {
    case Opcode::unary:
      i.unary(at(i.out), at(i.a), i.lanes);
      break;
    case Opcode::binary:
      i.binary(at(i.out), at(i.a), at(i.b), i.lanes);
      break;
    case Opcode::scaleb:
      i.binary(at(i.out), at(i.a), at(i.b), i.lanes);
      break;
    case Opcode::ternary:
      i.ternary(at(i.out), at(i.a), at(i.b), at(i.c), i.lanes);
      break;
    case Opcode::select:
      for (int l = 0; l < i.lanes; ++l) at(i.out)[l] = integer(i.a + l) != 0 ? at(i.b)[l] : at(i.c)[l];
      break;
    case Opcode::load:
      load(i);
      break;
    case Opcode::ramp:
      for (int l = 0; l < i.lanes; ++l) {
        const auto value = static_cast<std::uint64_t>(integer(i.a)) +
                           static_cast<std::uint64_t>(l) * static_cast<std::uint64_t>(integer(i.b));
        at(i.out)[l].i = wrap_integer(i.dtype, static_cast<std::int64_t>(value));
      }
      break;
    case Opcode::broadcast:
      std::fill_n(at(i.out), i.lanes, *at(i.a));
      break;
    case Opcode::shuffle: {
      const ShuffleCode& shuffle = program_.shuffles[static_cast<size_t>(i.side)];
      for (int l = 0; l < i.lanes; ++l) at(i.out)[l] = *at(shuffle.slots[static_cast<size_t>(l)]);
      break;
    }
    case Opcode::reduce_lanes:
      reduce(i);
      break;
    case Opcode::reinterpret:
      for (int l = 0; l < i.lanes; ++l) at(i.out)[l] = from_bits(i.dtype, to_bits(i.from, at(i.a)[l]));
      break;
    case Opcode::population_count:
      for (int l = 0; l < i.lanes; ++l) at(i.out)[l].i = std::popcount(to_bits(i.dtype, at(i.a)[l]));
      break;
    case Opcode::permute:
      for (int l = 0; l < i.lanes; ++l) at(i.out)[l] = at(i.a)[integer(i.b + l) & (i.c - 1)];
      break;
    case Opcode::reciprocal:
      for (int l = 0; l < i.lanes; ++l) {
        const double inverse = 1 / at(i.a)[l].d;
        at(i.out)[l].d = options_.exact_floats ? inverse : round_to(i.dtype, inverse);
      }
      break;
    case Opcode::exponent:
      for (int l = 0; l < i.lanes; ++l) at(i.out)[l].d = std::logb(at(i.a)[l].d);
      break;
    case Opcode::mantissa:
      for (int l = 0; l < i.lanes; ++l) at(i.out)[l].d = mantissa_of(at(i.a)[l].d);
      break;
    case Opcode::extern_call:
      call_extern(i);
      break;
    case Opcode::address_of:
      address_of(i);
      break;
  }
}

}  // namespace lathe::interpreter
