#include "ir/text/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text/printer.h"
#include "ir/visitor.h"

namespace lathe {
namespace text {
namespace {

/// Collects buffers in order of first use, and those that blocks allocate.
class BufferCollector : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }
  void use(const Buffer& buffer) {
    if (!used_set_.insert(buffer.get()).second) return;
    if (const auto& view = buffer->view_of) use(view->buffer);
    used.push_back(buffer);
  }
  std::vector<Buffer> used;
  std::unordered_set<const BufferNode*> declared;

 protected:
  void visit_buffer(const Buffer& buffer) override { use(buffer); }
  void visit_Block(const Block* node) override {
    for (const Buffer& buffer : node->f.allocs) declared.insert(buffer.get());
    for (const Region& region : node->f.reads) use(region.buffer);
    for (const Region& region : node->f.writes) use(region.buffer);
    for (const Buffer& buffer : node->f.allocs) use(buffer);
    Visitor::visit_Block(node);
  }

 private:
  std::unordered_set<const ExprNode*> seen_;
  std::unordered_set<const BufferNode*> used_set_;
};

/// The variables that shapes of a Program's values use.
std::vector<VarRef> symbols_of(const Program& program) {
  std::vector<VarRef> symbols;
  for (const Value& value : program.values) {
    for (const Expr& extent : value.shape) {
      for (const VarRef& variable : used_vars(extent)) {
        if (std::find(symbols.begin(), symbols.end(), variable) == symbols.end()) symbols.push_back(variable);
      }
    }
  }
  return symbols;
}

}  // namespace

std::vector<Buffer> undeclared_buffers(const Func& func) {
  BufferCollector collector;
  for (const Buffer& buffer : buffer_params(func)) collector.declared.insert(buffer.get());
  for (const Buffer& buffer : buffer_params(func)) collector.use(buffer);
  collector.visit(func->body);
  std::vector<Buffer> undeclared;
  for (const Buffer& buffer : collector.used) {
    if (!collector.declared.contains(buffer.get())) undeclared.push_back(buffer);
  }
  return undeclared;
}

void Printer::facts(const std::vector<Fact>& facts) {
  separated(facts, [&](const Fact& fact) {
    name(fact.variable);
    if (fact.min || fact.max) {
      write(" in [");
      if (fact.min) write(std::to_string(*fact.min));
      write(", ");
      if (fact.max) write(std::to_string(*fact.max));
      write("]");
    }
    if (fact.multiple_of != 1) write(fmt::format(" multiple_of {}", fact.multiple_of));
    if (!fact.equals) return;
    write(" equals ");
    expr(fact.equals);
  });
}

void Printer::func(const Func& func) {
  write("func ");
  // Callers see the names of parameters, so those come before any other that would take one.
  for (const VarRef& variable : scalar_params(func)) names_.of(variable.get(), variable->name);
  for (const Buffer& buffer : buffer_params(func)) names_.of(buffer.get(), buffer->name);
  write(quote_name(func->name) + "(");
  separated(func->params, [&](const Param& param) {
    if (const auto* buffer = std::get_if<Buffer>(&param)) return declaration(*buffer);
    const VarRef& variable = std::get<VarRef>(param);
    name(variable);
    write(": " + to_string(variable->dtype));
  });
  write(fmt::format(") stage {}", to_string(func->stage)));
  indent(2);
  if (!func->facts.empty()) {
    newline();
    write("facts {");
    facts(func->facts);
    write("}");
  }
  if (!func->attrs.empty()) {
    newline();
    write("attrs ");
    annotations(func->attrs);
  }
  if (const std::vector<Buffer> buffers = undeclared_buffers(func); !buffers.empty()) {
    newline();
    write("memory {");
    indent(1);
    for (const Buffer& buffer : buffers) {
      newline();
      declaration(buffer);
    }
    indent(-1);
    newline();
    write("}");
  }
  indent(-2);
  newline();
  braced(func->body);
  newline();
}

}  // namespace text

std::string print(const Func& func) {
  text::Printer printer;
  printer.func(func);
  return printer.take();
}

std::string print(const Stmt& s) {
  text::Printer printer;
  printer.stmt(s);
  std::string out = printer.take();
  // A list begins each statement on a new line.
  return out.starts_with('\n') ? out.substr(1) : out;
}

std::string print(const Expr& e) {
  text::Printer printer;
  printer.expr(e);
  return printer.take();
}

std::string print(const Region& region) {
  text::Printer printer;
  printer.region(region);
  return printer.take();
}

std::string print(const Range& range) {
  text::Printer printer;
  printer.range(range);
  return printer.take();
}

std::string print_marked(const Func& func, const Stmt& culprit, const std::string& note) {
  text::Printer printer;
  printer.mark(culprit.get(), note);
  printer.func(func);
  return printer.take();
}

std::string print(const Program& program) {
  using text::quote_name;
  text::Printer printer;
  printer.write("program {");
  printer.indent(1);
  printer.newline();
  if (const std::vector<VarRef> symbols = text::symbols_of(program); !symbols.empty()) {
    printer.write("symbols {");
    printer.separated(symbols, [&](const VarRef& variable) {
      printer.name(variable);
      printer.type_of(variable);
    });
    printer.write("}");
    printer.newline();
  }
  printer.write("values {");
  printer.indent(1);
  text::Names names;
  for (const Value& value : program.values) {
    printer.newline();
    printer.write(fmt::format("{}: {}[", names.of(&value, value.name), to_string(value.dtype)));
    printer.exprs(value.shape);
    printer.write("]");
  }
  printer.indent(-1);
  printer.newline();
  printer.write("}");
  const auto value_name = [&](int value) {
    const Value& v = program.values.at(static_cast<size_t>(value));
    printer.write(names.of(&v, v.name));
  };
  const auto value_list = [&](std::string_view word, const std::vector<int>& list) {
    printer.newline();
    printer.write(word);
    printer.write(" {");
    printer.separated(list, value_name);
    printer.write("}");
  };
  value_list("inputs", program.inputs);
  value_list("outputs", program.outputs);
  for (const Edge& edge : program.edges) {
    printer.newline();
    printer.write("edge ");
    value_name(edge.value);
    printer.write(fmt::format(" -> func {} param {}", edge.func, edge.param));
  }
  printer.indent(-1);
  printer.newline();
  printer.write("}\n");
  std::string out = printer.take();
  for (const Func& func : program.funcs) out += "\n" + print(func);
  return out;
}

}  // namespace lathe
