"""Proves that `pip install .` works: clones HEAD, installs it into a new virtual environment, and uses it from outside.

    python3 tools/check_wheel.py DIR [PIP_OPTIONS…]

It fails if the installation fails, if the wheel is over 60 MB or holds other files than it should, if the command `lathe` or a
traced function does not work, or if one of the libraries that the package brings along is loaded from elsewhere. An
existing clone in DIR is brought up to date and used again. Prints how long each step took.
"""

import csv
import pathlib
import re
import shutil
import subprocess
import sys
import time
import venv

LIMIT = 60_000_000
BUNDLED = {"libsleef.so.3", "libfmt.so.9"}
FILES = {"__init__.py", "__main__.py", "py.typed"} | BUNDLED
ROOT = pathlib.Path(__file__).resolve().parent.parent

# Runs in the new environment: functions of every way to a vector function, and enough elements for two threads.
SCRIPT = """
import pathlib, sys
import numpy as np
import lathe

@lathe.jit
def f(x, y):
    return lathe.gelu(x * y + 1), lathe.atanh(lathe.tanh(x))

x = np.linspace(-2, 2, 1 << 20)
lathe.set_thread_count(2)
gelu, same = f(x, x)
np.testing.assert_allclose(same, x, rtol=1e-12)
assert gelu.shape == x.shape and f(x, x)[0].tolist() == gelu.tolist()
np.testing.assert_allclose(f(x.astype(np.float32), x.astype(np.float32))[0], gelu, rtol=1e-5, atol=1e-5)
assert pathlib.Path(lathe.__file__).is_relative_to(sys.prefix), lathe.__file__
for name in ("_lathe", "libsleef", "libfmt", "libtbb"):
    paths = {line.split()[-1] for line in open("/proc/self/maps") if f"/{name}." in line}
    print(*paths)
    assert len(paths) == 1 and pathlib.Path(*paths).is_relative_to(sys.prefix), (name, paths)
"""


def timed(title, *command, **options):
    start = time.perf_counter()
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{result.stdout[-8000:]}\n{title} failed with status {result.returncode}")
    print(f"{title}: {time.perf_counter() - start:.1f} s", flush=True)
    return result.stdout


def check_contents(log, site_packages):
    """`log` is what pip said when it made the wheel, `site_packages` where it was unpacked."""
    name, size = re.search(r"filename=(lathe-\S+\.whl) size=(\d+)", log).groups()
    assert int(size) <= LIMIT, f"{name} has {size} bytes, at most {LIMIT} are allowed"
    (metadata,) = site_packages.glob("lathe-*.dist-info")
    with open(metadata / "RECORD", newline="") as record:
        installed = {path: int(bytes_ or 0) for path, _, bytes_ in csv.reader(record) if "__pycache__" not in path}
    package = {path.removeprefix("lathe/") for path in installed if path.startswith("lathe/")}
    extension = {file for file in package if re.fullmatch(r"_lathe\.cpython-\d+-[\w-]+\.so", file)}
    assert len(extension) == 1, f"one extension module was expected, there are {sorted(extension)}"
    assert package - extension == FILES, f"other files than expected: {sorted((package - extension) ^ FILES)}"
    other = {path for path in installed if not path.startswith(("lathe/", f"{metadata.name}/"))}
    assert other == {"../../../bin/lathe"}, f"outside of the package: {sorted(other)}, expected the command alone"
    assert re.search(r"^Requires-Dist: tbb", (metadata / "METADATA").read_text(), re.M), "the wheel does not require tbb"
    print(f"{name}: {int(size) / 1e6:.1f} MB, {sum(installed.values()) / 1e6:.1f} MB installed")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    options = sys.argv[2:]
    clone, environment, elsewhere = (folder / name for name in ("clone", "venv", "elsewhere"))
    elsewhere.mkdir(parents=True, exist_ok=True)
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    subprocess.run(["git", "-C", clone, "fetch", "-q", ROOT, "HEAD"], check=True)
    subprocess.run(["git", "-C", clone, "checkout", "-q", "--detach", "FETCH_HEAD"], check=True)
    shutil.rmtree(environment, ignore_errors=True)
    venv.create(environment, with_pip=True)
    python = environment / "bin/python"

    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    log = timed("pip install .", *pip, "install", "-v", *options, ".", cwd=clone)
    (site_packages,) = environment.glob("lib/python*/site-packages")
    check_contents(log, site_packages)

    # Nothing of this shell may help: no PATH but the environment's, no PYTHONPATH, no LD_LIBRARY_PATH.
    alone = {"cwd": elsewhere, "env": {"PATH": f"{environment}/bin:/usr/bin:/bin", "HOME": str(elsewhere)}}
    assert "dump" in timed("lathe --help", "lathe", "--help", **alone)
    print(timed("lathe info", "lathe", "info", **alone), end="")
    print(timed("a traced function", python, "-c", SCRIPT, **alone), end="")


if __name__ == "__main__":
    main()
