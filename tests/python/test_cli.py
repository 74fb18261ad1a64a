"""The command line, as a user types it: python -m lathe runs the same code as the installed command."""

import subprocess
import sys

import numpy as np
import pytest

import lathe

SCALE = """func scale(x: f32[n, 4], n: i64, y: f32[n, 4]) stage begin facts { n in [0, 1000] } {
  block root() {
    for i in [0, n) {
      for j in [0, 4) {
        block scale(space vi in [0, n) = i, space vj in [0, 4) = j) reads x[vi, vj] writes y[vi, vj] {
          y[vi, vj] = x[vi, vj] * 2.0f32
        }
      }
    }
  }
}
"""


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "lathe", *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "scale.tir"
    path.write_text(SCALE)
    return path


def test_help_names_the_commands():
    result = run("--help")
    assert result.returncode == 0
    for command in ("dump", "run", "info"):
        assert command in result.stdout


def test_info():
    result = run("info")
    assert result.returncode == 0
    for word in ("lathe", "llvm", "host", "threads", "vectors"):
        assert word in result.stdout


@pytest.mark.parametrize("stage", lathe.stages)
def test_dump(program, stage):
    result = run("dump", program, "--stage", stage)
    assert result.returncode == 0, result.stderr
    assert "scale" in result.stdout
    if stage not in ("llvm", "asm"):
        assert str(lathe.ir.parse(result.stdout)) == result.stdout


@pytest.mark.parametrize("mode", [[], ["--interpret"]])
def test_run(program, tmp_path, mode):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "y.npy"
    result = run("run", program, "--input", tmp_path / "x.npy", "--scalar", "n=3", "--output", out, *mode)
    assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(np.load(out), x * 2)
    printed = run("run", program, "--input", tmp_path / "x.npy", "--scalar", "n=3", *mode)
    assert printed.stdout == "y = f32[3, 4] [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18, 20, 22]]\n"


def test_mistakes(program, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    cases = [
        (["run", program, "--input", tmp_path / "x.npy", "--scalar", "n=3"], "scale: x is f32[2, 4], expected f32[3, 4]"),
        (["run", program, "--input", tmp_path / "x.npy", "--scalar", "m=3"], "unknown scalar 'm'"),
        (["run", program, "--scalar", "n=3"], "scale reads 1 arrays, 0 were given with --input"),
        (["run", program, "--input", tmp_path / "x.npy", "--scalar", "n=5000"], "breaks a fact"),
        (["dump", tmp_path / "none.tir"], "cannot be opened"),
        (["dump", program, "--stage", "flaten"], "did you mean 'flatten'?"),
    ]
    for arguments, message in cases:
        result = run(*arguments)
        assert result.returncode == 1
        assert message in result.stderr
    assert run("dmup").returncode == 2
