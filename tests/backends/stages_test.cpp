#include "backends/stages.h"

#include <gtest/gtest.h>

#include "backends/cpu/cpu.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

Pass marking(const std::string& name, std::vector<std::string>* ran) {
  return {name, [name, ran](const Func& func, const Device&) {
            ran->push_back(name);
            return func;
          }};
}

Func copy_func(const std::string& stage = "begin") {
  return parse_func("func f(a: f32[8], c: f32[8]) stage " + stage +
                    " { block root() { for i in [0, 8) { block copy(space v in [0, 8) = i) reads a[v] writes c[v] "
                    "{ c[v] = a[v] } } } }");
}

template <class F>
std::string input_error(F f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no InputError";
}

TEST(Pipeline, RunsPassesInTheOrderOfStagesAndAnchors) {
  std::vector<std::string> ran;
  Pipeline p;
  p.append(Stage::flatten, marking("c", &ran));
  p.append(Stage::tiling, marking("b", &ran));
  p.insert_before("b", marking("a", &ran));
  p.insert_after("c", marking("d", &ran));
  p.append(Stage::tiling, marking("gone", &ran));
  p.remove("gone");
  Func out = lower(copy_func(), Device{}, p);
  EXPECT_EQ(ran, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(out->stage, Stage::end);
}

TEST(Pipeline, ReplacesAPassInItsPlace) {
  std::vector<std::string> ran;
  Pipeline p;
  p.append(Stage::tiling, marking("a", &ran));
  p.append(Stage::tiling, marking("b", &ran));
  p.replace("a", marking("better", &ran));
  lower(copy_func(), Device{}, p);
  EXPECT_EQ(ran, (std::vector<std::string>{"better", "b"}));
}

TEST(Pipeline, NamesWhatIsKnownWhenANameIsNot) {
  std::vector<std::string> ran;
  Pipeline p;
  p.append(Stage::tiling, marking("vectorize_loops", &ran));
  EXPECT_EQ(input_error([&] { p.remove("vectorise_loops"); }),
            "unknown pass 'vectorise_loops'; did you mean 'vectorize_loops'? known: vectorize_loops");
  EXPECT_EQ(input_error([&] { p.append(Stage::end, marking("vectorize_loops", &ran)); }),
            "a pass named 'vectorize_loops' is in the pipeline already");
  EXPECT_EQ(input_error([&] { p.insert_before("nothing", marking("x", &ran)); }),
            "unknown pass 'nothing'; known: vectorize_loops");
  LowerOptions options;
  options.skip = {"vectorize_loop"};
  EXPECT_EQ(input_error([&] { lower(copy_func(), Device{}, p, options); }),
            "unknown pass 'vectorize_loop'; did you mean 'vectorize_loops'? known: vectorize_loops");
}

TEST(Pipeline, UnknownDeviceFamilyListsTheKnown) {
  register_cpu();
  register_cpu();
  std::string message = input_error([] { find_pipeline("gpu"); });
  EXPECT_NE(message.find("unknown device family 'gpu'"), std::string::npos) << message;
  EXPECT_NE(message.find("cpu"), std::string::npos) << message;
  EXPECT_EQ(input_error([] { register_pipeline("cpu", Pipeline()); }),
            "a pipeline for device family 'cpu' is registered already");
}

TEST(Lower, StopsAfterAStageAndResumesFromItsText) {
  register_cpu();
  Pipeline p = find_pipeline("cpu");
  Device device = host_device();
  Func whole = lower(copy_func(), device, p);
  for (Stage stage :
       {Stage::begin, Stage::tuning, Stage::tiling, Stage::before_flatten, Stage::flatten, Stage::before_emit}) {
    LowerOptions options;
    options.stop_after = stage;
    Func part = lower(copy_func(), device, p, options);
    EXPECT_EQ(part->stage, stage);
    EXPECT_EQ(print(lower(parse_func(print(part)), device, p)), print(whole)) << to_string(stage);
  }
}

TEST(Lower, StopsAfterAPassAndSkipsPasses) {
  std::vector<std::string> ran;
  Pipeline p;
  for (const char* name : {"a", "b", "c"}) p.append(Stage::tiling, marking(name, &ran));
  LowerOptions options;
  options.stop_after_pass = "b";
  options.skip = {"a"};
  Func out = lower(copy_func(), Device{}, p, options);
  EXPECT_EQ(ran, std::vector<std::string>{"b"});
  EXPECT_EQ(out->stage, Stage::tuning) << "a stage that was not run to its end is not reached";
}

TEST(Lower, ReportsEachPassItsTimeAndWhetherItChangedAnything) {
  register_cpu();
  LowerOptions options;
  std::vector<PassTiming> timings;
  std::vector<std::pair<std::string, bool>> seen;
  options.timings = &timings;
  options.after_pass = [&](Stage, const std::string& pass, const Func&, bool changed) {
    seen.emplace_back(pass, changed);
  };
  Pipeline p = find_pipeline("cpu");
  lower(copy_func(), host_device(), p, options);
  std::vector<std::string> names;
  for (const PassTiming& t : timings) names.push_back(t.pass);
  EXPECT_EQ(names, p.pass_names());
  for (const auto& [pass, changed] : seen) {
    EXPECT_EQ(changed, pass == "lower_blocks") << pass;
  }
}

TEST(Lower, AFuncAtTheEndStaysAsItIs) {
  register_cpu();
  Func done = lower(copy_func(), host_device(), find_pipeline("cpu"));
  EXPECT_EQ(lower(done, host_device(), find_pipeline("cpu")), done);
}

}  // namespace
}  // namespace lathe
