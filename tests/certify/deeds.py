"""What whoever changes files is allowed to do to each of them, by S2 to S8, S11, S17 to S19.

The ledger and the lease are read here, and nowhere else: that they say what is done is a rule.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import google_crc32c

from tests.certify.files import spot
from tests.certify.judge import Certificate, Loss
from tests.certify.memory import Made, Reader
from tests.certify.rocks_files import tables_of
from tests.certify.world import Doer, File, World

_STORE = r"state/\d+/\d+(/[a-z-]+)?"
_ID = r"(_[0-9a-f-]{36})?"
_OURS = re.compile(rf"{_STORE}/(\d+\.snapshot(\.crc)?|\d+{_ID}\.zip|SSTs/\d+-[0-9a-f-]{{36}}\.sst)")
_KNOWN = re.compile(rf"(\d+\.(delta|snapshot)|\d+{_ID}\.(zip|changelog)|\d+-[0-9a-f-]{{36}}\.sst)")
_TEMP = re.compile(rf"\.(\d+){_ID}\.(delta|snapshot|changelog|zip)(\.crc)?\.[0-9a-f-]{{36}}\.tmp")
_PART = re.compile(r"\.\d+-[0-9a-f-]{36}\.sst\.[0-9a-f-]{36}\.tmp")
_SIDE = re.compile(r"\.?(?P<owner>(?P<version>\d+)\.(delta|snapshot))(\.crc)?\.crc")
_MOST_SKEW = 300.0


def holder(world: World) -> str | None:
    """Returns the run that holds the lease, as its newest file says.

    One that was ended is still its run's for a few seconds, in which nobody else gets it: until
    then its tasks may rely on their last look.
    """
    leases = world.index.under("_statemaint/lease/0")
    if not leases:
        return None
    run, deadline = _claimed(world.files[leases[-1]].content)
    return run if deadline > world.clock else None


@lru_cache
def _claimed(content: bytes) -> tuple[str, float]:
    fields = json.loads(content)
    return str(fields["run"]), fields["deadline"]


@dataclass(slots=True)
class Deeds:
    """The judge of single changes.

    Attributes:
        named: what the ledger said would be deleted, by run and path.
        proved: what the ledger has proved of each snapshot: version, and each size and CRC-32C.
        mine: the tables that each run has uploaded.
        foreign: the paths that only an operator knows.
        in_ledger: the snapshots of ours that only the ledger knows, with their contents.
        holder: tells from the files which run holds the lease (S8); `None` in a world without.
        gone: what was taken away, by path, and in which world that was: what an undo may bring
            back (S17).
        taken: the files that each run took away, by the name of its record, and
        linked: those that it put into the trash, as the first half of taking them away.
        records: the name that each run's record has.
        removed: how many files maintenance deleted.
        written: how many snapshots it wrote.
    """

    certificate: Certificate
    holder: Callable[[World], str | None] | None = None
    named: set[tuple[str, str]] = field(default_factory=set)
    proved: dict[str, tuple[int, set[tuple[int, int | None]]]] = field(default_factory=dict)
    mine: set[tuple[str, str]] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    in_ledger: dict[str, bytes] = field(default_factory=dict)
    gone: dict[str, dict[bytes, tuple[int, int]]] = field(default_factory=dict)
    taken: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    linked: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    records: dict[str, str] = field(default_factory=dict)
    removed: int = 0
    written: int = 0

    @property
    def world(self) -> World:
        return self.certificate.world

    @property
    def _now(self) -> tuple[int, int]:
        """Returns what says in which world things happen: who has gone on since is in another."""
        query = self.certificate.query
        return query.lines, query.target

    def __call__(self, before: Mapping[str, File | None], doer: Doer) -> None:
        """Judges one change of somebody's.

        Raises:
            Loss: when it was not allowed.
        """
        for path, file in before.items():
            self._deed(path, file, doer)

    def _deed(self, path: str, before: File | None, doer: Doer) -> None:
        after = self.world.files.get(path)
        if path.startswith("_statemaint/"):
            self._record(path, before, after, doer)
        elif not path.startswith(("state/", *_LOGS.get(doer.verb, ()))):
            raise Loss(f"S18: {doer.run} touched {path}")
        elif self._of_left(path, doer):
            raise Loss(f"S3: {doer.run} touched {path}, of an operator that the query has not")
        elif after is None and before:
            self._removed(path, before, doer)
        elif after:
            self._put(path, after, doer)

    def _of_left(self, path: str, doer: Doer) -> bool:
        """Returns whether a run that began after an operator had left touches its state."""
        left = self.certificate.query.left
        if not left or doer.verb != "maintain" or doer.request.target is not None:
            return False
        return any(path.startswith(one) and doer.begun > since for one, since in left.items())

    def _record(self, path: str, before: File | None, after: File | None, doer: Doer) -> None:
        parts = path.split("/", 3)
        if parts[1] == "attestations" and self.world.is_frozen(doer):
            self.forgotten |= {*self.certificate.made}
        if after and parts[1] == "trash" and not parts[3].startswith("manifest/"):
            self.gone.setdefault(parts[3], {})[after.content] = self._now
            self.records[doer.run] = parts[2]
            self.linked[parts[2]].add(parts[3])
        elif path.endswith(".jsonl") and after:
            self._read_ledger(after.content[len(before.content) if before else 0 :])

    def _read_ledger(self, added: bytes) -> None:
        for line in added.splitlines():
            try:
                fields: dict[str, Any] = json.loads(line)
            except ValueError:
                continue  # a crash tore it
            if fields.get("action") in ("delete", "remove"):
                self.named.add((fields["run"], fields["path"]))
            elif proof := fields.get("attestation"):
                known = self.proved.setdefault(proof["path"], (proof["version"], set()))
                known[1].add((proof["size"], proof["sum"]))

    # -- what is put

    def _put(self, path: str, file: File, doer: Doer) -> None:
        name = path.rpartition("/")[2]
        if _TEMP.fullmatch(name) or _PART.fullmatch(name):
            return
        if file.content in self.gone.get(path, ()) and doer.verb == "undo":
            self._restored(path, file, doer)
            return
        writes = doer.verb in ("maintain", "repair")
        if not (writes and _OURS.fullmatch(path)):
            raise Loss(f"S18: {doer.run} ({doer.verb}) wrote {path}")
        if path.endswith(".sst"):
            self.mine.add((doer.run, path))
        found = spot(path)
        if found and found.kind == "snapshot":
            self._snapshot(path, found.store, found.version, file, doer)

    def _snapshot(self, path: str, store: str, version: int, file: File, doer: Doer) -> None:
        certificate = self.certificate
        self.written += 1
        if version > certificate.query.target and doer.run not in certificate.overtaken:
            raise Loss(f"S2: {doer.run} wrote {path}, the target is {certificate.query.target}")
        live = self.world.index.live[store].items()
        inputs = {one: self.world.files[one] for one, at in live
                  if at.kind == "delta" and at.version <= version}  # fmt: skip
        certificate.made[path] = Made(file, inputs)
        if version > certificate.query.target:
            certificate.spoils(path, file.content)
        elif path.endswith(".zip") and certificate.query.loader.bare(path) is None:
            return  # its tables went as orphans while it was paused; what loads from it is judged
        elif self._true(store, version, path):
            return
        if file.content in certificate.garbled:
            certificate.spoils(path, file.content)
            return
        if doer.run in certificate.overtaken:
            certificate.spoils(path, file.content)
        elif not self._misinformed(store, version):
            raise Loss(f"S1: {doer.run} ({doer.verb}) wrote a wrong {path}")
        else:
            certificate.spoils(path, file.content)

    def _true(self, store: str, version: int, path: str) -> bool:
        query = self.certificate.query
        state, truth = query.loader.bare(path), query.truth[store]
        return (
            state is not None and version < len(truth) and query.states.of(state) == truth[version]
        )

    def _misinformed(self, store: str, version: int) -> bool:
        """Returns whether nobody could know the truth: all there is to fold is wrong.

        Not where a proved snapshot of ours is right, and stands between the damage and the version.
        """
        certificate = self.certificate
        wrong = [spot(one) for one in certificate.bad if certificate._is_bad(one)]
        mine = [
            one.version for one in wrong if one and one.store == store and one.version <= version
        ]
        if not mine:
            return False
        between = range(max(mine), version)
        proved = (one for one in between if self._proves(store, one))
        changed = any(one.kind == "delta" for one in wrong if one and one.store == store)
        return not any(proved) and (changed or not self._in_store(store, version - 1))

    def _in_store(self, store: str, version: int) -> bool:
        """Returns whether a version could be made of what is in the store alone."""
        query, found = self.certificate.query, True
        for one in range(1, version + 1):
            found = query.loader.sound(store, one, query.truth[store], before=found, trash=False)
        return found

    def _proves(self, store: str, version: int) -> bool:
        for path, made in self.certificate.made.items():
            one = spot(path)
            if one and (one.store, one.version) == (store, version):
                file = self.world.files.get(path)
                return file == made.file and self._true(store, version, path)
        return False

    def _restored(self, path: str, file: File, doer: Doer) -> None:
        certificate, one = self.certificate, spot(path)
        if not one or one.kind != "snapshot" or self.gone[path][file.content] == self._now:
            return
        if self.world.is_late(doer) and doer.run in certificate.overtaken:
            return  # it had asked for the newest commit, and the query was taken back after that
        if one.version > certificate.query.target:
            raise Loss(f"S17: {doer.run} put {path} back, the target is {certificate.query.target}")
        if certificate.query.loader.whole(path) is None or self._dead(path):
            return  # it was cut before it went, or nothing names its id: it misleads nobody
        spoiled = certificate.garbled | certificate.planted[path]  # before it went
        if file.content not in spoiled and not self._true(one.store, one.version, path):
            raise Loss(f"S17: {doer.run} put {path} back, which is not true any more")

    # -- what is removed

    def _removed(self, path: str, file: File, doer: Doer) -> None:
        name = path.rpartition("/")[2]
        if (self.records.get(doer.run, doer.run), path) in self.named:
            self.taken[self.records.get(doer.run, doer.run)].add(path)
        if _TEMP.fullmatch(name) or _PART.fullmatch(name):
            self._temp(path, file, doer)
            return
        if doer.verb in ("repair", "rollback"):
            self._repaired(path, file, doer)
            return
        if path in self.foreign or not (_KNOWN.fullmatch(name) or _SIDE.fullmatch(name)):
            raise Loss(f"S11: {doer.run} deleted {path}")
        if (doer.run, path) in self.mine and (doer.run, path) not in self.named:
            return  # a table of its own that no zip names: an executor was first with the zip
        self.removed += 1
        self.gone.setdefault(path, {})[file.content] = self._now
        self._in_order(path, doer)
        self._of_kind(path, file, doer)

    def _in_order(self, path: str, doer: Doer) -> None:
        self._fenced(path, doer)
        if abs(self.world.skew) > _MOST_SKEW:
            raise Loss(f"S19: {doer.run} deleted {path}, clocks are {self.world.skew:.0f} s apart")
        if (doer.run, path) not in self.named:
            raise Loss(f"S18: {doer.run} deleted {path} before the ledger named it")

    def _not_named(self, store: str, name: str, doer: Doer) -> None:
        for path in self.world.index.live[store]:
            names = path.endswith(".zip") and name in tables_of(self.world.files[path].content)
            if names and not self.world.is_late(doer):
                raise Loss(f"S7: {doer.run} deleted {name}, which {path} needs")

    def _repaired(self, path: str, file: File, doer: Doer) -> None:
        if (doer.run, path) in self.mine and (doer.run, path) not in self.named:
            return  # a table of its own that no zip names: somebody was first with the zip
        # Between the two steps of a move is a moment that nobody can close.
        if not self._in_trash(path, file) and not self.world.is_late(doer):
            raise Loss(f"S17: {doer.run} ({doer.verb}) removed {path}, and it is in no trash")

    def _of_kind(self, path: str, file: File, doer: Doer) -> None:
        directory, _, name = path.rpartition("/")
        if side := _SIDE.fullmatch(name):
            if f"{directory}/{side['owner']}" not in self.world.files:
                self._old_enough(path, file, doer)
        elif path.endswith(".sst"):
            self._not_named(directory.removesuffix("/SSTs"), name, doer)
            for reader in self.certificate.readers:
                self._reader(reader, path, doer)
        else:
            self._state_file(directory, name, file, doer)

    def _in_trash(self, path: str, file: File) -> bool:
        trash, files = self.world.index.under("_statemaint/trash/"), self.world.files
        return any(files[at].content == file.content for at in trash if at.endswith(f"/{path}"))

    def _fenced(self, path: str, doer: Doer) -> None:
        held = self.holder(self.world) if self.holder else doer.run
        if held != doer.run and not self.world.is_late(doer):
            raise Loss(f"S8: {doer.run} deleted {path}, the lease is held by {held}")

    def _temp(self, path: str, file: File, doer: Doer) -> None:
        # A writer takes its own temp file away; one of somebody else must be old and named.
        if (doer.run, path) not in self.named:
            return
        name = _TEMP.fullmatch(path.rpartition("/")[2])
        target = self.certificate.query.target
        if name and int(name[1]) > target and doer.run not in self.certificate.overtaken:
            raise Loss(f"S2: {doer.run} deleted {path}, the target is {target}")
        self._old_enough(path, file, doer)

    def _old_enough(self, path: str, file: File, doer: Doer) -> None:
        age = self.world.clock - file.modified
        if age < doer.policy.orphan_age and file.modified <= doer.begun:
            raise Loss(f"S5: {doer.run} deleted {path}, {age:.0f} seconds old")

    def _state_file(self, directory: str, name: str, file: File, doer: Doer) -> None:
        certificate, version = self.certificate, int(re.split(r"[._]", name)[0])
        if version > certificate.query.target and doer.run not in certificate.overtaken:
            raise Loss(f"S2: {doer.run} deleted {name}, the target is {certificate.query.target}")
        self._proof(directory, version, f"{directory}/{name}", file, doer)
        for side in (f".{name}.crc", f"{name}.crc"):
            path = f"{directory}/{side}"
            beside = self.world.files.get(path)
            # It may have taken it already, and an undo put it back while this task was paused.
            again = beside is not None and beside.content in self.gone.get(path, ())
            if beside and not again and beside.modified < doer.begun:
                raise Loss(f"S7: {doer.run} deleted {name} and left {side}")
        if self.stale(f"{directory}/{name}", file):
            return  # whoever reads it reads what is not true
        for reader in certificate.readers:
            self._reader(reader, f"{directory}/{name}", doer)

    def _proof(self, directory: str, version: int, path: str, gone: File, doer: Doer) -> None:
        for other, (base, known) in self.proved.items():
            if not other.startswith(f"{directory}/") or base <= version:
                continue
            file = self.world.files.get(other)
            if file is None or _bytes(file) in known:  # an older copy has its own ledger
                return
            # An executor may have uploaded it again since whoever stands still has looked.
            if self.world.is_late(doer) and self._true(directory, base, other):
                return
        # A stale snapshot of ours may go to the trash; every version must load without it.
        ours = path in self.certificate.made or self.in_ledger.get(path) == gone.content
        if ours and self._in_trash(path, gone):
            return
        if self._dead(path):
            return
        if not self.certificate.query.is_named(directory, version):
            self._old_enough(path, gone, doer)  # nobody could load it any more
            return
        raise Loss(f"S6: {doer.run} deleted version {version} of {directory} without a proof")

    def stale(self, path: str, gone: File | None = None, *, plainly: bool = False) -> bool:
        """Returns whether a snapshot of ours was made of files that are others by now.

        Args:
            path: the snapshot's.
            gone: the snapshot, where it has just been removed.
            plainly: whether a proof and their size or time must tell that.
        """
        if plainly and path not in self.proved:
            return False
        made, now = self.certificate.made.get(path), gone or self.world.files.get(path)
        if made is None or now is None or made.file.content != now.content:
            return False
        files = ((file, self.world.files.get(one)) for one, file in made.inputs.items())
        return any(
            new is not None and old.content != new.content
            and (not plainly or _looks(old) != _looks(new))
            for old, new in files
        )  # fmt: skip

    def _dead(self, path: str) -> bool:
        """Returns whether it is of an attempt that does not count, with an id or without."""
        one, counted = spot(path), getattr(self.certificate.query, "counted", {})
        return one is not None and counted.get((one.store, one.version)) != one.id

    def _reader(self, reader: Reader, path: str, doer: Doer) -> None:
        since = self.world.clock - reader.listed + abs(self.world.skew) + self.world.coarse
        wanted = path in reader.chosen and reader.version >= self.certificate.query.required
        if wanted and since < doer.policy.grace:
            raise Loss(f"S4: {doer.run} deleted {path} under a reader of {since:.0f} seconds")


def _looks(file: File) -> tuple[int, float]:
    return len(file.content), file.modified


_LOGS = {"rollback": ("commits/", "offsets/"), "undo": ("commits/", "offsets/")}


def _bytes(file: File) -> tuple[int, int]:
    """Returns what a copy keeps, whatever time it gives a file."""
    return len(file.content), google_crc32c.value(file.content)
