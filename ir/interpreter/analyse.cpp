#include <cmath>

#include "ir/interpreter/machine.h"

namespace lathe::interpreter {

Tracked Machine::recall(const Array& array, const std::byte* address, Cell value) {
  const Storage::Note& note = array.storage->note(array.storage->unit_of(address));
  const bool same = note.value == value.d && std::signbit(note.value) == std::signbit(value.d);
  if (same || (std::isnan(note.value) && std::isnan(value.d))) {
    // An element that nothing was noted of reads as a zero, known exactly; so does this note's default.
    return note.tracked;
  }
  return exactly(value.d);
}

Tracked Machine::track_lane(const Instruction& i, int l) {
  const auto a = [&] { return tracked_[i.a + l]; };
  switch (i.op) {
    case Opcode::unary:
      if (const Unary* unary = i.source->kind == ExprKind::Unary ? static_cast<const Unary*>(i.source) : nullptr) {
        return track(unary->op, i.dtype, a());
      }
      if (i.from.is_float()) return track_cast(i.dtype, i.from, a());
      return track_cast(i.dtype, i.from.element() == u64
                                     ? static_cast<double>(static_cast<std::uint64_t>(integer(i.a + l)))
                                     : static_cast<double>(integer(i.a + l)));
    case Opcode::binary:
      return track(static_cast<const Binary*>(i.source)->op, i.dtype, a(), tracked_[i.b + l]);
    case Opcode::scaleb:
      return track(BinaryOp::mul, i.dtype, a(), exactly(std::exp2(at(i.b)[l].d)));
    case Opcode::ternary:
      return track_fma(i.dtype, a(), tracked_[i.b + l], tracked_[i.c + l]);
    case Opcode::select:
      return integer(i.a + l) != 0 ? tracked_[i.b + l] : tracked_[i.c + l];
    case Opcode::broadcast:
      return tracked_[i.a];
    case Opcode::shuffle:
      return tracked_[program_.shuffles[static_cast<size_t>(i.side)].slots[static_cast<size_t>(l)]];
    case Opcode::permute:
      return tracked_[i.a + (integer(i.b + l) & (i.c - 1))];
    case Opcode::reinterpret:
      return exactly(at(i.out)[l].d);
    case Opcode::load: {
      const AccessCode& access = program_.accesses[static_cast<size_t>(i.side)];
      if (access.mask != none && integer(access.mask + l) == 0) return exactly(0);
      const Array& array = arrays_[static_cast<size_t>(access.array)];
      return recall(array, locate(access, array, l), at(i.out)[l]);
    }
    default: {
      Tracked unknown = exactly(at(i.out)[l].d);
      unknown.radius = std::numeric_limits<double>::infinity();
      return unknown;
    }
  }
}

void Machine::track_results(const Instruction& i) {
  if (i.op == Opcode::reduce_lanes) {
    BinaryOp op = BinaryOp::add;
    const std::string& callee = static_cast<const Call*>(i.source)->callee;
    if (callee == "reduce_mul") op = BinaryOp::mul;
    if (callee == "reduce_min") op = BinaryOp::min;
    if (callee == "reduce_max") op = BinaryOp::max;
    Tracked* work = tracked_ + i.c;
    std::copy_n(tracked_ + i.a, i.b, work);
    for (int half = i.b / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) work[l] = track(op, i.dtype, work[l], work[half + l]);
    }
    tracked_[i.out] = work[0];
    return;
  }
  for (int l = 0; l < i.lanes; ++l) tracked_[i.out + l] = track_lane(i, l);
}

void Machine::report_bounds() {
  options_.bounds->assign(host_.size(), {});
  for (size_t k = 0; k < host_.size(); ++k) {
    const DType dtype = program_.params[k].buffer->dtype;
    if (!dtype.is_float()) continue;
    std::vector<FloatBound>& list = (*options_.bounds)[k];
    const Array& array = arrays_[static_cast<size_t>(program_.params[k].array)];
    for (std::byte* p = host_[k].begin; host_[k].end - p >= dtype.bytes(); p += dtype.bytes()) {
      const Tracked tracked = recall(array, p, load_element(dtype, p));
      list.push_back({tracked.exact, total_radius(dtype, tracked)});
    }
  }
}

}  // namespace lathe::interpreter
