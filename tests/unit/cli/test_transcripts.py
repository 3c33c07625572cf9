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


def test_a_join_of_200_partitions_is_printed_as_in_its_transcript(tmp_path: Path) -> None:
    MAKERS["join"](tmp_path / "join")
    verbs = ("scan", "plan", "rollback")
    expected = _commands((FOLDER / "join-80.txt").read_text())
    found = _commands("\n".join(transcript("join", tmp_path, "80", verbs)))
    assert found == [one for one in expected if one[one.index("statemaint") + 1] in verbs]


def _commands(text: str) -> list[list[str]]:
    """Returns the words of each command's output: where lines end depends on measured times."""
    return [one.split() for one in text.split("\n$ ")]
