#pragma once

namespace lathe {

/// The `lathe` command. Returns its exit status: 0, 1 for a mistake or a refusal, 2 for a bad command line, 70 for a
/// bug.
int cli_main(int argc, const char* const* argv);

}  // namespace lathe
