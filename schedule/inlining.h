#pragma once
/// Elements of buffers replaced by what computes them: what compute_inline does to the blocks that read.
#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/analysis/interval.h"
#include "ir/visitor.h"
#include "schedule/rewrite.h"

namespace lathe {

/// What stands for an element of the buffer that a block writes: Lets, then the value of a Store at its iters.
/// Nodes of an index, those that are shared counted as often as they occur, beyond which it is simplified where it goes
/// into another: of permutations of permutations each would double it.
constexpr int most_index_nodes = 128;

struct Definition {
  Buffer buffer;
  std::vector<const Let*> lets;
  const Store* store = nullptr;
  const Block* producer = nullptr;
};

/// The Loads of some buffers in expressions, with their number along every path, without walking every path.
class ReadCounter : public Visitor {
 public:
  struct Reads {
    std::uint64_t total = 0;
    std::vector<const Load*> distinct;  ///< in the order in which they are met
    bool address_taken = false;
  };
  explicit ReadCounter(std::function<bool(const Buffer&)> wanted) : wanted_(std::move(wanted)) {}
  using Visitor::visit;
  void visit(const Expr& e) override;

  /// Those of one buffer; none when it was not met.
  const Reads& of(const Buffer& buffer) const;
  const std::unordered_map<const BufferNode*, Reads>& all() const { return reads_; }

 private:
  using Counts = std::vector<std::pair<const BufferNode*, std::uint64_t>>;
  static void add(Counts& to, const Counts& counts);

  const std::function<bool(const Buffer&)> wanted_;
  std::unordered_map<const BufferNode*, Reads> reads_;
  std::unordered_map<const ExprNode*, Counts> counts_;
  std::vector<Counts> open_;
};

/// The Lets at the head of a block's body, and what is below them; the reducer's own left operands do not count.
std::vector<Stmt> head_lets(const Block& consumer, Stmt* rest);

/// Definitions to be put in the place of reads, all at once, the last first: what a definition reads is replaced where
/// it is put, and an element that several read there at the same place is computed once.
class Inlining {
 public:
  /// In the order of the program: a definition reads only buffers that were defined before.
  void define(Definition definition);
  bool empty() const { return definitions_.empty(); }
  bool defines(const Buffer& buffer) const { return order_.contains(buffer.get()); }
  /// The block with its reads replaced and its regions inferred again. An element that is used several times is bound
  /// by a Let, as early as what it is read at allows.
  Stmt into(const Block& consumer) const;

 private:
  struct Text;
  struct Read;
  class Replacer;
  void expand(Text& text, const Bounds& domains) const;
  void instantiate(const Definition& definition, Read& read, const Bounds& domains) const;

  std::vector<Definition> definitions_;
  std::unordered_map<const BufferNode*, size_t> order_;
};

}  // namespace lathe
