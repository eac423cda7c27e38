"""The README's Python blocks run, in order, and print what the README shows."""

from __future__ import annotations

import re

from tests.documents import ROOT, blocks, mistakes

README = ROOT / "README.md"


def test_blocks_print_what_the_readme_shows() -> None:
    assert not mistakes(README)


def test_most_blocks_show_their_output() -> None:
    found = blocks(README.read_text())
    assert len([block for block in found if block.shown is not None]) >= 6


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", README.read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_readme_is_short() -> None:
    assert README.read_text().count("\n") < 250
