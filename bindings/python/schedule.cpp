#include "schedule/schedule.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fstream>
#include <iterator>

#include "bindings/python/bind.h"
#include "bindings/python/convert.h"
#include "bindings/python/schedule_handles.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/compute_apart.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/compute_once.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/distribute.h"
#include "schedule/primitives/drop_result.h"
#include "schedule/primitives/end_masked.h"
#include "schedule/primitives/fold_choices.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/fuse_reduction_epilogue.h"
#include "schedule/primitives/fuse_reductions.h"
#include "schedule/primitives/hoist_factor.h"
#include "schedule/primitives/hoist_offset.h"
#include "schedule/primitives/join_blocks.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/join_rows.h"
#include "schedule/primitives/merge_equal.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/scan_lanes.h"
#include "schedule/primitives/separate_window.h"
#include "schedule/primitives/shift_squares.h"
#include "schedule/primitives/skip_masked.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/split_residues.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/unfold_reduction.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/recording.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// split(loop, 8), or one factor a new loop, outermost first, of which one may be None: as many as it takes.
std::vector<Loop> split_loop(PythonSchedule& s, const Loop& loop, nb::handle factors) {
  LoopRef rest = s.take(loop);
  std::vector<std::optional<std::int64_t>> wanted;
  if (nb::isinstance<nb::int_>(factors)) {
    wanted = {std::nullopt, nb::cast<std::int64_t>(factors)};
  } else {
    for (const nb::handle factor : factors) {
      wanted.push_back(factor.is_none() ? std::nullopt : std::optional(nb::cast<std::int64_t>(factor)));
    }
  }
  const auto open = std::count(wanted.begin(), wanted.end(), std::nullopt);
  if (wanted.size() < 2 || open > 1) {
    throw InputError(Mistake::value, "split: expected a factor, or at least two of which at most one is None");
  }
  Schedule result = s.schedule;
  const std::int64_t* extent = as_int(result.node(rest).extent);
  std::int64_t product = 1;
  for (const std::optional<std::int64_t>& factor : wanted) {
    if (!factor) continue;
    if (*factor < 1) throw InputError(Mistake::value, fmt::format("split: factor {} is not at least 1", *factor));
    product *= *factor;
  }
  if (open == 0) {
    if (!extent || product < *extent) {
      throw InputError(Mistake::value, fmt::format("split: the factors cover {} iterations, the loop has {}", product,
                                                   print(result.node(rest).extent)));
    }
    wanted[0] = std::nullopt;
  }
  std::vector<LoopRef> inner;
  while (const auto factor = wanted.back()) {
    auto [outer, last] = split(result, rest, *factor);
    rest = outer;
    inner.push_back(last);
    wanted.pop_back();
  }
  // Factors outside of the open one: each says how many iterations its loop has.
  std::vector<LoopRef> outer_loops;
  for (const std::optional<std::int64_t>& factor : wanted) {
    if (!factor) break;
    extent = as_int(result.node(rest).extent);
    if (!extent) throw InputError(Mistake::value, "split: factors outside of None need a constant extent");
    auto [outer, next] = split(result, rest, std::max<std::int64_t>(1, ceil_div(*extent, *factor)));
    outer_loops.push_back(outer);
    rest = next;
  }
  outer_loops.push_back(rest);
  outer_loops.insert(outer_loops.end(), inner.rbegin(), inner.rend());
  s.schedule = std::move(result);
  std::vector<Loop> loops;
  loops.reserve(outer_loops.size());
  for (const LoopRef& made : outer_loops) loops.push_back(s.give(made));
  return loops;
}

std::vector<BlockHandle> give_all(const PythonSchedule& s, const std::vector<BlockRef>& blocks) {
  std::vector<BlockHandle> handles;
  handles.reserve(blocks.size());
  for (const BlockRef& block : blocks) handles.push_back(s.give(block));
  return handles;
}

void save(const Recording& recording, const std::string& path) {
  std::ofstream file(path);
  file << print(recording);
  file.flush();
  if (!file) throw InputError(Mistake::value, path + ": cannot be written");
}

Recording load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(Mistake::value, path + ": cannot be opened");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return parse_recording(text, path);
}

void bind_handles(nb::module_& module) {
  nb::class_<Loop>(module, "Loop", "A loop of a schedule. Splitting, fusing or moving a loop makes new ones.")
      .def_prop_ro("name", [](const Loop& loop) { return loop.ref.variable->name; })
      .def(
          "__eq__", [](const Loop& a, const Loop& b) { return a.ref == b.ref && a.owner == b.owner; },
          nb::is_operator())
      .def("__hash__", [](const Loop& loop) { return reinterpret_cast<std::uintptr_t>(loop.ref.variable.get()); })
      .def("__repr__", [](const Loop& loop) { return fmt::format("<lathe.Loop {}>", loop.ref.variable->name); });
  nb::class_<BlockHandle>(module, "Block", "A block of a schedule.")
      .def_prop_ro("name", [](const BlockHandle& block) { return block.ref.name; })
      .def(
          "__eq__", [](const BlockHandle& a, const BlockHandle& b) { return a.ref == b.ref && a.owner == b.owner; },
          nb::is_operator())
      .def("__hash__", [](const BlockHandle& block) { return std::hash<std::string>()(block.ref.name); })
      .def("__repr__", [](const BlockHandle& block) { return fmt::format("<lathe.Block {}>", block.ref.name); });
  nb::class_<Recording>(module, "Record", "A schedule apart from its program: text that replays on another shape.")
      .def_static("load", &load, "path"_a)
      .def_static(
          "parse", [](const std::string& text) { return parse_recording(text); }, "text"_a)
      .def("save", &save, "path"_a)
      .def("__str__", [](const Recording& recording) { return print(recording); })
      .def("__len__", [](const Recording& recording) { return recording.lines.size(); });
}

using S = PythonSchedule;

void bind_loops(nb::class_<S>& type) {
  type.def(
          "split", &split_loop, "loop"_a, "factors"_a,
          "Splits a loop: by a factor, or into one loop a factor, outermost first, at most one of them None. Gives the "
          "new loops. Where the extent is no multiple, the blocks below get a predicate.")
      .def(
          "fuse",
          [](S& s, const Loop& outer, const Loop& inner) {
            return s.give(fuse(s.schedule, s.take(outer), s.take(inner)));
          },
          "outer"_a, "inner"_a, "One loop of two that nest directly.")
      .def(
          "reorder", [](S& s, const nb::args& loops) { reorder(s.schedule, s.take(loops)); }, "loops"_a,
          "Loops of one nest in a new order, outermost first.")
      .def(
          "parallel", [](S& s, const Loop& loop, std::int64_t grain) { parallel(s.schedule, s.take(loop), grain); },
          "loop"_a, "grain"_a = 1, "Iterations run on the threads; `grain` of them at least in a task.")
      .def(
          "vectorize", [](S& s, const Loop& loop) { vectorize(s.schedule, s.take(loop)); }, "loop"_a,
          "Iterations become lanes.")
      .def(
          "unroll", [](S& s, const Loop& loop) { unroll(s.schedule, s.take(loop)); }, "loop"_a,
          "Iterations are written out.")
      .def(
          "bind", [](S& s, const Loop& loop, const std::string& axis) { bind_loop(s.schedule, s.take(loop), axis); },
          "loop"_a, "thread_axis"_a, "Iterations run along a thread axis of the device.")
      .def(
          "partition",
          [](S& s, const Loop& loop, std::optional<std::int64_t> point) {
            const auto [first, rest] = partition(s.schedule, s.take(loop), point);
            return std::vector<Loop>{s.give(first), s.give(rest)};
          },
          "loop"_a, "point"_a = nb::none(),
          "Runs the first `point` iterations, and the rest, in loops of their own; without a point, as many as need no "
          "predicate. Gives both loops.")
      .def(
          "annotate",
          [](S& s, const Loop& loop, const std::string& key, std::int64_t value) {
            annotate(s.schedule, s.take(loop), key, value);
          },
          "loop"_a, "key"_a, "value"_a, "Leaves a note on a loop.");
}

void bind_blocks(nb::class_<S>& type) {
  type.def(
          "compute_apart",
          [](S& s, nb::handle block, const nb::args& what) {
            const BlockRef ref = s.take_block(block);
            std::vector<BlockRef> made;
            if (what.size() == 1 && nb::isinstance<nb::str>(what[0])) {
              made = compute_apart(s.schedule, ref, nb::cast<std::string>(what[0]));
            } else {
              std::vector<size_t> iters;
              for (const nb::handle iter : what) iters.push_back(nb::cast<size_t>(iter));
              made = compute_apart(s.schedule, ref, iters);
            }
            nb::list blocks;
            for (const BlockRef& apart : made) blocks.append(s.give(apart));
            return blocks;
          },
          "block"_a, "what"_a,
          "Computes the parts of a block that hang on the iters of these positions alone, or are functions of an "
          "element of the input of that name, in blocks of their own, before it; gives these.")
      .def(
          "compute_at",
          [](S& s, nb::handle block, const Loop& loop) { compute_at(s.schedule, s.take_block(block), s.take(loop)); },
          "block"_a, "loop"_a, "Moves a producer under a loop of its consumers, for just what they need there.")
      .def(
          "compute_inline", [](S& s, nb::handle block) { compute_inline(s.schedule, s.take_block(block)); }, "block"_a,
          "Puts what a block computes in the place of every load of it.")
      .def(
          "compute_once",
          [](S& s, nb::handle block, const Loop& loop) { compute_once(s.schedule, s.take_block(block), s.take(loop)); },
          "block"_a, "loop"_a, "Computes once along a loop what does not depend on it.")
      .def(
          "reverse_compute_at",
          [](S& s, nb::handle block, const Loop& loop) {
            reverse_compute_at(s.schedule, s.take_block(block), s.take(loop));
          },
          "block"_a, "loop"_a, "Moves a consumer under a loop of its producers, for just what is done there.")
      .def(
          "reverse_compute_inline",
          [](S& s, nb::handle block) { reverse_compute_inline(s.schedule, s.take_block(block)); }, "block"_a,
          "Computes an element-wise consumer where its operand is produced.")
      .def(
          "fuse_reduction_epilogue",
          [](S& s, nb::handle block, nb::handle epilogue) {
            fuse_reduction_epilogue(s.schedule, s.take_block(block), s.take_block(epilogue));
          },
          "block"_a, "epilogue"_a, "Starts a reduction with what an element-wise block would combine its result with.")
      .def(
          "blockize", [](S& s, const Loop& loop) { return s.give(blockize(s.schedule, s.take(loop))); }, "loop"_a,
          "Makes one block of a loop and all below it; gives that block of tiles.")
      .def(
          "tensorize",
          [](S& s, nb::handle block, const Func& intrinsic) { tensorize(s.schedule, s.take_block(block), intrinsic); },
          "block"_a, "intrinsic"_a,
          "Marks a block of tiles as instances of an instruction, whose meaning `intrinsic` is: a device that has it "
          "uses it.")
      .def(
          "rfactor",
          [](S& s, nb::handle block, const Loop& loop) {
            return s.give(rfactor(s.schedule, s.take_block(block), s.take(loop)));
          },
          "block"_a, "loop"_a,
          "Partial results along a reduction loop, combined afterwards; gives the block of partials.")
      .def(
          "separate_window",
          [](S& s, nb::handle block, const Loop& across, const Loop& along, std::int64_t lead) {
            return s.give(separate_window(s.schedule, s.take_block(block), s.take(across), s.take(along), lead));
          },
          "block"_a, "across"_a, "along"_a, "lead"_a = 0,
          "Takes a window's steps `along` one axis out of a reduction whose windows move `across` it; gives the block "
          "of what windows share then, whose rows begin with `lead` elements of padding.")
      .def(
          "fuse_reductions",
          [](S& s, nb::handle first, const nb::args& rest, std::int64_t step) {
            std::vector<BlockRef> blocks;
            for (const nb::handle block : rest) blocks.push_back(s.take_block(block));
            return s.give(fuse_reductions(s.schedule, s.take_block(first), blocks, step));
          },
          "first"_a, "rest"_a, "step"_a,
          "Merges a maximum or minimum into the sums `rest` over the same axis that need its result: one walk along "
          "the "
          "axis, `step` elements at a time, gives all as a tuple, rescaled as the extreme moves. Gives that reduction.")
      .def(
          "hoist_factor",
          [](S& s, nb::handle block, const std::string& buffer) {
            return s.give(hoist_factor(s.schedule, s.take_block(block), buffer));
          },
          "block"_a, "buffer"_a,
          "Takes a factor or divisor, an element of `buffer` that stays the same along a sum, behind the sum; gives "
          "the "
          "block that scales.")
      .def(
          "hoist_offset",
          [](S& s, nb::handle block, const std::string& buffer) {
            hoist_offset(s.schedule, s.take_block(block), buffer);
          },
          "block"_a, "buffer"_a,
          "Takes a constant that is added to elements of `buffer` in a sum of products of integers behind the sum.")
      .def(
          "shift_squares",
          [](S& s, nb::handle sum, nb::handle squares, std::int64_t terms) {
            return give_all(s, shift_squares(s.schedule, s.take_block(sum), s.take_block(squares), terms));
          },
          "sum"_a, "squares"_a, "terms"_a,
          "Has a sum and the squares about its mean both take the mean of a sample of `terms` terms, or a few more, "
          "off all, so that neither waits for the other; gives the sums that do.")
      .def(
          "merge_equal",
          [](S& s, nb::handle block, nb::handle original) {
            merge_equal(s.schedule, s.take_block(block), s.take_block(original));
          },
          "block"_a, "original"_a, "Removes a block that computes again what `original` has computed before.")
      .def(
          "skip_masked",
          [](S& s, nb::handle block, const nb::args& loops) {
            skip_masked(s.schedule, s.take_block(block), s.take(loops));
          },
          "block"_a, "loops"_a,
          "Leaves out iterations of loops around a reduction in which masks, or the zeros around a padded copy, keep "
          "its terms at the identity.")
      .def(
          "end_masked",
          [](S& s, nb::handle block, const Loop& loop) { end_masked(s.schedule, s.take_block(block), s.take(loop)); },
          "block"_a, "loop"_a,
          "Ends a loop around a reduction before the iterations in which masks keep its terms at the identity.")
      .def(
          "drop_result",
          [](S& s, nb::handle block, const std::string& buffer) {
            drop_result(s.schedule, s.take_block(block), buffer);
          },
          "block"_a, "buffer"_a, "Removes a result of a block that only the block itself reads, for that result.")
      .def(
          "fold_choices",
          [](S& s, nb::handle block, const Loop& loop) { fold_choices(s.schedule, s.take_block(block), s.take(loop)); },
          "block"_a, "loop"_a,
          "Makes one expression of arms that are chosen by a loop's value and read places a step apart.")
      .def(
          "unfold_reduction",
          [](S& s, nb::handle block, const Loop& loop) {
            unfold_reduction(s.schedule, s.take_block(block), s.take(loop));
          },
          "block"_a, "loop"_a, "Makes the steps of a reduction along a loop one expression.")
      .def(
          "scan_lanes",
          [](S& s, nb::handle block, std::int64_t lanes) {
            const ScanLanes made = scan_lanes(s.schedule, s.take_block(block), lanes);
            const nb::object rest = made.rest ? nb::cast(s.give(*made.rest)) : nb::none();
            return nb::make_tuple(s.give(made.start), s.give(made.terms), rest);
          },
          "block"_a, "lanes"_a,
          "Runs a scan in steps of a vector; gives the block that begins each row, the one that computes a step's "
          "terms, and the one that goes on behind the last whole step, or None.")
      .def(
          "split_residues",
          [](S& s, nb::handle block) { return s.give(split_residues(s.schedule, s.take_block(block))); }, "block"_a,
          "Splits a sum whose terms are zero but for one residue of an index into dense ones; gives their block.")
      .def(
          "join_blocks",
          [](S& s, nb::handle first, nb::handle second) {
            join_blocks(s.schedule, s.take_block(first), s.take_block(second));
          },
          "first"_a, "second"_a, "Makes one element-wise block of two that run one right after the other.")
      .def(
          "join_loops",
          [](S& s, const Loop& first, const Loop& second) {
            return s.give(join_loops(s.schedule, s.take(first), s.take(second)));
          },
          "first"_a, "second"_a, "Runs the iterations of two loops of one sequence by turns; gives the loop.")
      .def(
          "distribute",
          [](S& s, const Loop& loop, nb::handle block) {
            return s.give(distribute(s.schedule, s.take(loop), s.take_block(block)));
          },
          "loop"_a, "block"_a,
          "Runs all iterations of what comes before `block` in the loop's body first; gives the loop of the rest.")
      .def(
          "join_rows",
          [](S& s, const Loop& outer, const Loop& inner, std::int64_t pitch) {
            return s.give(join_rows(s.schedule, s.take(outer), s.take(inner), pitch));
          },
          "outer"_a, "inner"_a, "pitch"_a,
          "Walks rows that lie `pitch` apart as one, the gaps between them too; gives the loop.")
      .def(
          "decompose_reduction",
          [](S& s, nb::handle block, const Loop& loop) {
            return s.give(decompose_reduction(s.schedule, s.take_block(block), s.take(loop)));
          },
          "block"_a, "loop"_a, "Initializes in a nest of its own before a loop; gives the block that initializes.")
      .def(
          "fold_lanes",
          [](S& s, nb::handle block, std::int64_t lanes) { fold_lanes(s.schedule, s.take_block(block), lanes); },
          "block"_a, "lanes"_a, "Combines partial results by vectors, then across lanes.")
      .def(
          "fold_columns",
          [](S& s, nb::handle block, const Loop& columns, std::int64_t lanes) {
            fold_columns(s.schedule, s.take_block(block), s.take(columns), lanes);
          },
          "block"_a, "columns"_a, "lanes"_a, "Combines partial results of several columns at once, by transposing.");
}

}  // namespace

void bind_schedule(nb::module_& module) {
  bind_handles(module);
  nb::class_<S> type(module, "Schedule",
                     "A program being scheduled, primitive by primitive. A refused primitive leaves it as it was.");
  type.def(nb::init<const Func&>(), "func"_a)
      .def_prop_ro(
          "func", [](const S& s) { return s.schedule.func(); }, "The program as it stands.")
      .def_prop_ro(
          "record", [](const S& s) { return recording_of(s.schedule); }, "What was applied.")
      .def(
          "block", [](const S& s, const std::string& name) { return s.give(s.schedule.block(name)); }, "name"_a)
      .def_prop_ro(
          "blocks", [](const S& s) { return give_all(s, s.schedule.blocks()); },
          "Every block but the root, in program order.")
      .def(
          "loops",
          [](const S& s, nb::handle block) {
            std::vector<Loop> loops;
            for (const LoopRef& loop : s.schedule.loops(s.take_block(block))) loops.push_back(s.give(loop));
            return loops;
          },
          "block"_a, "The loops around a block, outermost first.")
      .def(
          "extent", [](const S& s, const Loop& loop) { return from_extent(s.schedule.node(s.take(loop)).extent); },
          "loop"_a)
      .def(
          "replay", [](S& s, const Recording& recording) { replay(s.schedule, recording); }, "record"_a,
          "Applies a record of the same operator, whatever its shape and names; all of it or nothing.")
      .def("__str__", [](const S& s) { return print(s.schedule.func()); });
  bind_loops(type);
  bind_blocks(type);
  bind_layout(type);
  bind_hints(type);
}

}  // namespace lathe::python
