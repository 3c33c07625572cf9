"""The example by hand in `statemaint/fold/compiled/engine.py`, done by the compiled loops."""

import re

import numpy as np

from statemaint.codec.hdfs import records
from statemaint.codec.hdfs.records import Record
from statemaint.fold import ClearEngine
from statemaint.fold.compiled import engine
from statemaint.fold.compiled.kernels import records as kernels
from statemaint.fold.compiled.kernels.records import BOUNDARY, FLOOR, KEYS, NEXT, TARGET
from tests.unit.fold.test_engines import Files

BASE = {b"a": b"1", b"b": b"1", b"c": b"1"}
DELTAS: tuple[list[Record], ...] = (
    [(b"b", b"2")],
    [(b"c", b"2")],
    [(b"a", None)],
    [(b"c", b"3"), (b"d", b"1"), (b"d", b"2")],
)
FATES = [[TARGET, 0, TARGET], [TARGET], [FLOOR], [TARGET | FLOOR]]


class Deciding:
    """The state of the loops between two deltas."""

    def __init__(self) -> None:
        fast, files = engine.FastEngine(), Files(BASE, DELTAS)
        self.fold = engine._Fold(fast, files.source, files.chain, (5, 3), write=False)
        self.work = self.fold._work

    def fates(self, changes: list[Record], *, below: bool) -> list[int]:
        """Decides the records of the next delta."""
        if below:
            self.fold._below_floor()
        payload = np.frombuffer(b"".join(records.encode(changes)), np.uint8).copy()
        fates = np.empty(len(changes) + kernels.BATCH, np.uint8)
        self.work[kernels.FIRST], self.work[kernels.AT] = self.work[NEXT], 0
        table = self.fold._table
        kernels.decide(payload, len(payload), self.work, table.entries, fates, table.secret)
        return [int(one) for one in fates[: len(changes)]]


def test_each_record_has_the_fate_of_the_example() -> None:
    deciding = Deciding()
    found = [
        deciding.fates(changes, below=version <= 3)
        for version, changes in zip((5, 4, 3, 2), reversed(DELTAS), strict=True)
    ]
    assert found == FATES
    assert (deciding.work[BOUNDARY], deciding.work[NEXT], deciding.work[KEYS]) == (5, 7, 4)


def test_both_versions_are_those_of_the_example() -> None:
    said = re.search(r"Version 5 is (.*), version 3 is (.*)\.", engine.__doc__ or "")
    assert said
    files = Files(BASE, DELTAS)
    for one in (ClearEngine(), engine.FastEngine()):
        written, _ = files.fold(one, 5, 3)
        for version, text in zip((5, 3), said.groups(), strict=True):
            pairs = (pair.split("=") for pair in text.split())
            assert written[version] == {key.encode(): value.encode() for key, value in pairs}
