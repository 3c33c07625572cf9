"""What Spark's state reader finds in a checkpoint: rows and digests, by store and batch.

A STORE is `operator/name`, or `operator/name/family` where RocksDB keeps several column families
in one: those of a join, or a state variable each, and `timers`. The reader is Spark 4.0's or
later; it also reads checkpoints of older Sparks, which have no operator metadata.

A list counts as one row, as it is one in the store; a map has a row for each of its entries.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.checkpoints.queries import IDS, STATE_STORE

_READING = {
    f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
# By default `to_json` drops nulls and all below a millisecond.
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
# When a value expires depends on when the query ran.
_EXPIRY = re.compile(r'"ttlExpirationMs":\d+')
_OF_A_LIST = {"flattenCollectionTypes": "false"}
_TIMERS = {"readRegisteredTimers": "true"}
_FAMILY_OF_A_JOIN = re.compile(rb"(?:left|right)-[A-Za-z]+")
_NO_STORES = {"_metadata", "SSTs", "logs"}

_OF_SESSIONS = (
    'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"sessionWindowStateStoreSaveExec"},'
    '"stateStoreInfo":[{"storeName":"default","numColsPrefixKey":1,"numPartitions":2}]}'
)

Options = Mapping[str, str]


def read(
    spark: SparkSession, checkpoint: Path, newest: int | None = None, *, placed: bool = True
) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns `{STORE: {BATCH: {rows, digest}}}` of the newest batches in the commit log, or all.

    Unless `placed`, the digest is the same whatever partitions the rows are in.

    But those that Spark's own maintenance has made unreadable: of RocksDB it keeps as many
    versions as it is told to keep batches, and in the log is one batch more.
    """
    session = _session(spark, checkpoint)
    with _described(checkpoint) as place:
        return {
            name: _read_store(session, place, options, newest, placed=placed)
            for name, options in sorted(_stores(place))
        }


@contextmanager
def _described(checkpoint: Path) -> Iterator[Path]:
    """In RocksDB the key of a session has a prefix, which only operator metadata tells.

    Spark 3.5 has none, so the reader gets a copy that has.
    """
    operator = checkpoint / "state" / "0"
    schema = operator / "0" / "_metadata" / "schema"
    has_sessions = schema.exists() and b"sessionStartTime" in schema.read_bytes()
    if not has_sessions or (operator / "_metadata").exists() or any(operator.glob("0/*.delta")):
        yield checkpoint
        return
    with TemporaryDirectory() as place:
        copy = Path(shutil.copytree(checkpoint, Path(place) / "checkpoint"))
        metadata = copy / "state" / "0" / "_metadata" / "metadata"
        metadata.parent.mkdir()
        metadata.write_text(_OF_SESSIONS)
        yield copy


def _session(spark: SparkSession, checkpoint: Path) -> SparkSession:
    session = spark.newSession()
    newest = checkpoint / "commits" / str(_batches(checkpoint)[-1])
    ids = {IDS: "2"} if "stateUniqueIds" in newest.read_text() else {}
    for key, value in (_READING | ids).items():
        session.conf.set(key, value)
    return session


def _batches(checkpoint: Path) -> list[int]:
    names = (path.name for path in (checkpoint / "commits").iterdir())
    batches = sorted(int(name) for name in names if name.isdigit())
    stores = {path.parent for path in (checkpoint / "state").rglob("[0-9]*.zip")}
    oldest = max(map(_oldest_version, stores), default=1)
    return [batch for batch in batches if batch + 1 >= oldest]


def _oldest_version(store: Path) -> int:
    zips = (path.name.partition(".")[0] for path in store.glob("[0-9]*.zip"))
    return 1 if any(store.glob("1[._]*")) else min(int(name.partition("_")[0]) for name in zips)


def _stores(checkpoint: Path) -> Iterator[tuple[str, Options]]:
    for operator in (checkpoint / "state").iterdir():
        for name, options in _stores_of(operator):
            yield f"{operator.name}/{name}", {"operatorId": operator.name, **options}


def _stores_of(operator: Path) -> Iterable[tuple[str, Options]]:
    properties = _properties(operator)
    if "stateVariables" in properties:
        return map(_variable, properties["stateVariables"])
    if "useVirtualColumnFamilies" in properties:
        return ((f"default/{name}", {"storeName": name}) for name in _families(operator))
    return ((name, {"storeName": name}) for name in _directories(operator))


def _properties(operator: Path) -> dict[str, Any]:
    """What the newest operator metadata of the second format says, which few operators have."""
    files = (operator / "_metadata" / "v2").glob("[0-9]*")
    newest = max(files, key=lambda path: int(path.name), default=None)
    if newest is None:
        return {}
    _, text = newest.read_text().split("\n", 1)
    properties: dict[str, Any] = json.loads(json.loads(text)["operatorPropertiesJson"])
    return properties


def _variable(variable: Mapping[str, Any]) -> tuple[str, Options]:
    name, kind = variable["stateName"], variable["stateVariableType"]
    if kind == "TimerState":
        return "default/timers", _TIMERS
    return f"default/{name}", {"stateVarName": name} | (_OF_A_LIST if kind == "ListState" else {})


def _families(operator: Path) -> list[str]:
    schemas = (path.read_bytes() for path in (operator / "_stateSchema" / "default").iterdir())
    return sorted({name.decode() for one in schemas for name in _FAMILY_OF_A_JOIN.findall(one)})


def _directories(operator: Path) -> list[str]:
    """They say it as well for the Sparks that write no operator metadata."""
    named = (path.name for path in (operator / "0").iterdir() if path.is_dir())
    return [name for name in named if name not in _NO_STORES] or ["default"]


def _read_store(
    spark: SparkSession, checkpoint: Path, options: Options, newest: int | None, *, placed: bool
) -> dict[str, Any]:
    """One Spark job for all batches: most of a small read is the cost of starting one."""
    batches = _batches(checkpoint)[-(newest or 0) :]
    states = (_load(spark, checkpoint, options, batch, placed=placed) for batch in batches)
    rows = reduce(DataFrame.union, states).collect()
    return {
        str(batch): _digest(sorted(row["json"] for row in rows if row["batch"] == batch))
        for batch in batches
    }


def _load(
    spark: SparkSession, checkpoint: Path, options: Options, batch: int, *, placed: bool = True
) -> DataFrame:
    reader = spark.read.format("statestore").option("batchId", batch)
    state = reader.options(**options).load(str(checkpoint))
    columns = [name for name in state.columns if name != "partition_id"]
    row = f.to_json(f.struct(*(["partition_id"] if placed else []), *columns), _JSON)
    return state.select(f.lit(batch).alias("batch"), row.alias("json"))


def _digest(lines: list[str]) -> dict[str, Any]:
    text = "".join(f"{line}\n" for line in lines)
    digest = hashlib.sha256(_EXPIRY.sub("", text).encode()).hexdigest()
    return {"rows": len(lines), "digest": digest[:32]}
