"""The files that rebuild a version. Mirrors `HDFSBackedStateStoreProvider.filesForVersion`."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from statemaint.model.files import ChecksumFile, Delta, Snapshot, SstFile, StateFile


@dataclass(frozen=True, slots=True)
class Chain:
    """A base snapshot (`None` for the empty state) and every delta from it up to `version`."""

    version: int
    base: Snapshot | None
    deltas: tuple[Delta, ...]

    @property
    def start(self) -> int:
        return self.base.version if self.base else 0

    @property
    def paths(self) -> tuple[str, ...]:
        base = (self.base.entry.path,) if self.base else ()
        return base + tuple(delta.entry.path for delta in self.deltas)

    @property
    def size(self) -> int:
        base = self.base.entry.size if self.base else 0
        return base + sum(delta.entry.size for delta in self.deltas)

    def begins(self, other: "Chain") -> bool:
        """Returns whether the fold of another chain passes through this one's version."""
        shorter = other.deltas[: len(self.deltas)]
        return (self.base, self.deltas) == (other.base, shorter) and other.version > self.version


@dataclass(frozen=True, slots=True)
class Gap:
    """The reason that a version does not load: deltas after `start` are missing, `first` onward."""

    version: int
    start: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Unnamed:
    """The reason that a version of a RocksDB store with column families does not load.

    A changelog has only the numbers of families; the zip below has to name them. Spark fails with
    a `NullPointerException` in `RocksDB.getColumnFamilyInfo`.
    """

    version: int
    base: Snapshot | None
    delta: Delta  # the first changelog with changes of a family without a name
    families: tuple[int, ...]

    @property
    def why(self) -> str:
        numbers = ", ".join(map(str, self.families))
        family = f"column famil{'y' if len(self.families) == 1 else 'ies'} {numbers}"
        names = f"{self.base.entry.path} does not name" if self.base else "no earlier zip names"
        return f"{self.delta.entry.path} uses {family}, which {names}"


DEFAULT_FAMILY = frozenset({1})
"""The families that Spark creates in a store that it loads without a zip: `default` alone."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The deltas and snapshots of one store, by version."""

    deltas: Mapping[int, Delta]
    snapshots: Mapping[int, Snapshot]
    # The numbers of the column families that a zip names, by the zip's path.
    named: Mapping[str, Collection[int]] = field(default_factory=dict)
    # The numbers of those that a changelog changes, by its path, of changelogs read for it.
    used: Mapping[str, Collection[int]] = field(default_factory=dict)
    # The numbers of the families that zips will name once they are written again, by version.
    rebuilt: Mapping[int, Collection[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[StateFile]) -> "Versions":
        kept = tuple(files)
        deltas = {file.version: file for file in kept if isinstance(file, Delta)}
        snapshots = {file.version: file for file in kept if isinstance(file, Snapshot)}
        return cls(deltas, snapshots)

    def without(self, paths: Collection[str]) -> "Versions":
        kept = {v: file for v, file in self.snapshots.items() if file.entry.path not in paths}
        return replace(self, snapshots=kept)

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(sorted({*self.deltas, *self.snapshots}))

    def base(self, version: int) -> Snapshot | None:
        """Returns the newest snapshot at or below a version."""
        return self.snapshots.get(self.start(version))

    def start(self, version: int) -> int:
        """Returns the version of that snapshot, 0 without one."""
        return max((number for number in self.snapshots if number <= version), default=0)

    def chain(self, version: int) -> Chain | Gap | Unnamed:
        """Returns the files that Spark would read for a version, or why it could not.

        The work is bounded by the files that exist, however large the version is.
        """
        start = self.start(version)
        if chain := self._chain_from(start, version):
            return next(self.unnamed(chain), chain)
        first = next(number for number in count(start + 1) if number not in self.deltas)
        present = sum(start < number <= version for number in self.deltas)
        return Gap(version, start, first, version - start - present)

    def unnamed(self, chain: Chain) -> Iterator[Unnamed]:
        """Yields each changelog of a chain, as far as known, whose families its base lacks."""
        for delta in chain.deltas if self.used else ():
            if lacking := self._lacking(delta, chain.base):
                yield Unnamed(chain.version, chain.base, delta, lacking)

    def _lacking(self, delta: Delta, base: Snapshot | None) -> tuple[int, ...]:
        """Returns the changed families that a base does not name; an unreadable one names all."""
        if base and base.entry.path not in self.named:
            return ()
        used = self.used.get(delta.entry.path, ())
        named = self.named[base.entry.path] if base else DEFAULT_FAMILY
        start = base.version if base else 0
        if nearest := max((v for v in self.rebuilt if start < v <= delta.version), default=0):
            named = self.rebuilt[nearest]
        return tuple(sorted(set(used).difference(named)))

    def from_log(self, version: int, *, proved: Collection[int]) -> Chain | None:
        """Returns the chain below a version's own snapshot that trusts as little as possible.

        The log is the truth and a snapshot only claims to equal it (S1). The chain starts at the
        newest proved snapshot, otherwise at the empty state, and only if deltas are missing at
        the oldest remaining snapshot. `None` when no chain below leads to the version.
        """
        starts = [start for start in (0, *sorted(self.snapshots)) if start < version]
        chains = [chain for start in starts if (chain := self._chain_from(start, version))]
        trusted = [chain for chain in chains if chain.start in proved]
        return trusted[-1] if trusted else next(iter(chains), None)

    def _chain_from(self, start: int, version: int) -> Chain | None:
        if version - start > len(self.deltas):  # before a range is walked that may be endless
            return None
        present = (self.deltas.get(number) for number in range(start + 1, version + 1))
        deltas = tuple(delta for delta in present if delta)
        whole = len(deltas) == version - start
        return Chain(version, self.snapshots.get(start), deltas) if whole else None

    def loadable(self, first: int, last: int) -> frozenset[int]:
        """Returns the versions of a closed range that load, in one pass over the existing files."""
        previous, loads, versions = 0, True, set()
        base: Snapshot | None = None
        for version in self.all:
            if version > last:
                break
            if version in self.snapshots:
                base, loads = self.snapshots[version], True
            else:
                named = not self.used or not self._lacking(self.deltas[version], base)
                loads = loads and version == previous + 1 and named
            previous = version
            if loads and version >= first:
                versions.add(version)
        return frozenset(versions)


def lone_checksum_files(files: Iterable[StateFile]) -> tuple[ChecksumFile, ...]:
    kept = tuple(files)
    sides = [file for file in kept if isinstance(file, ChecksumFile)]
    if not sides:
        return ()
    owners = {file.entry.path for file in kept if isinstance(file, Delta | Snapshot | SstFile)}
    return tuple(side for side in sides if side.owner not in owners)
