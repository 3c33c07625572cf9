"""The checkpoints in this folder: one archive for each Spark, and what that Spark says is in it.

`<version>.tar.xz` holds `<kind>/` with all of a checkpoint but its `sources/`, which name places
on the machine that made them, and Hadoop's side files outside the state. `<version>.json` says
how many rows each store has after each batch still in the log, and what their digest is; for
Sparks before 4.0, which cannot read state, the newest says it.
"""

import json
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.checkpoints.environments import HERE

# The rows and the digest of each store, `operator/name`, after each batch, as Spark reads them.
States = Mapping[str, Mapping[str, Mapping[str, int | str]]]

# An archive should not change where its content did not.
_MADE_AT = 1_767_225_600


def pack(version: str, checkpoints: Mapping[str, Path], states: Mapping[str, States]) -> None:
    """Puts checkpoints of a version, by kind, into this folder, with their states."""
    with tarfile.open(_archive(version), "w:xz", preset=9) as archive:
        for kind, checkpoint in checkpoints.items():
            for path in _wanted(checkpoint):
                name = f"{kind}/{path.relative_to(checkpoint)}"
                archive.add(path, name, filter=_plain)
    _states(version).write_text(_by_line(states))


@cache
def contents(version: str) -> Mapping[str, Mapping[str, bytes]]:
    """Returns the files of a version's checkpoints by kind and path."""
    kinds: dict[str, dict[str, bytes]] = {}
    with tarfile.open(_archive(version)) as archive:
        for member in archive:
            kind, _, path = member.name.partition("/")
            if content := archive.extractfile(member):
                kinds.setdefault(kind, {})[path] = content.read()
    return {kind: {**files, **_sources(files)} for kind, files in kinds.items()}


def _sources(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns logs of the file sources that would do, which a restart needs."""
    newest = max((path for path in files if path.startswith("offsets/")), key=_batch)
    _, _, *sources = files[newest].decode().splitlines()
    return {
        f"sources/{number}/{entry}": b'v1\n{"path":"file:///input","timestamp":0,"batchId":0}'
        for number, text in enumerate(sources)
        for entry in range(json.loads(text)["logOffset"] + 1 if text != "-" else 0)
    }


def _batch(path: str) -> int:
    return int(path.rpartition("/")[2])


@cache
def recorded(version: str) -> Mapping[str, States]:
    """Returns what Spark says the states of a version's checkpoints are, by kind."""
    states: dict[str, States] = json.loads(_states(version).read_text())
    return states


def _wanted(checkpoint: Path) -> Iterator[Path]:
    for path in sorted(checkpoint.rglob("*")):
        top, *_ = path.relative_to(checkpoint).parts
        wanted = top == "state" or (top != "sources" and not path.name.startswith("."))
        if path.is_file() and wanted:
            yield path


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime, member.mode = _MADE_AT, 0o644
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _by_line(states: Mapping[str, States]) -> str:
    """A line for each store, so that a difference can be read."""
    kinds = []
    for kind, stores in states.items():
        lines = [f"    {json.dumps(name)}: {json.dumps(found)}" for name, found in stores.items()]
        kinds.append(f"  {json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


def _archive(version: str) -> Path:
    return HERE / f"{version}.tar.xz"


def _states(version: str) -> Path:
    return HERE / f"{version}.json"
