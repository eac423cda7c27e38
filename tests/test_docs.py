"""Every page's Python blocks run and print what the page shows; the reference is up to date."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

import minijit
from minijit.graph.config import Settings
from tests.documents import ROOT, blocks, mistakes

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
REFERENCE = DOCS / "reference"


def name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text())], ids=name)
def test_blocks_print_what_the_page_shows(page: Path) -> None:
    assert not mistakes(page)


def test_tutorials_and_explanations_are_executed() -> None:
    for page in PAGES:
        if page.parent.name in ("tutorial", "how-to"):
            assert blocks(page.read_text()), page


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_index_links_every_page() -> None:
    links = set(re.findall(r"\]\(([^)#]+)", (DOCS / "index.md").read_text()))
    assert {name(page) for page in PAGES} - links == {"index.md"}


def test_primitives_page_is_what_the_registry_says() -> None:
    # In a process of its own: tests and the tutorial declare primitives.
    done = subprocess.run(
        [sys.executable, "-m", "minijit.tools.reference"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout == (REFERENCE / "primitives.md").read_text(), (
        "run python -m minijit.tools.reference docs/reference/primitives.md"
    )


def test_every_public_name_is_in_the_reference() -> None:
    text = (REFERENCE / "api.md").read_text()
    for module in (minijit, minijit.bucketing, minijit.debug, minijit.extend):
        for public in module.__all__:
            assert re.search(rf"\| `{public}\b", text), f"{module.__name__}.{public}"


def test_every_option_is_in_the_reference() -> None:
    text = (REFERENCE / "config.md").read_text()
    for field in dataclasses.fields(Settings):
        default = f'"{field.default}"' if isinstance(field.default, str) else str(field.default)
        assert f"| `{field.name}` | `{default}` |" in text


def test_every_error_is_in_the_reference() -> None:
    text = (REFERENCE / "errors.md").read_text()
    for public in minijit.errors.__all__:
        assert f"## {public}" in text
