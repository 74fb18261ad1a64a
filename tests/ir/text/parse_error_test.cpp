#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/golden.h"

namespace lathe {
namespace {

struct Case {
  const char* name;
  const char* text;
};

constexpr Case cases[] = {
    {"empty", ""},
    {"not_a_func", "x = 3"},
    {"missing_brace", "func f(x: f32[4]) {\n  x[0] = 1.0f32\n"},
    {"text_behind", "func f(x: f32[4]) {\n}\n}"},
    {"unknown_variable", "func f(x: f32[4], count: i64) {\n  x[cuont] = 1.0f32\n}"},
    {"unknown_buffer", "func f(input: f32[4], output: f32[4]) {\n  output[0] = inptu[0]\n}"},
    {"unknown_type", "func f(x: f23[4]) {\n}"},
    {"unknown_function", "func f(x: f32[4]) {\n  x[0] = expo(x[1])\n}"},
    {"unknown_stage", "func f(x: f32[4]) stage flaten {\n}"},
    {"unknown_statement", "func f(x: f32[4]) {\n  fro i in [0, 4) {\n  }\n}"},
    {"unknown_nothing_known", "func f() {\n  eval x\n}"},
    {"variable_as_buffer", "func f(n: i64) {\n  n[0] = 1\n}"},
    {"buffer_as_variable", "func f(x: f32[4]) {\n  x[0] = x\n}"},
    {"out_of_scope", "func f(x: f32[4]) {\n  for i in [0, 4) {\n  }\n  x[i] = 1.0f32\n}"},
    {"iter_in_predicate", "func f(x: f32[4]) {\n  block b(space v in [0, 4) = 0) where v < 3 {\n  }\n}"},
    {"declared_twice", "func f(x: f32[4]) {\n  for x in [0, 4) {\n  }\n}"},
    {"parameter_twice", "func f(x: f32[4], x: f32[4]) {\n}"},
    {"mixed_types", "func f(x: f32[4], n: i64) {\n  x[0] = 1.0f32 + n\n}"},
    {"float_modulo_bits", "func f(x: f32[4]) {\n  x[0] = x[0] & x[1]\n}"},
    {"integer_division", "func f(x: i64[4]) {\n  x[0] = x[0] / x[1]\n}"},
    {"stored_type", "func f(x: f32[4]) {\n  x[0] = 1\n}"},
    {"rank", "func f(x: f32[4, 4, 4]) {\n  x[0, 0] = 1.0f32\n}"},
    {"index_type", "func f(x: f32[4], n: i32) {\n  x[n] = 1.0f32\n}"},
    {"mask_lanes", "func f(x: f32[4], b: bool[4]) {\n  x[ramp(0, 1, 4) if b[ramp(0, 1, 2)]] = 1.0f32x4\n}"},
    {"select_arms", "func f(x: f32[4]) {\n  x[0] = select(true, 1.0f32, 2.0f64)\n}"},
    {"arity", "func f(x: f32[4]) {\n  x[0] = pow(x[0])\n}"},
    {"intrinsic_arity", "func f(x: f32[4]) {\n  x[0] = fma(x[0], x[1])\n}"},
    {"intrinsic_type", "func f(x: f32[4]) {\n  x[0] = fma(x[0], x[1], 1.0f64)\n}"},
    {"reinterpret_width", "func f(x: f32[4]) {\n  x[0] = reinterpret<f64>(x[0])\n}"},
    {"float_without_type", "func f(x: f32[4]) {\n  x[0] = 1.5\n}"},
    {"literal_suffix", "func f(x: f32[4]) {\n  x[0] = 1.5f23\n}"},
    {"literal_range", "func f(x: u8[4]) {\n  x[0] = 256u8\n}"},
    {"literal_negative", "func f(x: u8[4]) {\n  x[0] = -1u8\n}"},
    {"literal_too_long", "func f(x: i64[4]) {\n  x[0] = 99999999999999999999\n}"},
    {"fraction_of_integer", "func f(x: i64[4]) {\n  x[0] = 1.5i64\n}"},
    {"nan_fraction", "func f(x: f32[4]) {\n  x[0] = nan(f32, 0x0)\n}"},
    {"lanes", "func f(x: f32[4]) {\n  x[0] = broadcast(1.0f32, 70000)\n}"},
    {"shuffle_lane", "func f(x: f32[4]) {\n  x[0] = shuffle([1.0f32x4], [4])\n}"},
    {"bad_character", "func f(x: f32[4]) {\n  x[0] = 1.0f32;\n}"},
    {"bad_byte", "func f(x: f32[4]) {\n  x[0] = \x80\n}"},
    {"open_string", "func f(x: f32[4]) {\n  assert true, \"no end\n}"},
    {"bad_escape", "func f(x: f32[4]) {\n  assert true, \"\\q\"\n}"},
    {"keyword_as_name", "func f(for: f32[4]) {\n}"},
    {"vector_buffer", "func f(x: f32x4[4]) {\n}"},
    {"stride_count", "func f(x: f32[4, 4] strides [4]) {\n}"},
    {"loop_type", "func f(x: f32[4]) {\n  for i: i32 in [0, 4) {\n  }\n}"},
    {"loop_range", "func f(x: f32[4]) {\n  for i in [0, 4] {\n  }\n}"},
    {"if_condition", "func f(x: f32[4]) {\n  if x[0] {\n  }\n}"},
    {"let_type", "func f(x: f32[4]) {\n  let y: f64 = x[0]\n}"},
    {"assert_message", "func f(x: f32[4]) {\n  assert true, 3\n}"},
    {"iter_kind", "func f(x: f32[4]) {\n  block b(spatial v in [0, 4) = 0) {\n  }\n}"},
    {"reducer_tuple",
     "func f(x: f32[4]) {\n  block b() {\n    reducer (a: f32) (b: f32) {a + b, a} identity {0.0f32}\n  }\n}"},
    {"whole_region_rank", "func f(x: f32[4]) {\n  block b() reads x[0, ..] {\n  }\n}"},
    {"long_line",
     "func f(x: f32[4]) { x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 y[0] = "
     "1.0f32 "
     "x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 x[0] = 1.0f32 }"},
};

TEST(ParseError, EveryMistakeIsNamedWithItsPlace) {
  std::string all;
  for (const Case& c : cases) {
    try {
      parse_func(c.text, std::string(c.name) + ".tir");
      ADD_FAILURE() << c.name << " parsed";
    } catch (const InputError& error) {
      EXPECT_EQ(error.mistake, Mistake::syntax) << c.name;
      EXPECT_NE(error.message().find("expected "), std::string::npos) << error.message();
      all += error.message() + "\n\n";
    }
    // The next text parses as if nothing had happened.
    EXPECT_NO_THROW(parse_func("func f(x: f32[4]) {\n  x[0] = 1.0f32\n}"));
  }
  testing::expect_golden(all, "parse_errors.txt");
}

TEST(ParseError, AProgramsMistakesAreNamedWithTheirPlace) {
  std::string all;
  for (const char* text :
       {"func f() {\n}", "program {\n  values {\n    x: f32[4]\n  }\n  inputs {y}\n  outputs {}\n}",
        "program {\n  values {\n    x: f32[4]\n    x: f32[4]\n  }\n  inputs {}\n  outputs {}\n}",
        "program {\n  values {\n    x: f32[4]\n  }\n  inputs {}\n  outputs {x}\n  edge x -> func 1 param 0\n}",
        "program {\n  values {\n    x: f32[4]\n  }\n  inputs {}\n  outputs {x}\n  edge x -> func 0 param 1\n}\nfunc "
        "f(x: f32[4]) {\n}"}) {
    try {
      parse_program(text, "program.tir");
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      all += error.message() + "\n\n";
    }
  }
  testing::expect_golden(all, "program_errors.txt");
}

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(ParseError, DeepNestingIsAnErrorAndNoCrash) {
  constexpr int n = 200000;
  const std::string open = "func f(x: f32[4], p: bool[4], n: i64) {\n";
  for (const std::string& text :
       {open + "x[0] = " + repeat("(", n), open + "x[0] = " + repeat("-", n) + "x[0]",
        open + "x[0] = " + repeat("abs(", n), open + "x[0] = x[0]" + repeat(" + x[0]", n) + "}",
        open + repeat("if p[0] {", n), open + repeat("if p[0] {} else ", n) + "{} }", open + repeat("let a = n {", n),
        open + repeat("block() {", n), open + repeat("while p[0] {", n), open + "x[" + repeat("n + (", n),
        open + "p[0] = " + repeat("p[0] || p[0] && n < n + n * (n | ", n),
        open + "x[0] = " + repeat("x[0] + (", 900) + repeat("x[0]" + repeat(" + x[0]", 1700) + ")", 900) + "}"}) {
    EXPECT_THROW(parse_func(text), InputError) << text.substr(0, 80);
  }
  std::string lets = open;
  for (int i = 0; i < 10000; ++i) lets += fmt::format("let a{} = n\n", i);
  EXPECT_THROW(parse_func(lets + "}"), InputError);
}

TEST(ParseError, LimitedNestingParsesAndPrints) {
  const std::string text =
      "func f(x: f32[4]) {\n  x[0] = " + repeat("(x[0] + ", 300) + "x[0]" + repeat(")", 300) + "\n}";
  EXPECT_NO_THROW(print(parse_func(text)));
  EXPECT_NO_THROW(print(parse_func("func f(x: f32[4]) {\n  x[0] = x[0]" + repeat(" + x[0]", 1800) + "\n}")));
}

/// Whatever stands in a file, parsing ends with a Func or an InputError.
TEST(ParseError, DamagedTextNeverCrashes) {
  std::mt19937_64 random(11);
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_TEST_DIR)) {
    if (entry.path().extension() == ".tir") texts.push_back(testing::read_file(entry.path()));
  }
  std::sort(texts.begin(), texts.end());
  ASSERT_FALSE(texts.empty());
  int parsed = 0, refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = texts[random() % texts.size()];
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int e = 0; e < edits; ++e) {
      const size_t at = random() % text.size(), other = random() % text.size();
      const size_t length = std::min<size_t>(random() % 12, text.size() - std::max(at, other));
      switch (random() % 4) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text[at] = static_cast<char>(random());
          break;
        case 2:
          text.insert(at, text.substr(other, length));
          break;
        default:
          text.replace(at, length, text.substr(other, length));
          break;
      }
      if (text.empty()) break;
    }
    try {
      const Func func = parse_func(text);
      ++parsed;
      ASSERT_EQ(print(parse_func(print(func))), print(func)) << text;
    } catch (const InputError& error) {
      ++refused;
      ASSERT_EQ(error.mistake, Mistake::syntax) << error.message();
    }
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace lathe
