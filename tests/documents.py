"""Runs the Python blocks of a Markdown page and compares what they print with the page.

The blocks of a page share one namespace from top to bottom. A block of kind ``text`` that follows a
Python block is what it prints, standard output and minijit's log together; ``...`` stands for
anything. A block under the comment ``<!-- needs: cuda -->`` runs only where there is a GPU.

After a change, ``python -m tests.documents PAGE ...`` writes the new output into the pages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import io
import linecache
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import minijit
from minijit.extend import scope
from minijit.tools.machine import find_driver

ROOT = Path(__file__).resolve().parents[1]

_BLOCK = re.compile(
    r"^(?P<needs><!-- needs: cuda -->\n+)?```python\n(?P<code>.*?)^```\n"
    r"(?:\n*```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_SECONDS = re.compile(r"\d+\.\d+(?= m?s\b)")
_SAME = doctest.OutputChecker()


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """One Python block of a page.

    Attributes:
        code: The block.
        shown: What the page says it prints; None when the page does not say.
        line: Where the block begins in the page.
        needs_cuda: Whether it runs only on a GPU.
        span: Where ``shown`` stands in the page's text.
    """

    code: str
    shown: str | None
    line: int
    needs_cuda: bool
    span: tuple[int, int]


def blocks(text: str) -> tuple[Block, ...]:
    """Return the Python blocks of a page."""
    return tuple(
        Block(
            found["code"],
            found["shown"],
            text.count("\n", 0, found.start("code")) + 1,
            found["needs"] is not None,
            found.span("shown"),
        )
        for found in _BLOCK.finditer(text)
    )


def run(page: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in order; yield each one with what it printed.

    The code is given the name ``example.py`` and the lines that it has when the blocks are pasted
    into one file: what minijit prints of the user's lines then reads the same for a reader.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    above = 0
    before = minijit.config.settings
    declared = contextlib.ExitStack()
    declared.enter_context(scope())  # pages may use one name
    try:
        for block in blocks(page.read_text()):
            # A file for each block, as in a notebook, whose text is what is compiled.
            name, text = f"{page.stem}/{above}/example.py", "\n" * above + block.code
            linecache.cache[name] = (1, None, text.splitlines(True), name)
            if not block.needs_cuda or has_gpu():
                code = compile(text, name, "exec", dont_inherit=True)
                with _captured() as printed:
                    exec(code, namespace)
                yield block, printed.getvalue()
            above += block.code.count("\n")
    finally:
        declared.close()
        for field in dataclasses.fields(before):
            minijit.config.update(field.name, getattr(before, field.name))


def mistakes(page: Path) -> list[str]:
    """Return, for each block that prints something else than the page says, both texts."""
    return [
        f"{page.name}:{block.line} prints\n{printed}\nthe page says\n{block.shown}"
        for block, printed in run(page)
        if block.shown is not None
        and not _SAME.check_output(block.shown, printed, doctest.ELLIPSIS)
    ]


def rewrite(page: Path) -> None:
    """Write what the blocks print into the page, where it differs from what is shown."""
    text = page.read_text()
    ran = list(run(page))
    for block, printed in reversed(ran):
        if block.shown is not None and not _SAME.check_output(
            block.shown, printed, doctest.ELLIPSIS
        ):
            printed = _SECONDS.sub("...", printed)
            text = text[: block.span[0]] + printed + text[block.span[1] :]
    page.write_text(text)


def has_gpu() -> bool:
    """Whether CUDA code can run here."""
    driver = find_driver()
    return not isinstance(driver, str) and bool(driver.gpus)


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    printed = io.StringIO()
    handler = logging.StreamHandler(printed)
    logger = logging.getLogger("minijit")
    logger.addHandler(handler)
    try:
        with contextlib.redirect_stdout(printed):
            yield printed
    finally:
        logger.removeHandler(handler)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
