"""What must hold after every single change; `Loss` where it does not.

The truth comes from the model of the query, loading from `tests.certify.loading`: nothing that is
judged, and no record of its own, takes part in the judgement. After every change it is asked

* whether each retained version still loads right, by Spark's own rule; where an operator or the
  storage has spoiled what Spark reads, that is no loss of ours, but ours must not spoil more
* whether what could be made of the files that are left, in the store or in the trash, still can be
* whether whoever changed something was allowed to (`tests.certify.deeds`)
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.certify.files import Spot, spot
from tests.certify.loading import Read
from tests.certify.memory import Known, Made, Reader
from tests.certify.pins import Pins
from tests.certify.query import Query
from tests.certify.rocks_files import tables_of
from tests.certify.world import Doer, File, World


class Loss(BaseException):
    """Something happened that must never happen."""


@dataclass(slots=True)
class Certificate:
    """The judge of one schedule.

    Attributes:
        bad: the contents that an operator, a rewind or the storage has made wrong, by path.
        planted: those of them that an operator has put there.
        garbled: those of them that the storage stored in place of what maintenance wrote.
        readers: those who have listed and not read.
        right: of each store, the versions that loaded right at the last look.
        loads: those that loaded at all.
        least: of each store, the oldest file that is read for them, and
        tables: the tables.
        broken: those that do not, because of something that no maintenance did.
        known: of each store, the true state of each version and whether it could be made.
        made: the snapshots of maintenance by path.
        overtaken: the runs in whose middle the query was taken back.
        begun: what such a run was in the middle of deleting, a page at a time, by run and path.
        torn: the versions that a repair has made impossible to load for a while.
        deeds: judges each changed path by itself.
        pins: what is owed to whoever has pinned a batch.
        excused: whether the change that comes is an operator's, who may break what he likes.
    """

    world: World
    query: Query
    bad: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    planted: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    garbled: set[bytes] = field(default_factory=set)
    readers: list[Reader] = field(default_factory=list)
    right: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    loads: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    least: dict[str, int] = field(default_factory=dict)
    tables: dict[str, set[str]] = field(default_factory=dict)
    broken: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    known: dict[str, Known] = field(default_factory=lambda: defaultdict(Known))
    made: dict[str, Made] = field(default_factory=dict)
    overtaken: set[str] = field(default_factory=set)
    begun: set[tuple[str, str]] = field(default_factory=set)
    torn: set[tuple[str, int]] = field(default_factory=set)
    deeds: "Callable[[Mapping[str, File | None], Doer], None] | None" = None
    excused: bool = False
    pins: Pins = field(init=False)

    def __post_init__(self) -> None:
        self.pins = Pins(self.world)

    def look(self, before: Mapping[str, File | None], doer: Doer | None) -> None:
        """Judges a change that has just happened.

        Raises:
            Loss: when it must not have happened.
        """
        if doer and (why := self.pins.refuses(before, doer)):
            raise Loss(why)
        if doer and self.deeds:
            self.deeds(before, doer)
        if doer and self.begun and any((doer.run, path) in self.begun for path in before):
            self.excused, doer = True, None
            self._look(before, doer)
            self.excused = False
        else:
            self._look(before, doer)

    def _look(self, before: Mapping[str, File | None], doer: Doer | None) -> None:
        logs = any(path.startswith("commits/") for path in before)
        if not logs and not any(map(_may_load, before)):
            return
        if doer and logs:
            self._never_was(doer)
        for directory in self.query.habits.stores:
            mine = [path for path in before if directory in path]
            if logs or any(map(_may_load, mine)):
                self._store(directory, mine, doer, everything=logs)

    def _never_was(self, doer: Doer) -> None:
        known = min(len(self.query.truth[one]) for one in self.query.habits.stores)
        if self.query.target >= known:
            text = f"the log ends with version {self.query.target}, the query with {known - 1}"
            raise Loss(f"S17: {doer.run} ({doer.verb}) put commits of another time back: {text}")

    def anew(self) -> None:
        """Looks at everything, after changes that were not judged one by one."""
        for directory in self.query.habits.stores:
            live = list(self.world.index.live[directory])
            self._store(directory, live, None, everything=True)

    def pin(self, path: str, version: int, until: float) -> None:
        """Notes that somebody relies on a version, and all above it, until a time."""
        self.pins.held[path] = version, until, self.world.clock
        for directory in self.query.habits.stores:
            self._load(directory, None)

    # -- what every store must be

    def _store(
        self, directory: str, paths: list[str], doer: Doer | None, *, everything: bool
    ) -> None:
        lost = self._recount(directory, paths)
        if doer:
            self._nothing_lost(directory, lost, doer, paths)
        if everything or self.excused or any(self._is_read(directory, one) for one in paths):
            self._load(directory, doer)

    def _is_read(self, directory: str, path: str) -> bool:
        """Returns whether a file that changed may be read for a version that is retained."""
        one = spot(path)
        if one:
            return not one.trashed and one.version >= self.least.get(directory, 0)
        return path.startswith(directory) and (
            path.endswith(".crc") or path in self.tables.get(directory, ())
            or directory not in self.tables
        )  # fmt: skip

    def _load(self, directory: str, doer: Doer | None) -> None:
        required, target = self.query.required, self.query.target
        versions = range(min(required, self.pins.first), target + 1)
        reads = self.query.loader.load(directory, versions)
        truth, before = self.query.truth[directory], self.right[directory]
        right = {one for one in versions if one < len(truth) and reads[one].state == truth[one]}
        for version in versions:
            if version < required and version not in right:
                if doer and version in before:
                    self._pinned(directory, version, reads[version], doer)
            elif version not in right:
                why = self._by_doer if doer else self._by_query
                why(directory, version, reads[version], doer, was=version in before)
        self.right[directory] = right
        if not self.torn:
            self.loads[directory] = {one for one in versions if reads[one].state is not None}
        self.broken[directory] -= right
        self._note(directory, reads.values())

    def _note(self, directory: str, reads: Iterable[Read]) -> None:
        """Notes what the retained versions are loaded from."""
        bases = [read.base or "" for read in reads]
        spots = [spot(base) for base in bases]
        self.least[directory] = min((one.version if one else 0 for one in spots), default=0)
        zips = (self.world.files[base].content for base in set(bases) if base.endswith(".zip"))
        self.tables[directory] = {
            f"{directory}/SSTs/{name}" for content in zips for name in tables_of(content)
        }

    def _by_query(
        self, directory: str, version: int, read: Read, _: Doer | None, *, was: bool
    ) -> None:
        del was
        follows = version - 1 in self.broken[directory] and read.state is None
        spoiled = self._spoiled(read)
        if (self.excused or follows) and (read.state is None or not spoiled):
            self.broken[directory].add(version)
        elif not spoiled and version not in self.broken[directory]:
            raise Loss(f"S1: version {version} of {directory} {_how(read)}")

    def _by_doer(
        self, directory: str, version: int, read: Read, doer: Doer | None, *, was: bool
    ) -> None:
        assert doer
        if self._apart(doer, version) and (read.state is None or self._spoiled(read)):
            self.broken[directory].add(version)
            return
        if doer.verb == "repair" and read.state is None:
            self.broken[directory].add(version)  # between the old snapshot and the new one
            if version in self.loads[directory]:
                self.torn.add((directory, version))
        if self._frozen(read, doer):
            self.broken[directory].add(version)
        if version in self.broken[directory] and read.state is None:
            return
        if was:
            spoiled = self._spoiled(read) and (self._back(doer, read) or self._is_refused(read))
            excused = spoiled or self._garbled(read)
        else:
            excused = self._spoiled(read)
        if not excused:
            raise Loss(
                f"S1: {doer.run} ({doer.verb}): version {version} of {directory} {_how(read)}"
            )

    def _pinned(self, directory: str, version: int, read: Read, doer: Doer) -> None:
        """Raises where a version that only a pin holds has loaded right until now."""
        mended = doer.verb == "repair" or self._apart(doer, version)
        excused = self.world.is_late(doer) or mended or self._frozen(read, doer)
        if not (excused or self._spoiled(read) or self._back(doer, read)):
            raise Loss(f"S3: {doer.run} ({doer.verb}): version {version} of {directory}, which is "
                       f"pinned, {_how(read)}")  # fmt: skip

    @staticmethod
    def _apart(doer: Doer, version: int) -> bool:
        """Returns whether a version may be in pieces: a rollback, or its undoing, is at work."""
        return doer.verb in ("rollback", "undo") and version > doer.back

    def _frozen(self, read: Read, doer: Doer) -> bool:
        """Returns whether a zip was put after its tables had gone as orphans.

        The upload stood still for longer than the lease and the orphan age together.
        """
        if not self.world.is_frozen(doer) or doer.verb != "maintain" or read.state is not None:
            return False
        zipped = (
            self.world.files.get(read.base or "") if (read.base or "").endswith(".zip") else None
        )
        folder = (read.base or "").rpartition("/")[0]
        names = tables_of(zipped.content) if zipped else ()
        return any(f"{folder}/SSTs/{name}" not in self.world.files for name in names)

    def _spoiled(self, read: Read) -> bool:
        return any(self._is_bad(path) for path in read.files)

    def _is_bad(self, path: str) -> bool:
        file = self.world.files.get(path)
        return file is not None and file.content in self.bad.get(path, ())

    def _garbled(self, read: Read) -> bool:
        files = (self.world.files[path] for path in read.files if path in self.world.files)
        return any(file.content in self.garbled for file in files)

    def _back(self, doer: Doer, read: Read) -> bool:
        """Returns whether it was a run that the query overtook, or an undo in the same world.

        Or a rollback that was paused while somebody made a zip of one above, whose tables go.
        """
        back = doer.verb == "undo" and read.base is not None
        copied = doer.verb == "rollback" and read.state is None and self._planted(read.base)
        return doer.run in self.overtaken or back or copied

    def _is_refused(self, read: Read) -> bool:
        """Returns whether Spark refuses a bad base by its checksum, which is of what was written.

        Until the checksum came, changes above it might have made the state right again.
        """
        if read.state is not None or read.base is None:
            return False
        return self._is_bad(read.base) and not self.query.loader._unspoiled(read.base)

    def _planted(self, path: str | None) -> bool:
        file = self.world.files.get(path or "")
        return file is not None and file.content in self.planted.get(path or "", ())

    # -- what could be made of what is left

    def _recount(self, directory: str, paths: list[str]) -> set[int]:
        """Returns the versions that could be made of what was there, and no longer can.

        Nothing is asked again of a version whose files and truth are what they were, unless the
        one before is another one now.
        """
        truth, known, target = self.query.truth[directory], self.known[directory], self.query.target
        end = min(target + 1, len(truth))
        lost, following = set(), 0
        for changed in sorted(self._changed(directory, paths, end)):
            version, moved = changed, changed >= following
            while moved and version < end:
                before = known.sound[version - 1]
                now = self.query.loader.sound(directory, version, truth, before=before)
                if not now and known.truth[version : version + 1] == [truth[version]]:
                    lost |= {version} if known.sound[version] else set()
                moved = known.note(version, truth[version], sound=now)
                version += 1
            following = max(following, version)
        # They may be others when they come back.
        del known.truth[target + 1 :], known.sound[target + 1 :]
        return lost

    def _changed(self, directory: str, paths: list[str], end: int) -> set[int]:
        """Returns the versions below an end that may be made of other files now, or be others."""
        truth, known = self.query.truth[directory], self.known[directory].truth
        found = {one.version for path in paths if (one := spot(path))}
        tables = {path.rpartition("/")[2] for path in paths if path.endswith(".sst")}
        if tables:
            wholes, files = self.world.index.wholes[directory].items(), self.world.files
            found |= {version for path, version in wholes
                      if not tables.isdisjoint(tables_of(files[path].content))}  # fmt: skip
        if known[:end] != truth[:end]:
            common = zip(known, truth, strict=False)
            found |= {version for version, (old, new) in enumerate(common) if old != new}
            found |= {*range(len(known), end)}
        return {version for version in found if 0 < version < end}

    def _is_dead(self, directory: str, version: int, spots: list[Spot]) -> bool:
        """Returns whether all files that changed at a version are of attempts that never count."""
        counted = getattr(self.query, "counted", {}).get((directory, version))
        ids = [one.id for one in spots if one.version == version and not one.trashed]
        return counted is not None and bool(ids) and counted not in ids

    def _nothing_lost(
        self, directory: str, lost: set[int], doer: Doer, paths: Iterable[str]
    ) -> None:
        if doer.verb == "rollback" and self.world.is_late(doer):
            return  # frozen between the link and the unlink of a move, for longer than its lease
        spots = [one for path in paths if (one := spot(path))]
        here = {one.version for one in spots if not one.trashed}
        floor = 1
        if doer.verb == "maintain":
            window = self.query.target - doer.policy.min_batches_to_retain
            floor = max(doer.floor, min(self.query.required, window))
        lost = {one for one in lost if not self._is_dead(directory, one, spots)}
        if gone := sorted(one for one in lost if self._owed(directory, one, floor, here)):
            raise Loss(f"S1/S3: {doer.run} ({doer.verb}) made {gone} of {directory} impossible")

    def _owed(self, directory: str, version: int, floor: int, gone: set[int]) -> bool:
        """Returns whether a version had to stay possible.

        What only the policy retains may have been given up by a run with another one; what was in
        the trash since then leaves it some day.
        """
        if version >= self.query.required or version < floor:
            return version >= floor
        query, found = self.query, True
        if not query.is_named(directory, version):
            return False
        for one in range(1, version + 1):
            truth = query.truth[directory]
            here = query.loader.sound(directory, one, truth, before=found, trash=False)
            found = here or (one in gone and found)
        return found

    # -- what is not ours

    def leaves(self, version: int) -> None:
        """Notes that a rewind leaves states above a version where they are."""
        for directory in self.query.habits.stores:
            for path, one in self.world.index.live[directory].items():
                if one.kind == "snapshot" and one.version > version:
                    self.bad[path].add(self.world.files[path].content)

    def spoils(self, path: str, content: bytes) -> None:
        self.bad[path].add(content)

    def wrong(self) -> Iterator[tuple[str, int, Read]]:
        """Yields each retained version of each store that does not load right."""
        for directory in self.query.habits.stores:
            truth = self.query.truth[directory]
            versions = range(self.query.required, self.query.target + 1)
            for version, read in self.query.loader.load(directory, versions).items():
                if version >= len(truth) or read.state != truth[version]:
                    yield directory, version, read

    @property
    def harmed(self) -> bool:
        """Returns whether anything was ever made wrong by others than maintenance."""
        return bool(self.bad or any(self.broken.values()))

    def reads(self, directory: str, version: int) -> None:
        """Lets somebody list a store and choose the files of a version."""
        files = self.query.loader.load(directory, [version])[version].files
        tables = (f"{directory}/SSTs/{name}" for path in files if path.endswith(".zip")
                  for name in tables_of(self.world.files[path].content))  # fmt: skip
        chosen = frozenset((*files, *tables))
        self.readers.append(Reader(version, chosen, self.world.clock))


def _may_load(path: str) -> bool:
    """Returns whether a path is of a file that could be loaded, or that is loaded with one."""
    return spot(path) is not None or path.endswith((".sst", ".crc"))


def _how(read: Read) -> str:
    base = read.base.rpartition("/")[2] if read.base else "the empty state"
    what = "no longer loads" if read.state is None else "loads a wrong state"
    return f"{what} (from {base})"
