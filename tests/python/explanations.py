"""What the scheduler decides for a device that is described, on every host."""

import pathlib
import subprocess
import sys

AVX2 = pathlib.Path(__file__).resolve().parents[2] / "examples" / "devices" / "avx2.device"


def explained(lowered, folder):
    """What `lathe explain` prints of a lowered function, as it was traced, for a core with AVX2."""
    program = folder / "program.tir"
    program.write_text(lowered.text("traced"))
    command = [sys.executable, "-m", "lathe", "explain", "--device", AVX2, program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
