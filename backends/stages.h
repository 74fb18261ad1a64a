#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// A rewrite with a name. `run` sees the device so that a pass can ask what it offers.
struct Pass {
  std::string name;
  std::function<Func(const Func&, const Device&)> run;
};

/// The passes of each stage, in order, for one family of devices. Adding a name twice, or an anchor that does not
/// exist, is an InputError that lists the known names.
class Pipeline {
 public:
  void append(Stage stage, Pass pass);
  void insert_before(const std::string& anchor, Pass pass);
  void insert_after(const std::string& anchor, Pass pass);
  void replace(const std::string& name, Pass pass);
  void remove(const std::string& name);
  const std::vector<Pass>& passes(Stage stage) const;
  std::vector<std::string> pass_names() const;
  /// The stage of a pass; an InputError that lists the known names.
  Stage stage_of(const std::string& name) const;

 private:
  std::vector<Pass> stages_[7];
};

/// Registers a pipeline under a device family's name ("cpu"); a second registration of a name is refused.
void register_pipeline(const std::string& family, Pipeline pipeline);
/// A copy of the registered pipeline; unknown names are an InputError that lists those known.
Pipeline find_pipeline(const std::string& family);

struct PassTiming {
  std::string stage, pass;
  double milliseconds;
};

struct LowerOptions {
  std::optional<Stage> stop_after;
  std::optional<std::string> stop_after_pass;
  std::vector<std::string> skip;  ///< pass names to leave out
  bool verify_each = false;       ///< verify after each pass: a finding proved wrong is a Bug that names the pass
  std::function<void(Stage, const std::string& pass, const Func&, bool changed)> after_pass;
  std::vector<PassTiming>* timings = nullptr;
};

/// Runs passes of a pipeline by name, in the order given, whatever their stages. The result stands at the last stage
/// whose passes are all behind it. Unknown names are an InputError that lists those known.
Func run_passes(const Func& func, const Device& device, const Pipeline& pipeline, const std::vector<std::string>& names,
                const LowerOptions& options = {});

/// Runs the stages that lie after func->stage, in order; the result's stage is the last one run to its end. The passes
/// of `begin` run on every Func that comes in at `begin`: tracing and scheduling leave Funcs there. A Func that
/// `stop_after_pass` left in the middle of a stage says so in its attribute `last_pass`, and lowering goes on behind
/// that pass: a printed Func resumes where it was printed.
///
/// Requires:
///   1. loops are bound to axes that the device has, and every access is to memory that it has and lets reach
///      (verify_spaces)
Func lower(const Func& func, const Device& device, const Pipeline& pipeline, const LowerOptions& options = {});

}  // namespace lathe
