"""Promises about the tree itself: includes go one way, foreign headers stay behind their rooms, docs name what exists."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANK = {"ir": 0, "schedule": 1, "backends": 2, "jit": 3, "bindings": 4, "bench": 5, "tests": 6}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.M)


def sources():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cpp"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [path for path in listed.stdout.split() if (ROOT / path).exists()]


def includes(path):
    for quoted, angled in INCLUDE.findall((ROOT / path).read_text()):
        yield quoted or angled


def test_includes_go_one_way():
    wrong = []
    for path in sources():
        room = path.split("/")[0]
        for header in includes(path):
            other = header.split("/")[0]
            if room in RANK and other in RANK and "/" in header and RANK[other] > RANK[room]:
                wrong.append(f"{path} includes {header}")
    assert wrong == []


def test_rooms_within_the_ir_keep_their_order():
    wrong = []
    for path in sources():
        for header in includes(path):
            if path.startswith("ir/interpreter/") and header.startswith(("ir/passes/", "backends/", "schedule/")):
                wrong.append(f"{path} includes {header}")
            if re.match(r"ir/[^/]+$", path) and re.match(r"ir/(passes|interpreter)/", header):
                wrong.append(f"{path} includes {header}")
    assert wrong == []


def test_foreign_headers_stay_behind_their_rooms():
    allowed = {
        "llvm": ("backends/llvm/", "backends/cpu/", "jit/engine/"),
        "llvm-c": ("backends/llvm/",),
        "nanobind": ("bindings/python/",),
        "Python.h": ("bindings/python/",),
        "numpy": ("bindings/python/",),
        "tbb": ("jit/runtime/",),
        "CLI": ("bindings/cli/",),
    }
    wrong = []
    for path in sources():
        for header in includes(path):
            rooms = allowed.get(header.split("/")[0])
            if rooms and not path.startswith(rooms):
                wrong.append(f"{path} includes {header}")
    assert wrong == []


DOCS = sorted(p for p in ROOT.rglob("*.md") if not {"build", ".venv", ".venv-peers"} & set(p.relative_to(ROOT).parts))


@pytest.mark.parametrize("page", DOCS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_paths_in_docs_exist(page):
    text = page.read_text()
    missing = []
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")) and not (page.parent / target).exists():
            missing.append(target)
    rooms = "|".join([*RANK, "docs", "examples", "tools", "cmake"])
    for path in re.findall(rf"`((?:{rooms})/[\w./-]+)`", text):
        if not (ROOT / path).exists():
            missing.append(path)
    assert missing == []


def test_each_top_level_room_has_a_page():
    for room in ("ir", "schedule", "backends", "jit", "bindings", "bench", "tests"):
        assert (ROOT / room / "README.md").exists(), room
