"""The runbook's text about a finding, as HTML. `make generated` copies docs/runbook.md here."""

import re
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

_FILE = Path(__file__).with_name("runbook.md")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def runbook_of(code: str) -> Markup | None:
    """Returns the runbook's text on a code; `None` if there is none."""
    text = _sections().get(code)
    return None if text is None else Markup(_markdown().render(text))  # noqa: S704 -- our own text


@cache
def _sections() -> dict[str, str]:
    """Returns the text below each heading of the third level, without links."""
    parts = re.split(r"^### (.+)$", _FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    bodies = (re.split(r"^## ", one, flags=re.MULTILINE)[0] for one in parts[2::2])
    return {
        title.strip(): _LINK.sub(r"\1", body).strip()
        for title, body in zip(parts[1::2], bodies, strict=True)
    }


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")
