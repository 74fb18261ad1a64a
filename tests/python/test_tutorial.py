"""The tutorial's programs run in order, and print what it shows."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["docs/schedules.md"])
def test_a_page_shows_what_its_programs_print(page):
    text = (ROOT / page).read_text()
    names = {}
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", text, re.S)
    assert blocks
    for source, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, page, "exec"), names)
        assert printed.getvalue() == shown, source
