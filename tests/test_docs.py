"""What the documents say is there, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def every_test() -> set[str]:
    return {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_tests_and_files_exist(document: Path) -> None:
    named = re.findall(r"`([^`\n]+)`", document.read_text())
    tests = {word for word in named if re.fullmatch(r"test_\w+", word)}
    assert tests - every_test() == set()
    files = {word for word in named if re.fullmatch(r"[\w/]+/[\w./]*\w\.(py|md|yml|json)", word)}
    assert {file for file in files if not (ROOT / file).exists()} == set()
    modules = {word.split()[2] for word in named if word.startswith("python -m ")}
    assert {m for m in modules if not (ROOT / f"{m.replace('.', '/')}.py").exists()} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_within_the_project_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []
