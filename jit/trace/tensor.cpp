#include "jit/trace/tensor.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/length.h"
#include "ir/visitor.h"
#include "jit/trace/describe.h"
#include "jit/trace/kept_view.h"
#include "jit/trace/promotion.h"
#include "jit/trace/tensor_node.h"

namespace lathe {
namespace {

thread_local Listener* active_listener = nullptr;

Tensor make_tensor(TensorNode node) {
  return Tensor(std::make_shared<const TensorNode>(std::move(node)));
}

/// An element of a view, by its expression or as it is kept (kept_view.h): elements that take many others again and
/// again, and indices that each view makes longer, would double from one view to the next.
Expr view_element(const Tensor& view, const Indices& indices, const Expr& mask, Listener& listener) {
  const TensorNode& node = *view.node();
  if (const Tensor kept = node.kept->find()) return kept.at(indices, mask);
  Indices places = indices;
  bool long_places = false;
  for (Expr& place : places) {
    if (!is_longer(place, most_index_nodes)) continue;
    place = simplify(place, listener.domains);
    long_places |= is_longer(place, most_index_nodes);
  }
  if (long_places && !listener.met) {
    if (const Tensor kept = node.kept->make(view)) return kept.at(places, mask);
  }
  const size_t sources = listener.sources.size(), requirements = listener.requirements.size();
  const size_t accesses = listener.accesses.size(), reads = listener.reads;
  ++listener.reads;
  ++listener.views;
  if (listener.met) listener.met->insert(&node);
  Expr element = node.element(places, mask);
  if (listener.reads - reads <= most_reads || listener.met || !evaluates_often(view)) return element;
  const Tensor kept = node.kept->make(view);
  if (!kept) return element;
  listener.sources.resize(sources);
  listener.requirements.resize(requirements);
  listener.accesses.resize(accesses);
  listener.reads = reads;
  return kept.at(places, mask);
}

}  // namespace

void check_identifier(const std::string& name, const char* what) {
  bool good = !name.empty() && !(name[0] >= '0' && name[0] <= '9');
  for (char c : name) good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  if (!good) {
    throw InputError(Mistake::value,
                     fmt::format("{} '{}' is not an identifier: expected letters, digits and underscores", what, name));
  }
}

Listener::Listener() : outer_(active_listener) {
  active_listener = this;
}
Listener::~Listener() {
  active_listener = outer_;
}
Listener* Listener::active() {
  return active_listener;
}

bool reads(const Expr& e, const Tensor& source) {
  bool found = source.node()->kind == TensorKind::scalar;
  for_each_expr(e, [&](const Expr& part) {
    const Load* load = part.as<Load>();
    found |= load && load->buffer == source.node()->buffer;
  });
  return found;
}

void Listener::read(const Tensor& tensor) {
  for (const Tensor& source : sources) {
    if (source.node() == tensor.node()) return;
  }
  sources.push_back(tensor);
}

void Listener::add(const Heard& heard) {
  for (const Tensor& source : heard.sources) read(source);
  requirements.insert(requirements.end(), heard.requirements.begin(), heard.requirements.end());
  accesses.insert(accesses.end(), heard.accesses.begin(), heard.accesses.end());
  saw_view |= heard.saw_view;
}

void require(Expr condition, std::string message, Expr index) {
  LATHE_CHECK(Listener::active(), "require is for the body of a compute");
  Listener::active()->requirements.push_back({std::move(condition), std::move(message), std::move(index)});
}

DType Tensor::dtype() const {
  return node_->dtype;
}
const Shape& Tensor::shape() const {
  return node_->shape;
}
bool Tensor::is_weak() const {
  return node_->weak;
}

bool Tensor::is_expression() const {
  return node_->expression;
}

std::vector<std::int64_t> Tensor::static_shape() const {
  std::vector<std::int64_t> extents;
  for (const Expr& extent : shape()) {
    const std::int64_t* value = as_int(extent);
    if (!value)
      fail_value(node_->name, fmt::format("{} has a symbolic extent where a constant is needed", describe(*this)));
    extents.push_back(*value);
  }
  return extents;
}

Expr Tensor::at(const Indices& indices, const Expr& mask) const {
  if (indices.size() != rank()) {
    fail_value(node_->name,
               fmt::format("{} is indexed with {} indices; expected {}", describe(*this), indices.size(), rank()));
  }
  Listener* listener = Listener::active();
  switch (node_->kind) {
    case TensorKind::input:
    case TensorKind::compute:
      if (listener) listener->read(*this);
      if (listener) ++listener->reads;
      return load(node_->buffer, indices, mask);
    case TensorKind::view:
      if (listener) listener->saw_view = true;
      return listener && node_->kept ? view_element(*this, indices, mask, *listener) : node_->element(indices, mask);
    case TensorKind::scalar:
      if (listener) listener->read(*this);
      [[fallthrough]];
    case TensorKind::literal:
      return mask ? select(mask, node_->value, constant(dtype(), std::int64_t{0})) : node_->value;
  }
  LATHE_CHECK(false, "an unknown kind of tensor");
}

Expr Tensor::element(const Indices& given) const {
  Indices indices = given;
  for (Expr& index : indices) {
    if (index && index->dtype.is_integer()) index = convert(i64, index);
  }
  Expr value = at(indices);
  Listener* listener = Listener::active();
  if (!listener || rank() == 0) return value;
  // What loads nothing reads no memory, and may be one of its own indices.
  if (has_load(value)) listener->accesses.push_back({value, *this, indices});
  return value;
}

Tensor view(Shape shape, DType dtype, const std::function<Expr(const Indices&, const Expr&)>& f, std::string name) {
  return make_tensor({.kind = TensorKind::view,
                      .dtype = dtype,
                      .shape = std::move(shape),
                      .name = std::move(name),
                      .element = f,
                      .kept = std::make_shared<KeptView>()});
}

Tensor expression(Expr value) {
  const DType dtype = value->dtype;
  return make_tensor({.kind = TensorKind::view,
                      .dtype = dtype,
                      .name = "expression",
                      .expression = true,
                      .element = [value = std::move(value)](const Indices&, const Expr& mask) {
                        return mask ? select(mask, value, constant(value->dtype, 0)) : value;
                      }});
}

Tensor input(std::string name, DType dtype, Shape shape) {
  check_identifier(name, "input name");
  Buffer buffer = BufferNode::make(name, dtype, shape);
  return make_tensor({.kind = TensorKind::input,
                      .dtype = dtype,
                      .shape = std::move(shape),
                      .name = std::move(name),
                      .buffer = std::move(buffer)});
}

Tensor scalar(std::string name, DType dtype, bool weak) {
  check_identifier(name, "scalar name");
  Expr variable = Var::make(name, dtype);
  return make_tensor({.kind = TensorKind::scalar,
                      .dtype = dtype,
                      .name = std::move(name),
                      .weak = weak,
                      .value = std::move(variable)});
}

Tensor literal(DType dtype, double value, bool weak) {
  return make_tensor(
      {.kind = TensorKind::literal, .dtype = dtype, .name = "literal", .weak = weak, .value = constant(dtype, value)});
}

Tensor literal(DType dtype, std::int64_t value, bool weak) {
  return make_tensor(
      {.kind = TensorKind::literal, .dtype = dtype, .name = "literal", .weak = weak, .value = constant(dtype, value)});
}

}  // namespace lathe
