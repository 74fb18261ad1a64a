#include "tests/fuzz/pipelines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/text/parse.h"

namespace lathe::testing {
namespace {

/// An extent as text, and its value in each run.
struct Extent {
  std::string text;
  std::vector<std::int64_t> values;

  Extent plus(std::int64_t more) const {
    Extent sum{more < 0 ? fmt::format("{} - {}", text, -more) : fmt::format("{} + {}", text, more), values};
    for (std::int64_t& value : sum.values) value += more;
    if (text.find_first_not_of("0123456789") == std::string::npos) sum.text = std::to_string(sum.values[0]);
    return sum;
  }
};

struct Matrix {
  std::string name;
  Extent rows, columns;
};

class PipelineBuilder {
 public:
  explicit PipelineBuilder(std::uint64_t seed) : seed_(seed), random_(seed ^ 0x9199) {}

  GeneratedProgram build() {
    symbolic_ = random_.chance(33);
    const Extent rows = extent("n", 3, 9), columns = extent("m", 3, 17);
    Matrix at = input("x", rows, columns);
    const std::int64_t count = random_.between(2, 4);
    for (std::int64_t k = 0; k < count; ++k) at = step(at);
    // By the seed, so that the programs of others stay what they were.
    if (seed_ % 8 == 0) at = stacked(at);
    if (seed_ % 8 == 4 && !symbolic_) at = centred(at);
    last_ = true;
    elementwise(at);
    return finish();
  }

 private:
  Extent extent(const std::string& name, std::int64_t low, std::int64_t high) {
    if (!symbolic_) {
      const std::int64_t value = random_.between(low, high);
      return {std::to_string(value), {value, value}};
    }
    symbols_.push_back(name);
    facts_.push_back(fmt::format("{} in [3, 40]", name));
    symbol_values_.push_back({random_.between(low, high), random_.between(low, high)});
    return {name, symbol_values_.back()};
  }

  Matrix input(const std::string& name, const Extent& rows, const Extent& columns) {
    inputs_.push_back({name, rows, columns});
    return inputs_.back();
  }

  /// The buffer that a step writes: an allocation, or the output at the end.
  Matrix target(const std::string& name, const Extent& rows, const Extent& columns, const std::string& dtype = "f32") {
    const Matrix made{last_ ? "out" : fmt::format("{}{}", name, ++count_), rows, columns};
    if (last_) {
      output_ = made;
    } else {
      allocations_ += fmt::format("alloc {}: {}[{}, {}]\n", made.name, dtype, rows.text, columns.text);
    }
    return made;
  }

  /// A nest of one block over `to`, with `body` in vi and vj.
  void block(const std::string& name, const Matrix& to, const std::string& reads, const std::string& body) {
    body_ += fmt::format(
        "for i in [0, {0}) {{ for j in [0, {1}) {{\n block {2}(space vi in [0, {0}) = i, space vj in [0, {1}) = j) "
        "reads {3} writes {4}[vi, vj] {{\n {5} }} }} }}\n",
        to.rows.text, to.columns.text, name, reads, to.name, body);
  }

  Matrix step(const Matrix& from) {
    std::int64_t kind = random_.between(0, 11);
    // Bytes jump where what they are made of crosses a whole number, as another order of a sum may have it do.
    if (kind == 11 && rounded_) kind = 3;
    rounded_ |= kind != 1 && kind != 2;
    switch (kind) {
      case 0:
        return stencil(from);
      case 9:
        return random_.chance(50) ? twice(from) : repeated(from);
      case 10:
        return random_.chance(50) ? windows(from) : spread(from);
      case 11:
        return quantized(from);
      case 7:
        return random_.chance(50) ? windows(from) : convolution(from);
      case 8:
        return running(from);
      case 1:
        return pad(from);
      case 2:
        return transpose(from);
      case 3:
      case 4:
        return contraction(from);
      case 5:
        return row_reduction(from);
      default:
        return elementwise(from);
    }
  }

  /// Running sums along a row or a column, and perhaps powers beside them that nothing else reads.
  Matrix running(const Matrix& from) {
    const Matrix to = target("cs", from.rows, from.columns);
    const bool down = random_.chance(30);
    const std::string place = down ? "vi - 1, vj" : "vi, vj - 1", iter = down ? "vi" : "vj";
    std::string reads, writes, beside;
    if (random_.chance(30)) {
      const Matrix powers = target("pw", from.rows, from.columns);
      reads = fmt::format("{}[{}], ", powers.name, place);
      writes = fmt::format("{}[vi, vj], ", powers.name);
      beside = fmt::format("{0}[vi, vj] = select({1} >= 1, {0}[{2} if {1} >= 1], 1.0f32) * 0.5f32\n ", powers.name,
                           iter, place);
    }
    body_ += fmt::format(
        "for i in [0, {0}) {{ for j in [0, {1}) {{\n block {2}({3} vi in [0, {0}) = i, {4} vj in [0, {1}) = j) "
        "reads {5}{2}[{6}], {7}[vi, vj] writes {8}{2}[vi, vj] {{\n {9}{2}[vi, vj] = {2}[{6} if {10} >= 1] + "
        "{7}[vi, vj] * 0.5f32 }} }} }}\n",
        to.rows.text, to.columns.text, to.name, down ? "ordered" : "space", down ? "space" : "ordered", reads, place,
        from.name, writes, beside, iter);
    return to;
  }

  /// The first element of each row, or of each column, in all of it.
  Matrix repeated(const Matrix& from) {
    const Matrix to = target("rp", from.rows, from.columns);
    const std::string element = from.name + (random_.chance(50) ? "[vi, 0]" : "[0, vj]");
    block(last_ ? "last" : to.name, to, element, fmt::format("{}[vi, vj] = {} * 0.5f32", to.name, element));
    return to;
  }

  Matrix elementwise(const Matrix& from) {
    const Matrix to = target("ew", from.rows, from.columns);
    const std::string element = fmt::format("{}[vi, vj]", from.name);
    const std::string name = last_ ? "last" : to.name;
    switch (random_.between(0, 3)) {
      case 0:
        block(name, to, element, fmt::format("{}[vi, vj] = {} * 2.0f32 - 1.0f32", to.name, element));
        break;
      case 1:
        block(name, to, element,
              fmt::format("let s: f32 = {0} + 0.5f32\n {1}[vi, vj] = max(s * 0.25f32, {0})", element, to.name));
        break;
      default: {
        const Matrix bias = input(fmt::format("y{}", ++count_), {"1", {1, 1}}, from.columns);
        const std::string added = fmt::format("{}[0, vj]", bias.name);
        block(name, to, element + ", " + added, fmt::format("{}[vi, vj] = {} + {}", to.name, element, added));
      }
    }
    return to;
  }

  Matrix stencil(const Matrix& from) {
    if (from.rows.values[0] < 5 || from.rows.values[1] < 5 || (symbolic_ && from.rows.text != "n")) return pad(from);
    const std::int64_t reach = symbolic_ ? 2 : random_.between(1, 3);
    const Matrix to = target("st", from.rows.plus(-reach), from.columns);
    const std::string first = fmt::format("{}[vi, vj]", from.name),
                      last = fmt::format("{}[vi + {}, vj]", from.name, reach);
    block(to.name, to, first + ", " + last, fmt::format("{}[vi, vj] = {} - {} * 0.5f32", to.name, first, last));
    return to;
  }

  Matrix pad(const Matrix& from) {
    const std::int64_t border = random_.between(1, 2);
    const Matrix to = target("pd", from.rows, from.columns.plus(2 * border));
    block(to.name, to, fmt::format("{}[..]", from.name),
          fmt::format("{0}[vi, vj] = {1}[vi, vj - {2} if vj >= {2} && vj < {3}]", to.name, from.name, border,
                      from.columns.plus(border).text));
    return to;
  }

  /// Three rows, one after the other, as slices that are stacked.
  Matrix stacked(const Matrix& from) {
    const bool known =
        from.rows.text == std::to_string(from.rows.values[0]) || from.rows.text == "n" || from.rows.text == "m";
    if (!known || from.rows.values[0] < 3 || from.rows.values[1] < 3) return from;
    const Matrix to = target("sk", {"3", {3, 3}}, from.columns);
    block(
        to.name, to, fmt::format("{}[..]", from.name),
        fmt::format("{0}[vi, vj] = select(vi < 1, {1}[0, vj if vi < 1], select(vi < 2, {1}[1, vj if 0 < vi && vi < 2], "
                    "{1}[2, vj if 1 < vi])) * 0.5f32",
                    to.name, from.name));
    return to;
  }

  Matrix transpose(const Matrix& from) {
    const Matrix to = target("tr", from.columns, from.rows);
    const std::string element = fmt::format("{}[vj, vi]", from.name);
    block(to.name, to, element, fmt::format("{}[vi, vj] = {}", to.name, element));
    return to;
  }

  Matrix contraction(const Matrix& from) {
    const std::int64_t width = random_.between(2, 17);
    const Matrix weights = input(fmt::format("w{}", ++count_), from.columns, {std::to_string(width), {width, width}});
    Matrix to = target("mm", from.rows, weights.columns);
    std::string factor, factor_read;
    if (random_.chance(50)) {
      const Matrix scale = input(fmt::format("c{}", ++count_), {"1", {1, 1}}, weights.columns);
      const Matrix bounded = target("sc", scale.rows, scale.columns);
      const bool divides = random_.chance(30);
      block(bounded.name, bounded, scale.name + "[vi, vj]",
            fmt::format("{}[vi, vj] = {}({}[vi, vj]){}", bounded.name, divides ? "exp" : "sigmoid", scale.name,
                        divides ? " + 1.0f32" : ""));
      factor = fmt::format(" {} {}[0, vj]", divides ? "/" : "*", bounded.name);
      factor_read = fmt::format(", {}[0, vj]", bounded.name);
    }
    std::string left = fmt::format("{}[vi, vk]", from.name);
    if (random_.chance(35)) left = fmt::format("select(vk <= vi + {}, {}, 0.0f32)", random_.between(-1, 1), left);
    std::string term = fmt::format("{} * {}[vk, vj]{}", left, weights.name, factor);
    // Where whole terms end, by a number, by other iters or by what is given: what is computed crosses a whole number
    // where another order of a sum has it do.
    if (random_.chance(30)) {
      const std::string by_data = fmt::format("cast<i64>({}[0, vj] * 2.0f32)", weights.name);
      const std::string end = random_.chance(50) ? by_data : random_.chance(50) ? "vi + 1" : "vi // 2 + vj";
      term = fmt::format("select(vk < {}, {}, 0.0f32)", end, term);
      factor_read += fmt::format(", {}[0, vj]", weights.name);
    }
    body_ += fmt::format(R"(for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
  block {3}(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
      reads {3}[vi, vj], {4}[vi, vk], {5}[vk, vj]{7} writes {3}[vi, vj] {{
    reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
    init {{ {3}[vi, vj] = 0.0f32 }}
    let l: f32 = {3}[vi, vj]
    let r: f32 = {6}
    {3}[vi, vj] = l + r }} }} }} }}
)",
                         to.rows.text, to.columns.text, from.columns.text, to.name, from.name, weights.name, term,
                         factor_read);
    if (random_.chance(70)) {
      const Matrix bias = input(fmt::format("y{}", ++count_), {"1", {1, 1}}, to.columns);
      const Matrix sum = target("bi", to.rows, to.columns);
      block(sum.name, sum, fmt::format("{}[vi, vj], {}[0, vj]", to.name, bias.name),
            fmt::format("{}[vi, vj] = {}[vi, vj] + {}[0, vj]", sum.name, to.name, bias.name));
      return sum;
    }
    return to;
  }

  /// Along the columns, with zeros beyond the borders.
  Matrix convolution(const Matrix& from) {
    const std::int64_t window = random_.between(2, 4), before = random_.between(0, window - 1);
    const Extent one{"1", {1, 1}}, width{std::to_string(window), {window, window}};
    const Matrix weights = input(fmt::format("w{}", ++count_), one, width);
    const Matrix to = target("co", from.rows, from.columns);
    const std::string at = fmt::format("vj + vk - {}", before);
    body_ += fmt::format(R"(for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
  block {3}(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
      reads {3}[vi, vj], {4}[vi, {6}], {5}[0, vk] writes {3}[vi, vj] {{
    reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
    init {{ {3}[vi, vj] = 0.0f32 }}
    let l: f32 = {3}[vi, vj]
    let inside: bool = {7} <= vj + vk && vj + vk < {1} + {7}
    let r: f32 = select(inside, {4}[vi, {6} if inside], 0.0f32) * {5}[0, vk]
    {3}[vi, vj] = l + r }} }} }} }}
)",
                         to.rows.text, to.columns.text, width.text, to.name, from.name, weights.name, at, before);
    return to;
  }

  /// Along the columns, each element of `from` in every second or third result that a window reaches.
  Matrix spread(const Matrix& from) {
    if (symbolic_) return convolution(from);
    const std::int64_t stride = random_.between(2, 3), window = random_.between(stride, 5);
    const std::int64_t offset = random_.between(0, stride - 1), columns = random_.between(stride, 11);
    const Extent width{std::to_string(window), {window, window}};
    const Matrix weights = input(fmt::format("w{}", ++count_), {"1", {1, 1}}, width);
    Matrix to = target("sp", from.rows, {std::to_string(columns), {columns, columns}});
    const std::string at = fmt::format("(vj + vk + {}) // {}", offset, stride);
    body_ += fmt::format(R"(for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
  block {3}(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
      reads {3}[vi, vj], {4}[vi, ..], {5}[0, vk] writes {3}[vi, vj] {{
    reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
    init {{ {3}[vi, vj] = 0.0f32 }}
    let l: f32 = {3}[vi, vj]
    let r: f32 = select((vj + vk + {6}) % {7} == 0 && {8} < {9}, {4}[vi, {8} if {8} < {9}], 0.0f32) * {5}[0, vk]
    {3}[vi, vj] = l + r }} }} }} }}
)",
                         to.rows.text, to.columns.text, width.text, to.name, from.name, weights.name, offset, stride,
                         at, from.columns.text);
    return to;
  }

  /// Sums or greatest elements of windows of both axes, with nothing beyond the borders.
  Matrix windows(const Matrix& from) {
    const bool sums = random_.chance(50);
    const std::int64_t high = random_.between(2, 4), wide = random_.between(2, 5), columns = random_.between(2, 11);
    const std::int64_t stride = random_.between(1, 3), step = random_.between(1, 2), before = random_.between(0, 2);
    Matrix to = target("wi", from.rows, {std::to_string(columns), {columns, columns}});
    const std::string row = fmt::format("vi + vr - {}", high / 2);
    const std::string at = fmt::format("vj * {} + vs * {} - {}", stride, step, before);
    const std::string inside =
        fmt::format("0 <= {0} && {0} < {1} && 0 <= {2} && {2} < {3}", row, from.rows.text, at, from.columns.text);
    const std::string none = sums ? "0.0f32" : "-inf(f32)";
    body_ += fmt::format(R"(for i in [0, {0}) {{ for j in [0, {1}) {{ for r in [0, {2}) {{ for s in [0, {3}) {{
  block {4}(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vr in [0, {2}) = r, reduce vs in [0, {3}) = s)
      reads {4}[vi, vj], {5}[..] writes {4}[vi, vj] {{
    reducer (lhs: f32) (rhs: f32) {{{6}}} identity {{{7}}}
    init {{ {4}[vi, vj] = {7} }}
    let l: f32 = {4}[vi, vj]
    let t: f32 = select({8}, {5}[{9}, {10} if {8}], 0.0f32)
    {4}[vi, vj] = {11} }} }} }} }} }}
)",
                         to.rows.text, to.columns.text, high, wide, to.name, from.name,
                         sums ? "lhs + rhs" : "max(lhs, rhs)", none, inside, row, at, sums ? "l + t" : "max(l, t)");
    return to;
  }

  /// A product of bytes with signs, or without on one side, from which a zero point may be taken.
  Matrix quantized(const Matrix& from) {
    const std::int64_t width = random_.between(2, 9);
    const bool unsigned_left = random_.chance(50);
    const auto bytes = [&](const Matrix& matrix, bool is_unsigned) {
      const Matrix made = target("q", matrix.rows, matrix.columns, is_unsigned ? "u8" : "i8");
      const std::string element = fmt::format("{}[vi, vj]", matrix.name);
      block(made.name, made, element,
            fmt::format("{}[vi, vj] = cast<{}>(min(max({} * 16.0f32, {}.0f32), {}.0f32))", made.name,
                        is_unsigned ? "u8" : "i8", element, is_unsigned ? 0 : -128, is_unsigned ? 255 : 127));
      return made;
    };
    const Matrix weights = input(fmt::format("w{}", ++count_), from.columns, {std::to_string(width), {width, width}});
    const Matrix left = bytes(from, unsigned_left), right = bytes(weights, !unsigned_left && random_.chance(30));
    const Matrix sum = target("qs", from.rows, weights.columns, "i32");
    const std::string wide = fmt::format("cast<i32>({}[vi, vk])", left.name),
                      factor = random_.chance(35) ? fmt::format("({} - {}i32)", wide, random_.between(1, 128)) : wide;
    body_ += fmt::format(R"(for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
  block {3}(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
      reads {3}[vi, vj], {4}[vi, vk], {5}[vk, vj] writes {3}[vi, vj] {{
    reducer (lhs: i32) (rhs: i32) {{lhs + rhs}} identity {{0i32}}
    init {{ {3}[vi, vj] = 0i32 }}
    let l: i32 = {3}[vi, vj]
    let r: i32 = {6} * cast<i32>({5}[vk, vj])
    {3}[vi, vj] = l + r }} }} }} }}
)",
                         sum.rows.text, sum.columns.text, from.columns.text, sum.name, left.name, right.name, factor);
    Matrix to = target("qf", sum.rows, sum.columns);
    block(to.name, to, fmt::format("{}[vi, vj]", sum.name),
          fmt::format("{}[vi, vj] = cast<f32>({}[vi, vj]) * 0.0078125f32", to.name, sum.name));
    return to;
  }

  /// What two readers have each summed for themselves.
  Matrix twice(const Matrix& from) {
    const Extent one{"1", {1, 1}};
    const bool greatest = random_.chance(40);
    const Matrix first = target("tw", one, from.rows), second = target("tw", one, from.rows);
    for (const Matrix& made : {first, second})
      reduce(made, from, greatest ? "max(lhs, rhs)" : "lhs + rhs", greatest ? "-inf(f32)" : "0.0f32", "{}", "");
    const Matrix centred = target("ce", from.rows, from.columns);
    Matrix to = target("ce", from.rows, from.columns);
    const auto less = [&](const Matrix& made, const Matrix& of, const Matrix& sum) {
      const std::string element = fmt::format("{}[vi, vj]", of.name), total = fmt::format("{}[0, vi]", sum.name);
      block(made.name, made, element + ", " + total,
            fmt::format("{}[vi, vj] = {} - {} * 0.125f32", made.name, element, total));
    };
    less(centred, from, first);
    less(to, centred, second);
    return to;
  }

  /// The row's extreme, and perhaps the sum of what is taken from it, as in softmax.
  Matrix row_reduction(const Matrix& from) {
    const Extent one{"1", {1, 1}};
    const bool greatest = random_.chance(65);
    const Matrix extreme = target("mx", one, from.rows);
    reduce(extreme, from, greatest ? "max(lhs, rhs)" : "lhs + rhs", greatest ? "-inf(f32)" : "0.0f32", "{}", "");
    const std::string mine = fmt::format("{}[0, vi]", extreme.name), element = fmt::format("{}[vi, vj]", from.name);
    if (greatest && random_.chance(80)) {
      const Matrix sum = target("sm", one, from.rows);
      if (random_.chance(40)) return weighted_sum(from, sum, mine);
      reduce(sum, from, "lhs + rhs", "0.0f32", "exp({} - " + mine + ")", ", " + mine);
      const Matrix to = target("so", from.rows, from.columns);
      const std::string total = fmt::format("{}[0, vi]", sum.name);
      block(to.name, to, fmt::format("{}, {}, {}", element, mine, total),
            fmt::format("{}[vi, vj] = exp({} - {}) / {}", to.name, element, mine, total));
      return to;
    }
    const Matrix to = target("ce", from.rows, from.columns);
    block(to.name, to, element + ", " + mine, fmt::format("{}[vi, vj] = {} - {}", to.name, element, mine));
    return to;
  }

  /// Each row less its mean, times how far its elements are spread.
  Matrix centred(const Matrix& from) {
    const Extent one{"1", {1, 1}};
    const Matrix sum = target("to", one, from.rows), squares = target("sq", one, from.rows);
    reduce(sum, from, "lhs + rhs", "0.0f32", "{}", "");
    const Matrix mean = target("me", one, from.rows);
    block(mean.name, mean, fmt::format("{}[vi, vj]", sum.name),
          fmt::format("{}[vi, vj] = {}[vi, vj] / {}.0f32", mean.name, sum.name, from.columns.text));
    const std::string mine = fmt::format("{}[0, vi]", mean.name), spread = fmt::format("{}[0, vi]", squares.name);
    reduce(squares, from, "lhs + rhs", "0.0f32", fmt::format("({{}} - {0}) * ({1}[vi, vk] - {0})", mine, from.name),
           ", " + mine);
    const Matrix to = target("ce", from.rows, from.columns);
    const std::string element = fmt::format("{}[vi, vj]", from.name);
    block(to.name, to, fmt::format("{}, {}, {}", element, mine, spread),
          fmt::format("{}[vi, vj] = ({} - {}) * {} * 0.0625f32", to.name, element, mine, spread));
    return to;
  }

  /// Weights from the row's extreme, their sum, and rows of an input weighted by them, as in attention.
  Matrix weighted_sum(const Matrix& from, const Matrix& sum, const std::string& extreme) {
    const Matrix weights = target("we", from.rows, from.columns);
    const std::string element = fmt::format("{}[vi, vj]", from.name);
    block(weights.name, weights, element + ", " + extreme,
          fmt::format("{}[vi, vj] = exp({} - {})", weights.name, element, extreme));
    reduce(sum, weights, "lhs + rhs", "0.0f32", "{}", "");
    return contraction(weights);
  }

  void reduce(const Matrix& to, const Matrix& from, const std::string& result, const std::string& identity,
              const std::string& term, const std::string& more_reads) {
    const std::string element = fmt::format("{}[vi, vk]", from.name);
    std::string value = term;
    value.replace(value.find("{}"), 2, element);
    body_ += fmt::format(R"(for i in [0, {0}) {{ for k in [0, {1}) {{
  block {2}(space vi in [0, {0}) = i, reduce vk in [0, {1}) = k) reads {2}[0, vi], {3}{4} writes {2}[0, vi] {{
    reducer (lhs: f32) (rhs: f32) {{{5}}} identity {{{6}}}
    init {{ {2}[0, vi] = {6} }}
    let l: f32 = {2}[0, vi]
    let r: f32 = {7}
    {2}[0, vi] = {8} }} }} }}
)",
                         from.rows.text, from.columns.text, to.name, element, more_reads, result, identity, value,
                         result.starts_with("max") ? "max(l, r)" : "l + r");
  }

  GeneratedProgram finish() {
    std::vector<std::string> params, reads;
    for (const Matrix& m : inputs_) {
      params.push_back(fmt::format("{}: f32[{}, {}]", m.name, m.rows.text, m.columns.text));
      reads.push_back(m.name + "[..]");
    }
    params.push_back(fmt::format("out: f32[{}, {}]", output_.rows.text, output_.columns.text));
    for (const std::string& symbol : symbols_) params.push_back(symbol + ": i64");
    std::string text = fmt::format("func pipeline_{}({}) stage begin", seed_, fmt::join(params, ", "));
    if (!facts_.empty()) text += fmt::format(" facts {{ {} }}", fmt::join(facts_, ", "));
    text += fmt::format(" {{ block root() reads {} writes out[..] {{\n{}{}}} }}\n", fmt::join(reads, ", "),
                        allocations_, body_);
    GeneratedProgram program;
    program.seed = seed_;
    program.func = parse_func(text, fmt::format("pipeline_{}", seed_));
    const std::vector<VarRef> scalars = scalar_params(program.func);
    program.runs.resize(symbolic_ ? 2 : 1);
    for (size_t s = 0; s < scalars.size(); ++s) {
      program.scalar_sources.push_back({scalars[s]});
      for (size_t run = 0; run < program.runs.size(); ++run) {
        program.runs[run][scalars[s].get()] = symbol_values_[s][run];
      }
    }
    for (const Buffer& buffer : buffer_params(program.func)) {
      Parameter p;
      p.dtype = buffer->dtype;
      p.extents = buffer->shape;
      for (size_t d = 0; d < buffer->rank(); ++d) p.layout.order.push_back(d);
      p.layout.dimensions.resize(buffer->rank());
      program.parameters.push_back(std::move(p));
    }
    program.input_count = static_cast<int>(inputs_.size());
    program.bitwise = {false};
    return with_run(std::move(program), 0);
  }

  const std::uint64_t seed_;
  Random random_;
  bool symbolic_ = false, last_ = false, rounded_ = false;
  int count_ = 0;
  std::vector<std::string> symbols_, facts_;
  std::vector<std::vector<std::int64_t>> symbol_values_;
  std::vector<Matrix> inputs_;
  Matrix output_;
  std::string allocations_, body_;
};

}  // namespace

GeneratedProgram generate_pipeline(std::uint64_t seed) {
  return PipelineBuilder(seed).build();
}

}  // namespace lathe::testing
