#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backends/llvm/emitter.h"

namespace lathe::codegen {
namespace {

constexpr int nearest_cache = 3, data_cache = 1;  // of llvm.prefetch

/// Adds the stores of whole runs that certainly happen when `s` does, but for those in loops.
void add_stores(const Stmt& s, std::vector<const Store*>& stores) {
  if (auto* seq = s.as<Seq>()) {
    for (const Stmt& stmt : seq->stmts) add_stores(stmt, stores);
  } else if (auto* let = s.as<Let>()) {
    add_stores(let->body, stores);
  } else if (auto* store = s.as<Store>()) {
    auto* ramp = store->indices[0].as<Ramp>();
    if (ramp && is_int(ramp->stride, 1) && !store->mask && store->buffer->space != space::registers)
      stores.push_back(store);
  }
}

/// Has a compact buffer no more elements than that?
bool ends_within(const BufferNode& buffer, std::int64_t elements) {
  if (!buffer.strides.empty() || buffer.offset) return false;
  std::int64_t count = 1;
  for (const Expr& extent : buffer.shape) {
    const std::int64_t* known = as_int(extent);
    if (!known || count > elements) return false;
    count *= *known;
  }
  return count <= elements;
}

}  // namespace

std::int64_t FunctionEmitter::line_bytes() const {
  return kernel.device.caches.empty() ? 64 : kernel.device.caches.front().line_bytes;
}

/// How far ahead the loop asks for lines of the buffer; 0 where it does not.
std::int64_t FunctionEmitter::elements_ahead(const BufferNode* buffer, Asked kind) const {
  if (const auto param = prefetch_.params.find(buffer); param != prefetch_.params.end()) return param->second;
  if (kind == Asked::run) return prefetch_.offset;
  return kind == Asked::element && !kernel.param_index.contains(buffer) ? prefetch_.elements : 0;
}

/// Under a loop annotated with prefetches: asks for the cache line so many elements behind the start of a run, where no
/// more than two neighbouring iterations run in the same line. A prefetch may name any address, so no bound is checked.
void FunctionEmitter::emit_prefetch(const BufferNode* buffer, const Expr& first, Asked kind) {
  const std::int64_t offset = elements_ahead(buffer, kind);
  if (offset == 0) return;
  const std::int64_t line = line_bytes(), bytes = buffer->dtype.bytes();
  const Affine place = to_affine(first);
  std::int64_t step = 0;
  for (const AffineTerm& term : place.terms) {
    if (term.atom.get() == prefetch_.variable) step = term.coefficient;
  }
  if (const auto walk = prefetch_.walks.find(buffer); walk != prefetch_.walks.end()) {
    if (kind != Asked::store && step != 0) emit_prefetch_walk(buffer, first, offset, walk->second - step);
    return;
  }
  if (2 * std::abs(step) * bytes < line) return;
  // Behind the end of what all rows share nothing stands.
  if (ends_within(*buffer, offset)) return;
  for (const auto& [other, asked] : prefetch_.asked) {
    Affine difference = place;
    if (other == buffer && add_scaled(difference, asked, -1) && difference.is_constant() &&
        std::abs(difference.constant) * bytes < line)
      return;
  }
  prefetch_.asked.emplace_back(buffer, place);
  Offset ahead = split_offset(first);
  ahead.constant += offset;
  ask_for(element_address(buffer, ahead, false), kind == Asked::store, asked_cache());
}

/// Asks for the lines that an iteration's share of a walk begins, so many elements ahead of the first load of the
/// buffer, from which the walk gains `further` more with each iteration.
void FunctionEmitter::emit_prefetch_walk(const BufferNode* buffer, const Expr& first, std::int64_t offset,
                                         std::int64_t further) {
  for (const auto& [other, place] : prefetch_.asked) {
    if (other == buffer) return;
  }
  prefetch_.asked.emplace_back(buffer, to_affine(first));
  const std::int64_t bytes = buffer->dtype.bytes(), walk = prefetch_.walks.at(buffer);
  Offset ahead = split_offset(first);
  ahead.constant += offset;
  llvm::Value* begin = element_address(buffer, ahead, false);
  llvm::Value* place =
      b.CreateGEP(b.getInt8Ty(), begin, b.CreateNSWMul(prefetch_.iteration, b.getInt64(further * bytes)));
  for (std::int64_t at = 0; at < walk * bytes; at += line_bytes())
    ask_for(b.CreateGEP(b.getInt8Ty(), place, b.getInt64(at)), false, asked_cache());
}

/// The nearest cache that lines are asked into, as llvm.prefetch counts.
int FunctionEmitter::asked_cache() const {
  return nearest_cache - std::clamp(prefetch_.cache - 1, 0, nearest_cache - 1);
}

void FunctionEmitter::ask_for(llvm::Value* address, bool to_write, int keep) {
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()},
                    {address, b.getInt32(to_write ? 1 : 0), b.getInt32(keep), b.getInt32(data_cache)});
}

/// What stands behind the loop that is about to be emitted, each buffer that is stored to as a walk in equal steps, of
/// which an iteration asks for one. Nothing of a buffer whose stores make no such walk of at most `trips` steps, or
/// begin where only the loop finds out.
std::vector<FunctionEmitter::StoresBehind> FunctionEmitter::find_stores_behind(std::int64_t trips) {
  std::vector<const Store*> stores;
  for (const auto& [seq, next] : sequels_) {
    for (size_t i = next; i < seq->stmts.size(); ++i) add_stores(seq->stmts[i], stores);
  }
  std::vector<StoresBehind> behind;
  std::vector<const BufferNode*> seen;
  for (const Store* first : stores) {
    const BufferNode* buffer = first->buffer.get();
    if (std::find(seen.begin(), seen.end(), buffer) != seen.end()) continue;
    seen.push_back(buffer);
    const Expr& start = first->indices[0].as<Ramp>()->base;
    if (!is_pure_index(start)) continue;
    std::vector<std::int64_t> places;
    for (const Store* store : stores) {
      if (store->buffer.get() != buffer) continue;
      Affine place = to_affine(store->indices[0].as<Ramp>()->base);
      if (add_scaled(place, to_affine(start), -1) && place.is_constant())
        places.push_back(place.constant * buffer->dtype.bytes());
    }
    if (auto walk = walk_in_steps(std::move(places), trips)) {
      walk->start = element_address(buffer, split_offset(start), false);
      behind.push_back(std::move(*walk));
    }
  }
  return behind;
}

/// The walk of fewest places a step that reaches them all in no more than so many steps. Nothing where that would be
/// most of them at once, though several steps are there to be taken.
std::optional<FunctionEmitter::StoresBehind> FunctionEmitter::walk_in_steps(std::vector<std::int64_t> places,
                                                                            std::int64_t trips) const {
  std::sort(places.begin(), places.end());
  const size_t count = places.size();
  const size_t least = (count + static_cast<size_t>(trips) - 1) / static_cast<size_t>(trips),
               most = std::min(count - 1, std::max(2 * least, (count + 1) / 2));
  for (size_t together = least; together <= most; ++together) {
    StoresBehind walk;
    walk.step = places[together] - places[0];
    walk.steps = static_cast<std::int64_t>((count + together - 1) / together);
    bool even = true;
    for (size_t i = 0; i + together < count; ++i) even &= places[i + together] - places[i] == walk.step;
    if (!even) continue;
    for (size_t i = 0; i < together; ++i) {
      if (walk.lines.empty() || places[i] - walk.lines.back() >= line_bytes()) walk.lines.push_back(places[i]);
    }
    return walk;
  }
  return std::nullopt;
}

/// Asks for a step of each walk; those of later iterations than it has steps ask for the last one again.
void FunctionEmitter::emit_stores_behind(const std::vector<StoresBehind>& behind, llvm::Value* iteration,
                                         std::int64_t trips) {
  for (const StoresBehind& walk : behind) {
    llvm::Value* step = iteration;
    if (trips > walk.steps) step = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, step, b.getInt64(walk.steps - 1));
    llvm::Value* address = b.CreateGEP(b.getInt8Ty(), walk.start, b.CreateNSWMul(step, b.getInt64(walk.step)));
    for (const std::int64_t line : walk.lines)
      ask_for(b.CreateGEP(b.getInt8Ty(), address, b.getInt64(line)), true, nearest_cache);
  }
}

}  // namespace lathe::codegen
