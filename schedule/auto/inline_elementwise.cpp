#include "schedule/auto/inline_elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ir/analysis/simplify.h"
#include "ir/length.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/cut_choices.h"
#include "schedule/auto/feed_in_order.h"
#include "schedule/auto/look_up_once.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/weave_vectors.h"
#include "schedule/complete.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Storing an element and loading it again, in the units of expression_cost, when it goes through the outer caches.
constexpr double round_trip_cost = 4;

/// Passing an element over memory once, in the same units: a vector of 64 bytes at some 20 GB/s, while a core issues
/// two vector instructions a cycle of 3.7 GHz (measured on Zen 4). What is stored there is first read as well.
constexpr double far_pass_cost = 20;
/// The same for what leaves a core's own caches and stays in the last one (measured on Cascade Lake: softmax over the
/// first axis of 4 MB takes 0.74 of the time where exponentials are computed for the sum and for the result).
constexpr double outer_pass_cost = 12;
/// What arms of a stack that is woven read alike is computed once, as the arms stand beside each other; but it is
/// written out for each of them first, which takes its time to compile. So much of it, in the same units.
constexpr double most_alike = 512;

bool is_candidate(const Schedule& schedule, const Block& block) {
  if (block.f.reducer || block.f.init || block.f.predicate || block.f.writes.size() != 1) return false;
  const Buffer& buffer = block.f.writes[0].buffer;
  if (!is_allocated(schedule.func(), buffer) || buffer->space != space::global) return false;
  Stmt body = block.f.body;
  while (const Let* let = body.as<Let>()) body = Stmt(let->body);
  const Store* store = body.as<Store>();
  return store && !store->mask;
}

/// An element that a block reads: by which block's instances, once what is inlined for sure is, and where.
struct Place {
  size_t root;
  std::vector<Expr> indices;
  Expr mask = nullptr;
  int loads = 1;

  bool same_element(const Place& other) const {
    return root == other.root && std::equal(indices.begin(), indices.end(), other.indices.begin(), alike);
  }
  bool same(const Place& other) const { return same_element(other) && alike(mask, other.mask); }

 private:
  static bool alike(const Expr& a, const Expr& b) { return a == b || (a && b && equal(a, b)); }
};

double bytes_from(const Buffer& buffer, size_t first, const std::vector<Fact>& facts) {
  double bytes = static_cast<double>(buffer->dtype.bytes());
  for (size_t d = first; d < buffer->rank(); ++d)
    bytes *= static_cast<double>(extent_estimate(buffer->shape[d], facts));
  return bytes;
}

/// The first dimension of the buffer along which the reader reduces; its rank when there is none.
size_t first_reduced(const Block& reader, const Buffer& buffer) {
  size_t first = buffer->rank();
  for (const Region& read : reader.f.reads) {
    if (read.buffer != buffer) continue;
    for (size_t d = 0; d < read.ranges.size(); ++d) {
      for (const Iter& iter : reader.f.iters) {
        if (iter.kind != IterKind::space && uses_var(read.ranges[d].min, iter.variable.get()))
          first = std::min(first, d);
      }
    }
  }
  return first;
}

/// A block as it was before the rule, and what inlining has made of its cost since: nothing is walked twice.
class Known {
 public:
  explicit Known(Stmt s) : block_(std::move(s)) {}

  const Block& block() const { return *block_.as<Block>(); }
  double cost() {
    if (!cost_) cost_ = body_cost(block());
    return *cost_ + grown_;
  }
  void grow(double cost) { grown_ += cost; }
  double grown() const { return grown_; }
  /// What is inlined is not sealed, so it changes nothing here.
  bool is_sealed() {
    if (!sealed_) sealed_ = lathe::is_sealed(block());
    return *sealed_;
  }

  std::vector<size_t> readers;
  /// Its neighbours are of several kinds by turns, as of tensors that are stacked, or what is inlined into it makes
  /// them.
  bool woven = false;
  /// How many operands are joined (joined_axis), in it or in what is inlined into it; 0 for few.
  size_t operands = 0;
  /// Set when every element is read once, by one instance of another block: inlined there, nothing is computed twice.
  std::optional<Place> only_place;

 private:
  Stmt block_;
  std::optional<double> cost_;
  std::optional<bool> sealed_;
  double grown_ = 0;
};

/// Every block but the root, with those that read what it writes, in program order.
std::vector<Known> known_blocks(const Schedule& schedule) {
  std::vector<Known> blocks;
  std::unordered_map<const BufferNode*, std::vector<size_t>> readers;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    if (!s.as<Block>() || s == schedule.func()->body) return;
    for (const Region& region : s.as<Block>()->f.reads) readers[region.buffer.get()].push_back(blocks.size());
    blocks.emplace_back(s);
  });
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<size_t>& own = blocks[i].readers;
    for (const Region& region : blocks[i].block().f.writes) {
      const auto found = readers.find(region.buffer.get());
      if (found != readers.end()) own.insert(own.end(), found->second.begin(), found->second.end());
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    std::erase(own, i);
  }
  return blocks;
}

/// Where the elements of the buffer are read, each place once; in the iters of the blocks that those readers become a
/// part of which are read in one place themselves.
std::vector<Place> places_of(const std::vector<Known>& blocks, const Known& known, const Buffer& buffer) {
  std::vector<Place> places;
  for (const size_t reader : known.readers) {
    const Block& block = blocks[reader].block();
    const std::optional<Place>& outer = blocks[reader].only_place;
    Substitution map;
    if (outer) map = iters_at(block, block.f.body.as<Store>()->indices, outer->indices);
    for_each_expr(block.f.body, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load || load->buffer != buffer) return;
      Place place{outer ? outer->root : reader, load->indices, load->mask};
      if (outer) {
        for (Expr& index : place.indices) index = substitute(index, map);
        if (place.mask) place.mask = substitute(place.mask, map);
        if (outer->mask) place.mask = place.mask ? logical_and(outer->mask, place.mask) : outer->mask;
      }
      const auto same = std::find_if(places.begin(), places.end(), [&](const Place& p) { return p.same(place); });
      if (same == places.end()) {
        places.push_back(std::move(place));
      } else {
        ++same->loads;
      }
    });
  }
  return places;
}

/// What a pass over the buffer costs an element. What is read again once a reduction over it is done has to stay that
/// long: all of it from the first dimension on along which a reader reduces, since loops over earlier ones can go
/// around both (fuse_rows). Nothing where a core's own caches hold that.
double pass_cost(const RuleContext& context, const std::vector<Known>& blocks, const Known& known,
                 const Buffer& buffer) {
  const std::optional<std::int64_t> room = nearest_memory_bytes(context.device);
  if (!room || known.readers.size() < 2 || known.only_place) return 0;
  size_t first = buffer->rank();
  for (const size_t reader : known.readers) first = std::min(first, first_reduced(blocks[reader].block(), buffer));
  const double bytes = bytes_from(buffer, first == buffer->rank() ? 0 : first, context.schedule.func()->facts);
  if (bytes > static_cast<double>(*room)) return far_pass_cost;
  const std::int64_t own = own_cache_bytes(context.device);
  return own > 0 && bytes > static_cast<double>(own) ? outer_pass_cost : 0;
}

/// What loading the element at a place costs where an outer iter of the block, on which the place does not hang, comes
/// back to it behind all that the inner ones pass: the array and a result as large. Nothing where a core's own caches
/// hold those.
double far_load_cost(const RuleContext& context, const Block& root, const Place& place, const Buffer& buffer) {
  if (root.f.reducer || root.f.writes.empty()) return 0;
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  double between = 0;
  for (const Iter& iter : root.f.iters) {
    const auto extent = static_cast<double>(extent_estimate(iter.domain.extent, facts));
    if (between > 0) between *= extent;
    const bool hangs = std::any_of(place.indices.begin(), place.indices.end(),
                                   [&](const Expr& e) { return uses_var(e, iter.variable.get()); });
    if (between == 0 && !hangs && extent > 1) between = 1;
  }
  const double bytes = between * static_cast<double>(buffer->dtype.bytes() + root.f.writes[0].buffer->dtype.bytes());
  const std::int64_t own = own_cache_bytes(context.device);
  const std::optional<std::int64_t> room = nearest_memory_bytes(context.device);
  if (room && bytes > static_cast<double>(*room)) return far_pass_cost;
  return own > 0 && bytes > static_cast<double>(own) ? outer_pass_cost : 0;
}

/// How many of the buffers that the block reads are as large as what it writes.
double whole_inputs(const Block& block, const Buffer& written, const std::vector<Fact>& facts) {
  const auto whole = [&](const Region& read) {
    return bytes_from(read.buffer, 0, facts) >= bytes_from(written, 0, facts);
  };
  return static_cast<double>(std::count_if(block.f.reads.begin(), block.f.reads.end(), whole));
}

/// Does the block choose by its last index, a short one?
bool weaves(const Block& block) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    found |= load && load->mask && woven_share(block, load->mask).has_value();
  });
  return found;
}

/// Is the place in vectors along a reduction, which read neighbours?
bool reduces_in_vectors(const RuleContext& context, const Block& root, const Place& place) {
  if (!root.f.reducer || place.indices.empty()) return false;
  return std::any_of(root.f.iters.begin(), root.f.iters.end(), [&](const Iter& iter) {
    return iter.kind == IterKind::reduce && uses_var(place.indices.back(), iter.variable.get()) &&
           extent_estimate(iter.domain.extent, context.schedule.func()->facts) >=
               least_iterations * vector_lanes(root, context.device);
  });
}

/// Are its indices longer than they may be, also once they are simplified? What is to be known of them takes as long as
/// they are, and their elements more than a copy does.
bool is_far(const Block& root, Place& place) {
  bool far = false;
  Bounds domains;
  for (Expr& index : place.indices) {
    if (!is_longer(index, most_index_nodes)) continue;
    if (domains.mark().entries == 0)
      for (const Iter& iter : root.f.iters) domains.bind(iter.variable, iter.domain);
    index = simplify(index, domains);
    far |= is_longer(index, most_index_nodes);
  }
  return far;
}

/// Does a reader do no more than widen the block's elements for a reduction, where the device has an instruction that
/// takes them narrow, as it does those that are quantized on the way?
bool is_taken_narrow(const RuleContext& context, const std::vector<Known>& blocks, const Known& known,
                     const Buffer& buffer) {
  const auto takes = [&](const Func& intrinsic) {
    const std::vector<Buffer> params = buffer_params(intrinsic);
    return std::any_of(params.begin(), params.end(), [&](const Buffer& b) { return b->dtype == buffer->dtype; });
  };
  const std::vector<Func>& intrinsics = context.device.intrinsics;
  if (std::none_of(intrinsics.begin(), intrinsics.end(), takes)) return false;
  return std::any_of(known.readers.begin(), known.readers.end(), [&](size_t reader) {
    const Store* store = blocks[reader].block().f.body.as<Store>();
    const Cast* cast = store ? store->value.as<Cast>() : nullptr;
    const Load* load = cast ? cast->value.as<Load>() : nullptr;
    const std::vector<size_t>& next = blocks[reader].readers;
    return load && load->buffer == buffer && cast->dtype.bits > buffer->dtype.bits && next.size() == 1 &&
           blocks[next.front()].block().f.reducer.has_value();
  });
}

/// Does the block reduce or scan what it reads, or evaluate a function of it, which parts would each be compiled with?
bool wants_whole(const Block& block) {
  return !only_space(block) || body_cost(block) >= function_body;
}

/// What it costs to copy what a block joins part by part: each element takes one operand. Where all from the joined
/// dimension on leaves a core's own caches, the copy does before it is read, as it is made before the loops over that.
double stored_in_parts(const RuleContext& context, const Known& known, const Buffer& buffer, double instances,
                       double cost) {
  const std::optional<JoinedAxis> joined = joined_axis(known.block());
  const std::optional<size_t> dimension =
      joined ? dimension_of(known.block().f.writes[0], known.block(), joined->iter) : std::nullopt;
  const std::int64_t own = own_cache_bytes(context.device);
  const bool leaves =
      own > 0 && dimension && bytes_from(buffer, *dimension, context.schedule.func()->facts) > static_cast<double>(own);
  const double pass = leaves ? outer_pass_cost : 0;
  return instances * (cost / static_cast<double>(known.operands) + round_trip_cost + 2 * pass);
}

/// Of the instances of a block, the share that takes an element under a mask: where it is woven, or cut into parts.
std::optional<double> share_of(const RuleContext& context, const Block& root, const Expr& mask) {
  const std::optional<double> share = woven_share(root, mask);
  return share ? share : part_share(context, root, mask);
}

/// Sets `only_place` of the blocks that have one, readers before what they read.
void find_only_places(const RuleContext& context, std::vector<Known>& blocks) {
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  for (size_t i = blocks.size(); i-- > 0;) {
    Known& known = blocks[i];
    if (!is_candidate(context.schedule, known.block()) || !known.block().f.body.as<Store>() || known.readers.empty())
      continue;
    const bool apart = fusion_wish(known.block()) == FusionWish::apart || known.is_sealed() ||
                       std::any_of(known.readers.begin(), known.readers.end(),
                                   [&](size_t reader) { return blocks[reader].is_sealed(); });
    if (apart) continue;
    std::vector<Place> places = places_of(blocks, known, known.block().f.writes[0].buffer);
    if (places.size() != 1) continue;
    const Block& root = blocks[places[0].root].block();
    const std::optional<double> share = places[0].mask ? share_of(context, root, places[0].mask) : 1;
    if (!share || instance_count(root, facts) * *share > instance_count(known.block(), facts) ||
        is_far(root, places[0]))
      continue;
    known.only_place = std::move(places[0]);
  }
}

/// Does the block do nothing but find elements by data, one by one, each of which a reduction takes for several results
/// (look_up_once)?
bool finds_for_several(const RuleContext& context, const std::vector<Known>& blocks, const Known& known,
                       const std::vector<Place>& places) {
  const Store* store = known.block().f.body.as<Store>();
  const Load* load = store ? store->value.as<Load>() : nullptr;
  if (!load || load->indices.empty() || !has_load(load->indices.back()) || looks_up(context, known.block()))
    return false;
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  return std::any_of(places.begin(), places.end(), [&](const Place& place) {
    const Block& reader = blocks[place.root].block();
    return reader.f.reducer &&
           instance_count(reader, facts) >= results_that_share * instance_count(known.block(), facts);
  });
}

}  // namespace

void inline_elementwise(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const std::vector<Fact> facts = schedule.func()->facts;
  std::vector<Known> blocks = known_blocks(schedule);
  find_only_places(context, blocks);
  std::optional<InlineBatch> batch(std::in_place, schedule);
  for (Known& known : blocks) {
    const BlockRef ref{known.block().f.name};
    if (!is_candidate(schedule, known.block()) || known.readers.empty()) continue;
    const FusionWish wish = fusion_wish(known.block());
    if (wish == FusionWish::apart) {
      context.note(fmt::format("keep {}: it is to stay apart", ref.name));
      continue;
    }
    const auto sealed = std::find_if(known.readers.begin(), known.readers.end(),
                                     [&](size_t reader) { return blocks[reader].is_sealed(); });
    if (known.is_sealed() || sealed != known.readers.end()) {
      const std::string& name = known.is_sealed() ? ref.name : blocks[*sealed].block().f.name;
      context.note(fmt::format("keep {}: {} is opaque or calls what is extern", ref.name, name));
      continue;
    }
    const Buffer buffer = known.block().f.writes[0].buffer;
    if (wish != FusionWish::together && is_taken_narrow(context, blocks, known, buffer)) {
      context.note(fmt::format("keep {}: an instruction takes its elements as they are", ref.name));
      continue;
    }
    const double instances = instance_count(known.block(), facts);
    const double cost = known.cost() - 1;
    double inlined = 0, stored = instances * (cost + round_trip_cost), elements = 0;
    std::vector<Place> places = known.only_place ? std::vector{*known.only_place} : places_of(blocks, known, buffer);
    double pass = pass_cost(context, blocks, known, buffer);
    if (places.size() == 1 && !known.only_place)
      pass = std::max(pass, far_load_cost(context, blocks[places[0].root].block(), places[0], buffer));
    const double inputs = pass > 0 ? pass * whole_inputs(known.block(), buffer, facts) : 0;
    stored += instances * (inputs + 2 * pass);
    const bool far = !known.only_place && std::any_of(places.begin(), places.end(), [&](Place& place) {
      return is_far(blocks[place.root].block(), place);
    });
    if (far && wish != FusionWish::together) {
      context.note(fmt::format("keep {}: inlined it would be read at indices that are too long", ref.name));
      continue;
    }
    const bool alike = cost * static_cast<double>(places.size()) <= most_alike;
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      const Block& root = blocks[place.root].block();
      const double share = place.mask ? share_of(context, root, place.mask).value_or(1) : 1;
      const double evaluations = instance_count(root, facts) * share;
      const bool again = alike && place.mask && woven_share(root, place.mask) &&
                         std::any_of(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Place& other) { return other.mask && place.same_element(other); });
      if (!again) inlined += evaluations * (cost + inputs);
      stored += evaluations * std::max(pass, 1.0);
      elements += evaluations;
    }
    if (wish != FusionWish::together && finds_for_several(context, blocks, known, places)) {
      context.note(fmt::format("keep {}: each element is found by data, for several results", ref.name));
      continue;
    }
    known.woven = known.woven || weaves(known.block());
    const bool reduced = known.woven && std::any_of(known.readers.begin(), known.readers.end(), [&](size_t reader) {
                           return blocks[reader].block().f.reducer.has_value();
                         });
    if (reduced && wish != FusionWish::together && std::any_of(places.begin(), places.end(), [&](const Place& place) {
          return reduces_in_vectors(context, blocks[place.root].block(), place);
        })) {
      context.note(fmt::format("keep {}: its neighbours are computed apart, and reduced together", ref.name));
      continue;
    }
    if (const auto joined = joined_axis(known.block())) known.operands = std::max(known.operands, joined->operands);
    if (known.operands > 0 && wish != FusionWish::together &&
        inlined > stored_in_parts(context, known, buffer, instances, cost) + elements &&
        std::any_of(places.begin(), places.end(),
                    [&](const Place& place) { return wants_whole(blocks[place.root].block()); })) {
      context.note(fmt::format("keep {}: its parts are computed apart, and read together", ref.name));
      continue;
    }
    const size_t only_reader = known.readers.size() == 1 ? known.readers[0] : blocks.size();
    if (only_reader < blocks.size() && wish != FusionWish::together && known.block().f.iters.size() == 1 &&
        !converts_lane_by_lane(context.device, known.block()) && blocks[only_reader].grown() + cost >= costly_body &&
        stores_where_data_says(blocks[only_reader].block())) {
      context.note(fmt::format("keep {}: what reads it goes on one by one, while it fills vectors", ref.name));
      continue;
    }
    if (inlined > stored && !known.only_place && wish != FusionWish::together) {
      context.note(fmt::format("keep {}: inlined it would cost {:.0f}, stored {:.0f}", ref.name, inlined, stored));
      continue;
    }
    const bool waits = batch->takes(ref);
    if (!waits) {
      batch->apply();
      batch.reset();
    }
    const bool done =
        attempt(context, "inline " + ref.name, [&] { waits ? batch->add(ref) : compute_inline(schedule, ref); });
    if (!waits) batch.emplace(schedule);
    if (!done) continue;
    for (const Place& place : places) blocks[place.root].grow(cost - place.loads);
    for (const size_t reader : known.readers) {
      blocks[reader].woven |= known.woven;
      blocks[reader].operands = std::max(blocks[reader].operands, known.operands);
    }
  }
  batch->apply();
}

}  // namespace lathe
