"""Memory: the estimates that stores wait for, against the peaks of real work.

Each measurement is a process of its own: `python -m tests.benchmarks.held VERB ROOT`. What it takes
counts from the point on where all loops are loaded.
"""

import gc
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from numpy.random import default_rng

from statemaint.audit import digest_stores, doctor
from statemaint.codec.compression import base as compression
from statemaint.codec.compression.registry import COMPRESSIONS
from statemaint.codec.rocksdb.changelog import DELETE, PUT, Change
from statemaint.execute.stores import need_of
from statemaint.fold import Source
from statemaint.fold import __main__ as loops
from statemaint.fold.needs import chains_need, check_need
from statemaint.maintain import maintain
from statemaint.memory import resident_memory
from statemaint.model.chain import Chain
from statemaint.model.policy import Policy
from statemaint.planning import plan_checkpoint
from statemaint.storage import LocalStorage, Storage
from tests.benchmarks import floor
from tests.benchmarks.bench import Bench
from tests.benchmarks.cases import Case
from tests.benchmarks.inputs import Input, copy_of, prepare, state_files
from tests.benchmarks.processes import peak_mib, run_module
from tests.benchmarks.tables import NEEDS, times
from tests.support.checkpoints import offsets_bytes
from tests.support.rocks import write_rocks_checkpoint

_MIB = 1024 * 1024
_KEY, _VALUE = 32, 24
# Two snapshots, at target and floor, as far as there is none.
_POLICY = Policy(min_deltas_for_snapshot=1, min_batches_to_retain=5)


@dataclass(frozen=True, slots=True)
class Held:
    """One checkpoint of one store.

    Attributes:
        case: its rows; those of RocksDB are of 32 bytes and 24.
        codec: the compression of its files.
        ids: for RocksDB: whether versions have unique ids (V2); `None` for HDFS-backed.
    """

    case: Case
    codec: str = "lz4"
    ids: bool | None = None

    @property
    def name(self) -> str:
        """Returns what the table calls it."""
        kind = {None: "", False: "RocksDB V1, ", True: "RocksDB V2, "}[self.ids]
        return f"{kind}{self.case.name}, {self.codec}"


_ROWS = Case("small rows", rows=500_000)
_NEW = Case("no snapshot yet", rows=200_000, share=0.3, inserts=1.0, removals=0.0, base=0)
CASES = (
    *(Held(_ROWS, codec) for codec in ("lz4", "zstd", "snappy")),
    *(Held(_NEW, codec) for codec in ("lz4", "zstd")),
    Held(Case("large values", kind="session", rows=1_000)),
    Held(Case("large values", kind="session", rows=1_000), "zstd"),
    Held(Case("many deletions", rows=500_000, inserts=0.0, removals=1.0)),
    Held(Case("many deletions", rows=500_000, inserts=0.0, removals=1.0), "snappy"),
    *(Held(Case("few changes", rows=60_000, share=0.1, base=0), ids=ids) for ids in (False, True)),
    *(
        Held(Case("many changes", rows=400_000, share=0.2, base=0), ids=ids)
        for ids in (False, True)
    ),
)


def run(bench: Bench, cases: tuple[Held, ...] = CASES) -> None:
    """Measures every verb on each case."""
    for held in cases:
        given = _prepared(held, bench.folder)
        for verb in VERBS:
            bench.results.say(f"{held.name}: memory of {verb}")
            with copy_of(given) as root:
                told = json.loads(run_module("tests.benchmarks.held", verb, str(root)))
            estimate, peak = told["estimate"] / _MIB, told["peak"]
            ratio = times(estimate / peak)
            bench.results.add(NEEDS, held.name, verb, f"{estimate:.1f}", f"{peak:.1f}", ratio)


def _prepared(held: Held, folder: Path) -> Input:
    if held.ids is not None:
        return _rocks(held, folder)
    given = prepare(held.case, folder)
    if held.codec == "lz4":
        return given
    root = folder / f"{held.case.key}-{held.codec}"
    if not root.exists():
        making = folder / f"copy-{held.case.key}"
        shutil.copytree(given.root, making)
        for file in state_files(making):
            payload = floor.payload(file)
            file.write_bytes(b"".join(compression.encode(COMPRESSIONS[held.codec], [payload])))
        pinned = offsets_bytes({"spark.sql.shuffle.partitions": "1"}, codec=held.codec)
        (making / "offsets" / f"{held.case.last - 1}").write_bytes(pinned)
        making.rename(root)
    return Input(held.case, root, given.facts)


def _rocks(held: Held, folder: Path) -> Input:
    root = folder / f"rocks-{held.case.key}-{'ids' if held.ids else 'plain'}"
    if not root.exists():
        making = folder / f"copy-{held.case.key}"
        making.mkdir(parents=True)
        write_rocks_checkpoint(
            LocalStorage(making), last=held.case.last, partitions=1, with_ids=bool(held.ids),
            contents=lambda version, _: list(_changes(held.case, version)),
        )  # fmt: skip
        making.rename(root)
    return Input(held.case, root, prepare(Case("none", rows=1, deltas=1), folder).facts)


def _changes(case: Case, version: int) -> Iterator[Change]:
    """Yields the changes of a version: every row in the first, later a part of them."""
    rng = default_rng(version)
    count = case.rows if version == 1 else int(case.rows * case.share)
    ids = range(case.rows) if version == 1 else rng.integers(0, case.rows, count).tolist()
    values = rng.bytes(count * _VALUE)
    for number, one in enumerate(ids):
        key = default_key(one)
        if version > 1 and not number % 20:
            yield DELETE, key, None
        else:
            yield PUT, key, values[number * _VALUE : (number + 1) * _VALUE]


def default_key(number: int) -> bytes:
    """Returns the key of a row: its number, mixed, as text."""
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:032x}".encode()[:_KEY]


# -- in a process of its own


def _maintain(storage: Storage) -> None:

    report = maintain(storage, _POLICY, workers=1)
    if report.exit_code or not report.snapshots_written:
        raise RuntimeError(report.findings)


def _digest(storage: Storage) -> None:

    digest_stores(storage, workers=1)


def _doctor(storage: Storage) -> None:

    doctor(storage, workers=1)


VERBS: dict[str, Callable[[Storage], None]] = {
    "maintain": _maintain,
    "digest": _digest,
    "doctor": _doctor,
}


def estimate(verb: str, storage: Storage) -> int:
    """Returns what a verb would hold of its budget for the checkpoint's one store."""

    checkpoint, plan = plan_checkpoint(storage, _POLICY)
    store = checkpoint.stores[0]
    source = Source.of(storage, store, checkpoint)
    if verb == "maintain":
        return need_of(plan.stores[0], source)
    chain = store.versions.chain(checkpoint.target or 0)
    assert isinstance(chain, Chain)
    fold = chains_need([chain], source, store)
    if verb == "digest":
        return fold
    # In the end it reads one chain alone, for how long a restart takes.
    return max(fold, check_need(store, source))


def main(verb: str, root: str) -> None:
    """Works once, and prints the estimate and the peak beyond what the process had before."""

    loops.main()
    storage = LocalStorage(Path(root))
    expected = estimate(verb, storage)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_memory() / _MIB
    VERBS[verb](storage)
    sys.stdout.write(json.dumps({"estimate": expected, "peak": peak_mib() - before}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
