#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// A schedule apart from its program: the lines of Schedule::record, what the program's blocks and buffers were called,
/// and what each line added to them. So it replays on the same operator of any shape, whatever its blocks, buffers and
/// variables are called there: names correspond by their order in the program.
struct Recording {
  struct Line {
    std::string text;
    std::vector<std::string> blocks, buffers;  ///< that the line added, in program order
  };
  std::string operation;  ///< `operation_of` the program
  std::vector<std::string> blocks, buffers;
  std::vector<Line> lines;
};

/// What a program computes, but for its extents, constants and names, as a word: programs that a recording can pass
/// between have the same one.
std::string operation_of(const Func& func);

/// What was applied to the schedule since it was made.
Recording recording_of(const Schedule& schedule);

/// Applies a recording. One of another operation is an InputError; a line that this program does not allow is the
/// primitive's own Refusal. Either way the schedule is as before.
void replay(Schedule& schedule, const Recording& recording);

/// The text of a recording, one line each way.
std::string print(const Recording& recording);
/// Reads it back; a mistake is an InputError(syntax) "FILE:LINE: expected X, found Y".
Recording parse_recording(std::string_view text, std::string_view file = "<text>");

}  // namespace lathe
