#include "schedule/auto/stage_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "ir/analysis/affine.h"
#include "ir/analysis/remainders.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/lay_results.h"
#include "schedule/auto/mask_operands.h"
#include "schedule/auto/near_copies.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/windows.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Reads of an element for which a padded copy is made, of rows of one or two vectors; of longer ones it takes more, as
/// only the vectors at their ends touch the padding (measured on Zen 4: a copy for depthwise 3x3 took a tenth of the
/// time over rows of 14, 1.6 times as long over rows of 56). Where arithmetic leaves loads no time, one that is made a
/// channel at a time (near_copies) costs little more than padding the ends alone (measured on Cascade Lake: 0.86 of the
/// time for 96 channels of 56x56, but 1.6 times as long where a channel of 112x112 leaves the first cache, and 1.5
/// times with vectors of 256 bits).
constexpr double padded_reuse = 6;
/// The longest rows of which all vectors count as touching the padding (measured on Zen 3: a copy for depthwise 3x3
/// took 0.42 to 0.71 of the time over rows of 28 to 52, 1.05 to 1.8 times as long over 57 to 113).
constexpr std::int64_t most_masked_vectors = 7;
/// The same where vectors could not walk the operand otherwise, and where they could along windows of so many elements.
constexpr double strided_reuse = 4, window_reuse = 32;
/// The same where a border repeats elements, so that no read is a vector's; of fewer taps the ends are cut off
/// (measured on Zen 4: rows of 3 taps 0.5 to 0.7 of the time, 5 taps 0.77, in 12 ms for 7).
constexpr double repeated_reuse = 4;
constexpr std::int64_t filled_window = 8;
/// Steps of windows up to which they are masked (measured on Zen 4: 3x3 over 28x28 and 14x14 0.76 of the time of a
/// padded copy, 13 and 8 ms to compile for 6 and 4, over 7x7 0.4; 5x5 over 28x28 0.88, 22 ms for 9; in f16, whose
/// elements are widened once in a copy, 1.5).
constexpr std::int64_t most_masked_steps = 9;
/// Vectors of the widest panel.
constexpr std::int64_t panel_vectors = 4;
/// The widest step between elements for which the lines that a copy reads still serve whole.
constexpr std::int64_t most_interleaved = 4;

bool worth_copying(const RuleContext& context, const Block& reader, const Buffer& buffer, double reuse) {
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  return instance_count(reader, facts) >= reuse * estimated_elements(buffer, facts);
}

/// The part of the vectors along the result's contiguous axis for which there is a choice between the operand and its
/// padding: those that touch its ends, or all, where the padding lies along other axes, and in tiles of a row that is
/// no whole vectors where masks live in vector registers.
double end_vectors(const Block& block, const Expr& condition, const Device& device) {
  double least = 1;
  for (const Access& access : block_accesses(block)) {
    for (size_t i = 0; access.store && i < block.f.iters.size(); ++i) {
      if (access.strides[i] != 1 || !uses_var(condition, block.f.iters[i].variable.get())) continue;
      const std::int64_t row = extent_estimate(block.f.iters[i].domain.extent), lanes = vector_lanes(block, device);
      if (device.mask_registers == 0 && row % lanes != 0 && row < most_masked_vectors * lanes) continue;
      least = std::min(least, 2.0 * static_cast<double>(lanes) / static_cast<double>(row));
    }
  }
  return least;
}

/// Reads of an element of a strided operand for which it is copied: `least`, or more where vectors could walk windows.
double worthy_reuse(const Block& block, const Buffer& operand, double least) {
  for (const Access& access : block_accesses(block)) {
    for (size_t i = 0; access.buffer == operand && i < block.f.iters.size(); ++i) {
      const Iter& iter = block.f.iters[i];
      if (iter.kind == IterKind::reduce && access.strides[i] == 1 &&
          extent_estimate(iter.domain.extent) >= filled_window)
        return window_reuse;
    }
  }
  return least;
}

/// Does the buffer move by several elements along the result's contiguous axis, so that vectors cannot walk it?
bool is_strided(const Block& block, const Buffer& buffer) {
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (stores_in_a_row(accesses, i) && std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
          return access.buffer == buffer && std::abs(access.strides[i].value_or(0)) > 1;
        }))
      return true;
  }
  return false;
}

/// Does the buffer lie along results, each of which has elements of its own, so that vectors walk it once these lie so
/// too (lay_results)?
bool lies_along_results(const Block& block, const Buffer& buffer, const Device& device) {
  bool along = false;
  for (const Access& access : block_accesses(block)) {
    for (size_t i = 0; access.buffer == buffer && i < block.f.iters.size(); ++i) {
      const Iter& iter = block.f.iters[i];
      if (iter.kind != IterKind::space || is_int(iter.domain.extent, 1)) continue;
      if (access.strides[i].value_or(0) == 0) return false;
      along |= access.strides[i] == 1 && extent_estimate(iter.domain.extent) >= vector_lanes(block, device);
    }
  }
  return along;
}

/// Is an index more than a sum: the nearest of a border, or an element of the other end? Of a single iter it is none,
/// as what quotient and remainder of joined axes read.
bool repeats_elements(const Load* load) {
  bool found = false;
  for (const Expr& index : load->indices) {
    if (used_vars(index).size() < 2) continue;
    for_each_expr(index, [&](const Expr& e) {
      const Binary* node = e.as<Binary>();
      const Unary* unary = e.as<Unary>();
      found |= e.as<Select>() || (unary && unary->op == UnaryOp::abs) ||
               (node && (node->op == BinaryOp::min || node->op == BinaryOp::max || node->op == BinaryOp::floor_mod));
    });
  }
  return found;
}

/// An operand that alone keeps vectors from walking an iter along which the output is contiguous.
struct Strided {
  Buffer buffer;
  size_t iter;
  std::int64_t step;  ///< elements that it moves with the iter, in either direction
  bool masked;
};

std::optional<Strided> strided_operand(const Block& block) {
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || parts->outputs.size() != 1) return std::nullopt;
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (iter.kind != IterKind::space || extent_estimate(iter.domain.extent) < 2) continue;
    std::optional<Strided> found;
    bool along = true;
    for (const Access& access : accesses) {
      const std::optional<std::int64_t> stride = access.strides[i];
      if (access.buffer == parts->outputs[0].buffer) {
        along &= stride == 1;
      } else if (stride && std::abs(*stride) > 1 && !found) {
        found = {access.buffer, i, std::abs(*stride), access.masked};
      } else {
        along &= stride && std::abs(*stride) <= 1;
      }
    }
    if (along && found) return found;
  }
  return std::nullopt;
}

/// By how many elements a copy of the operand is to set its rows apart, so that vectors can walk it: `x[2 * j + k]`
/// becomes `copy[k % 2, j + k // 2]`, and `x[2 * j]` `copy[j]`. Nothing where no iter of its rows is in their way, or
/// the step is too wide.
std::optional<std::int64_t> apart_in_copy(const Block& block, const Buffer& buffer) {
  const std::optional<Strided> operand = strided_operand(block);
  if (!operand || operand->buffer != buffer || operand->step > most_interleaved) return std::nullopt;
  const Affine place = to_affine(load_of(block, buffer)->indices.back());
  const bool walks_rows = place.coefficient(block.f.iters[operand->iter].variable) == operand->step;
  return walks_rows ? std::optional(operand->step) : std::nullopt;
}

/// Do tiles take windows of the operand in one body, under masks at the ends of rows, so that no copy pads it? Of few
/// steps, as rows at the ends are bodies of their own; and of an operand that comes as it is, for one that the kernel
/// makes itself, as it widens f16, is padded as it is made.
bool masks_windows(const RuleContext& context, const Block& block, const Buffer& operand) {
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (context.device.mask_registers == 0 || multiplies_lines(context.device) || operand->dtype.bits < 32 ||
      is_allocated(context.schedule.func(), operand) || !shape || !shape->vector_space)
    return false;
  const std::optional<Windows> windows = overlapping_windows(context, block, *shape, *shape->vector_space);
  return windows && windows->depth <= most_masked_steps;
}

/// Copies of the buffers, padded.
void pad_once(RuleContext& context, const BlockRef& ref, const std::vector<Buffer>& padded) {
  for (const Buffer& buffer : padded) {
    const std::int64_t apart = apart_in_copy(context.schedule.node(ref), buffer).value_or(1);
    const std::string steps = apart > 1 ? fmt::format(", every {} elements apart", apart) : "";
    attempt(context, fmt::format("pad {} once for {}{}", buffer->name, ref.name, steps),
            [&] { cache_padding(context.schedule, ref, buffer->name, space::global, apart); });
  }
}

/// Copies of what the reduction pads, where each element is read so often that choosing between it and the padding at
/// every read costs more.
void stage_padding(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  std::vector<Buffer> padded;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* select = e.as<Select>();
    const Load* load = select ? select->when_true.as<Load>() : nullptr;
    if (!load || std::count(padded.begin(), padded.end(), load->buffer) > 0 || repeats_elements(load) ||
        masks_windows(context, block, load->buffer) ||
        pads_whole_vectors(context, block, load->buffer, select->condition))
      return;
    const bool nearby = multiplies_lines(context.device) && copied_nearby(context, block, load->buffer);
    const bool across = is_strided(block, load->buffer),
               turned = across && lies_along_results(block, load->buffer, context.device);
    const double ends = nearby || turned ? 1 : end_vectors(block, select->condition, context.device);
    double least = padded_reuse / ends;
    // What vectors cannot walk is copied for their sake too, once it is padded (stage_strided).
    if (across && !turned) least = std::min(least, worthy_reuse(block, load->buffer, apart_reuse));
    if (worth_copying(context, block, load->buffer, least)) padded.push_back(load->buffer);
  });
  pad_once(context, ref, padded);
}

/// Is the operand contiguous along the reduction, and does no dimension of it slide?
bool lies_along_reduction(const Block& block, const Buffer& operand) {
  const Load* load = load_of(block, operand);
  const auto uses = [&](const Expr& e, IterKind kind) {
    return std::any_of(block.f.iters.begin(), block.f.iters.end(),
                       [&](const Iter& iter) { return iter.kind == kind && uses_var(e, iter.variable.get()); });
  };
  return uses(load->indices.back(), IterKind::reduce) &&
         std::none_of(load->indices.begin(), load->indices.end(),
                      [&](const Expr& e) { return uses(e, IterKind::reduce) && uses(e, IterKind::space); });
}

/// Copies each element that the reduction reads of a strided operand to where its own iters want it, where windows do
/// not overlap, so that the copy is no larger than the operand, or, of steps too wide to be set apart, overlap little:
/// `x[2 * j]` becomes `copy[j]`, patches become `copy[c, r, s, i, j]`. Iters that the operand walks by larger steps
/// than the reduction's come before these, the others behind, that of the vectors last.
bool stage_windows(RuleContext& context, const BlockRef& ref, const Strided& operand) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  // What lies along the reduction is turned around where that pays (turn_operand).
  if (lies_along_reduction(block, operand.buffer)) return false;
  const auto elements = constant_elements(operand.buffer);
  std::int64_t read = 1, widest_reduce = 0;
  std::vector<std::pair<size_t, std::int64_t>> walked;  // iters, with how far they go
  for (const Access& access : block_accesses(block)) {
    if (access.buffer != operand.buffer) continue;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const auto stride = access.strides[i];
      const std::int64_t* extent = as_int(block.f.iters[i].domain.extent);
      if (!stride || !extent) return false;
      const std::int64_t step = std::abs(*stride);
      if (step == 0 || *extent == 1) continue;
      read *= *extent;
      walked.emplace_back(i, step);
      if (block.f.iters[i].kind == IterKind::reduce) widest_reduce = std::max(widest_reduce, step);
    }
  }
  const std::int64_t most = elements ? *elements * (operand.step > most_interleaved ? 2 : 1) : 0;
  if (read > most ||
      instance_count(block) < worthy_reuse(block, operand.buffer, strided_reuse) * static_cast<double>(read))
    return false;
  const auto place = [&](const std::pair<size_t, std::int64_t>& walk) {
    if (walk.first == operand.iter) return 3;
    if (block.f.iters[walk.first].kind == IterKind::reduce) return 1;
    return walk.second > widest_reduce ? 0 : 2;
  };
  std::stable_sort(walked.begin(), walked.end(), [&](const auto& a, const auto& b) {
    return place(a) != place(b) ? place(a) < place(b) : a.second > b.second;
  });
  return attempt(context, fmt::format("copy the windows of {} for {}", operand.buffer->name, ref.name), [&] {
    const BlockRef copy = reindex(schedule, ref, operand.buffer->name);
    const Buffer made = schedule.node(copy).f.writes[0].buffer;
    const Block& reader = schedule.node(ref);
    const Load* load = load_of(reader, made);
    LayoutMap map{same_layout(made->rank()).from, {}};
    for (const auto& walk : walked) {
      for (size_t d = 0; d < made->rank(); ++d) {
        if (iter_at(reader, load->indices[d]) == walk.first) map.to.emplace_back(map.from[d]);
      }
    }
    transform_layout(schedule, ref, made->name, map);
  });
}

void stage_strided(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const auto operand = strided_operand(block);
  if (!operand || operand->masked || stage_windows(context, ref, *operand)) return;
  const std::optional<std::int64_t> apart = apart_in_copy(block, operand->buffer);
  if (!apart || !worth_copying(context, block, operand->buffer, worthy_reuse(block, operand->buffer, apart_reuse)))
    return;
  attempt(context,
          fmt::format("set every {} elements of {} apart for {}", operand->step, operand->buffer->name, ref.name),
          [&] { cache_padding(context.schedule, ref, operand->buffer->name, space::global, *apart); });
}

/// Is each element of each operand read often?
bool is_product(const RuleContext& context, const Block& block) {
  size_t operands = 0;
  for (const Access& access : block_accesses(block)) {
    if (writes(block, access.buffer)) continue;
    if (!worth_copying(context, block, access.buffer, strided_reuse)) return false;
    ++operands;
  }
  return operands > 1;
}

/// Does a buffer of known size have no dimension whose elements are known to be neighbours?
bool is_scattered(const Buffer& buffer) {
  if (buffer->strides.empty() || !constant_elements(buffer)) return false;
  for (size_t d = 0; d < buffer->rank(); ++d) {
    const std::int64_t* stride = as_int(buffer->strides[d]);
    if (!is_int(buffer->shape[d], 1) && stride && *stride >= 0 && *stride <= 1) return false;
  }
  return true;
}

/// Is each element of the operand a scalar that one tile reads, as vectors walk the results as they lie, one panel
/// holds all columns, and nothing else comes back to it? Measured on Zen 4 with every second element of an operand
/// used: 0.53 to 0.79 of the time of a copy.
bool walked_once(const RuleContext& context, const Block& block, const std::optional<ReductionShape>& shape,
                 const Access& operand) {
  if (!shape || !shape->vector_space || operand.strides[*shape->vector_space] != 0) return false;
  const bool comes_back = std::any_of(shape->space.begin(), shape->space.end(), [&](size_t i) {
    return i != *shape->vector_space && operand.strides[i] == 0 && !is_int(block.f.iters[i].domain.extent, 1);
  });
  const std::int64_t* columns = as_int(block.f.iters[*shape->vector_space].domain.extent);
  return !comes_back && columns && *columns <= panel_vectors * vector_lanes(block, context.device);
}

}  // namespace

void stage_scattered(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  // Terms must be added up for the copies to pay.
  if (!worth_copying(context, block, block.f.writes[0].buffer, strided_reuse)) return;
  const std::optional<ReductionShape> shape = reduction_shape(block);
  std::vector<std::string> scattered;
  for (const Access& access : block_accesses(block)) {
    const Buffer& buffer = access.buffer;
    if (access.store || access.masked || writes(block, buffer)) continue;
    if (is_scattered(buffer) && !walked_once(context, block, shape, access) &&
        worth_copying(context, block, buffer, strided_reuse))
      scattered.push_back(buffer->name);
  }
  std::sort(scattered.begin(), scattered.end());
  scattered.erase(std::unique(scattered.begin(), scattered.end()), scattered.end());
  const bool collects = is_product(context, block) && is_scattered(block.f.writes[0].buffer);
  for (const std::string& buffer : scattered) {
    attempt(context, fmt::format("copy {}, which is scattered, for {}", buffer, ref.name),
            [&] { cache_read(context.schedule, ref, buffer, space::global); });
  }
  if (!collects) return;
  attempt(context, fmt::format("collect the results of {}, which are scattered", ref.name),
          [&] { cache_write(context.schedule, ref, space::global); });
}

void stage_joined(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  std::vector<std::string> joined;
  bool pays = false;
  size_t operands = 0;
  for (const Access& access : block_accesses(block)) {
    if (access.store || writes(block, access.buffer)) continue;
    ++operands;
    double copied = 1;
    bool hidden = false;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (access.strides[i] == 0) continue;
      hidden |= !access.strides[i] && !access.gains[i];
      copied *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
    }
    const Load* load = load_of(block, access.buffer);
    const bool apart = std::any_of(load->indices.begin(), load->indices.end(), takes_apart);
    const bool worth = apart && !access.masked && instance_count(block) >= strided_reuse * copied;
    if (worth) joined.push_back(access.buffer->name);
    if (hidden && !worth) return;
    pays |= hidden;
  }
  if (operands < 2 || !pays) return;
  for (const std::string& buffer : joined) {
    attempt(context, fmt::format("copy what joined axes of {} read of {}", ref.name, buffer),
            [&] { reindex(context.schedule, ref, buffer); });
  }
}

void stage_repeats(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  std::vector<Buffer> padded;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (load && repeats_elements(load) && std::count(padded.begin(), padded.end(), load->buffer) == 0 &&
        worth_copying(context, block, load->buffer, repeated_reuse))
      padded.push_back(load->buffer);
  });
  pad_once(context, ref, padded);
}

bool pads_whole_vectors(const RuleContext& context, const Block& block, const Buffer& operand, const Expr& condition) {
  if (!lies_along_results(block, operand, context.device)) return false;
  std::int64_t steps = 1;
  for (const Iter& iter : block.f.iters) {
    if (iter.kind == IterKind::reduce) steps *= extent_estimate(iter.domain.extent);
    if (steps > most_window_steps) return false;
  }
  for (const Access& access : block_accesses(block)) {
    for (size_t i = 0; access.buffer == operand && i < block.f.iters.size(); ++i) {
      if (access.strides[i] == 1 && uses_var(condition, block.f.iters[i].variable.get())) return false;
    }
  }
  return true;
}

void stage_operands(RuleContext& context, const BlockRef& reduction) {
  turn_channels(context, reduction);
  mask_operands(context, reduction);
  stage_padding(context, reduction);
  lay_results(context, reduction);
  stage_strided(context, reduction);
}

}  // namespace lathe
