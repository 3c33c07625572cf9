"""A folder of fifty checkpoints of real queries, three of them damaged."""

from itertools import cycle, islice
from pathlib import Path

from tests.checkpoints.archive import contents
from tests.support.checkpoints import put_files

_ARCHIVES = ("3.5.9", "4.0.5", "4.3.0", "rocks-4.3.0")
MISSING, FLIPPED, CUT = "team_3/query_03", "team_1/query_16", "team_4/query_44"
"""The damaged ones: a delta is missing, a byte of one is wrong, the newest commit is cut off."""


def write_fifty(root: Path) -> None:
    """Writes checkpoints of both providers, of several Sparks and of every kind of query."""
    kinds = [
        files
        for archive in _ARCHIVES
        for kind, files in contents(archive).items()
        if kind != "limit"
    ]
    for number, files in enumerate(islice(cycle(kinds), 50)):
        put_files(root / f"team_{number % 5}" / f"query_{number:02}", files)
    (root / MISSING / "state/0/0/9.delta").unlink()
    (root / FLIPPED / "state/0/1/10.delta").write_bytes(b"LZF?" * 20)
    (root / CUT / "commits/12").write_bytes(b"v1\n{")
