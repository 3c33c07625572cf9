"""Runs that failed and are undone: what the tests of every storage compare (S17)."""

import json
from dataclasses import replace

from statemaint.audit import verify
from statemaint.maintain import undo
from statemaint.records.claims import newest
from statemaint.records.manifest import FOLDER
from statemaint.storage import MemoryStorage, Storage
from tests.support.checkpoints import TIGHT, of_the_query

DAY = 86_400.0
KEEPING = TIGHT.override(trash_for=DAY)


def runs_in_trash(storage: Storage) -> list[str]:
    return sorted({entry.path.split("/")[2] for entry in storage.list(FOLDER)})


def end_lease(storage: Storage) -> None:
    """Ends a lease that its run could not release, as a minute would."""
    if (claim := newest(storage)) and claim.deadline:
        storage.write(claim.path, [replace(claim, deadline=0.0).content], overwrite=True)


def undo_all(storage: Storage, *, newest_first: bool = False) -> int:
    """Undoes every run in the trash, of which no file stays; returns their number."""
    runs = sorted(runs_in_trash(storage), reverse=newest_first)
    for run in runs:
        assert undo(storage, run).left == {}
    return len(runs)


def must_be_whole(storage: Storage, before: dict[str, bytes], *, at: int = 0) -> None:
    """Every file of the query is as it was before, and the trash is empty."""
    after = of_the_query(storage)
    assert {path: after.get(path) for path in before} == before, at
    assert runs_in_trash(storage) == [], at
    assert verify(storage, deep=True).healthy, at


def as_of_an_earlier_build(storage: MemoryStorage, run: str) -> None:
    """Makes a run's manifests those of a build that noted no logs; they keep their times."""
    for path, (content, modified) in list(storage._files.items()):
        if path.startswith(f"{FOLDER}/{run}/manifest/"):
            lines = [json.loads(line) for line in content.splitlines()]
            old = [{key: line[key] for key in ("path", "bytes", "until")} for line in lines]
            text = "".join(json.dumps(line) + "\n" for line in old)
            storage._files[path] = (text.encode(), modified)
