#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "ir/intrinsics.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/text/syntax.h"
#include "ir/visitor.h"
#include "tests/golden.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> corpus(const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(LATHE_TEST_DIR)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Counts what the corpus uses, by row.
class Census : public Visitor {
 public:
  using Visitor::visit;
  std::set<std::string> seen;

  void add(DType dtype) { seen.insert("dtype " + to_string(dtype.element())); }
  void add(const Buffer& buffer) {
    seen.insert("buffer of " + to_string(buffer->dtype));
    seen.insert("space " + buffer->space);
    if (!buffer->strides.empty()) seen.insert("strides");
    if (buffer->offset) seen.insert("offset");
    if (buffer->view_of) seen.insert("view_of");
    if (buffer->alignment) seen.insert("align");
  }
  void visit(const Expr& e) override {
    seen.insert("node " + std::string(to_string(e->kind)));
    if (const auto* node = e.as<Unary>()) seen.insert("op " + std::string(to_string(node->op)));
    if (const auto* node = e.as<Binary>()) seen.insert("op " + std::string(to_string(node->op)));
    if (const auto* node = e.as<Call>())
      seen.insert("call " + (node->call_kind == CallKind::intrinsic ? node->callee : "extern"));
    if (e.as<IntImm>() || e.as<FloatImm>()) seen.insert("literal of " + to_string(e->dtype.element()));
    if (e.as<Load>() && e.as<Load>()->mask) seen.insert("masked load");
    if (e.as<Load>()) add(e.as<Load>()->buffer);
    Visitor::visit(e);
  }
  void visit(const Stmt& s) override {
    seen.insert("node " + std::string(to_string(s->kind)));
    if (const auto* node = s.as<For>()) seen.insert("for " + std::string(to_string(node->for_kind)));
    if (const auto* node = s.as<Block>()) add(node->f);
    if (s.as<Store>()) add(s.as<Store>()->buffer);
    if (s.as<Store>() && s.as<Store>()->mask) seen.insert("masked store");
    Visitor::visit(s);
  }

 private:
  void add(const Block::Fields& f) {
    for (const Iter& iter : f.iters) seen.insert("iter " + std::string(to_string(iter.kind)));
    for (const Region& region : f.reads) seen.insert(fmt::format("provenance {}", static_cast<int>(region.provenance)));
    for (const Region& region : f.writes)
      seen.insert(fmt::format("provenance {}", static_cast<int>(region.provenance)));
    for (const Buffer& buffer : f.allocs) add(buffer);
    if (f.reducer) seen.insert(f.reducer->results.size() > 1 ? "tuple reducer" : "reducer");
    if (f.predicate) seen.insert("predicate");
    if (f.init) seen.insert("init");
  }
};

void expect_round_trip(const Func& func) {
  const std::string text = print(func);
  const Func back = parse_func(text, "printed");
  EXPECT_TRUE(equal(func, back)) << text << print(back);
  EXPECT_EQ(structural_hash(func), structural_hash(back)) << text;
  EXPECT_EQ(print(back), text);
}

TEST(RoundTrip, EveryFileOfTheCorpusComesBackEqualAndPrintsTheSame) {
  const std::vector<fs::path> files = corpus(".tir");
  ASSERT_GE(files.size(), 10u);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.filename().string());
    expect_round_trip(parse_func(testing::read_file(file), file.filename().string()));
  }
}

TEST(RoundTrip, TheCorpusCoversTheLanguage) {
  Census census;
  for (const fs::path& file : corpus(".tir")) {
    const Func func = parse_func(testing::read_file(file), file.filename().string());
    for (const Buffer& buffer : buffer_params(func)) census.add(buffer);
    census.seen.insert("stage " + std::string(to_string(func->stage)));
    census.visit(func->body);
  }
  std::vector<std::string> rows = {"masked load",  "masked store", "strides",        "offset",         "view_of",
                                   "align",        "reducer",      "tuple reducer",  "predicate",      "init",
                                   "call extern",  "space worker", "space register", "space constant", "space global",
                                   "provenance 0", "provenance 1", "provenance 2"};
#define LATHE_ROW(name) rows.push_back("node " #name);
  LATHE_EXPR_NODES(LATHE_ROW)
  LATHE_STMT_NODES(LATHE_ROW)
#undef LATHE_ROW
#define LATHE_ROW(name, ...) rows.push_back("op " #name);
  LATHE_UNARY_OPS(LATHE_ROW)
  LATHE_BINARY_OPS(LATHE_ROW)
#undef LATHE_ROW
  for (const DType dtype : all_dtypes) {
    rows.push_back("buffer of " + to_string(dtype));
    rows.push_back("literal of " + to_string(dtype));
  }
  for (const Intrinsic& intrinsic : intrinsics()) rows.push_back("call " + std::string(intrinsic.name));
  for (const std::string& stage : stage_names()) rows.push_back("stage " + stage);
  for (const char* kind : {"serial", "parallel", "vectorized", "unrolled", "bound"})
    rows.push_back(std::string("for ") + kind);
  for (const char* kind : {"space", "reduce", "ordered", "opaque"}) rows.push_back(std::string("iter ") + kind);
  for (const std::string& row : rows) EXPECT_TRUE(census.seen.contains(row)) << "no file of the corpus has " << row;
}

TEST(RoundTrip, ProgramsComeBack) {
  for (const fs::path& file : corpus(".program")) {
    const Program program = parse_program(testing::read_file(file), file.filename().string());
    const std::string text = print(program);
    const Program back = parse_program(text, "printed");
    EXPECT_EQ(print(back), text);
    ASSERT_EQ(back.funcs.size(), program.funcs.size());
    for (size_t i = 0; i < program.funcs.size(); ++i) EXPECT_TRUE(equal(program.funcs[i], back.funcs[i]));
    EXPECT_EQ(back.values.size(), 3u);
    EXPECT_EQ(back.edges.size(), 4u);
    EXPECT_EQ(back.outputs, program.outputs);
    // A Func's scalar of a symbol's name is that symbol.
    EXPECT_TRUE(uses_var(back.values[0].shape[1], scalar_params(back.funcs[0])[0].get()));
  }
}

/// Random trees over scalars, for the parentheses.
class RandomExpr {
 public:
  explicit RandomExpr(std::uint64_t seed) : random_(seed) {}

  Expr make(DType dtype, int depth) {
    if (depth == 0) return leaf(dtype);
    if (dtype == boolean) {
      switch (pick(4)) {
        case 0:
          return Unary::make(UnaryOp::logical_not, make(boolean, depth - 1));
        case 1:
          return Binary::make(pick(2) ? BinaryOp::logical_and : BinaryOp::logical_or, make(boolean, depth - 1),
                              make(boolean, depth - 1));
        default: {
          const DType operand = pick(2) ? i64 : pick(2) ? f32 : boolean;
          const auto op = static_cast<BinaryOp>(static_cast<int>(BinaryOp::eq) + pick(6));
          return Binary::make(op, make(operand, depth - 1), make(operand, depth - 1));
        }
      }
    }
    const std::vector<BinaryOp> ints = {BinaryOp::add,       BinaryOp::sub,     BinaryOp::mul,    BinaryOp::floor_div,
                                        BinaryOp::floor_mod, BinaryOp::bit_and, BinaryOp::bit_or, BinaryOp::bit_xor,
                                        BinaryOp::shl,       BinaryOp::shr,     BinaryOp::min};
    const std::vector<BinaryOp> floats = {BinaryOp::add, BinaryOp::sub,       BinaryOp::mul,
                                          BinaryOp::div, BinaryOp::floor_div, BinaryOp::pow};
    switch (pick(8)) {
      case 0:
        return Unary::make(UnaryOp::neg, make(dtype, depth - 1));
      case 1:
        return dtype == i64 ? Unary::make(UnaryOp::bit_not, make(dtype, depth - 1))
                            : Unary::make(UnaryOp::sqrt, make(dtype, depth - 1));
      case 2:
        return Select::make(make(boolean, depth - 1), make(dtype, depth - 1), make(dtype, depth - 1));
      case 3:
        return Cast::make(dtype, make(dtype == i64 ? f32 : i64, depth - 1));
      default: {
        const auto& ops = dtype == i64 ? ints : floats;
        return Binary::make(ops[static_cast<size_t>(pick(static_cast<int>(ops.size())))], make(dtype, depth - 1),
                            make(dtype, depth - 1));
      }
    }
  }

  const VarRef a = Var::make("a"), x = Var::make("x", f32), p = Var::make("p", boolean);

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  Expr leaf(DType dtype) {
    if (dtype == boolean) return pick(2) ? Expr(p) : IntImm::make(boolean, pick(2));
    if (dtype == i64)
      return pick(2) ? Expr(a) : IntImm::make(i64, pick(2) ? pick(20) - 10 : static_cast<std::int64_t>(random_()));
    const auto bits = static_cast<std::uint32_t>(random_());
    return pick(2) ? Expr(x) : FloatImm::make(f32, static_cast<double>(std::bit_cast<float>(bits)));
  }
  std::mt19937_64 random_;
};

TEST(RoundTrip, RandomExpressionsKeepTheirTree) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    RandomExpr random(seed);
    const DType dtype = seed % 3 == 0 ? boolean : seed % 3 == 1 ? i64 : f32;
    const Buffer out = BufferNode::make("out", dtype, {index(1)});
    const Expr e = random.make(dtype, 1 + static_cast<int>(seed % 5));
    const Func func = FuncNode::make("f", {out, random.a, random.x, random.p}, Store::make(out, {index(0)}, e));
    const Func back = parse_func(print(func));
    ASSERT_TRUE(equal(func, back)) << "seed " << seed << "\n" << print(func) << print(back);
  }
}

TEST(RoundTrip, FloatsOfEveryTypeKeepTheirBits) {
  std::mt19937_64 random(7);
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const Buffer out = BufferNode::make("out", dtype, {index(1)});
    for (int i = 0; i < 3000; ++i) {
      const double value = dtype == f64
                               ? std::bit_cast<double>(random())
                               : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
      const Func func = FuncNode::make("f", {out}, Store::make(out, {index(0)}, FloatImm::make(dtype, value)));
      ASSERT_TRUE(equal(func, parse_func(print(func)))) << print(func);
    }
  }
}

TEST(Print, NamesAreMadeUniqueAndFreeNamesKeepTheirs) {
  const VarRef i = Var::make("i"), j = Var::make("i"), k = Var::make("i_1");
  EXPECT_EQ(print(i + j * k), "i + i_1 * i_1_1");
}

TEST(Print, ParenthesesAreOnlyWhereTheTreeNeedsThem) {
  const VarRef a = Var::make("a"), b = Var::make("b");
  EXPECT_EQ(print((a + b) * 2 - (a - b)), "(a + b) * 2 - (a - b)");
  EXPECT_EQ(print(a - b - a), "a - b - a");
  EXPECT_EQ(print(logical_and(lt(a, b), eq(a + 1, b))), "a < b && a + 1 == b");
  EXPECT_EQ(print(-(a + b)), "-(a + b)");
  EXPECT_EQ(print(floor_div(a, b) * b), "a // b * b");
}

TEST(Grammar, TheReadmeShowsEveryWordAndOperator) {
  const std::string readme = testing::read_file(LATHE_SOURCE_DIR "/ir/README.md");
  for (const std::string_view word : text::keywords()) EXPECT_NE(readme.find(word), std::string::npos) << word;
  for (const std::string& stage : stage_names()) EXPECT_NE(readme.find(stage), std::string::npos) << stage;
  for (const DType dtype : all_dtypes) EXPECT_NE(readme.find(to_string(dtype)), std::string::npos) << to_string(dtype);
  for (int op = 0; op <= static_cast<int>(BinaryOp::nextafter); ++op) {
    const text::Infix* infix = text::find_infix(static_cast<BinaryOp>(op));
    if (!infix) continue;
    EXPECT_NE(readme.find(infix->token), std::string::npos) << infix->token;
  }
}

TEST(Print, AMarkedStatementCarriesItsNoteOnItsFirstLine) {
  const Func func = parse_func("func f(x: f32[4]) { for i in [0, 4) { x[i] = 1.0f32 } x[0] = 2.0f32 }");
  const Stmt loop = func->body.as<Seq>()->stmts[0];
  testing::expect_golden(print_marked(func, loop, "outside io"), "marked.tir");
}

TEST(Print, AScheduledFuncReadsAsTheGrammarShowsIt) {
  testing::expect_golden(print(parse_func(testing::read_file(fs::path(LATHE_TEST_DIR) / "elementwise.tir"))),
                         "elementwise.tir");
  testing::expect_golden(print(parse_func(testing::read_file(fs::path(LATHE_TEST_DIR) / "buffers.tir"))),
                         "buffers.tir");
}

}  // namespace
}  // namespace lathe
