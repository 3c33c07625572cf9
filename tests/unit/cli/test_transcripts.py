"""The transcripts in the documents are what the program prints."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.transcripts.__main__ import FOLDER, MAKERS, transcript

pytestmark = pytest.mark.long


# Each command is a process. What has been printed once to a terminal is not printed again to all
# the others, and of 200 partitions only what has a line for each.
@pytest.mark.parametrize(
    ("name", "width", "verbs"),
    [
        ("damaged", "80", ()),
        ("damaged", "piped", ("scan", "plan", "doctor")),
        ("rocksdb", "160", ("scan", "plan", "maintain", "runs", "undo", "show")),
        ("join", "80", ("scan", "plan", "rollback")),
    ],
)
def test_a_transcript_is_what_is_printed(
    tmp_path: Path, name: str, width: str, verbs: Sequence[str]
) -> None:
    MAKERS[name](tmp_path / name)
    expected = _commands((FOLDER / f"{name}-{width}.txt").read_text())
    found = _commands("\n".join(transcript(name, tmp_path, width, verbs)))
    assert found == [one for one in expected if not verbs or _verb(one) in verbs]


def _verb(command: list[str]) -> str:
    return command[command.index("statemaint") + 1]


def _commands(text: str) -> list[list[str]]:
    """Returns the words of each command's output: where lines end depends on measured times."""
    return [one.split() for one in text.split("\n$ ")]
