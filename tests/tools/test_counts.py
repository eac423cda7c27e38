"""``python -m minijit counts``: a row for each launch, on the screen and in a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from minijit.tools import counts


def test_a_page_of_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "counts.md"
    argv = ["--only", "gelu 1000", "--compute-capability", "8.0", "--out", str(page)]
    assert counts.main(argv) == 0
    shown = capsys.readouterr().out.splitlines()
    table = [line for line in page.read_text().splitlines() if line.startswith("|")]
    assert "compute capability 8.0" in page.read_text()
    assert [table[0], *table[2:]] == shown
    (heading, row) = ([cell.strip() for cell in line.split("|")[1:-1]] for line in shown)
    found = dict(zip(heading, row, strict=True))
    assert found["workload"] == "gelu 1000"
    assert float(found["bytes / fewest"]) == 1.0
    assert float(found["instructions / element"]) > 10
    assert int(found["blocks"]) * int(found["threads"]) <= 1024
    assert found["conflicts"] == found["spills"] == "0"


def test_no_such_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert counts.main(["--only", "no such workload"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_every_workload_that_is_counted_is_small_enough_to_be_interpreted() -> None:
    names = [workload.name for workload in counts.counted("")]
    assert len(names) >= 30
    assert not any(name.endswith("30M") for name in names)
