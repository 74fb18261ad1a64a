"""Runs clang-tidy over sources, two at a time, leaving out those that were clean the last time.

usage: lint.py BUILD_DIRECTORY SOURCE...

A clean run is remembered in BUILD_DIRECTORY/lint under a hash of what its findings depend on: the source and every
header below it, the flags, .clang-tidy and the version of the tool.
"""

import concurrent.futures
import functools
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

TIDY = "clang-tidy-19"
GCC_ONLY = " -fno-reorder-blocks-and-partition"  # an error for Clang


def output_of(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


@functools.cache
def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


def main(arguments):
    build, sources = pathlib.Path(arguments[0]), arguments[1:]
    clean = build / "lint"
    clean.mkdir(exist_ok=True)
    commands = (build / "compile_commands.json").read_text().replace(GCC_ONLY, "")
    (clean / "compile_commands.json").write_text(commands)
    entries = {entry["file"]: entry for entry in json.loads(commands)}
    version = output_of([TIDY, "--version"])

    def key(entry):
        command = re.sub(r" -o \S+", "", entry["command"])
        rule = output_of([*shlex.split(command), "-M"], cwd=entry["directory"])
        whole = hashlib.sha256((version + command).encode() + digest(".clang-tidy"))
        for path in rule.replace("\\\n", " ").split(":", 1)[1].split():
            whole.update(digest(str(pathlib.Path(entry["directory"], path))))
        return whole.hexdigest()

    def findings(source):
        entry = entries.get(str(pathlib.Path(source).resolve()))
        if entry is None:
            return f"{source}: the build does not compile it\n"
        stamp = clean / key(entry)
        if stamp.exists():
            return ""
        run = subprocess.run([TIDY, "-p", clean, "--quiet", source], capture_output=True, text=True)
        if run.returncode == 0:
            stamp.touch()
            return ""
        return run.stdout or run.stderr

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for found in pool.map(findings, sources):
            failed += bool(found)
            print(found, end="", flush=True)
    print(f"clang-tidy: {len(sources)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
