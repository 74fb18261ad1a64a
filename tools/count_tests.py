"""Sums the results of the C++ test executables (GTEST_OUTPUT=json:DIRECTORY/) and says what was left out and why.

usage: count_tests.py PRESET RESULTS_DIRECTORY LEFT_OUT
       count_tests.py --filter PRESET LEFT_OUT       the GTEST_FILTER that leaves out what the list names
"""

import json
import pathlib
import sys


def left_out(path, preset):
    """The (pattern, reason) pairs of a preset: lines `PRESET PATTERN REASON`, # for comments."""
    lines = [line.split(None, 2) for line in pathlib.Path(path).read_text().splitlines() if line and line[0] != "#"]
    return [(pattern, reason) for name, pattern, reason in lines if name == preset]


def main(arguments):
    if arguments[0] == "--filter":
        patterns = [pattern for pattern, _ in left_out(arguments[2], arguments[1])]
        print("*-" + ":".join(patterns) if patterns else "*")
        return 0
    preset, directory, listed = arguments
    run = disabled = failed = skipped = 0
    for path in sorted(pathlib.Path(directory).glob("*.json")):
        for suite in json.loads(path.read_text())["testsuites"]:
            for test in suite["testsuite"]:
                run += test["status"] == "RUN"
                disabled += test["status"] != "RUN"
                failed += "failures" in test
                skipped += test["result"] == "SKIPPED"
    reasons = left_out(listed, preset)
    print(f"{preset}: {run} C++ tests run, {failed} failed, {skipped} skipped, {disabled} disabled, {len(reasons)} left out")
    for pattern, reason in reasons:
        print(f"  left out: {pattern}: {reason}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
