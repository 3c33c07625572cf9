"""`python -m tests.transcripts`: writes docs/transcripts, what every verb prints.

On a join of 200 partitions, a RocksDB checkpoint and a damaged one; on terminals of 80 and 160
columns, and in a pipe. Run ids, times and folders are replaced by names.
"""

import json
import re
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import click

from tests.checkpoints.archive import contents
from tests.support.checkpoints import put_files
from tests.support.paths import ROOT
from tests.support.terminal import at_terminal, in_pipe
from tests.transcripts.wide import write_wide_join

FOLDER = ROOT / "docs" / "transcripts"
PLACE = "/data/checkpoints"
_TIGHT = "--min-deltas-for-snapshot 3 --min-batches-to-retain 4 --grace 0s"
_LOOKS = (
    "scan NAME",
    f"plan NAME {_TIGHT}",
    "verify NAME",
    "verify NAME --deep",
    "doctor NAME",
    "repair NAME",
    "rollback NAME --to-batch {batch}",
    "digest NAME",
    "show NAME --limit 3",
    "diff NAME --limit 3",
    "stats NAME --top 2",
)
_CHANGES = (f"maintain NAME {_TIGHT} --trash-for 1d", "runs NAME", "undo NAME RUN", "runs NAME")
_FLEET = ("scan .", "doctor .", "verify .")
_SAME = (
    # Elsewhere, a line every half minute.
    (r"(?m)^[a-z ]+: [\d,]+ of [\d,]+ [a-z]+ in \d.*\n", ""),
    # The bar of what takes more than a second, which is gone in the end.
    (r"(?s)\x1b\[\?25l.*?\x1b\[\?25h[\r\n]*(?:\x1b\[1A)?[\r\n]*\x1b\[2K", ""),
    (r"\b\d{8}T\d{6}Z-[0-9a-f]{8}\b", "20260131T120000Z-0a1b2c3d"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-31 12:00:00"),
    (r"(12:00:00 +)\d+\.\d\b", r"\g<1>0.4"),
    # But for a forecast, whose numbers are the same everywhere.
    (r"(?<!\bto )(?<!\bto\n {10})\b\d+\.\d+ s\b|(?<=\bin )\d+ s\b", "0.4 s"),
)


def join(root: Path) -> None:
    write_wide_join(root)


def rocksdb(root: Path) -> None:
    put_files(root, contents("rocks-4.3.0")["rocks-timed"])


def damaged(root: Path) -> None:
    """Unpacks an aggregation, and takes a delta away and a bit of another one."""
    put_files(root, contents("4.3.0")["aggregation2"])
    (root / "state/0/0/9.delta").unlink()
    file = root / "state/0/1/10.delta"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(bytes(content))


MAKERS = {"join": join, "rocksdb": rocksdb, "damaged": damaged}


def transcript(name: str, place: Path, width: str, verbs: Collection[str] = ()) -> Iterator[str]:
    """Yields each command and what it prints.

    Args:
        name: the checkpoint, a folder of `place`.
        place: the working folder.
        width: a number of columns, or `piped`.
        verbs: those to run; all by default.
    """
    batch = max(
        int(one.name) for one in (place / name / "commits").iterdir() if one.name.isdecimal()
    )
    commands = (*_LOOKS, *_CHANGES) if name != "damaged" else (*_LOOKS, *_CHANGES[:2], *_FLEET)
    for one in commands:
        if verbs and one.split()[0] not in verbs:
            continue
        words = one.format(batch=batch - 2).replace("NAME", name)
        run = _newest(place / name) if "RUN" in words else ""
        printed = _printed(words.replace("RUN", run).split(), place, width)
        yield f"$ statemaint {words}\n{_same(printed, place)}"


def _printed(words: list[str], place: Path, width: str) -> str:
    if width == "piped":
        return in_pipe(*words, where=place, environment={"PYTHONPATH": str(ROOT)})
    return at_terminal(*words, columns=int(width), where=place, NO_COLOR="1", PYTHONPATH=str(ROOT))


def _newest(root: Path) -> str:
    found = json.loads(in_pipe("runs", str(root), "--json"))["runs"]
    return str(found[0]["run"]) if found else "RUN"


def _same(text: str, place: Path) -> str:
    text = text.replace(str(place), PLACE)
    for pattern, same in _SAME:
        text = re.sub(pattern, same, text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice([*MAKERS]))
def main(names: tuple[str, ...]) -> None:
    """Writes the transcripts."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or MAKERS:
        for width in ("80", "160", "piped"):
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder)
                MAKERS[name](place / name)
                text = "\n".join(transcript(name, place, width))
            (FOLDER / f"{name}-{width}.txt").write_text(text)
            click.echo(f"{name}-{width}.txt")


if __name__ == "__main__":
    sys.exit(main())
