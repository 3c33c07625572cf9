"""What is measured: the shape of a store's state and of the deltas above it."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

# Part of every case's key: raise it when the generated files change.
_FORMAT = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One checkpoint to generate and maintain.

    Attributes:
        name: what the tables call it.
        kind: which rows, one of `rows.KINDS`.
        rows: how many the state begins with.
        deltas: how many follow on that state.
        share: how many records a delta has, as a part of `rows`.
        inserts: the part of a delta's records that are new keys.
        removals: the part that are removals; the rest rewrites rows.
        base: the version of the snapshot below the deltas; 0 means that there is none, and that
            the first delta inserts every row.
        partitions: how many partitions the operator has.
    """

    name: str
    kind: str = "counter"
    rows: int = 1_000_000
    deltas: int = 15
    share: float = 0.05
    inserts: float = 0.03
    removals: float = 0.03
    base: int = 10
    partitions: int = 1

    @property
    def last(self) -> int:
        """Returns the target version."""
        return self.base + self.deltas

    @property
    def key(self) -> str:
        """Returns what names its files: the same for two cases of the same numbers."""
        numbers = {name: value for name, value in asdict(self).items() if name != "name"}
        digest = sha256(json.dumps([_FORMAT, numbers], sort_keys=True).encode()).hexdigest()
        return f"{self.kind}-{digest[:12]}"


AGGREGATION = Case("aggregation")
# A join keeps what is not matched yet: rows come and go, and few are written a second time.
JOIN = Case("join", kind="join", rows=500_000, inserts=0.48, removals=0.48)
SESSIONS = Case("sessions", kind="session", rows=2_000)
TOMBSTONES = Case("tombstones", inserts=0.0, removals=1.0)
# The first changelog inserts the rows, fourteen change a tenth of them each: 960,000 changes.
ROCKS = Case("RocksDB", kind="encoded", rows=400_000, share=0.1, base=0)
# More than 2 GiB of payload, so that no offset into it fits in 31 bits.
LARGE = Case("large", rows=34_000_000, deltas=10, share=0.01)
LARGE_DOUBLED = Case("large, deltas doubled", rows=34_000_000, deltas=10, share=0.02)
TINY = Case("tiny", rows=16, deltas=12, share=0.25, inserts=0.0, base=0, partitions=10_000)
TINIEST = Case("one tiny partition", rows=16, deltas=12, share=0.25, inserts=0.0, base=0)

FAR = Case("32 stores of 40 deltas", rows=200, deltas=40, share=0.1, base=0, partitions=32)
FAR_WIDTHS = tuple(
    Case(
        f"{stores:,} stores of 12 deltas", rows=200, deltas=12, share=0.1, base=0, partitions=stores
    )
    for stores in (32, 320, 3_200)
)
FAR_SAVEPOINT = Case("1,000 stores", rows=200, deltas=5, share=0.1, partitions=1_000)
FAR_ONE = Case("1 store of 200 deltas", rows=200, deltas=200, share=0.1, base=0)
SEVERAL = Case("64 stores of 4 MB", rows=80_000, partitions=64)

STATE_SIZES = tuple(Case(f"{rows:,} rows", rows=rows) for rows in
                    (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000))  # fmt: skip
DELTA_SIZES = tuple(Case(f"deltas of {part:.0%}", share=part) for part in
                    (0.01, 0.02, 0.05, 0.10, 0.20))  # fmt: skip
CHAIN_LENGTHS = tuple(Case(f"{deltas} deltas", deltas=deltas) for deltas in (5, 15, 50, 150))
