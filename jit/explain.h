#pragma once
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// A program after one step of its way: tracing, a schedule primitive, a lowering pass.
struct ExplainStep {
  std::string title;   ///< "traced", a record's line, or a pass with its stage before it
  std::string origin;  ///< "trace", "schedule", or the stage's name
  Func func;
  std::vector<std::string> decisions;  ///< of the scheduler, before this primitive: what it chose and why, or why not
};

/// The way of a program to the last stage: one step for tracing, one for every primitive that the scheduler applies,
/// one for every pass that changes something. A Func that is past `begin` starts where it stands.
std::vector<ExplainStep> explain_steps(const Func& func, const Device& device);

/// Two texts side by side, line by line.
struct DiffLine {
  enum class Kind : std::uint8_t { same, indented, removed, added, changed } kind;
  std::string before, after;  ///< empty where that side has no line
};
/// By the longest common subsequence of lines whatever their indentation; a line that only moved sideways is
/// `indented`, a removed line directly beside an added one `changed`.
std::vector<DiffLine> diff_lines(const std::string& before, const std::string& after);

/// The steps as text: the first program whole, then the lines that each step removes and adds.
std::string explain_text(const std::vector<ExplainStep>& steps);
/// The steps as one self-contained page: each step's program beside the one before, changed lines marked, its buffers
/// with their spaces, sizes and the regions that blocks read and write.
std::string explain_html(const std::vector<ExplainStep>& steps);

}  // namespace lathe
