"""Makes the checkpoints of this folder anew, with real Sparks.

python -m tests.checkpoints.make [VERSION ...]
"""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import click

from tests.checkpoints.archive import pack
from tests.checkpoints.environments import ROOT, VERSIONS
from tests.checkpoints.live import Live, begin, read

_PLACE = ROOT / ".run" / "checkpoints"


def make(version: str) -> str:
    """Makes all checkpoints of a version, and returns it."""
    live = Live(version, _PLACE / version, "made")
    shutil.rmtree(live.place, ignore_errors=True)
    begin(live)
    (states,) = read(live)
    pack(version, {kind.name: live.checkpoint(kind) for kind in live.kinds}, states)
    return version


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        for made in pool.map(make, sys.argv[1:] or VERSIONS):
            click.echo(f"{made}: made")
