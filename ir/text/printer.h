#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/func.h"
#include "ir/text/syntax.h"

namespace lathe::text {

/// Gives every variable and buffer a text of its own: its name where that is free, else the name with a number behind.
class Names {
 public:
  const std::string& of(const void* thing, const std::string& name);

 private:
  std::unordered_map<const void*, std::string> given_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;
};

/// Writes .tir text into one string. One Printer prints one thing.
class Printer {
 public:
  void expr(const Expr& e, int precedence = 0);
  void stmt(const Stmt& s);
  void region(const Region& region);
  void range(const Range& range);
  void func(const Func& func);
  /// `name: f32[16, n] strides [..] offset .. @space align .. view_of ..`
  void declaration(const Buffer& buffer);
  void name(const VarRef& variable);
  void name(const Buffer& buffer);
  void type_of(const VarRef& variable);

  void write(std::string_view text) { out_ += text; }
  void newline();
  void indent(int levels) { depth_ += levels; }
  void annotations(const Annotations& annotations);
  void exprs(const std::vector<Expr>& list);

  template <class List, class F>
  void separated(const List& list, F&& each) {
    bool first = true;
    for (const auto& item : list) {
      if (!first) write(", ");
      first = false;
      each(item);
    }
  }

  /// The statement behind whose first line `note` goes.
  void mark(const StmtNode* culprit, std::string note) {
    culprit_ = culprit;
    note_ = std::move(note);
  }
  std::string take() { return std::move(out_); }

 private:
  void binary(const Binary* node, int precedence);
  void unary(const Unary* node, int precedence);
  void call(const Call* node);
  void access(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask);
  void function(std::string_view name, const std::vector<Expr>& args);
  void facts(const std::vector<Fact>& facts);
  void loop(const For* node);
  void block(const Block* node);
  void block_header(const Block::Fields& f);
  void block_declarations(const Block::Fields& f);
  void regions(std::string_view word, const std::vector<Region>& regions);
  void reducer(const Reducer& reducer);
  void conditional(const If* node);
  void braced(const Stmt& s);
  /// The statements of `s` as a list; only its last Let may leave its braces away.
  void list(const Stmt& s);
  void statement(const Stmt& s, bool last);

  std::string out_;
  Names names_;
  int depth_ = 0;
  const StmtNode* culprit_ = nullptr;
  std::string note_;
  bool note_due_ = false;
};

/// The buffers that `func` uses but neither takes as parameters nor allocates: those of planned workspaces, and
/// constants.
std::vector<Buffer> undeclared_buffers(const Func& func);

}  // namespace lathe::text
