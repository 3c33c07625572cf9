"""Checkpoints in which somebody, or something, has done what nobody foresaw.

A tree is a healthy checkpoint, maintained once, or one whose rollback was killed, or a savepoint
whose expiry was, with a few strange things in it: names, numbers, lengths, nesting, links, pipes
and sizes that no program of ours may follow without a bound.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from statemaint.fold.__main__ import main as compile_ahead
from statemaint.maintain import maintain
from statemaint.model.policy import Policy
from statemaint.recover import rollback
from statemaint.storage import MemoryStorage
from tests.checkpoints.archive import contents
from tests.support import outside
from tests.support.checkpoints import NOW, put_files, snapshot_bytes, state_at, write_checkpoint
from tests.support.faults import Crash, CrashingStorage
from tests.support.savepoints import write_small_savepoint

GROWN = ("written", "join", "rocks", "ids", "rollback", "savepoint")
_POLICY = Policy(min_deltas_for_snapshot=2, min_batches_to_retain=2, grace=0, trash_for=1e9)
_FOLDERS = (
    "", "commits", "offsets", "sources", "state", "state/0", "state/0/0", "state/0/1",
    "state/0/_metadata", "state/0/0/_metadata", "state/0/0/SSTs", "state/0/0/logs", "state/1/0",
    "_statemaint", "_statemaint/lease", "_statemaint/ledger", "_statemaint/trash",
    "_statemaint/runs", "_statemaint/attestations/0/0", "_statemaint/pins",
)  # fmt: skip
_NUMBERS = (
    0, 1, 5, 24, 25, 26, 100, 999, 20_261_122, 2**31 - 1, 2**31, 2**53, 2**63 - 2, 2**63 - 1,
    2**63, 10**14, 10**18, 10**30, 10**80, -1, -(2**63),
)  # fmt: skip
_ENDS = (
    "", ".delta", ".snapshot", ".zip", ".changelog", ".sst", ".crc", ".delta.crc", ".json",
    ".jsonl", ".tmp", ".snapshot.crc", ".zip.crc",
)  # fmt: skip
_WORDS = (
    "foo", "foo.bar", "foo.snapshot", "metadata", "_metadata", "schema", "default",
    "left-keyToNumValues", "..x", "%2e%2e", "a b", "a\nb", "\u0663", "\u202e", "x" * 240, "-", "+5",
    "007", "5.", ".5.delta", "1_00000000-0000-0000-0000-000000000000", "v2", "SSTs", "logs",
    "SUCCESS", "1.compact", "lost+found",
)  # fmt: skip
_LARGE = 3 * 1024**3


def prepare() -> dict[str, dict[str, bytes]]:
    """Returns the files of the healthy checkpoints by kind, once all is compiled that can be.

    Runs RocksDB, whose threads no process may have that is about to fork.
    """
    compile_ahead()
    return {kind: _healthy(kind) for kind in GROWN}


def _healthy(kind: str) -> dict[str, bytes]:
    if kind == "rollback":
        return _half_rolled_back()
    if kind == "savepoint":
        storage = MemoryStorage()
        write_small_savepoint(storage, whole=False, expired=NOW)
        return dict(storage.files)
    if kind == "written":
        storage = write_checkpoint(MemoryStorage())
    else:
        version, name = {
            "join": ("4.3.0", "join1"),
            "rocks": ("rocks-maintained-4.3.0", "rocks-zips-maintained"),
            "ids": ("rocks-4.3.0", "rocks-timed-ids"),
        }[kind]
        storage = MemoryStorage(dict(contents(version)[name]))
    maintain(storage, _POLICY, run="first")
    return dict(storage.files)


def _half_rolled_back() -> dict[str, bytes]:
    """Returns the files of a rollback that was killed while it moved the state."""
    storage = write_checkpoint(MemoryStorage())
    version = max(one for one in range(30) if f"state/0/0/{one}.delta" in storage.files)
    storage.write(f"state/0/0/{version}.snapshot", [snapshot_bytes(state_at(version))])
    for at in range(100):
        crashing = CrashingStorage(dict(storage.files), at=at, after=True)
        with suppress(Crash):
            rollback(crashing, version - 3, trash_for=1e9)
        if f"state/0/0/{version}.snapshot" not in crashing.files:
            return dict(crashing.files)
    raise AssertionError


def grow(healthy: Mapping[str, Mapping[str, bytes]], root: Path, random: Random) -> list[str]:
    """Puts a checkpoint into a directory, with strange things in it; returns what they are."""
    kind = random.choice(GROWN)
    put_files(root, healthy[kind])
    acts = random.choices(list(_ACTS.values()), weights=list(_WEIGHTS), k=random.randint(1, 4))
    return [kind, *(act(root, random) for act in acts)]


def _name(random: Random) -> str:
    if random.random() < 0.4:
        return random.choice(_WORDS)
    return f"{random.choice(_NUMBERS)}{random.choice(_ENDS)}"


def _place(root: Path, random: Random) -> Path:
    found = _files(root)
    if found and random.random() < 0.3:
        return random.choice(found)
    place = root / random.choice(_FOLDERS)
    if place.is_file() or any(one.is_file() for one in place.parents):
        place = root
    place.mkdir(parents=True, exist_ok=True)
    return place / _name(random)


def _files(root: Path) -> list[Path]:
    return sorted(Path(folder) / name for folder, _, names in os.walk(root) for name in names)


def _clear(path: Path) -> None:
    if path.is_symlink() or path.exists():
        if path.is_dir() and not path.is_symlink():
            path.rename(path.with_name(f"{path.name[:200]}.aside"))
        else:
            path.unlink()


def _content(root: Path, random: Random) -> bytes:
    kind = random.randrange(7)
    readable = [one for one in _files(root) if one.is_file() and one.stat().st_size < 1 << 20]
    if kind == 0:
        return b""
    if kind == 1:
        return random.randbytes(random.randint(1, 200))
    if kind == 2:
        return b"v1\n" + b'{"a":' * 20_000
    if kind == 3:
        return b"[" * 200_000
    if kind == 4:
        return b"v1\n" + json.dumps({"a": 10**400, "conf": {"x": "9" * 5000}}).encode()
    return random.choice(readable).read_bytes() if readable else b"?"


def _written(root: Path, random: Random) -> str:
    content, path = _content(root, random), _place(root, random)
    _clear(path)
    path.write_bytes(content)
    return f"{path.relative_to(root)}: {content[:40]!r} ({len(content)})"


def _large(root: Path, random: Random) -> str:
    path = _place(root, random)
    _clear(path)
    start = random.choice((b"", b"PK\3\4", b"v1\n{"))
    with path.open("wb") as stream:
        stream.write(start)
        stream.truncate(_LARGE)
    return f"{path.relative_to(root)}: 3 GiB behind {start!r}"


def _directory(root: Path, random: Random) -> str:
    path = _place(root, random)
    _clear(path)
    path.mkdir()
    return f"{path.relative_to(root)}: a directory"


def _deep(root: Path, random: Random) -> str:
    path = root / random.choice(_FOLDERS[:9]) / "/".join(["d"] * random.choice((3, 300)))
    if any(one.is_file() for one in path.parents):
        return "nothing"
    path.mkdir(parents=True, exist_ok=True)
    (path / "1.delta").write_bytes(b"")
    return f"{len(path.parts)} directories deep"


def _linked(root: Path, random: Random) -> str:
    path = _place(root, random)
    _clear(path)
    up = "/".join([".."] * random.randint(1, 3))
    target = random.choice(
        (path.name, "..", ".", up, f"{up}/state", "../1", "nowhere", "/dev/zero")
    )
    path.symlink_to(target)
    return f"{path.relative_to(root)}: a link to {target}"


def _led_out(root: Path, random: Random) -> str:
    """Has a folder, or the files of one, outside the checkpoint, with links to them."""
    folder = random.choice([one for one in _FOLDERS if one] + _folders(root))
    if any(
        one.is_file() or one.is_symlink() for one in ((root / folder), *(root / folder).parents)
    ):
        return "nothing"
    lead = random.choice((outside.lead_out, outside.lead_files_out, outside.share))
    if lead is not outside.lead_out and not (root / folder).is_dir():
        return "nothing"
    lead(root, folder, outside_of(root) / str(random.randrange(10**9)))
    return f"{folder}: {lead.__name__}"


def outside_of(root: Path) -> Path:
    """Returns the folder beside a checkpoint that links may lead to."""
    return root.with_name("outside")


def _folders(root: Path) -> list[str]:
    """Returns the folders below a root that no link leads to."""
    found = (Path(parent, name) for parent, names, _ in os.walk(root) for name in names)
    return sorted(str(one.relative_to(root)) for one in found if not one.is_symlink())


def _pipe(root: Path, random: Random) -> str:
    path = _place(root, random)
    _clear(path)
    os.mkfifo(path)
    return f"{path.relative_to(root)}: a pipe"


def _gone(root: Path, random: Random) -> str:
    path = random.choice(_files(root))
    path.unlink()
    return f"{path.relative_to(root)}: gone"


def _cut(root: Path, random: Random) -> str:
    path = random.choice([one for one in _files(root) if one.is_file()] or [root / "metadata"])
    content = path.read_bytes()[:4096] if path.is_file() else b""
    at = random.randint(0, len(content))
    path.write_bytes(content[:at] + random.choice((b"", b"\xff", content[:at][::-1])))
    return f"{path.relative_to(root)}: cut or spoiled at {at}"


def _edited(root: Path, random: Random) -> str:
    """Puts a strange value somewhere into a JSON file."""
    texts = []
    for one in _files(root):
        if one.is_file() and one.stat().st_size < 1 << 20:
            head, found, body = one.read_bytes().partition(b"{")
            line, newline, rest = body.partition(b"\n")
            try:
                texts.append((one, head, json.loads(found + line), newline + rest))
            except (ValueError, RecursionError):
                continue
    if not texts:
        return "nothing"
    path, head, value, rest = random.choice(texts)
    where = _change(value, random)
    path.write_bytes(head + json.dumps(value).encode() + rest)
    return f"{path.relative_to(root)}: {where}"


def _change(value: Any, random: Random) -> str:
    places: list[tuple[Any, Any]] = []
    left = [value]
    while left:
        one = left.pop()
        keys = one.keys() if isinstance(one, dict) else range(len(one))
        for key in list(keys):
            places.append((one, key))
            if isinstance(one[key], dict | list):
                left.append(one[key])
    if not places:
        return "nothing to change"
    holder, key = random.choice(places)
    strange: Any = random.choice(
        (None, True, -1, 2**31, 2**63, 10**30, 1e308, "", "x" * 10_000, [], {}, [[[]]], "../../etc")
    )
    holder[key] = strange
    return f"{str(key)[:60]!r} is {str(strange)[:30]!r}"


_ACTS: dict[int, Callable[[Path, Random], str]] = dict(
    enumerate((_written, _large, _directory, _deep, _linked, _led_out, _pipe, _gone, _cut, _edited))
)
_WEIGHTS = (6, 1, 2, 1, 2, 3, 1, 2, 2, 5)
