"""Makes the checkpoints of this folder anew, with real Sparks.

    python -m tests.checkpoints.make [ARCHIVE ...]

An ARCHIVE is `VERSION` or `FAMILY-VERSION`, as `families` has them.
"""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import click

from tests.checkpoints.archive import pack
from tests.checkpoints.families import archive_names, of_archive
from tests.checkpoints.live import BATCHES, Live, begin, crash, go_on, read
from tests.support.paths import ROOT

_PLACE = ROOT / ".run" / "checkpoints"


def make(name: str) -> str:
    """Makes all checkpoints of an archive, and returns its name."""
    family, version = of_archive(name)
    live = Live(version, _PLACE / name, "made", family.kinds)
    shutil.rmtree(live.place, ignore_errors=True)
    for batches in family.restarts:
        go_on(live, batches=batches)
    begin(live)
    if family.crashes:
        crash(live)
        go_on(live, batches=BATCHES)
    (states,) = read(live)
    pack(name, {kind.name: live.checkpoint(kind) for kind in live.kinds}, states)
    return name


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        for made in pool.map(make, sys.argv[1:] or archive_names()):
            click.echo(f"{made}: made")
