"""The documents of `show`, `diff` and `stats`, which read rows, of `queries` and `exporter`."""

from typing import Annotated

from tools.json_documents import shared
from tools.json_documents.kinds import Part, Row, said

Family = Annotated[str | None, "the column family of RocksDB; null in a store without"]


class RowOfState(Part):
    _store_id: shared.StoreId
    family: Family
    key: Row = said("its columns")
    value: Row | list[Row] = said(
        "its columns; a list if a value is any number of entries (a list of "
        "`transformWithState`, the rows of a join in format 4)"
    )


class RowsOfState(Part, lines="rows"):
    """Rows are printed as they are read: an error after the first mebibyte leaves an unfinished
    document, and the exit code shows it.
    """

    _head: shared.Head
    version: int = said("the state version")
    rows: list[RowOfState] = said("those that the flags select")


class GivenRowsOfAPartition(Part):
    partition: int = said("its number")
    rows: int = said("the number of given rows that belong there")


class BatchOfGivenRows(Part):
    _head: shared.Head
    savepoint: str | None = said("the folder of `--to` that has the batch; null without")
    operator: int = said("the operator whose state it is")
    batch: int = said("the batch that the rows are, or would be")
    version: int = said("its state version")
    dry_run: bool = said("whether nothing was written")
    rows: int = said("the number of given rows")
    partitions: list[GivenRowsOfAPartition] = said("those with any row")
    stores: int = said("the number of stores that get a file")
    run: str | None = said("the id of the run; null for a dry run")


class CountsOfAllStores(Part):
    added: int = said("keys that only the newer version has")
    changed: int = said("keys in both, with other bytes")
    removed: int = said("keys that only the older version has")
    rewritten: int | None = said(
        "keys in both with the same bytes, which a delta or changelog between has put; null if "
        "some of that log is missing"
    )


class CountsOfAStore(Part):
    _store_id: shared.StoreId
    family: Family
    _counts: CountsOfAllStores


class ChangedRow(Part):
    _store_id: shared.StoreId
    family: Family
    change: shared.ChangeName = said("what happened to it")
    key: Row = said("its columns")
    before: Row | list[Row] | None = said("as `value` of `show`; null if the key did not exist")
    after: Row | list[Row] | None = said("as `value` of `show`; null if the key does not exist")


class ComparisonOfTwoVersions(Part, lines="rows"):
    _head: shared.Head
    from_: int = said("the older version")
    to: int = said("the newer version")
    total: CountsOfAllStores = said("of all rows")
    stores: list[CountsOfAStore] = said(
        "of all rows of each store and column family, changed or not"
    )
    rows: list[ChangedRow] = said(
        "those within `--key` and `--limit`, store by store in the order of their keys' bytes"
    )


class Skew(Part):
    partition: int = said("the partition with the most rows")
    rows: int = said("its rows")
    mean: float = said("the mean of all requested partitions")
    ratio: float | None = said("its rows divided by the mean; null without any row")


class LargeKey(Part):
    _store_id: shared.StoreId
    family: Family
    key: Row = said("its columns")
    bytes: int = said("the stored size of key and value")


class Churn(Part):
    """Over the log: the deltas or changelogs above the oldest snapshot from which they lead to
    `version`, or all.
    """

    versions: int = said("the number of versions")
    puts: int = said("records that put or merge a value")
    removes: int = said("records that remove a key; a deleted range of RocksDB counts its keys")
    added: int = said("of the puts, those of a key that did not exist")
    removed: int = said("of the removes, those of a key that existed")
    rewritten: int = said(
        "keys that a version put over those of an older one, once for each version"
    )
    changes_per_version: float = said(
        "puts and removes divided by versions; of an operator the sum of its stores'"
    )
    removes_share: float | None = said(
        "removes divided by puts and removes: the share of tombstones"
    )
    rewritten_share: float | None = said(
        "`rewritten` divided by the rows before each version, summed up"
    )


Bytes = Annotated[int, "of keys and values as they are stored"]


class FigureFacts(Part):
    rows: int = said("their number")
    bytes: Bytes
    churn: Churn | None = said("the changes by the log; null if no log is left")
    untouched: int | None = said(
        "rows that no version above `since` has put; null if no log is left"
    )
    untouched_share: float | None = said("of all rows")


Largest = Annotated[list[LargeKey], "the largest keys, in descending order"]


class FiguresOfAnOperator(Part):
    operator: int = said("the stateful operator")
    _figure_facts: FigureFacts
    skew: Skew = said("the unevenness of its partitions")
    largest: Largest


class FiguresOfAStore(Part):
    _store_id: shared.StoreId
    family: Family
    _figure_facts: FigureFacts
    largest: Largest


class Notice(Part):
    code: shared.NoticeName = said("the kind of notice")
    operator: int = said("the stateful operator")
    store: str | None = said("the store's name; null if it concerns all of them")
    family: str | None = said("the column family; null if it concerns all of them")
    detail: str = said("in a sentence")


class FiguresOfOneCheckpoint(Part):
    """Unknown values are null, such as shares of nothing."""

    _head: shared.Head
    version: int = said("the newest committed version")
    since: int | None = said(
        "the version that untouched rows are at least as old as; null if no log is left"
    )
    operators: list[FiguresOfAnOperator] = said("the requested ones")
    stores: list[FiguresOfAStore] = said("each of their stores and column families")
    notices: list[Notice] = said("noteworthy observations")


class FiguresAmongMany(Part):
    checkpoint: shared.Checkpoint
    version: int = said("the newest committed version")
    rows: int = said("of all stores")
    bytes: Bytes
    stores: int = said("stores and column families")
    notices: list[shared.NoticeName] = said("their codes, each once")
    findings: list[shared.Finding] = said("empty: `stats` searches for none")


class ManyCheckpointsMeasured(Part):
    format: shared.Format
    folder: shared.Folder
    checkpoints: list[FiguresAmongMany | shared.Unread] = said("each checkpoint below it")


class Problem(Part):
    file: str = said("the path of the file")
    line: int | None = said("of the file, from 1; null if there is none")
    key: str = said("its dotted path")
    problem: str = said("the mistake, and what to do")


class QueriesFile(Part):
    format: shared.Format
    valid: bool = said("whether there are no problems")
    queries: dict[Annotated[str, "name"], str] = said("the checkpoint's address of each query")
    disabled: list[str] = said("the names of those that are disabled")
    pools: list[str] = said("that Airflow must have")
    executors: list[str] = said("that Airflow must have")
    problems: list[Problem] = said("the mistakes in the file")


class ServedMetrics(Part):
    """Printed in one line when it listens."""

    format: shared.Format
    url: str = said("the address to scrape")


VALUES = """\
Keys and values are objects by the stored names. A column's value is JSON's value of its type, and
otherwise text:

| type | value |
|---|---|
| decimal | text, with all its digits: `"12.50"` |
| float, double | a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
| binary | text in base64 |
| date | `"2026-01-31"` |
| timestamp | `"2026-01-31T23:59:59.000000Z"`, in UTC |
| timestamp_ntz | the same without `Z` |
| intervals | Spark's text: `"INTERVAL '1-2' YEAR TO MONTH"`, `"INTERVAL '1 02:03:04.5' DAY TO SECOND"`, `"1 years 2 days"` |
| struct, array | an object, an array; a repeated name in a struct gets a number: `id`, `id (2)` |
| map | an object if keys are text, else an array of `{"key": .., "value": ..}` |
"""  # noqa: E501 -- a line for each row of the table
