#include <fmt/format.h>

#include "ir/structural.h"
#include "ir/text/printer.h"

namespace lathe::text {
namespace {

std::string annotation_text(const Annotation& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return quote_string(*text);
  std::string literal = float_literal(f64, std::get<double>(value));
  // Finite numbers of an annotation are always f64, so they go without the suffix.
  if (literal.ends_with("f64")) literal.resize(literal.size() - 3);
  return literal;
}

bool is_index(const Expr& e, std::int64_t value) {
  const auto* imm = e.as<IntImm>();
  return imm && imm->dtype == i64 && imm->value == value;
}

}  // namespace

void Printer::newline() {
  if (note_due_) write("  # <- " + note_);
  note_due_ = false;
  out_ += '\n';
  out_.append(2 * static_cast<size_t>(depth_), ' ');
}

void Printer::annotations(const Annotations& annotations) {
  write("{");
  separated(annotations,
            [&](const auto& entry) { write(quote_name(entry.first) + ": " + annotation_text(entry.second)); });
  write("}");
}

void Printer::range(const Range& range) {
  write("[");
  expr(range.min);
  write(is_index(range.min, 0) ? ", " : ", +");
  expr(range.extent);
  write(")");
}

void Printer::region(const Region& region) {
  const bool ranked = region.buffer->rank() == region.ranges.size();
  const auto whole = [&](size_t d) {
    const Range& range = region.ranges[d];
    return ranked && is_index(range.min, 0) && equal(range.extent, region.buffer->shape[d]);
  };
  size_t whole_count = 0;
  for (size_t d = 0; d < region.ranges.size(); ++d) whole_count += whole(d);
  name(region.buffer);
  write("[");
  if (whole_count > 0 && whole_count == region.ranges.size()) {
    write("..");
  } else {
    size_t dimension = 0;
    separated(region.ranges, [&](const Range& range) {
      const size_t d = dimension++;
      if (is_index(range.extent, 1)) return expr(range.min);
      if (whole(d)) return write("..");
      expr(range.min);
      write(":+");
      expr(range.extent);
    });
  }
  write("]");
  if (region.provenance == Provenance::inferred && region.block.empty()) return;
  write(region.provenance == Provenance::inferred  ? " inferred"
        : region.provenance == Provenance::checked ? " checked"
                                                   : " trusted");
  if (!region.block.empty()) write(" " + quote_string(region.block));
}

void Printer::regions(std::string_view word, const std::vector<Region>& regions) {
  if (regions.empty()) return;
  newline();
  write(word);
  write(" ");
  separated(regions, [&](const Region& r) { region(r); });
}

void Printer::declaration(const Buffer& buffer) {
  name(buffer);
  write(fmt::format(": {}[", to_string(buffer->dtype)));
  exprs(buffer->shape);
  write("]");
  if (!buffer->strides.empty()) {
    write(" strides [");
    exprs(buffer->strides);
    write("]");
  }
  if (buffer->offset) {
    write(" offset ");
    expr(buffer->offset);
  }
  if (buffer->space != space::global) write(" @" + quote_name(buffer->space));
  if (buffer->alignment) write(fmt::format(" align {}", buffer->alignment));
  if (const auto& view = buffer->view_of) {
    write(" view_of ");
    region(*view);
  }
}

void Printer::loop(const For* node) {
  if (node->for_kind == ForKind::bound) {
    write(fmt::format("bound({}) ", quote_string(node->thread_axis)));
  } else if (node->for_kind != ForKind::serial) {
    write(to_string(node->for_kind));
    write(" ");
  }
  write("for ");
  name(node->variable);
  type_of(node->variable);
  write(" in ");
  range({node->min, node->extent});
  if (!node->annotations.empty()) {
    write(" @");
    annotations(node->annotations);
  }
  write(" ");
  braced(node->body);
}

void Printer::block_header(const Block::Fields& f) {
  write("block");
  if (!f.name.empty()) write(" " + quote_name(f.name));
  write("(");
  size_t position = 0;
  separated(f.iters, [&](const Iter& iter) {
    write(to_string(iter.kind));
    write(" ");
    name(iter.variable);
    type_of(iter.variable);
    write(" in ");
    range(iter.domain);
    write(" = ");
    expr(f.bindings[position++]);
  });
  write(")");
  indent(2);
  if (f.predicate) {
    newline();
    write("where ");
    expr(f.predicate);
  }
  regions("reads", f.reads);
  regions("writes", f.writes);
  if (!f.annotations.empty()) {
    newline();
    write("@");
    annotations(f.annotations);
  }
  indent(-2);
}

void Printer::reducer(const Reducer& reducer) {
  write("reducer (");
  const auto variable = [&](const VarRef& v) {
    name(v);
    type_of(v);
  };
  separated(reducer.lhs, variable);
  write(") (");
  separated(reducer.rhs, variable);
  write(") {");
  exprs(reducer.results);
  write("} identity {");
  exprs(reducer.identities);
  write("}");
}

void Printer::block(const Block* node) {
  const Block::Fields& f = node->f;
  block_header(f);
  if (f.predicate || !f.reads.empty() || !f.writes.empty() || !f.annotations.empty()) {
    newline();
    write("{");
  } else {
    write(" {");
  }
  indent(1);
  for (const Buffer& buffer : f.allocs) {
    newline();
    write("alloc ");
    declaration(buffer);
  }
  if (f.reducer) {
    newline();
    reducer(*f.reducer);
  }
  if (f.init) {
    newline();
    write("init ");
    braced(f.init);
  }
  list(f.body);
  indent(-1);
  newline();
  write("}");
}

void Printer::braced(const Stmt& s) {
  write("{");
  indent(1);
  list(s);
  indent(-1);
  newline();
  write("}");
}

void Printer::list(const Stmt& s) {
  const auto* seq = s.as<Seq>();
  if (!seq) return statement(s, true);
  for (size_t i = 0; i < seq->stmts.size(); ++i) statement(seq->stmts[i], i + 1 == seq->stmts.size());
}

void Printer::conditional(const If* node) {
  for (;;) {
    write("if ");
    expr(node->condition);
    write(" ");
    braced(node->then_case);
    if (!node->else_case) return;
    write(" else ");
    const If* next = node->else_case.as<If>();
    if (!next || next == culprit_) return braced(node->else_case);
    node = next;
  }
}

void Printer::statement(const Stmt& s, bool last) {
  newline();
  if (s.get() == culprit_) note_due_ = true;
  if (const auto* let = s.as<Let>()) {
    write("let ");
    name(let->variable);
    type_of(let->variable);
    write(" = ");
    expr(let->value);
    if (last) return list(let->body);
    write(" ");
    return braced(let->body);
  }
  stmt(s);
}

void Printer::stmt(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::For:
      return loop(s.as<For>());
    case StmtKind::Block:
      return block(s.as<Block>());
    case StmtKind::Store: {
      const auto* node = s.as<Store>();
      access(node->buffer, node->indices, node->mask);
      write(" = ");
      return expr(node->value);
    }
    case StmtKind::If:
      return conditional(s.as<If>());
    case StmtKind::While:
      write("while ");
      expr(s.as<While>()->condition);
      write(" ");
      return braced(s.as<While>()->body);
    case StmtKind::Eval:
      write("eval ");
      return expr(s.as<Eval>()->value);
    case StmtKind::Assert: {
      const auto* node = s.as<Assert>();
      write("assert ");
      expr(node->condition);
      write(", " + quote_string(node->message));
      if (!node->index) return;
      write(", ");
      return expr(node->index);
    }
    case StmtKind::Let:
    case StmtKind::Seq:
      return list(s);
  }
}

}  // namespace lathe::text
