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
