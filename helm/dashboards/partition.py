"""The dashboard of partitions: which are slow, large or damaged."""

from helm.dashboards.board import TO_QUERY, Board
from helm.dashboards.panels import (
    LONG_CHAIN,
    SLOW_RESTART,
    Column,
    Panel,
    Text,
    lines,
    note,
    number,
    series,
)
from helm.dashboards.promql import halted_stores, of_every_partition, of_partition

_LEGEND = "{{query}} op {{operator}} / part {{partition}}"
_CHOSEN = "statemaint_worst_partition_restart_seconds"


def partition() -> Board:
    """Returns the dashboard of the partitions of a query."""
    return Board(
        uid="statemaint-partition",
        title="State maintenance: partition",
        description="The partitions of a query: the five that restart slowest, or all of them "
        "where its entry has `detail: partition`.",
        numbers=_numbers(),
        rows={"Partitions": _partitions(), "Over time": _over_time()},
        variables={
            "operator": f'{_CHOSEN}{{query=~"$query"}}',
            "partition": f'{_CHOSEN}{{query=~"$query", operator=~"$operator"}}',
        },
    )


def _numbers() -> list[Panel]:
    return [
        number(
            Text("Slowest load", "Of the chosen partitions, by one slot; a forecast.", "s"),
            f"max({of_partition('restart_seconds')})",
            alarm=SLOW_RESTART,
        ),
        number(
            Text("Longest chain", "Deltas that a restart replays, in the worst store."),
            f"max({of_partition('chain_length')})",
            alarm=LONG_CHAIN,
        ),
        number(
            Text("On storage", "Of the chosen partitions together.", "bytes"),
            f"sum({of_partition('bytes')})",
        ),
        number(
            Text("Largest to smallest", "Of the partitions shown; above 3 the keys are skewed."),
            f"max({of_partition('bytes')}) / min({of_partition('bytes')})",
        ),
        number(
            Text("Reclaimable", "What a later run deletes; of `detail: partition`.", "bytes"),
            f"sum({of_every_partition('reclaimable_bytes')})",
        ),
        number(
            Text("Halted stores", "Damaged stores; of `detail: partition`. See the runbook."),
            f"sum({of_every_partition('halted_stores')})",
            alarm=1,
        ),
    ]


def _partitions() -> list[Panel]:
    return [
        note(
            "What to do",
            "Without `detail: partition` in the query's entry only its five slowest partitions "
            "are here. **One partition far larger than the others**: the keys are skewed; "
            "salt them or repartition. **One chain far longer**: its runs fail or are cut short; "
            "its task's log in Airflow says why. **Halted**: `statemaint doctor`, and the "
            "[runbook](${runbook}).",
        )
        .height(8)
        .span(8),
        lines(
            Text("Halted stores by name", "The first five of each query; 0 for one without."),
            Column("Halted", halted_stores(), alarm=1),
            links={"query": (TO_QUERY,)},
        )
        .height(8)
        .span(16),
        lines(
            Text("Partitions", "The slowest five, or all with `detail: partition`."),
            Column("Restart", of_partition("restart_seconds"), "s", SLOW_RESTART),
            Column("Chain", of_partition("chain_length"), alarm=LONG_CHAIN),
            Column("On storage", of_partition("bytes"), "bytes"),
            Column("Restart reads", of_every_partition("restart_bytes"), "bytes"),
            Column("Files", of_every_partition("files")),
            Column("Reclaimable", of_every_partition("reclaimable_bytes"), "bytes"),
            Column("Halted stores", of_every_partition("halted_stores"), alarm=1),
            links={"query": (TO_QUERY,)},
        ).height(12),
    ]


def _over_time() -> list[Panel]:
    return [
        series(
            Text("Restart time", "Forecast; a partition that leaves the worst five ends.", "s"),
            {_LEGEND: of_partition("restart_seconds")},
            alarm=SLOW_RESTART,
        ),
        series(
            Text("Chain length", "Deltas that a restart replays, in the worst store."),
            {_LEGEND: of_partition("chain_length")},
            alarm=LONG_CHAIN,
        ),
        series(
            Text("Bytes on storage", "All files of the partition.", "bytes"),
            {_LEGEND: of_partition("bytes")},
        ),
        series(
            Text("Reclaimable", "What a later run deletes; of `detail: partition`.", "bytes"),
            {_LEGEND: of_every_partition("reclaimable_bytes")},
        ),
    ]
