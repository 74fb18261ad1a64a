#include "schedule/auto/contraction.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/auto/block_memo.h"
#include "schedule/auto/ragged.h"

namespace lathe {
namespace {

/// The widest step between the elements that a vector takes from few whole ones.
constexpr std::int64_t widest_step = 4;
/// Where such vectors are worth it: not beside vectors along the reduction that are filled; over elements of whose
/// vectors lanes are picked by one instruction, and rows of a few elements (measured on Zen 4, 2x2 by 2: rows of 4 to
/// 20 results 0.15 to 0.23 of the time of the window's own vectors, with AVX2 0.25 to 0.35). Beside another operand
/// rows are so long that most vectors have all their lanes.
constexpr std::int64_t filled_steps = 8, filled_row = 4, long_row = 24;

constexpr std::int64_t unknown_distance = std::int64_t{1} << 40;

/// Does some access move with the iter, and each by at most `widest` elements in either direction, as what is flipped
/// does? Its vectors are whole ones whose lanes are turned around.
bool walks_by(const std::vector<Access>& accesses, size_t iter, std::int64_t widest) {
  bool moves = false;
  for (const Access& access : accesses) {
    const std::optional<std::int64_t>& stride = access.strides[iter];
    if (!stride || std::abs(*stride) > widest) return false;
    moves |= *stride != 0;
  }
  return moves;
}

bool neighbours_or_constant(const std::vector<Access>& accesses, size_t iter) {
  return walks_by(accesses, iter, 1);
}

bool contiguous_or_constant(const std::vector<Access>& accesses, size_t iter) {
  const auto forward = [&](const Access& access) { return access.strides[iter].value_or(0) >= 0; };
  return neighbours_or_constant(accesses, iter) && std::all_of(accesses.begin(), accesses.end(), forward);
}

/// The length of the aligned runs of the iter during which loads stand still that else move by no constant step; 0
/// where every load moves by one, or another step is in the way, or nothing is contiguous along the iter.
std::int64_t shared_run(const std::vector<Access>& loads, size_t iter) {
  std::int64_t run = 0;
  bool contiguous = false;
  for (const Access& load : loads) {
    const std::optional<std::int64_t>& stride = load.strides[iter];
    if (stride && *stride != 0 && *stride != 1) return 0;
    if (stride) {
      contiguous |= *stride == 1;
    } else {
      run = std::gcd(run, load.runs[iter]);
    }
  }
  return contiguous ? run : 0;
}

/// What an update costs but for choosing between elements and a padding, which most tiles need not ask.
double update_cost(const Block& block) {
  ConditionCosts conditions;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    const Cast* cast = choice ? choice->when_true.as<Cast>() : nullptr;
    const Load* load = choice ? (cast ? cast->value : choice->when_true).as<Load>() : nullptr;
    if (load && load->mask) conditions.take(*choice);
  });
  return body_cost(block) - conditions.total();
}

std::optional<ReductionShape> find_reduction_shape(const Block& block) {
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || parts->outputs.size() != 1 || !block.f.init) return std::nullopt;
  ReductionShape shape;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == IterKind::space) {
      shape.space.push_back(i);
    } else if (block.f.iters[i].kind == IterKind::reduce) {
      shape.reduce.push_back(i);
    } else {
      return std::nullopt;
    }
  }
  std::vector<Access> loads, output;
  for (const Access& access : block_accesses(block)) {
    (access.buffer == parts->outputs[0].buffer ? output : loads).push_back(access);
  }
  shape.loads = static_cast<int>(loads.size());
  const auto extent = [&](size_t i) { return extent_estimate(block.f.iters[i].domain.extent); };
  // Where data ends the steps of each by itself, those of neighbours in a vector go on to the longest's end.
  const std::vector<RaggedIter> ragged = ragged_iters(block);
  const auto stores_along = [&](size_t i) {
    return !ends_by_data_along(ragged, i) &&
           std::all_of(output.begin(), output.end(), [&](const Access& a) { return a.strides[i] == 1; });
  };
  // What goes backwards is turned around, where nothing goes forwards alone.
  const auto longest = [&](const std::vector<size_t>& iters, const auto& fits) {
    std::optional<size_t> found;
    for (const auto& walks : {contiguous_or_constant, neighbours_or_constant}) {
      for (const size_t i : iters) {
        if (extent(i) > (found ? extent(*found) : 1) && fits(i) && walks(loads, i)) found = i;
      }
      if (found) break;
    }
    return found;
  };
  shape.vector_space = longest(shape.space, stores_along);
  for (const size_t i : shape.space) {
    const std::int64_t run = shape.vector_space || !stores_along(i) ? 0 : shared_run(loads, i);
    if (run < shortest_run || extent(i) % run != 0) continue;
    shape.vector_space = i;
    shape.column_run = run;
  }
  shape.vector_reduce = longest(shape.reduce, [](size_t) { return true; });
  // Rows of which every second element or so is reduced: vectors are picked out of whole ones.
  if (!shape.vector_space && !shape.vector_reduce && loads.size() == 1) {
    for (const size_t i : shape.reduce) {
      if (extent(i) >= filled_steps && walks_by(loads, i, widest_step)) shape.vector_reduce = i;
    }
  }
  // A window that is moved by a few elements, as pooling does: its steps along memory would fill no vector.
  const bool picks =
      std::all_of(loads.begin(), loads.end(), [](const Access& a) { return a.buffer->dtype.bytes() >= picked_bytes; });
  if (!shape.vector_space && picks && (!shape.vector_reduce || extent(*shape.vector_reduce) < filled_steps)) {
    // What stands still during all steps, as a bias does, is no operand beside the window.
    const auto operands = std::count_if(loads.begin(), loads.end(), [&](const Access& load) {
      return std::any_of(shape.reduce.begin(), shape.reduce.end(), [&](size_t i) { return load.strides[i] != 0; });
    });
    for (const size_t i : shape.space) {
      if (stores_along(i) && extent(i) >= (operands == 1 ? filled_row : long_row) && walks_by(loads, i, widest_step))
        shape.vector_space = i;
    }
  }
  // Of costly terms neighbours are computed together wherever their operands lie.
  if (!shape.vector_space && picks && (!shape.vector_reduce || extent(*shape.vector_reduce) < filled_steps) &&
      update_cost(block) >= function_body) {
    for (const size_t i : shape.space) {
      if (stores_along(i) && extent(i) >= filled_steps) shape.vector_space = i;
    }
  }
  // Does a load that walks along the vector iter stay where it is when `iter` moves?
  const size_t* vector = shape.vector_space    ? &*shape.vector_space
                         : shape.vector_reduce ? &*shape.vector_reduce
                                               : nullptr;
  if (!vector) return shape;
  const auto reused = [&](const Access& a, size_t iter) {
    return std::abs(a.strides[*vector].value_or(0)) == 1 && (a.strides[iter] == 0 || a.runs[iter] > 1);
  };
  // Of as many rows those are taken whose elements lie nearer in what all lanes share, then in what they walk.
  const auto distance = [&](size_t iter, bool shared) {
    std::int64_t most = 0;
    for (const Access& load : loads) {
      if ((load.strides[*vector] == 0) == shared)
        most = std::max(most, std::abs(load.strides[iter].value_or(unknown_distance)));
    }
    return most;
  };
  const auto preferred = [&](size_t iter, size_t to) {
    if (extent(iter) != extent(to) || !shape.vector_space) return extent(iter) > extent(to);
    const auto distances = [&](size_t i) { return std::pair(distance(i, true), distance(i, false)); };
    return distances(iter) < distances(to);
  };
  for (const size_t i : shape.space) {
    if (i == *vector || extent(i) < 2 || ends_by_data_along(ragged, i)) continue;
    for (const Access& load : loads) {
      if (!reused(load, i) || (shape.rows && !preferred(i, *shape.rows))) continue;
      shape.rows = i;
      shape.row_run = load.runs[i] > 1 ? load.runs[i] : 0;
    }
  }
  if (shape.vector_space || !shape.rows) return shape;
  for (const size_t i : shape.space) {
    if (i == *shape.rows || extent(i) < 2) continue;
    for (const Access& load : loads) {
      const bool other = reused(load, i) && load.strides[*shape.rows] != 0;
      if (other && (!shape.columns || extent(i) > extent(*shape.columns))) shape.columns = i;
    }
  }
  // Sums are folded into vectors of columns where the output is contiguous along these.
  if (shape.columns && !stores_along(*shape.rows) && !stores_along(*shape.columns)) {
    for (const size_t i : shape.space) {
      if (!stores_along(i) || extent(i) < 2) continue;
      for (std::optional<size_t>* side : {&shape.rows, &shape.columns}) {
        const bool alike = std::all_of(loads.begin(), loads.end(), [&](const Access& load) {
          return reused(load, i) == reused(load, **side) && load.strides[i].has_value();
        });
        if (!alike) continue;
        *side = i;
        if (side == &shape.rows) shape.row_run = 0;
        break;
      }
    }
  }
  // Of the two, the one along which the output is contiguous is the columns'.
  if (stores_along(*shape.rows)) std::swap(shape.rows, shape.columns);
  return shape;
}

}  // namespace

std::optional<ReductionShape> reduction_shape(const Block& block) {
  return BlockMemo::ask(block, &BlockMemo::Known::reduction_shape, [&] { return find_reduction_shape(block); });
}

void find_rows_across(const Block& block, ReductionShape* shape) {
  if (shape->vector_space || shape->vector_reduce || shape->loads < 2) return;
  std::vector<Access> loads, output;
  for (const Access& access : block_accesses(block)) {
    (access.buffer == block.f.writes[0].buffer ? output : loads).push_back(access);
  }
  const auto extent = [&](size_t i) { return extent_estimate(block.f.iters[i].domain.extent); };
  const auto longest = [&](const std::function<bool(size_t)>& fits) {
    std::optional<size_t> found;
    for (const size_t i : shape->space) {
      if (extent(i) > (found ? extent(*found) : 1) && fits(i)) found = i;
    }
    return found;
  };
  const auto columns = longest([&](size_t i) {
    return std::all_of(output.begin(), output.end(), [&](const Access& access) { return access.strides[i] == 1; });
  });
  if (!columns) return;
  // The operand that the rows walk stands still along the columns; the others stand still along the rows, or in runs.
  const auto rows = longest([&](size_t i) {
    int walked = 0;
    std::int64_t run = 0;
    for (const Access& load : loads) {
      if (load.strides[i] == 0) continue;
      if (load.strides[i]) {
        if (load.strides[*columns] != 0) return false;
        ++walked;
      } else if (load.runs[i] > 1 && run == 0) {
        run = load.runs[i];
      } else {
        return false;
      }
    }
    return walked == 1;
  });
  if (!rows) return;
  shape->columns = columns;
  shape->rows = rows;
  for (const Access& load : loads)
    shape->row_run = std::max(shape->row_run, load.runs[*rows] > 1 ? load.runs[*rows] : 0);
}

}  // namespace lathe
