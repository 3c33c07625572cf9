"""The compiled counterpart of the reference engine: newest file first, each record read once.

A snapshot needs only the newest record of each key. So the deltas are walked from the newest to the
oldest, their keys are entered in a table, and a record whose key is new to the table is written
directly to the output. The base then streams past the table: rows whose keys are not in it stay.
Memory holds the table, one delta, and a window of the base: it grows with the keys in the deltas,
never with the state.

When a floor below the target is also requested, a key that only files above the floor have decided
is still open for the floor's output.

The table holds the number of each key's newest record: records are numbered from 1 in the order in
which they are read. The fate of a record is the set of outputs that it belongs to. A key with a
number is decided for the target. It is also decided for the floor once its number is at least
`BOUNDARY`, the number of the first record that was read at or below the floor.

By hand, for target 5 and floor 3 (`tests/unit/fold/compiled/test_decide.py` does the same):

    read            record    number   the table    fate
    5.delta         put c=3   1        c:1          target
                    put d=1   2        c:1 d:2      target, until 3 takes it over: none
                    put d=2   3        c:1 d:3      target
    4.delta         remove a  4        + a:4        target: it hides a, and is never written
    3.delta  floor  put c=2   5        c:5          floor: 1 < BOUNDARY = 5, open below the floor
    2.delta         put b=2   6        + b:6        target and floor: b was in no file above
    1.snapshot      a=1                a:4 < 5      floor: only the removal above has decided a
                    b=1                b:6 >= 5     none
                    c=1                c:5 >= 5     none

Version 5 is b=2 c=3 d=2, version 3 is a=1 b=2 c=2.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from statemaint.codec.compression.lz4 import Lz4Block
from statemaint.codec.compression.lzf import Lzf
from statemaint.codec.integrity.digest import StateDigest
from statemaint.errors import CodecError, Superseded, UnsupportedError
from statemaint.fold.compiled.input import MOST_SMALL, Scanner, SmallReader, Work, new_work
from statemaint.fold.compiled.kernels import records as kernels
from statemaint.fold.compiled.kernels.compiled import expand_lzf, pack_lzf
from statemaint.fold.compiled.kernels.records import BATCH, Runs
from statemaint.fold.compiled.output import Output
from statemaint.fold.compiled.window import PayloadWindow, Table
from statemaint.fold.source import Folding, Pieces, Source
from statemaint.model.chain import Chain
from statemaint.model.files import Delta

_Words = npt.NDArray[np.uint64]

_MOST_RECORDS = (1 << 32) - 2 * BATCH


@dataclass(frozen=True, slots=True)
class FastEngine:
    """The engine with compiled loops, which run without the GIL."""

    window: int = 512 * 1024  # bytes of a file that is read once; they fit into a core's cache
    held: int = 8 * 1024 * 1024  # a delta of up to this size is decoded once, a larger one twice
    runs: int = 8192  # stretches of records that are picked before they are copied; above `BATCH`
    idle: list[SmallReader] = field(default_factory=list, compare=False)  # one for each thread

    def fold(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool = True
    ) -> Folding:
        return Folding(self._pieces(source, chain, versions, write=write))

    def _pieces(
        self, source: Source, chain: Chain, versions: tuple[int, ...], *, write: bool
    ) -> Pieces:
        base = (chain.base,) if chain.base else ()
        with source.fetching((*reversed(chain.deltas), *base)) as near:
            fold = _Fold(self, _compiled(near), chain, versions, write=write)
            for delta in reversed(chain.deltas):
                yield from fold.delta(delta)
            if chain.base:
                yield from fold.base(chain.base.entry.path)
            yield from fold.end()
            return fold.digests()

    def digest(self, source: Source, path: str) -> StateDigest:
        return StateDigest.of_words(self._read(source, path, snapshot=True))

    def check(self, source: Source, delta: Delta) -> frozenset[int]:
        small = delta.entry.size < MOST_SMALL and isinstance(source.compression, Lz4Block)
        if not small or not self._is_whole(source, delta.entry.path):
            self._read(source, delta.entry.path, snapshot=False)
        return frozenset()

    def _is_whole(self, source: Source, path: str) -> bool:
        """Returns whether a small file is whole, by buffers that the next one uses again."""
        try:
            reader = self.idle.pop()
        except IndexError:
            reader = SmallReader()
        try:
            return reader.is_whole(source, path)
        finally:
            self.idle.append(reader)

    def _read(self, source: Source, path: str, *, snapshot: bool) -> _Words:
        near, window, work, sums = _compiled(source), PayloadWindow(), new_work(), _no_sums()
        key = np.frombuffer(source.key, "<u8")
        with closing(Scanner(near, path, snapshot, window, work, self.window)) as scanner:
            scanner.start(self.window)
            while True:
                kernels.pick_all(window.buffer, window.end, work, sums, key)
                if not scanner.goes_on():
                    row: _Words = sums[0]
                    return row


def _compiled(source: Source) -> Source:
    """Returns the source with the fastest form of its compression."""
    if not isinstance(source.compression, Lzf):
        return source
    compression = replace(source.compression, expand=expand_lzf, pack=pack_lzf)
    return replace(source, compression=compression)


def _no_sums() -> _Words:
    """Returns, for each output: low and high word of the sum of hashes, rows, bytes."""
    return np.zeros((2, 4), np.uint64)


class _Fold:
    """One fold while it runs: output 0 is the chain's own version, output 1 is the other one."""

    def __init__(
        self,
        engine: FastEngine,
        source: Source,
        chain: Chain,
        versions: tuple[int, ...],
        *,
        write: bool,
    ) -> None:
        self._engine, self._source = engine, source
        others = [version for version in versions if version != chain.version]
        self._versions = [chain.version, *others]
        self._floor = others[0] if others else None
        self._outputs = [Output(source.compression) for _ in self._versions] if write else []
        self._window, self._work, self._table = PayloadWindow(), new_work(), Table()
        self._fates = np.empty(0, np.uint8)
        self._runs, self._counts = np.empty((2, engine.runs, 2), np.int64), np.zeros(2, np.int64)
        self._sums, self._key = _no_sums(), np.frombuffer(source.key, "<u8")
        self._settled = 0
        self._bytes = max(1, sum(delta.entry.size for delta in chain.deltas))
        self._passed = 0
        self._expansion = 3.0  # payload for each stored byte: a guess, then the last delta's
        self._work[kernels.OUTPUTS] = kernels.TARGET | kernels.FLOOR if others else kernels.TARGET
        self._work[kernels.NEXT] = 1
        self._fit_table()

    def delta(self, delta: Delta) -> Iterator[tuple[int, bytes]]:
        """Decides a delta's keys, then yields the pieces that its records add to the outputs."""
        if self._floor is not None and delta.version <= self._floor:
            self._below_floor()
        self._work[kernels.FIRST] = self._work[kernels.NEXT]
        with closing(self._scanner(delta.entry.path, snapshot=False)) as scanner:
            scanner.start(self._engine.held)
            held = scanner.whole
            self._decide(scanner, delta)
            self._expansion = max(1.0, scanner.taken / max(1, delta.entry.size))
            yield from self._pick(scanner) if held else self._pick_again(scanner)
        self._passed += delta.entry.size

    def _below_floor(self) -> None:
        """Marks that from now on the newest records are also the newest for the floor."""
        if not self._work[kernels.LOWER]:
            self._work[kernels.LOWER] = 1
            self._work[kernels.BOUNDARY] = self._work[kernels.NEXT]

    def _scanner(self, path: str, *, snapshot: bool) -> Scanner:
        return Scanner(self._source, path, snapshot, self._window, self._work, self._engine.window)

    def _decide(self, scanner: Scanner, delta: Delta) -> None:
        window, work = self._window, self._work
        while True:
            self._fit_fates()
            entries, secret = self._table.entries, self._table.secret
            kernels.decide(window.buffer, window.end, work, entries, self._fates, secret)
            if work[kernels.STATUS] == kernels.FULL:
                read = self._passed + min(delta.entry.size, scanner.taken / self._expansion)
                keys = int(work[kernels.KEYS])
                self._table.grow(keys, read / self._bytes, first=not self._passed)
                self._fit_table()
            elif not scanner.goes_on():
                return

    def _fit_table(self) -> None:
        self._work[kernels.CAPACITY] = self._table.capacity
        self._work[kernels.LIMIT] = self._table.limit

    def _fit_fates(self) -> None:
        """Makes room for the fate of each record that the window may contain."""
        taken = int(self._work[kernels.NEXT] - self._work[kernels.FIRST])
        need = taken + int(self._window.end - self._work[kernels.AT]) // 8 + BATCH
        if self._work[kernels.NEXT] + need > _MOST_RECORDS:
            what = "a chain of more than 4 billion records"
            raise UnsupportedError(self._source.storage.root, what, "shorter ones")
        if need > len(self._fates):
            fates = np.empty(max(need, 2 * taken), np.uint8)
            fates[:taken] = self._fates[:taken]
            self._fates = fates

    def _pick_again(self, scanner: Scanner) -> Iterator[tuple[int, bytes]]:
        """Picks the records of a delta that is read a second time, and may have been replaced."""
        decided = scanner.crc32c, scanner.taken
        scanner.close()
        try:
            scanner.start(self._engine.window)
            yield from self._pick(scanner)
        except CodecError as error:
            raise Superseded(scanner.path, "was replaced while it was read") from error
        if decided != (scanner.crc32c, scanner.taken):
            raise Superseded(scanner.path, "was replaced while it was read")

    def _pick(self, scanner: Scanner) -> Iterator[tuple[int, bytes]]:
        window, work = self._window, self._work
        following = int(work[kernels.NEXT])
        work[kernels.AT] = 0
        # They are checked already, and those of removals are overwritten now.
        work[kernels.CHECKED] = 0
        work[kernels.NEXT] = 0
        yield from self._stream(
            scanner,
            lambda: kernels.pick_decided(
                window.buffer, window.end, work, self._fates, *self._picked()
            ),
            lambda: int(work[kernels.AT]),
        )
        work[kernels.NEXT] = following

    def base(self, path: str) -> Iterator[tuple[int, bytes]]:
        if self._floor is not None:
            self._below_floor()
        window, work, table = self._window, self._work, self._table
        with closing(self._scanner(path, snapshot=True)) as scanner:
            scanner.start(self._engine.window)
            yield from self._stream(
                scanner,
                lambda: kernels.pick_undecided(
                    window.buffer, window.end, work, table.entries, table.secret, *self._picked()
                ),
                self._whole_blocks,
            )

    def _whole_blocks(self) -> int:
        """Returns the end of the last block that has been taken whole, so that it may pass."""
        taken = int(self._work[kernels.AT])
        if self._work[kernels.STATUS] != kernels.MORE:
            return taken
        ends = [end for _, end, stored in self._window.blocks if stored and end <= taken]
        return max(ends, default=taken)

    def _picked(self) -> tuple[Runs, Work, _Words, _Words]:
        return self._runs, self._counts, self._sums, self._key

    def _stream(
        self, scanner: Scanner, pick: Callable[[], None], upto: Callable[[], int]
    ) -> Iterator[tuple[int, bytes]]:
        """Picks records window by window, and yields the pieces that the outputs have ready."""
        self._settled = 0
        self._counts[:] = 0
        while True:
            pick()
            yield from self._settle(upto())
            if not scanner.goes_on(keep=self._settled):
                return
            for number, runs in enumerate(self._runs):  # those left move with the window
                count = self._counts[number]
                self._counts[number] = kernels.retain(runs, count, self._settled, scanner.moved)
            self._settled -= scanner.moved

    def _settle(self, upto: int) -> Iterator[tuple[int, bytes]]:
        """Passes the kept records of the window, up to a position, to the outputs."""
        for number, output in enumerate(self._outputs):
            picked = self._runs[number], int(self._counts[number])
            output.take(self._window, picked, self._settled, upto)
            if ready := output.drain():
                yield self._versions[number], ready
        self._settled = upto

    def end(self) -> Iterator[tuple[int, bytes]]:
        for version, output in zip(self._versions, self._outputs, strict=False):
            output.end()
            yield version, output.drain()

    def digests(self) -> dict[int, StateDigest]:
        pairs = zip(self._versions, self._sums, strict=False)
        return {version: StateDigest.of_words(sums) for version, sums in pairs}
