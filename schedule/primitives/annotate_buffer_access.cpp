#include "schedule/primitives/annotate_buffer_access.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/copy_source.h"
#include "schedule/hints.h"

namespace lathe {
namespace {

std::string box_of(const Region& hint) {
  return print(Region{hint.buffer, hint.ranges, Provenance::inferred, {}});
}

class Annotator {
 public:
  Annotator(const Schedule& schedule, const BlockRef& block, std::string buffer, BufferAccess access,
            const RegionOf& region, HintCheck check)
      : schedule_(schedule),
        path_(path_to(schedule, block)),
        block_(*path_.back().as<Block>()),
        writes_(access == BufferAccess::write),
        check_(check) {
    std::vector<Expr> iters;
    iters.reserve(block_.f.iters.size());
    for (const Iter& iter : block_.f.iters) iters.emplace_back(iter.variable);
    ranges_ = region(iters);
    application =
        fmt::format("annotate_buffer_access({}, \"{}\", \"{}\", \"{}\"{})", block.name, buffer,
                    writes_ ? "write" : "read", record_of_ranges(), check == HintCheck::never ? ", \"trusted\"" : "");
    buffer_ = find_buffer(buffer);
  }

  std::string application;

  Stmt run() {
    check_form();
    Region hint{buffer_, {}, Provenance::inferred, block_.f.name};
    bounds_ = Bounds(schedule_.func());
    steps_ = steps_into(path_);
    assume_steps(bounds_, steps_);
    for (const Range& range : ranges_)
      hint.ranges.push_back({simplify(range.min, bounds_), simplify(range.extent, bounds_)});
    check_not_empty(hint);
    const std::vector<Decision> decisions = decide_hint(schedule_.func(), path_, hint, writes_);
    std::vector<size_t> unproved;
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (decisions[d].verdict == Verdict::wrong) {
        refuse(schedule_, application, 4, "no access lies outside of region", path_.back(),
               fmt::format("{} {} outside of {} in dimension {} where {}", writes_ ? "writes" : "reads", buffer_->name,
                           box_of(hint), d, decisions[d].witness));
      }
      if (decisions[d].verdict == Verdict::unknown) unproved.push_back(d);
    }
    if (!unproved.empty()) hint.provenance = check_ == HintCheck::never ? Provenance::trusted : Provenance::checked;
    Stmt body = block_.f.body;
    if (writes_ && hint.provenance == Provenance::checked) body = with_assertions(hint, unproved);
    return replace_last(path_, with_fields(block_, [&](Block::Fields& f) {
                          std::vector<Region>& regions = writes_ ? f.writes : f.reads;
                          std::erase_if(regions, [&](const Region& r) { return r.buffer == buffer_; });
                          regions.push_back(hint);
                          f.body = body;
                        }));
  }

 private:
  [[noreturn]] void refuse_form(const std::string& note) {
    refuse(schedule_, application, 2,
           "region has one range for each dimension of the buffer, integers over the block's iters and the function's "
           "scalars",
           path_.back(), note);
  }

  /// The ranges over i0, i1 .. and p0, p1 .., so that a record does not depend on names.
  std::string record_of_ranges() const {
    Substitution names;
    for (size_t i = 0; i < block_.f.iters.size(); ++i)
      names[block_.f.iters[i].variable.get()] = Var::make(fmt::format("i{}", i));
    const std::vector<VarRef> scalars = scalar_params(schedule_.func());
    for (size_t i = 0; i < scalars.size(); ++i)
      names[scalars[i].get()] = Var::make(fmt::format("p{}", i), scalars[i]->dtype);
    std::string text;
    for (const Range& range : ranges_) {
      const Range renamed{simplify(substitute(range.min, names)), simplify(substitute(range.extent, names))};
      text += (text.empty() ? "" : ", ") + print(renamed);
    }
    return text;
  }

  Buffer find_buffer(const std::string& name) {
    const std::string text =
        fmt::format("block {} such a buffer, and takes no address of it", writes_ ? "writes" : "reads");
    std::vector<std::string> known;
    Buffer named, copy;
    for (const BlockAccess& access : block_accesses(block_, false)) {
      if (access.writes != writes_) continue;
      known.push_back(access.buffer->name);
      if (access.buffer->name == name) named = access.buffer;
      if (!writes_ && copies(access.buffer, name)) copy = access.buffer;
    }
    const Buffer found = named ? named : copy;
    if (!found) {
      std::sort(known.begin(), known.end());
      known.erase(std::unique(known.begin(), known.end()), known.end());
      refuse(schedule_, application, 1, text, path_.back(),
             fmt::format("{} no {}, only {}", writes_ ? "writes" : "reads", name, fmt::join(known, ", ")));
    }
    bool address = false;
    for_each_expr(block_.f.body, [&](const Expr& e) {
      const AddressOf* taken = e.as<AddressOf>();
      address |= taken && taken->buffer == found;
    });
    if (address) {
      refuse(schedule_, application, 1, text, path_.back(), fmt::format("takes the address of {}", found->name));
    }
    return found;
  }

  bool copies(Buffer buffer, const std::string& name) const {
    const Stmt& body = schedule_.func()->body;
    for (auto source = copy_source(body, buffer); source; source = copy_source(body, buffer)) {
      buffer = source->load->buffer;
      if (buffer->name == name) return true;
    }
    return false;
  }

  void check_form() {
    if (ranges_.size() != buffer_->rank()) {
      refuse_form(fmt::format("has a hint of {} ranges for {}, which has {} dimensions", ranges_.size(), buffer_->name,
                              buffer_->rank()));
    }
    std::vector<VarRef> known = scalar_params(schedule_.func());
    for (const Iter& iter : block_.f.iters) known.push_back(iter.variable);
    for (const Range& range : ranges_) {
      for (const Expr& e : {range.min, range.extent}) {
        if (e->dtype != i64) refuse_form(fmt::format("has a hint with the {} {}", to_string(e->dtype), print(e)));
        bool data = false;
        for_each_expr(e, [&](const Expr& part) { data |= part.as<Load>() || part.as<Call>() || part.as<AddressOf>(); });
        if (data) refuse_form(fmt::format("has a hint that depends on data, {}", print(e)));
        for (const VarRef& used : used_vars(e)) {
          if (std::count(known.begin(), known.end(), used) == 0)
            refuse_form(fmt::format("has a hint over {}, which is none of its iters", used->name));
        }
      }
    }
    const Region* earlier = find_hint(block_, buffer_, writes_);
    if (earlier && earlier->provenance == Provenance::checked && hint_holds(*earlier, block_.f.annotations, writes_)) {
      refuse(schedule_, application, 6,
             "block has no earlier hint of that buffer and access that an inspector or assertions rely on",
             path_.back(), fmt::format("has the hint {}", print(*earlier)));
    }
  }

  void check_not_empty(const Region& hint) {
    for (size_t d = 0; d < hint.ranges.size(); ++d) {
      const Expr begin = max(hint.ranges[d].min, index(0));
      const Expr end = min(hint.ranges[d].min + hint.ranges[d].extent, buffer_->shape[d]);
      const Decision decision = decide(schedule_.func(), bounds_, steps_, lt(begin, end));
      if (decision.verdict == Verdict::proved) continue;
      refuse(schedule_, application, 3,
             "clipped to the buffer, region is proved to hold an element for every instance of block", path_.back(),
             fmt::format("has the hint {}, {} in dimension {}{}", box_of(hint),
                         decision.verdict == Verdict::wrong ? "empty" : "not proved to hold one", d,
                         decision.verdict == Verdict::wrong ? " where " + decision.witness : ""));
    }
  }

  /// The body with each store to the buffer behind an assertion for each dimension that is not proved.
  Stmt with_assertions(const Region& hint, const std::vector<size_t>& dimensions) {
    const std::string text = "a write that is not proved to keep to it is no reduction's, and its index is a scalar";
    if (block_.f.reducer || block_.f.init) {
      refuse(schedule_, application, 5, text, path_.back(), "is a reduction");
    }
    class Guard : public Mutator {
     public:
      Guard(const Region& hint, const std::vector<size_t>& dimensions) : hint_(hint), dimensions_(dimensions) {}
      using Mutator::mutate;
      Expr mutate(const Expr& e) override { return e; }
      bool vectors = false, reduces = false;

     protected:
      Stmt mutate_Block(const Stmt& s, const Block* node) override {
        reduces |= (node->f.reducer || node->f.init) && writes(*node, hint_.buffer);
        return Mutator::mutate_Block(s, node);
      }
      Stmt mutate_Store(const Stmt& s, const Store* node) override {
        if (node->buffer != hint_.buffer) return s;
        std::vector<Stmt> stmts;
        for (const size_t d : dimensions_) {
          const Expr& at = node->indices[d];
          if (!at->dtype.is_scalar() || (node->mask && !node->mask->dtype.is_scalar())) {
            vectors = true;
            return s;
          }
          const Range& range = hint_.ranges[d];
          Expr inside = logical_and(le(range.min, at), lt(at, range.min + range.extent));
          if (node->mask) inside = logical_or(logical_not(node->mask), inside);
          const std::string what = fmt::format("a store must keep to its hint {}, and index", print(range));
          stmts.push_back(Assert::make(
              inside, fmt::format("{}|dimension {} of {}|{}", hint_.block, d, node->buffer->name, what), at));
        }
        stmts.push_back(s);
        return Seq::make(std::move(stmts));
      }

     private:
      const Region& hint_;
      const std::vector<size_t>& dimensions_;
    };
    Guard guard(hint, dimensions);
    Stmt body = guard.mutate(block_.f.body);
    if (guard.reduces) refuse(schedule_, application, 5, text, path_.back(), "holds a reduction that writes it");
    if (guard.vectors) refuse(schedule_, application, 5, text, path_.back(), "stores at a vector of indices");
    return body;
  }

  const Schedule& schedule_;
  const Path path_;
  const Block& block_;
  const bool writes_;
  const HintCheck check_;
  Buffer buffer_;
  std::vector<Range> ranges_;
  std::vector<Step> steps_;
  Bounds bounds_;
};

}  // namespace

void annotate_buffer_access(Schedule& schedule, const BlockRef& block, const std::string& buffer, BufferAccess access,
                            const RegionOf& region, HintCheck check) {
  Annotator annotator(schedule, block, buffer, access, region, check);
  Stmt body = annotator.run();
  schedule.commit(std::move(body), annotator.application, true);
}

}  // namespace lathe
