#include <fmt/format.h>

#include "ir/intrinsics.h"
#include "ir/text/printer.h"

namespace lathe::text {

const std::string& Names::of(const void* thing, const std::string& name) {
  const auto [entry, fresh] = given_.try_emplace(thing);
  if (!fresh) return entry->second;
  std::string candidate = name;
  if (!taken_.insert(candidate).second) {
    int& number = next_[name];
    do {
      candidate = fmt::format("{}_{}", name, ++number);
    } while (!taken_.insert(candidate).second);
  }
  return entry->second = quote_name(candidate);
}

void Printer::name(const VarRef& variable) {
  write(names_.of(variable.get(), variable->name));
}
void Printer::name(const Buffer& buffer) {
  write(names_.of(buffer.get(), buffer->name));
}

void Printer::type_of(const VarRef& variable) {
  if (variable->dtype != i64) write(": " + to_string(variable->dtype));
}

void Printer::exprs(const std::vector<Expr>& list) {
  separated(list, [&](const Expr& e) { expr(e); });
}

void Printer::function(std::string_view name, const std::vector<Expr>& args) {
  write(name);
  write("(");
  exprs(args);
  write(")");
}

void Printer::access(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask) {
  name(buffer);
  write("[");
  exprs(indices);
  if (mask) {
    write(indices.empty() ? "if " : " if ");
    expr(mask);
  }
  write("]");
}

void Printer::binary(const Binary* node, int precedence) {
  const Infix* infix = find_infix(node->op);
  if (!infix) return function(to_string(node->op), {node->a, node->b});
  const bool chained = infix->precedence == comparison_precedence;
  const bool parenthesized = infix->precedence < precedence;
  if (parenthesized) write("(");
  expr(node->a, infix->precedence + (chained ? 1 : 0));
  write(" ");
  write(infix->token);
  write(" ");
  expr(node->b, infix->precedence + 1);
  if (parenthesized) write(")");
}

void Printer::unary(const Unary* node, int precedence) {
  const char* token = node->op == UnaryOp::neg           ? "-"
                      : node->op == UnaryOp::bit_not     ? "~"
                      : node->op == UnaryOp::logical_not ? "!"
                                                         : nullptr;
  if (!token) return function(to_string(node->op), {node->a});
  // A minus before digits belongs to the literal, so the operation needs parentheses there.
  const bool literal = node->a.as<IntImm>() || node->a.as<FloatImm>();
  const bool parenthesized = unary_precedence < precedence;
  if (parenthesized) write("(");
  write(token);
  if (literal) write("(");
  expr(node->a, literal ? 0 : primary_precedence);
  if (literal) write(")");
  if (parenthesized) write(")");
}

void Printer::call(const Call* node) {
  if (node->call_kind == CallKind::extern_scalar) {
    write(fmt::format("extern<{}> ", to_string(node->dtype)));
    return function(quote_string(node->callee), node->args);
  }
  const Intrinsic* intrinsic = find_intrinsic(node->callee);
  DType implied = node->args.empty() ? i64 : node->args[0]->dtype;
  if (intrinsic && intrinsic->reduces) implied = implied.element();
  std::string callee = quote_name(node->callee);
  if (node->dtype != implied || node->args.empty()) callee += fmt::format("<{}>", to_string(node->dtype));
  function(callee, node->args);
}

void Printer::expr(const Expr& e, int precedence) {
  switch (e->kind) {
    case ExprKind::IntImm:
      return write(int_literal(e->dtype, e.as<IntImm>()->value));
    case ExprKind::FloatImm:
      return write(float_literal(e->dtype, e.as<FloatImm>()->value));
    case ExprKind::Var:
      return write(names_.of(e.get(), e.as<Var>()->name));
    case ExprKind::Unary:
      return unary(e.as<Unary>(), precedence);
    case ExprKind::Binary:
      return binary(e.as<Binary>(), precedence);
    case ExprKind::Select: {
      const auto* node = e.as<Select>();
      return function("select", {node->condition, node->when_true, node->when_false});
    }
    case ExprKind::Cast:
      return function(fmt::format("cast<{}>", to_string(e->dtype.element())), {e.as<Cast>()->value});
    case ExprKind::Load: {
      const auto* node = e.as<Load>();
      return access(node->buffer, node->indices, node->mask);
    }
    case ExprKind::Ramp: {
      const auto* node = e.as<Ramp>();
      write("ramp(");
      exprs({node->base, node->stride});
      return write(fmt::format(", {})", e->dtype.lanes));
    }
    case ExprKind::Broadcast:
      write("broadcast(");
      expr(e.as<Broadcast>()->value);
      return write(fmt::format(", {})", e->dtype.lanes));
    case ExprKind::Shuffle: {
      const auto* node = e.as<Shuffle>();
      write("shuffle([");
      exprs(node->vectors);
      write("], [");
      separated(node->lanes, [&](int lane) { write(std::to_string(lane)); });
      return write("])");
    }
    case ExprKind::Call:
      return call(e.as<Call>());
    case ExprKind::AddressOf: {
      const auto* node = e.as<AddressOf>();
      write("&");
      return access(node->buffer, node->indices, nullptr);
    }
  }
}

}  // namespace lathe::text
