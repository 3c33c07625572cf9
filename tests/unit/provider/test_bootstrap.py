"""Surgery on a stopped query: what it writes, what it refuses, and what a crash leaves."""

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from statemaint.codec.integrity.checksum_file import spark
from statemaint.codec.rows.murmur3 import partition_of
from statemaint.codec.rows.unsafe_write import encode_row
from statemaint.errors import (
    CheckpointError,
    ConfigError,
    DamagedError,
    LeaseHeldError,
    UnsupportedError,
)
from statemaint.execute.lease import leased
from statemaint.model.ids import StoreId
from statemaint.provider import (
    Bootstrapped,
    HDFSBackedStateStoreProvider,
    LiveCheckpointError,
    bootstrap,
)
from statemaint.records.claims import Holder
from statemaint.state import select_state
from statemaint.storage import MemoryStorage
from tests.support.checkpoints import COMMIT, delta_bytes, offsets_bytes
from tests.support.faults import Crash, CrashingStorage, HookedStorage
from tests.support.paths import ROOT

PARTITIONS = 2
KEY = {
    "type": "struct",
    "fields": [{"name": "k", "type": "string", "nullable": True, "metadata": {}}],
}
VALUE = {
    "type": "struct",
    "fields": [{"name": "count", "type": "long", "nullable": False, "metadata": {}}],
}


def schema_file(key: dict[str, Any] = KEY, value: dict[str, Any] = VALUE) -> bytes:
    """The schema file that Spark writes under partition 0, format v2."""
    chunks = b"\0\2v2"
    for one in (key, value):
        text = json.dumps(one).encode()
        chunks += struct.pack(">iH", 1, len(text)) + text
    return chunks


def operator_file(operator: int = 0, name: str = "stateStoreSave") -> bytes:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}
    info = {"operatorId": operator, "operatorName": name}
    return b"v1\n" + json.dumps({"operatorInfo": info, "stateStoreInfo": [store]}).encode()


def count(name: str, number: int) -> tuple[bytes, bytes]:
    return encode_row((name,), KEY), encode_row((number,), VALUE)


def pinned(**changes: Any) -> bytes:
    """The offsets of a query that began with Spark 3.3 or later."""
    return offsets_bytes(
        {"spark.sql.streaming.statefulOperator.useStrictDistribution": "true"}, **changes
    )


def checkpoint(
    *, batches: int = 3, operators: int = 1, name: str = "stateStoreSave"
) -> dict[str, bytes]:
    """A query that counts by key, stopped after so many batches: b0 to b9 have come once each."""
    files = {"metadata": b'{"id":"11111111-2222-3333-4444-555555555555"}'}
    for batch in range(batches):
        files[f"offsets/{batch}"] = pinned() + b"%d" % batch
        files[f"commits/{batch}"] = COMMIT
    for operator in range(operators):
        files[f"state/{operator}/_metadata/metadata"] = operator_file(operator, name)
        files[f"state/{operator}/0/_metadata/schema"] = schema_file()
        for partition in range(PARTITIONS):
            names = [f"b{n}" for n in range(10) if partition_of((f"b{n}",), KEY, 2) == partition]
            for version in range(1, batches + 1):
                changes = [count(one, version) for one in names]
                path = f"{StoreId(operator, partition).directory}/{version}.delta"
                files[path] = delta_bytes(changes)
    return files


def state(storage: MemoryStorage, version: int, operator: int = 0) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for partition in range(PARTITIONS):
        provider = HDFSBackedStateStoreProvider(StoreId(operator, partition), storage)
        found |= dict(provider.get_read_store(version).iterator())
    return found


def of_query(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: one for path, one in files.items() if not path.startswith("_statemaint/")}


ROWS: list[Any] = [(("new",), (7,)), (("b1",), (50,)), (("b2",), None), (("absent",), None)]


def test_the_rows_are_one_more_committed_batch() -> None:
    files = checkpoint(operators=2)
    storage = MemoryStorage(files)
    made = bootstrap(storage, ROWS)
    assert (made.batch, made.version, sum(made.rows.values())) == (3, 4, 4)
    # Nothing that was there has changed, and both logs have a copy of their newest entry.
    found = of_query(storage.files)
    added = {path: found[path] for path in found.keys() - files.keys()}
    assert {path: found[path] for path in files} == files
    assert added.pop("offsets/3") == files["offsets/2"]
    assert added.pop("commits/3") == files["commits/2"]
    deltas = {f"state/{op}/{part}/4.delta" for op in range(2) for part in range(PARTITIONS)}
    assert set(added) == deltas
    assert {added[path] for path in deltas if path.startswith("state/1/")} == {delta_bytes([])}
    before = state(storage, 3)
    expected = {**before, **dict([count("new", 7), count("b1", 50)])}
    del expected[count("b2", 0)[0]]
    assert state(storage, 4) == expected
    assert state(storage, 4, operator=1) == state(storage, 3, operator=1)


def test_each_key_lies_where_spark_shuffles_it() -> None:
    storage = MemoryStorage(checkpoint())
    rows = [((f"k{number}",), (number,)) for number in range(100)]
    made = bootstrap(storage, rows)
    assert min(made.rows.values()) > 20
    for partition in range(PARTITIONS):
        provider = HDFSBackedStateStoreProvider(StoreId(0, partition), storage)
        keys = {key for key, _ in provider.get_read_store(4).iterator()}
        mine = {key for key, _ in rows if partition_of(key, KEY, PARTITIONS) == partition}
        assert {encode_row(key, KEY) for key in mine} <= keys


@pytest.mark.parametrize("codec", ["lz4", "zstd", "snappy", "lzf"])
@pytest.mark.parametrize("row_checksums", [False, True])
def test_what_is_written_is_of_the_querys_codec(codec: str, *, row_checksums: bool) -> None:
    files = checkpoint(batches=1)
    offsets = pinned(codec=codec, row_checksums=row_checksums)
    empty = delta_bytes([], codec=codec, row_checksums=row_checksums)
    files |= {"offsets/0": offsets, **{f"state/0/{part}/1.delta": empty for part in range(2)}}
    storage = MemoryStorage(files)
    bootstrap(storage, [(("a",), (1,))])
    place = partition_of(("a",), KEY, PARTITIONS)
    expected = delta_bytes([count("a", 1)], codec=codec, row_checksums=row_checksums)
    assert storage.read(f"state/0/{place}/2.delta") == expected
    assert storage.read(f"state/0/{1 - place}/2.delta") == empty


def test_a_bootstrap_can_be_done_again() -> None:
    storage = MemoryStorage(checkpoint())
    bootstrap(storage, [(("a",), (1,))])
    assert bootstrap(storage, [(("a",), (2,))]).batch == 4
    assert state(storage, 5)[count("a", 0)[0]] == count("a", 2)[1]


def test_the_last_row_of_a_key_counts() -> None:
    storage = MemoryStorage(checkpoint())
    bootstrap(storage, [(("a",), (1,)), (("a",), None), (("a",), (3,)), (("b1",), None)])
    found = state(storage, 4)
    assert found[count("a", 0)[0]] == count("a", 3)[1]
    assert count("b1", 0)[0] not in found


def test_the_ledger_has_a_line_before_anything_is_written() -> None:
    storage = MemoryStorage(checkpoint())
    bootstrap(storage, ROWS, run="mine")
    line = json.loads(storage.read("_statemaint/ledger/bootstrap.jsonl"))
    assert (line["run"], line["action"], line["batch"], line["fence"]) == (
        "mine",
        "bootstrap",
        3,
        1,
    )


def test_the_example_of_the_documents_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, content in checkpoint(batches=1).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    document = (ROOT / "docs/provider.md").read_text()
    example = document.split("```python\n")[1].split("```")[0]
    exec(example.replace("/data/checkpoints/totals", str(tmp_path)), {})  # noqa: S102
    assert capsys.readouterr().out == "batch 1 is committed, with 3 changes\n"
    assert (tmp_path / "commits/1").read_bytes() == COMMIT


# -- refusals, each of which writes nothing to the query


def test_a_batch_without_its_commit_is_refused() -> None:
    files = checkpoint()
    del files["commits/2"]
    refused(files, LiveCheckpointError, "batch 2 has begun, and the newest committed one is 1")


def test_a_query_that_never_committed_is_refused() -> None:
    files = {path: one for path, one in checkpoint().items() if "commits" not in path}
    refused({**files, "commits/.keep": b""}, LiveCheckpointError, "batch 2 has begun")
    logs = {path: one for path, one in files.items() if "offsets" not in path}
    refused({**logs, "offsets/.0.crc": b"", "commits/.0.crc": b""}, ConfigError, "no batch is")


def test_damage_is_refused() -> None:
    files = checkpoint()
    del files["state/0/1/2.delta"]
    refused(files, DamagedError, "2")


def test_a_snapshot_above_the_committed_version_is_refused() -> None:
    # Spark would load it instead of what we write.
    files = {**checkpoint(), "state/0/1/5.snapshot": delta_bytes([])}
    refused(files, DamagedError, "snapshot")


def test_an_offset_log_that_is_gone_is_refused() -> None:
    files = {path: one for path, one in checkpoint().items() if "offsets" not in path}
    refused(files, DamagedError, "provider and codec are unknown, but for what the files")


def test_what_is_only_a_notice_is_no_obstacle() -> None:
    storage = MemoryStorage({**checkpoint(), "state/0/0/stray": b""})
    assert bootstrap(storage, ROWS).batch == 3


def test_spark_checksums_are_written_where_the_query_has_them() -> None:
    files = checkpoint()
    storage = MemoryStorage(files)
    content = files["state/0/0/3.delta"]
    storage.write("state/0/0/3.delta.crc", [spark(google_crc32c.value(content), len(content), 0.0)])
    bootstrap(storage, ROWS)
    sides = sorted(path for path in storage.files if path.endswith("4.delta.crc"))
    assert sides == ["state/0/0/4.delta.crc"]
    assert len(state(storage, 4)) == 10


def test_another_maintainer_is_waited_for() -> None:
    storage = MemoryStorage(checkpoint(), clock=lambda: 1000.0)
    with leased(storage, Holder("other")), pytest.raises(LeaseHeldError, match="other"):
        bootstrap(storage, ROWS)
    assert of_query(storage.files) == checkpoint()


def test_a_row_that_does_not_fit_is_named() -> None:
    refused(checkpoint(), ConfigError, "row 1: column 'count'", rows=[*ROWS[:1], (("a",), ("x",))])
    refused(checkpoint(), ConfigError, "row 0: 2 values for the columns k", rows=[(("a", 1), None)])
    refused(checkpoint(), ConfigError, "row 0: too many values", rows=[(("a",), (1,), 0)])
    refused(checkpoint(), ConfigError, "without a name: not \\('a',\\)", rows={("a",): (1,)})


def test_keys_that_lie_elsewhere_than_our_hash_says_are_refused() -> None:
    files = checkpoint()
    files["state/0/0/3.delta"], files["state/0/1/3.delta"] = (
        files["state/0/1/3.delta"],
        files["state/0/0/3.delta"],
    )
    refused(files, CheckpointError, "by our arithmetic")


def test_operators_of_other_state_are_refused() -> None:
    refused(checkpoint(name="globalLimit"), UnsupportedError, "globalLimit")
    what = r"operator 0 \(symmetricHashJoin\) with default is not supported"
    refused(checkpoint(name="symmetricHashJoin"), UnsupportedError, what)


def test_a_join_takes_rows_by_side() -> None:
    files = join_files()
    names = "left, left-keyWithIndexToValue, right, right-keyWithIndexToValue"
    refused(files, ConfigError, rf"takes rows by name, such as .*: {names}$")
    refused(files, ConfigError, f"has no middle; there are {names}$", rows={"middle": ROWS})
    refused(files, ConfigError, "left: row 0: column 'k'", rows={"left": [((1,), (1,))]})


def test_the_rows_of_a_join_are_numbered_and_counted() -> None:
    storage = MemoryStorage(join_files())
    added: list[Any] = [(("a",), (number,)) for number in (10, 11)]
    bootstrap(storage, {"left": added})
    assert joined(storage, 3) == {"a": [10, 11]}
    # Those that are given after the removal begin again, and one number remains to be removed.
    bootstrap(storage, {"left": [(("b",), (7,)), (("a",), None), (("a",), (12,))]})
    assert joined(storage, 4) == {"a": [12], "b": [7]}
    bootstrap(storage, {"left": [(("a",), (13,)), (("b",), None), (("absent",), None)]})
    assert joined(storage, 5) == {"a": [12, 13]}
    assert not any(read("right-keyToNumValues", storage, 5))


SIDES = ("left", "right")


def join_files() -> dict[str, bytes]:
    """Returns a join in format 2 after one batch without any rows."""
    files = checkpoint(batches=2, name="symmetricHashJoin")
    files = {path: one for path, one in files.items() if not path.startswith("state/0/")}
    index = {"name": "index", "type": "long", "nullable": False, "metadata": {}}
    number = {"name": "value", "type": "long", "nullable": True, "metadata": {}}
    keys = {
        "keyToNumValues": (KEY, {"type": "struct", "fields": [number]}),
        "keyWithIndexToValue": ({"type": "struct", "fields": [*KEY["fields"], index]}, VALUE),
    }
    names = [f"{side}-{name}" for side in SIDES for name in keys]
    stores = [
        {"storeName": name, "numColsPrefixKey": 0, "numPartitions": PARTITIONS} for name in names
    ]
    info = {"operatorId": 0, "operatorName": "symmetricHashJoin"}
    metadata = json.dumps({"operatorInfo": info, "stateStoreInfo": stores})
    files["state/0/_metadata/metadata"] = b"v1\n" + metadata.encode()
    for name in names:
        files[f"state/0/0/{name}/_metadata/schema"] = schema_file(*keys[name.partition("-")[2]])
        for partition in range(PARTITIONS):
            place = StoreId(0, partition, name).directory
            files |= {f"{place}/{version}.delta": delta_bytes([]) for version in (1, 2)}
    return files


def read(store: str, storage: MemoryStorage, version: int) -> Iterable[Any]:
    rows = select_state(storage, store=store, version=version).decoded()
    return [(*row.key, *row.entries[0]) for row in rows]


def joined(storage: MemoryStorage, version: int) -> dict[str, list[int]]:
    """Returns the values of each key on the left, which its count and its indexes agree on."""
    found: dict[str, list[int]] = {}
    for key, index, value in sorted(read("left-keyWithIndexToValue", storage, version)):
        assert len(found.setdefault(key, [])) == index
        found[key].append(value)
    counts = dict(read("left-keyToNumValues", storage, version))
    assert counts == {key: len(values) for key, values in found.items()}
    return found


def test_other_state_is_refused() -> None:
    files = checkpoint()
    refused(files, ConfigError, "operator 5 is not there", operator=5)
    offsets = {"offsets/2": offsets_bytes({"providerClass": "com.example.StateStoreProvider"})}
    refused({**files, **offsets}, UnsupportedError, "provider StateStoreProvider is not supported")
    none = {path: one for path, one in files.items() if "schema" not in path}
    refused(none, DamagedError, "state/0/0/_metadata/schema")
    bare = {"state/0/0/_metadata/schema": schema_file({"type": "struct", "fields": []})}
    refused({**files, **bare}, UnsupportedError, "state without a key")


def refused(
    files: dict[str, bytes],
    error: type[Exception],
    text: str,
    *,
    rows: Any = ROWS,
    operator: int = 0,
) -> None:
    storage = MemoryStorage(files)
    with pytest.raises(error, match=text):
        bootstrap(storage, rows, operator=operator)
    assert of_query(storage.files) == files


# -- a query that moves meanwhile


def moving(files: dict[str, bytes], *, after: str, writes: str) -> HookedStorage:
    """Returns a storage in which a query writes a file right after a chosen one of ours."""

    def query(verb: str, path: str) -> None:
        if (verb, path) == ("write", after):
            MemoryStorage.write(found, writes, [b"of the query"], overwrite=True)

    found = HookedStorage(files, after=query)
    return found


@pytest.mark.parametrize(
    ("after", "writes"),
    [
        ("_statemaint/lease/0000000001.json", "offsets/3"),
        ("state/0/1/4.delta", "state/0/0/4.delta"),
        ("state/0/1/4.delta", "offsets/4"),
        ("state/0/1/4.delta", "commits/3"),
        ("offsets/3", "offsets/3"),
    ],
)
def test_a_query_that_moves_meanwhile_is_never_committed_over(after: str, writes: str) -> None:
    storage = moving(checkpoint(), after=after, writes=writes)
    with pytest.raises(LiveCheckpointError):
        bootstrap(storage, ROWS)
    assert storage.read(writes) == b"of the query"
    assert storage.files.get("commits/3", b"of the query") == b"of the query"


def test_a_query_that_takes_the_batch_first_is_not_overwritten() -> None:
    storage = moving(checkpoint(), after="", writes="offsets/3")
    append = storage.append

    def racing(path: str, lines: bytes) -> None:
        append(path, lines)
        if path.endswith("bootstrap.jsonl"):
            storage.write("offsets/3", [b"of the query"])

    storage.append = racing  # type: ignore[method-assign]
    with pytest.raises(LiveCheckpointError, match="a query wrote it first"):
        bootstrap(storage, ROWS)
    found = of_query(storage.files)
    assert found == {**checkpoint(), "offsets/3": b"of the query"}


# -- crashes


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_anywhere_leaves_all_of_it_or_a_batch_without_its_commit(*, after: bool) -> None:
    files = checkpoint()
    for at in range(60):
        storage = CrashingStorage(files, at=at, after=after)
        try:
            made: Bootstrapped | None = bootstrap(storage, ROWS)
        except Crash:
            made = None
        found = of_query(storage.files)
        assert {path: found[path] for path in files} == files
        if "commits/3" in found:
            assert len(state(MemoryStorage(storage.files), 4)) == 10  # one new, one gone
        elif found != files:
            assert found["offsets/3"] == files["offsets/2"]
            # Spark runs batch 3 over no input, and writes each 4.delta anew.
            assert all(path in ("offsets/3", *_deltas()) for path in found.keys() - files.keys())
        if made:
            return
    pytest.fail("it never ended")


def _deltas() -> list[str]:
    return [f"state/0/{partition}/4.delta" for partition in range(PARTITIONS)]
