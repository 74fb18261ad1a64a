#include "schedule/inlining.h"

#include <algorithm>
#include <map>

#include "ir/analysis/simplify.h"
#include "ir/length.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"

namespace lathe {
namespace {

bool same_read(const Load* a, const Load* b) {
  if (static_cast<bool>(a->mask) != static_cast<bool>(b->mask) || (a->mask && !equal(a->mask, b->mask))) return false;
  return std::equal(a->indices.begin(), a->indices.end(), b->indices.begin(),
                    [](const Expr& x, const Expr& y) { return x == y || equal(x, y); });
}

class MaskPusher : public Mutator {
 public:
  explicit MaskPusher(const Expr& mask) : mask_(mask) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    bool changed = false;
    std::vector<Expr> indices = mutate_all(node->indices, &changed);
    const Expr own = node->mask ? mutate(node->mask) : nullptr;
    const int lanes = node->dtype.lanes;
    const Expr mask = lanes > mask_->dtype.lanes ? Broadcast::make(mask_, lanes) : mask_;
    return Load::make(node->buffer, std::move(indices), logical_and(mask, own));
  }

 private:
  const Expr& mask_;
};

Stmt wrap(const std::vector<Stmt>& lets, Stmt body) {
  for (size_t i = lets.size(); i-- > 0;) {
    body = Let::make(lets[i].as<Let>()->variable, lets[i].as<Let>()->value, std::move(body));
  }
  return body;
}

Stmt bare_let(const VarRef& variable, Expr value) {
  return Let::make(variable, std::move(value), Seq::make({}));
}

}  // namespace

void ReadCounter::add(Counts& to, const Counts& counts) {
  for (const auto& [buffer, count] : counts) {
    const auto known = std::find_if(to.begin(), to.end(), [&](const auto& entry) { return entry.first == buffer; });
    if (known == to.end()) {
      to.emplace_back(buffer, count);
    } else {
      known->second = std::min(known->second + count, std::uint64_t{1} << 32);
    }
  }
}

void ReadCounter::visit(const Expr& e) {
  if (!e || e->kind == ExprKind::IntImm || e->kind == ExprKind::FloatImm || e->kind == ExprKind::Var) return;
  auto known = counts_.find(e.get());
  if (known == counts_.end()) {
    open_.emplace_back();
    Visitor::visit(e);
    Counts counts = std::move(open_.back());
    open_.pop_back();
    if (const Load* load = e.as<Load>(); load && wanted_(load->buffer)) {
      add(counts, {{load->buffer.get(), 1}});
      std::vector<const Load*>& distinct = reads_[load->buffer.get()].distinct;
      const bool seen =
          std::any_of(distinct.begin(), distinct.end(), [&](const Load* l) { return same_read(l, load); });
      if (!seen) distinct.push_back(load);
    }
    if (const AddressOf* address = e.as<AddressOf>(); address && wanted_(address->buffer))
      reads_[address->buffer.get()].address_taken = true;
    known = counts_.emplace(e.get(), std::move(counts)).first;
  }
  if (!open_.empty()) return add(open_.back(), known->second);
  for (const auto& [buffer, count] : known->second) {
    std::uint64_t& total = reads_[buffer].total;
    total = std::min(total + count, std::uint64_t{1} << 32);
  }
}

const ReadCounter::Reads& ReadCounter::of(const Buffer& buffer) const {
  static const Reads none;
  const auto found = reads_.find(buffer.get());
  return found == reads_.end() ? none : found->second;
}

std::vector<Stmt> head_lets(const Block& consumer, Stmt* rest) {
  if (const std::optional<ReductionParts> parts = match_update(consumer)) return parts->lets;
  std::vector<Stmt> lets;
  *rest = consumer.f.body;
  while (const Let* let = rest->as<Let>()) {
    lets.push_back(*rest);
    *rest = Stmt(let->body);
  }
  return lets;
}

/// Lets, then what they are for: values, or statements.
struct Inlining::Text {
  std::vector<Stmt> lets;
  std::vector<Expr> values;
  Stmt rest;
};

/// A distinct read of a defined buffer, and what stands for it: Lets and a value, which goes where the one Load was, or
/// is bound to the variable.
struct Inlining::Read {
  const Load* load;
  size_t position = 0;  ///< the number of the text's Lets that what it is read at needs
  bool open = false;    ///< does the value read defined buffers still?
  VarRef variable = {};
  std::vector<Stmt> lets = {};
  Expr value = {};
};

class Inlining::Replacer : public Mutator {
 public:
  std::unordered_map<const BufferNode*, std::vector<Read>> reads;

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    const auto known = reads.find(node->buffer.get());
    if (known == reads.end()) return Mutator::mutate_Load(e, node);
    for (const Read& read : known->second) {
      if (same_read(read.load, node)) return read.variable ? Expr(read.variable) : read.value;
    }
    return e;
  }
};

void Inlining::define(Definition definition) {
  order_[definition.buffer.get()] = definitions_.size();
  definitions_.push_back(std::move(definition));
}

/// The producer's Lets and value for one read, with variables of their own. Under a mask, or where the producer has
/// Lets, what it reads is replaced here; otherwise that is left to the text that the read stands in, where elements may
/// be used that others use too.
void Inlining::instantiate(const Definition& definition, Read& read, const Bounds& domains) const {
  const Load* load = read.load;
  Substitution map;
  for (size_t d = 0; d < definition.store->indices.size(); ++d) {
    const Expr& index = load->indices[d];
    if (const Var* iter = definition.store->indices[d].as<Var>())
      map[iter] = is_longer(index, most_index_nodes) ? simplify(index, domains) : index;
  }
  // A dimension of one element is stored at 0; iters that no index uses have that one value too.
  for (const Iter& iter : definition.producer->f.iters) map.try_emplace(iter.variable.get(), iter.domain.min);
  if (definition.lets.empty() && !load->mask) {
    read.value = substitute(definition.store->value, map);
    read.open = true;
    return;
  }
  Text text;
  for (const Let* let : definition.lets) {
    const VarRef variable = Var::make(let->variable->name, let->variable->dtype);
    text.lets.push_back(bare_let(variable, substitute(let->value, map)));
    map[let->variable.get()] = variable;
  }
  text.values = {substitute(definition.store->value, map)};
  expand(text, domains);
  read.lets = std::move(text.lets);
  read.value = text.values.front();
  if (!load->mask) return;
  MaskPusher pusher(load->mask);
  for (Stmt& let : read.lets) let = bare_let(let.as<Let>()->variable, pusher.mutate(let.as<Let>()->value));
  read.value = select(load->mask, pusher.mutate(read.value), constant(read.value->dtype, 0));
}

void Inlining::expand(Text& text, const Bounds& domains) const {
  const auto defined = [&](const Buffer& buffer) { return defines(buffer); };
  ReadCounter counter(defined);
  for (const Stmt& let : text.lets) counter.visit(let.as<Let>()->value);
  for (const Expr& value : text.values) counter.visit(value);
  if (text.rest) counter.visit(text.rest);
  if (counter.all().empty()) return;

  struct Found {
    std::uint64_t total = 0;
    std::vector<Read> reads;
  };
  std::map<size_t, Found> found;  // by the order of definition
  const auto note = [&](const ReadCounter& met) {
    for (const auto& [buffer, reads] : met.all()) {
      Found& known = found[order_.at(buffer)];
      known.total = std::min(known.total + reads.total, std::uint64_t{1} << 32);
      for (const Load* load : reads.distinct) {
        const bool seen =
            std::any_of(known.reads.begin(), known.reads.end(), [&](const Read& r) { return same_read(r.load, load); });
        if (!seen) known.reads.push_back({load});
      }
    }
  };
  note(counter);
  std::unordered_map<const Var*, size_t> behind_let;
  for (size_t i = 0; i < text.lets.size(); ++i) behind_let[text.lets[i].as<Let>()->variable.get()] = i + 1;
  std::vector<Expr> alive;  // what Reads point into
  // The last definition first: what it reads is then known before its own producers are put in.
  for (auto last = found.rbegin(); last != found.rend(); ++last) {
    const Definition& definition = definitions_[last->first];
    for (Read& read : last->second.reads) {
      const auto need = [&](const Expr& e) {
        for (const VarRef& used : used_vars(e)) {
          if (const auto let = behind_let.find(used.get()); let != behind_let.end())
            read.position = std::max(read.position, let->second);
        }
      };
      for (const Expr& index : read.load->indices) need(index);
      if (read.load->mask) need(read.load->mask);
      instantiate(definition, read, domains);
      if (!read.open) continue;
      ReadCounter own(defined);
      own.visit(read.value);
      note(own);
      alive.push_back(read.value);
    }
  }

  Replacer replacer;
  std::vector<std::vector<Stmt>> behind(text.lets.size() + 1);  // behind each Let, or before them all
  for (auto& [number, known] : found) {
    const Definition& definition = definitions_[number];
    for (Read& read : known.reads) {
      const bool bind = known.total > 1 && !read.value.as<Var>();
      if (read.open) read.value = replacer.mutate(read.value);
      std::vector<Stmt>& lets = behind[read.position];
      lets.insert(lets.end(), read.lets.begin(), read.lets.end());
      if (!bind) continue;
      read.variable = Var::make(definition.buffer->name, read.value->dtype);
      lets.push_back(bare_let(read.variable, read.value));
    }
    replacer.reads.emplace(definition.buffer.get(), std::move(known.reads));
  }
  std::vector<Stmt> merged = std::move(behind[0]);
  for (size_t i = 0; i < text.lets.size(); ++i) {
    const Let* let = text.lets[i].as<Let>();
    merged.push_back(bare_let(let->variable, replacer.mutate(let->value)));
    merged.insert(merged.end(), behind[i + 1].begin(), behind[i + 1].end());
  }
  text.lets = std::move(merged);
  for (Expr& value : text.values) value = replacer.mutate(value);
  if (text.rest) text.rest = replacer.mutate(text.rest);
}

Stmt Inlining::into(const Block& consumer) const {
  const std::optional<ReductionParts> parts = match_update(consumer);
  Text text;
  text.lets = head_lets(consumer, &text.rest);
  if (parts) text.values = parts->terms;
  Bounds domains;
  for (const Iter& iter : consumer.f.iters) domains.bind(iter.variable, iter.domain);
  expand(text, domains);
  const Stmt body = parts && consumer.f.reducer
                        ? make_update(*consumer.f.reducer, parts->outputs, text.values, text.lets)
                        : wrap(text.lets, text.rest);
  const Stmt changed = with_fields(consumer, [&](Block::Fields& f) { f.body = body; });
  return with_inferred_regions(*changed.as<Block>());
}

}  // namespace lathe
