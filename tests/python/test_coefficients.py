import pathlib
import subprocess
import sys

import pytest

root = pathlib.Path(__file__).resolve().parents[2]


def test_the_committed_coefficients_are_what_the_script_computes():
    pytest.importorskip("mpmath")
    subprocess.run([sys.executable, root / "ir" / "passes" / "math" / "minimax.py", "--check"], check=True)
