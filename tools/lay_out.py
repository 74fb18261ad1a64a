"""Lays the code of the extension module out anew, along the paths that compiling takes: blocks that follow each other
side by side, what never runs apart. A compile runs most of its code a few times only and waits for instructions as much
as for anything else; on a layout of its own it takes 0.8 to 0.85 of the time (Cascade Lake).

usage: lay_out.py BOLT MODULE PROFILE

MODULE is linked with its relocations (--emit-relocs) and is replaced. PROFILE is made when it is not there, by a run of
an instrumented copy, and used again by later links: most of the code is LLVM's and stays what it is. Without a layout
the module is the same, but slower to compile; where BOLT fails, or LATHE_LAYOUT is off, it is left as it was linked.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = [
    "-reorder-blocks=ext-tsp",
    "-reorder-functions=cdsort",
    "-split-functions",
    "-split-all-cold",
    "-split-eh",
    "-use-gnu-stack",
]
# Every operator of the suite, and those whose compile times are measured in two shapes each.
TRAINING = """
import compile_times, suite, suite.case, lathe
for case in suite.cases():
    case.function.lower(*case.inputs).text("asm")
for _, _, function, shapes in compile_times.operators():
    for i in range(2):
        lathe.jit(function)(*(suite.case.f32(suite.case.seeded(0), *shape) for shape in shapes(i)))
"""


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stdout[-2000:]}")


def make_profile(bolt, module, profile, folder):
    """Runs the training on an instrumented copy of the module, beside links to the package's other files."""
    package = folder / module.parent.name
    package.mkdir()
    for file in module.parent.iterdir():
        if file != module:
            (package / file.name).symlink_to(file.resolve())
    counts = folder / "counts"
    run([bolt, module, "-o", package / module.name, "-instrument", f"--instrumentation-file={counts}"])
    paths = [str(folder), str(ROOT / "bench")]
    run([sys.executable, "-c", TRAINING], env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    counts.replace(profile)


def main(bolt, module, profile):
    module, profile = pathlib.Path(module), pathlib.Path(profile)
    with tempfile.TemporaryDirectory(dir=profile.parent) as name:
        laid = pathlib.Path(name) / module.name
        try:
            if os.environ.get("LATHE_LAYOUT") == "off":
                raise RuntimeError("LATHE_LAYOUT is off")
            if not profile.exists():
                make_profile(bolt, module, profile, pathlib.Path(name))
            run([bolt, module, "-o", laid, f"-data={profile}", *OPTIONS])
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"the module's code is not laid out anew: {error}", file=sys.stderr)
            laid = module
        stripped = pathlib.Path(name) / "stripped"
        try:
            run(["strip", "--strip-all", "-o", stripped, laid])
        except (OSError, RuntimeError) as error:
            print(f"the module keeps its symbols: {error}", file=sys.stderr)
            stripped = laid
        if stripped != module:
            stripped.chmod(0o755)
            stripped.replace(module)


if __name__ == "__main__":
    main(*sys.argv[1:])
