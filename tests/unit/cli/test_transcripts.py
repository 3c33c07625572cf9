"""The transcripts in the documents are what the program prints."""

from pathlib import Path

import pytest

from tests.transcripts.__main__ import FOLDER, MAKERS, transcript

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("name", "width"), [("damaged", "80"), ("damaged", "piped"), ("rocksdb", "160")]
)
def test_a_transcript_is_what_is_printed(tmp_path: Path, name: str, width: str) -> None:
    MAKERS[name](tmp_path / name)
    expected = (FOLDER / f"{name}-{width}.txt").read_text()
    found = "\n".join(transcript(name, tmp_path, width))
    assert _commands(found) == _commands(expected)


def _commands(text: str) -> list[list[str]]:
    """Returns the words of each command's output: where lines end depends on measured times."""
    return [one.split() for one in text.split("\n$ ")]
