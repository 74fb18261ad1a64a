#include <bit>
#include <unordered_map>

#include "ir/structural.h"

namespace lathe {
namespace {

/// One step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// FNV-1a.
std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

/// The running hash of one node: every part is added in a fixed order, lists with their length.
struct Digest {
  std::uint64_t state;
  explicit Digest(std::uint64_t tag) : state(mix(tag)) {}
  void add(std::uint64_t part) { state = mix(state ^ part); }
  void add(std::string_view text) { add(hash_text(text)); }
  void add(DType dtype) {
    add(static_cast<std::uint64_t>(dtype.code) << 32 | static_cast<std::uint64_t>(dtype.bits) << 16 | dtype.lanes);
  }
};

/// Numbers what is bound as ir/structural.cpp does; free things count by name. Shared expressions are hashed once.
class Hasher {
 public:
  std::uint64_t expr(const Expr& e);
  std::uint64_t stmt(const Stmt& s);
  std::uint64_t func(const FuncNode& f);

 private:
  void bind(const Node* node) {
    // A node that is bound a second time gives earlier results another meaning.
    if (!numbers_.insert_or_assign(node, next_++).second) known_.clear();
  }
  std::uint64_t variable(const Var* variable);
  std::uint64_t buffer(const Buffer& buffer);
  std::uint64_t declaration(const BufferNode& buffer);
  std::uint64_t region(const Region& region);
  std::uint64_t block(const Block::Fields& f);
  std::uint64_t annotations(const Annotations& annotations);
  std::uint64_t compute(const Expr& e);

  template <class List, class F>
  void add_list(Digest& digest, const List& list, F&& hash) {
    digest.add(static_cast<std::uint64_t>(list.size()));
    for (const auto& item : list) digest.add(hash(item));
  }
  void add_list(Digest& digest, const std::vector<Expr>& list) {
    add_list(digest, list, [&](const Expr& e) { return expr(e); });
  }

  std::unordered_map<const Node*, std::uint64_t> numbers_;
  std::unordered_map<const ExprNode*, std::uint64_t> known_;
  std::uint64_t next_ = 1;
  bool whole_func_ = false;
};

std::uint64_t Hasher::variable(const Var* variable) {
  Digest digest(1);
  digest.add(variable->dtype);
  if (const auto found = numbers_.find(variable); found != numbers_.end()) {
    digest.add(found->second);
  } else {
    digest.add(variable->name);
  }
  return digest.state;
}

std::uint64_t Hasher::declaration(const BufferNode& b) {
  Digest digest(2);
  digest.add(b.dtype);
  add_list(digest, b.shape);
  add_list(digest, b.strides);
  digest.add(expr(b.offset));
  digest.add(b.space);
  digest.add(static_cast<std::uint64_t>(b.alignment));
  digest.add(b.view_of ? region(*b.view_of) : 0);
  return digest.state;
}

std::uint64_t Hasher::buffer(const Buffer& b) {
  Digest digest(3);
  if (const auto found = numbers_.find(b.get()); found != numbers_.end()) {
    digest.add(found->second);
    return digest.state;
  }
  if (whole_func_) {
    digest.add(declaration(*b));
    bind(b.get());
    digest.add(numbers_.at(b.get()));
  } else {
    digest.add(b->name);
    digest.add(b->dtype);
  }
  return digest.state;
}

std::uint64_t Hasher::region(const Region& r) {
  Digest digest(4);
  digest.add(buffer(r.buffer));
  digest.add(static_cast<std::uint64_t>(r.provenance));
  digest.add(r.block);
  add_list(digest, r.ranges, [&](const Range& range) { return mix(expr(range.min)) ^ expr(range.extent); });
  return digest.state;
}

std::uint64_t Hasher::annotations(const Annotations& annotations) {
  Digest digest(5);
  for (const auto& [key, value] : annotations) {
    digest.add(key);
    digest.add(static_cast<std::uint64_t>(value.index()));
    if (const auto* number = std::get_if<std::int64_t>(&value)) digest.add(static_cast<std::uint64_t>(*number));
    if (const auto* number = std::get_if<double>(&value)) digest.add(std::bit_cast<std::uint64_t>(*number));
    if (const auto* text = std::get_if<std::string>(&value)) digest.add(*text);
  }
  return digest.state;
}

std::uint64_t Hasher::expr(const Expr& e) {
  if (!e) return 0;
  if (e->references <= 1) return compute(e);
  if (const auto found = known_.find(e.get()); found != known_.end()) return found->second;
  const std::uint64_t h = compute(e);
  known_.emplace(e.get(), h);
  return h;
}

std::uint64_t Hasher::compute(const Expr& e) {
  if (const Var* var = e.as<Var>()) return variable(var);
  Digest digest(16 + static_cast<std::uint64_t>(e->kind));
  digest.add(e->dtype);
  switch (e->kind) {
    case ExprKind::IntImm:
      digest.add(static_cast<std::uint64_t>(e.as<IntImm>()->value));
      break;
    case ExprKind::FloatImm:
      digest.add(std::bit_cast<std::uint64_t>(e.as<FloatImm>()->value));
      break;
    case ExprKind::Var:
      break;
    case ExprKind::Unary:
      digest.add(static_cast<std::uint64_t>(e.as<Unary>()->op));
      digest.add(expr(e.as<Unary>()->a));
      break;
    case ExprKind::Binary:
      digest.add(static_cast<std::uint64_t>(e.as<Binary>()->op));
      digest.add(expr(e.as<Binary>()->a));
      digest.add(expr(e.as<Binary>()->b));
      break;
    case ExprKind::Select:
      digest.add(expr(e.as<Select>()->condition));
      digest.add(expr(e.as<Select>()->when_true));
      digest.add(expr(e.as<Select>()->when_false));
      break;
    case ExprKind::Cast:
      digest.add(expr(e.as<Cast>()->value));
      break;
    case ExprKind::Load:
      digest.add(buffer(e.as<Load>()->buffer));
      add_list(digest, e.as<Load>()->indices);
      digest.add(expr(e.as<Load>()->mask));
      break;
    case ExprKind::Ramp:
      digest.add(expr(e.as<Ramp>()->base));
      digest.add(expr(e.as<Ramp>()->stride));
      break;
    case ExprKind::Broadcast:
      digest.add(expr(e.as<Broadcast>()->value));
      break;
    case ExprKind::Shuffle:
      add_list(digest, e.as<Shuffle>()->vectors);
      add_list(digest, e.as<Shuffle>()->lanes, [](int lane) { return static_cast<std::uint64_t>(lane); });
      break;
    case ExprKind::Call:
      digest.add(static_cast<std::uint64_t>(e.as<Call>()->call_kind));
      digest.add(e.as<Call>()->callee);
      add_list(digest, e.as<Call>()->args);
      break;
    case ExprKind::AddressOf:
      digest.add(buffer(e.as<AddressOf>()->buffer));
      add_list(digest, e.as<AddressOf>()->indices);
      break;
  }
  return digest.state;
}

std::uint64_t Hasher::block(const Block::Fields& f) {
  Digest digest(6);
  digest.add(f.name);
  digest.add(annotations(f.annotations));
  add_list(digest, f.bindings);
  digest.add(expr(f.predicate));
  add_list(digest, f.iters, [&](const Iter& iter) {
    Digest part(static_cast<std::uint64_t>(iter.kind));
    part.add(expr(iter.domain.min));
    part.add(expr(iter.domain.extent));
    bind(iter.variable.get());
    part.add(variable(iter.variable.get()));
    return part.state;
  });
  add_list(digest, f.allocs, [&](const Buffer& b) {
    const std::uint64_t h = declaration(*b);
    bind(b.get());
    return h;
  });
  add_list(digest, f.reads, [&](const Region& r) { return region(r); });
  add_list(digest, f.writes, [&](const Region& r) { return region(r); });
  if (f.reducer) {
    const auto bind_each = [&](const VarRef& v) {
      bind(v.get());
      return variable(v.get());
    };
    add_list(digest, f.reducer->lhs, bind_each);
    add_list(digest, f.reducer->rhs, bind_each);
    add_list(digest, f.reducer->identities);
    add_list(digest, f.reducer->results);
  }
  digest.add(stmt(f.init));
  digest.add(stmt(f.body));
  return digest.state;
}

std::uint64_t Hasher::stmt(const Stmt& s) {
  if (!s) return 0;
  Digest digest(64 + static_cast<std::uint64_t>(s->kind));
  switch (s->kind) {
    case StmtKind::For: {
      const auto* node = s.as<For>();
      digest.add(static_cast<std::uint64_t>(node->for_kind));
      digest.add(node->thread_axis);
      digest.add(annotations(node->annotations));
      digest.add(expr(node->min));
      digest.add(expr(node->extent));
      bind(node->variable.get());
      digest.add(variable(node->variable.get()));
      digest.add(stmt(node->body));
      break;
    }
    case StmtKind::Block:
      digest.add(block(s.as<Block>()->f));
      break;
    case StmtKind::Store:
      digest.add(buffer(s.as<Store>()->buffer));
      add_list(digest, s.as<Store>()->indices);
      digest.add(expr(s.as<Store>()->value));
      digest.add(expr(s.as<Store>()->mask));
      break;
    case StmtKind::Let:
      digest.add(expr(s.as<Let>()->value));
      bind(s.as<Let>()->variable.get());
      digest.add(stmt(s.as<Let>()->body));
      break;
    case StmtKind::If:
      digest.add(expr(s.as<If>()->condition));
      digest.add(stmt(s.as<If>()->then_case));
      digest.add(stmt(s.as<If>()->else_case));
      break;
    case StmtKind::While:
      digest.add(expr(s.as<While>()->condition));
      digest.add(stmt(s.as<While>()->body));
      break;
    case StmtKind::Seq:
      add_list(digest, s.as<Seq>()->stmts, [&](const Stmt& child) { return stmt(child); });
      break;
    case StmtKind::Eval:
      digest.add(expr(s.as<Eval>()->value));
      break;
    case StmtKind::Assert:
      digest.add(s.as<Assert>()->message);
      digest.add(expr(s.as<Assert>()->condition));
      digest.add(expr(s.as<Assert>()->index));
      break;
  }
  return digest.state;
}

std::uint64_t Hasher::func(const FuncNode& f) {
  whole_func_ = true;
  Digest digest(7);
  digest.add(f.name);
  digest.add(static_cast<std::uint64_t>(f.stage));
  digest.add(annotations(f.attrs));
  for (const Param& param : f.params) {
    if (const VarRef* scalar = std::get_if<VarRef>(&param)) bind(scalar->get());
  }
  add_list(digest, f.params, [&](const Param& param) {
    Digest part(param.index());
    if (const VarRef* scalar = std::get_if<VarRef>(&param)) {
      part.add((*scalar)->name);
      part.add(variable(scalar->get()));
      return part.state;
    }
    const Buffer& b = std::get<Buffer>(param);
    part.add(b->name);
    part.add(declaration(*b));
    bind(b.get());
    return part.state;
  });
  add_list(digest, f.facts, [&](const Fact& fact) {
    Digest part(variable(fact.variable.get()));
    part.add(static_cast<std::uint64_t>(fact.min.has_value()));
    part.add(static_cast<std::uint64_t>(fact.min.value_or(0)));
    part.add(static_cast<std::uint64_t>(fact.max.has_value()));
    part.add(static_cast<std::uint64_t>(fact.max.value_or(0)));
    part.add(static_cast<std::uint64_t>(fact.multiple_of));
    part.add(expr(fact.equals));
    return part.state;
  });
  digest.add(stmt(f.body));
  return digest.state;
}

}  // namespace

std::uint64_t structural_hash(const Expr& e) {
  return Hasher().expr(e);
}
std::uint64_t structural_hash(const Stmt& s) {
  return Hasher().stmt(s);
}
std::uint64_t structural_hash(const Func& func) {
  return Hasher().func(*func);
}

}  // namespace lathe
