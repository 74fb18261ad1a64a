"""The command line, as a user types it: python -m lathe runs the same code as the installed command."""

import pathlib
import re
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
        (
            ["run", program, "--input", tmp_path / "x.npy", "--scalar", "n=3"],
            "scale: x is f32[2, 4], expected f32[3, 4]",
        ),
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
    misspelt = run("dmup")
    assert misspelt.returncode == 2
    assert "unknown command 'dmup'; did you mean 'dump'? known: " in misspelt.stderr
    outside = tmp_path / "outside.tir"
    outside.write_text(SCALE.replace("[vi, vj] * ", "[vi, vj + 5] * ").replace("reads x[vi, vj]", "reads x[..]"))
    result = run("run", outside, "--input", tmp_path / "x.npy", "--scalar", "n=2")
    assert result.returncode == 1 and "breaks access.in_bounds" in result.stderr


def passes(program):
    listing = run("dump", program, "--time").stderr
    return [line.split()[1] for line in listing.splitlines() if line.endswith("ms") and not line.startswith(" ")]


def test_dump_stops_after_any_pass_and_resumes_from_what_it_printed(program, tmp_path):
    end = lathe.ir.parse(run("dump", program, "--stage", "end").stdout)
    for name in passes(program):
        half = run("dump", program, "--after", name)
        assert half.returncode == 0, half.stderr
        (tmp_path / "half.tir").write_text(half.stdout)
        rest = run("dump", "--resume", tmp_path / "half.tir", "--verify-each")
        assert rest.returncode == 0, rest.stderr
        assert lathe.ir.parse(rest.stdout) == end


def test_dump_times_verifies_skips_and_stops_after_a_stage(program):
    result = run(
        "dump", program, "--stop-after", "before_flatten", "--time", "--verify-each", "--skip", "partition_loops"
    )
    assert result.returncode == 0, result.stderr
    assert "stage before_flatten" in result.stdout
    assert "compact_buffers" in result.stderr and "all passes" in result.stderr
    assert "partition_loops" not in result.stderr and "flatten_buffers" not in result.stderr
    for arguments, message in [
        (["--after", "simplyfy"], "unknown pass 'simplyfy'; did you mean 'simplify'?"),
        (["--skip", "nothing"], "unknown pass 'nothing'"),
        (["--stop-after", "flat"], "unknown stage 'flat'"),
    ]:
        refused = run("dump", program, *arguments)
        assert refused.returncode == 1
        assert message in refused.stderr
    assert run("dump").returncode != 0


GOLDEN = sorted((pathlib.Path(__file__).parent / "golden" / "opt").glob("*.tir"))


@pytest.mark.parametrize("path", [p for p in GOLDEN if not p.stem.endswith(".out")], ids=lambda path: path.stem)
def test_opt(path, golden):
    """Each program names its passes in its first line: `# passes: a, b`. What they leave lies beside it."""
    names = path.read_text().splitlines()[0].removeprefix("# passes:").replace(" ", "")
    result = run("opt", path, "--passes", names, "--verify-each")
    assert result.returncode == 0, result.stderr
    golden(f"opt/{path.stem}.out.tir", result.stdout)


def test_opt_refuses_an_unknown_pass(program):
    result = run("opt", program, "--passes", "simplify,inline")
    assert result.returncode == 1
    assert "unknown pass 'inline'" in result.stderr and "auto_schedule" in result.stderr


def test_explain_shows_every_primitive_and_pass(program, tmp_path):
    text = run("explain", program)
    assert text.returncode == 0, text.stderr
    for heading in ("trace: traced", "schedule: vectorize(", "flatten: flatten_buffers"):
        assert heading in text.stdout
    assert "\n# " in text.stdout, "what the scheduler decided"
    page = tmp_path / "scale.html"
    assert run("explain", program, "--html", "-o", page).returncode == 0
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert html.count("<section>") == html.count("<button>") == text.stdout.count("\n## ") + 1
    assert "class=changed" in html and "x[vi, vj]" in html
    assert "http" not in html


DEVICE = """device described {
  family cpu
  vector_bits 256
  fused_multiply_add true
  space worker { capacity_bits 1048576 }
}
"""


def test_a_described_device_is_lowered_for(program, tmp_path):
    description = tmp_path / "described.device"
    description.write_text(DEVICE)
    shown = run("info", "--device", description)
    assert shown.returncode == 0, shown.stderr
    assert "device described" in shown.stdout and "vector_bits 256" in shown.stdout
    description.write_text(shown.stdout)
    assert run("info", "--device", description).stdout == shown.stdout
    result = run("dump", program, "--device", description, "--after", "lower_blocks")
    assert result.returncode == 0, result.stderr
    assert str(lathe.ir.parse(result.stdout)) == result.stdout
    result = run("opt", program, "--passes", "lower_blocks", "--device", description)
    assert result.returncode == 0, result.stderr
    description.write_text(DEVICE.replace("vector_bits", "vector_bit"))
    result = run("info", "--device", description)
    assert result.returncode != 0
    assert (
        "described.device:3:3: expected a field of a device, found 'vector_bit'; did you mean 'vector_bits'?"
        in result.stderr
    )
    description.write_text(DEVICE.replace("family cpu", "family gpu"))
    result = run("dump", program, "--device", description, "--after", "lower_blocks")
    assert "unknown device family 'gpu'" in result.stderr


def test_the_page_on_devices_shows_what_the_commands_print(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[2]
    page = (root / "docs/devices.md").read_text()
    folder = root / "examples/devices"
    device, program = folder / "four_cores.device", (folder / "reverse_rows.tir").read_text()
    assert f"```\n{device.read_text()}```" in page
    commands = re.findall(r"^    \./dev cli (.*)\n\n```\n((?:.*\n)*?)```$", page, re.M)
    assert len(commands) == 2
    for command, output in commands:
        arguments = [root / word if word.startswith("examples/") else word for word in command.split()]
        result = run(*arguments)
        assert result.stdout == output, result.stderr
    longer = program.replace("64]", "4096]").replace("64)", "4096)").replace("63 -", "4095 -")
    for text in (longer, program.replace('bound("core") for', "for")):
        (tmp_path / "refused.tir").write_text(text)
        result = run("dump", tmp_path / "refused.tir", "--device", device, "--after", "plan_storage")
        assert result.returncode != 0
        assert f"```\n{result.stderr}```" in page, result.stderr
