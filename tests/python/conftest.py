import os
import pathlib
import sys

import pytest

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here))


@pytest.fixture
def golden():
    """golden(name, text): equal to the file tests/python/golden/NAME, which LATHE_UPDATE_GOLDEN=1 rewrites."""

    def check(name, text):
        path = here / "golden" / name
        if os.environ.get("LATHE_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: ./dev test --update-golden writes it"
        assert text == path.read_text()

    return check


def pytest_collection_modifyitems(items):
    """Skips what tests/left_out.txt lists for this preset (LATHE_PRESET), with its reason."""
    preset = os.environ.get("LATHE_PRESET", "release")
    lines = [line.split(None, 2) for line in (here.parent / "left_out.txt").read_text().splitlines()]
    listed = {pattern: reason for name, pattern, reason in (line for line in lines if len(line) == 3) if name == preset}
    for item in items:
        test = f"{item.path.name}::{item.originalname}"
        if test in listed:
            item.add_marker(pytest.mark.skip(reason=f"left out under {preset}: {listed[test]}"))
